// How a person signs in to the console, and where the token is then: in the memory of the page, and nowhere else.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Route } from "playwright-core";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";
import { scratchFolder } from "../support/scratch.ts";
import {
  forwardSocket,
  launchKept,
  noBrowser,
  openPage,
  openSignedIn,
  otherHost,
  patientMs,
  readToken,
  startConsole,
  useBrowser,
  writeToken,
} from "./console-stage.ts";

describe.skipIf(noBrowser)("signing in", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();
  const policies = "  - { name: small, limit: 3, window: 1h }\n";

  test("the page has a face before any of its scripts has come, and its scripts take it over", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openPage(cleanup, await browser(), gateway);
    const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await page.route("**/*.js", async (route) => {
      held.resolve();
      await released.promise;
      await route.continue();
    });
    await page.reload({ waitUntil: "commit" });
    await held.promise;
    await page.getByRole("heading", { name: "Headgate" }).waitFor();
    await page.getByRole("status").getByText("Asking the gateway …").waitFor();
    await page.waitForFunction('performance.getEntriesByName("first-contentful-paint").length === 1');
    released.resolve();
    await page.getByLabel("Token of the admin API").waitFor();
    expect([await page.getByRole("heading").count(), await page.getByRole("main").count()]).toEqual([1, 1]);
    expect(await page.getByText("Asking the gateway …").count()).toBe(0);
  });

  test("a wrong token is refused with the reason, a right one shows who is signed in, and signing out forgets it", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openPage(cleanup, await browser(), gateway);
    const field = page.getByLabel("Token of the admin API");
    await field.fill("guess");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "not listed" }).waitFor();
    await field.fill(readToken);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("dashboard (may read)").waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await field.waitFor();
    expect(await field.inputValue()).toBe("");
    await page.reload();
    await field.waitFor();
  });

  test("the code of a link signs in, is taken out of the address at once, and nothing of it or the token is stored or logged", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openPage(cleanup, await browser(), gateway, `#code=${gateway.code}`);
    await page.getByText("ops (may write)").waitFor();
    expect(page.url()).toBe(`${gateway.adminUrl}/console/`);
    const kept = await page.evaluate(`(async () => JSON.stringify([
      { ...localStorage }, { ...sessionStorage }, document.cookie, history.state, document.documentElement.outerHTML,
      await indexedDB.databases(), await caches.keys(), name, document.referrer, document.baseURI,
      navigation.entries().map(({ url }) => url),
    ]))()`);
    expect(kept).toContain("Headgate");
    expect(kept).not.toContain(writeToken);
    expect(kept).not.toContain(gateway.code);
    const session = await page.context().newCDPSession(page);
    const { entries } = await session.send("Page.getNavigationHistory");
    expect(entries.map(({ url }) => url)).toEqual(["about:blank", `${gateway.adminUrl}/console/`]);
    expect(JSON.stringify(gateway.logLines)).not.toContain(writeToken);
    expect(JSON.stringify(gateway.logLines)).not.toContain(gateway.code);
    await page.goBack();
    expect(page.url()).not.toContain(gateway.code);
  });

  test("the link in the history of the browser signs nobody in again, and the page says so", async () => {
    const gateway = await startConsole(cleanup, policies);
    const folder = scratchFolder(cleanup);
    const context = await launchKept(folder);
    const page = await context.newPage();
    const link = `${gateway.adminUrl}/console/#code=${gateway.code}`;
    await page.goto(link);
    await page.getByText("ops (may write)").waitFor();
    await page.goto("about:blank");
    await page.goto(link);
    await page.getByRole("alert").getByText("A link signs in once, within a minute").waitFor();
    await page.getByLabel("Token of the admin API").waitFor();
    expect(page.url()).toBe(`${gateway.adminUrl}/console/`);
    await context.close();
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
    const holding = files.filter(({ parentPath, name }) => readFileSync(join(parentPath, name)).includes(writeToken));
    expect(holding.map(({ name }) => name)).toEqual([]);
  });

  test("a token that was typed is in no file of the browser", async () => {
    const gateway = await startConsole(cleanup, policies);
    const folder = scratchFolder(cleanup);
    const context = await launchKept(folder);
    const page = await context.newPage();
    await page.goto(`${gateway.adminUrl}/console/`);
    await page.getByLabel("Token of the admin API").fill(writeToken);
    await page.keyboard.press("Enter");
    await page.getByText("ops (may write)").waitFor();
    await context.close();
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
    const holding = (text: string) =>
      files
        .filter(({ parentPath, name }) => readFileSync(join(parentPath, name)).includes(text))
        .map(({ name }) => name);
    // The others of them know the page.
    expect(holding("/console/")).toContain("History");
    expect(holding(writeToken)).toEqual([]);
  });

  test("a code that comes into the address of an open page replaces the token before", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openSignedIn(cleanup, await browser(), gateway, readToken);
    await page.getByText("dashboard (may read)").waitFor();
    await page.evaluate(`location.hash = "code=${gateway.code}"`);
    await page.getByText("ops (may write)").waitFor();
    expect(page.url()).not.toContain(gateway.code);
  });

  test("the answer to an earlier token, which comes later, changes nothing", async () => {
    const gateway = await startConsole(cleanup, policies);
    const page = await openPage(cleanup, await browser(), gateway);
    const field = page.getByLabel("Token of the admin API");
    expect(await field.getAttribute("spellcheck")).toBe("false");
    await field.fill("guess");
    const held = Promise.withResolvers<Route>();
    // The route stays: to remove the last one while a request is held would let that go by itself.
    let isHeld = false;
    await page.route("**/api/status", async (route) => {
      if (isHeld) await route.continue();
      else held.resolve(route);
      isHeld = true;
    });
    await field.press("Enter");
    const earlier = await within("it asks with the earlier token", held.promise, patientMs);
    await page.evaluate(`location.hash = "code=${gateway.code}"`);
    await page.getByText("ops (may write)").waitFor();
    const answered = page.waitForResponse((response) => response.status() === 401);
    await earlier.continue();
    await within("the earlier answer has come", (await answered).finished(), patientMs);
    await page.getByRole("link", { name: "Rules" }).click();
    await page.getByText("No rules.").waitFor();
  });

  test("over the Unix socket, as through ssh -L, nobody is asked for a token", async () => {
    const gateway = await startConsole(cleanup, policies, "socket: FOLDER/admin.sock");
    const { url } = await forwardSocket(cleanup, gateway);
    const page = await openPage(cleanup, await browser(), { adminUrl: url });
    await page.getByText("socket (may write)").waitFor();
    expect(await page.getByRole("button", { name: "Sign out" }).count()).toBe(0);
    expect(await page.getByText("not encrypted").count()).toBe(0);
  });

  test("beyond loopback and without TLS, the page says that the token can be read", async () => {
    const gateway = await startConsole(cleanup, policies, `tokensFile: admin.txt, hosts: [${otherHost}]`);
    const adminUrl = `http://${otherHost}:${gateway.admin.port}`;
    const page = await openPage(cleanup, await browser(), { adminUrl });
    await page.getByText("This page is not encrypted").waitFor();
    await page.getByLabel("Token of the admin API").fill(readToken);
    await page.keyboard.press("Enter");
    await page.getByText("dashboard (may read)").waitFor();
    await page.getByText("This page is not encrypted").waitFor();
  });
});
