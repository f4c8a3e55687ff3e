// Pages of other origins in the browser of somebody who uses the console: they show nothing of it, read nothing and change
// nothing, also where no token is asked.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { call } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startLoopbackServer } from "../support/loopback-server.ts";
import {
  type ConsoleGateway,
  foreignHost,
  forwardSocket,
  noBrowser,
  patientMs,
  startConsole,
  useBrowser,
  writeToken,
} from "./console-stage.ts";

const attempts = readFileSync(join(import.meta.dirname, "foreign-page.js"), "utf8");
const foreignText = "of somebody else";
const policies = "  - { name: small, limit: 3, window: 1h }\n";

describe.skipIf(noBrowser)("a page of another origin", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("shows nothing of the console in a frame", async () => {
    const { admin } = await start();
    const { page, origin } = await openForeign(foreignHost);
    const framed = async (address: string) => {
      await page.evaluate(`otherOrigins.frame(${JSON.stringify(address)})`);
      const texts = await Promise.all(
        page
          .frames()
          .slice(1)
          .map((each) => each.locator("html").innerHTML()),
      );
      return texts.filter((text) => text.includes("Headgate") || text.includes(foreignText)).length;
    };
    expect(await framed(`http://127.0.0.1:${admin.port}/console/`)).toBe(0);
    // So that one would be seen.
    expect(await framed(origin)).toBe(3);
  });

  test.each([
    [foreignHost, "a token"],
    [foreignHost, "no token"],
    ["127.0.0.1", "no token"],
  ])("of %s reads nothing and changes nothing where %s is needed", async (host, needed) => {
    const gateway = await start();
    const base = needed === "a token" ? gateway.adminUrl : (await forwardSocket(cleanup, gateway)).url;
    const { page } = await openForeign(host);
    const answered: string[] = [];
    page.on("response", (response) => {
      const path = response.url().slice(base.length);
      if (path.startsWith("/api/") && response.status() < 400) answered.push(`${response.request().method()} ${path}`);
    });
    expect(await page.evaluate(`otherOrigins.ask("${base}", "${writeToken}")`)).toEqual([]);
    expect(await page.evaluate(`otherOrigins.load("${base}")`)).toEqual([]);
    // Not even an answer that the browser keeps to itself: it is work for the gateway.
    expect(answered).toEqual([]);
    await expectUntouched(gateway);
  });

  test.each(["a token", "no token"])(
    "is not one of the gateway by a name that leads to it: %s is needed",
    async (needed) => {
      const gateway = await start();
      const { port } = new URL(needed === "a token" ? gateway.adminUrl : (await forwardSocket(cleanup, gateway)).url);
      const page = await open(`http://${foreignHost}:${port}/livez`);
      const statuses = await page.evaluate(`(async () => {
      const headers = { authorization: "Bearer ${writeToken}", "content-type": "application/json" };
      const body = JSON.stringify({ client: "203.0.113.7", action: "block", for: "1h" });
      const asked = ["/console/", "/console/main.js", "/api/status", "/api/events"].map((path) => fetch(path, { headers }));
      const answers = await Promise.all([...asked, fetch("/api/rules/foreign", { method: "PUT", headers, body })]);
      return answers.map(({ status }) => status);
    })()`);
      expect(statuses).toEqual([421, 421, 421, 421, 421]);
      await expectUntouched(gateway);
    },
  );

  test("neither reads nor leads a console that it has opened", async () => {
    const { adminUrl } = await start();
    const { page } = await openForeign(foreignHost);
    const opened = page.context().waitForEvent("page");
    await page.evaluate(`{ globalThis.opened = open("${adminUrl}/console/") }`);
    const console = await opened;
    await console.getByLabel("Token of the admin API").fill(writeToken);
    await console.keyboard.press("Enter");
    await console.getByText("ops (may write)").waitFor();
    expect(
      await page.evaluate(`["location.href", "location.hash", "document", "history", "name", "app"].filter((name) => {
        try { return name.split(".").reduce((value, key) => value[key], opened) !== undefined; } catch { return false; }
      })`),
    ).toEqual([]);
    // Otherwise it could put a code into its address.
    expect(await page.evaluate("opened.closed")).toBe(true);
    expect(await console.evaluate("window.opener")).toBeNull();
  });

  /** Its API is open over TCP with a token, and over the socket without one. */
  function start(): Promise<ConsoleGateway> {
    return startConsole(cleanup, policies, "tokensFile: admin.txt, socket: FOLDER/admin.sock");
  }

  async function open(address: string): Promise<Page> {
    const context = await (await browser()).newContext();
    cleanup(() => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(patientMs);
    await page.goto(address);
    return page;
  }

  /** Its port differs, too. */
  async function openForeign(host: string): Promise<{ page: Page; origin: string }> {
    const html = `<!doctype html><meta charset="utf-8"><title>x</title><body>${foreignText}<script>${attempts}</script>`;
    const head = `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${Buffer.byteLength(html)}\r\nConnection: close\r\n\r\n`;
    const { url } = await startLoopbackServer(cleanup, (socket) => {
      socket.once("data", () => socket.end(head + html));
    });
    const origin = `http://${host}:${new URL(url).port}/`;
    return { page: await open(origin), origin };
  }

  async function expectUntouched({ admin, logLines }: ConsoleGateway): Promise<void> {
    expect((await call(admin.port, "GET", "/api/rules")).json).toMatchObject({ rules: [] });
    expect((await call(admin.port, "GET", "/api/status")).json).toMatchObject({
      state: "ready",
      config: { loadedBy: "start", lastReload: null },
    });
    expect(logLines.filter(({ msg }) => msg === "admin call")).toEqual([]);
  }
});
