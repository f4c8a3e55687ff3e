// What a page in Debian's Chromium reads of three calls where two are admitted, in each way that docs/authentication.md names, and
// what it cannot read.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { configurationWarnings } from "../../src/config/warnings.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { noBrowser, useBrowser } from "../console/console-stage.ts";
import { read } from "../docs/markdown.ts";
import { useCleanup } from "../support/cleanup.ts";
import type { Overrides } from "../support/gateway.ts";
import { startLoopbackServer } from "../support/loopback-server.ts";
import { slidingPolicy } from "../support/policy.ts";
import { scratchFolder } from "../support/scratch.ts";
import { response, stageHttp } from "../support/stage.ts";

const calls = slidingPolicy({ limit: 2, windowMs: 60_000 });
const unreadable = "TypeError: Failed to fetch";

describe.skipIf(noBrowser)("a page of a listed origin", () => {
  const cleanup = useCleanup();
  const browser = useBrowser();

  test("reads 200, 200 and a 429 with its Retry-After where the gateway answers the preflights", async () => {
    const { ask, upstream } = await open({ policies: [calls] }, "answer");
    expect(await ask()).toEqual([
      [200, "2", "1", null],
      [200, "2", "0", null],
      [429, "2", "0", expect.stringMatching(/^(?:[1-9]|[1-5]\d|60)$/)],
    ]);
    expect(upstream.hits()).toBe(2);
    // A preflight that the gateway answers allows no cookies.
    expect(await ask({ credentials: "include" })).toEqual(Array(3).fill(unreadable));
  });

  test("reads nothing of its second and third call where they are forwarded, because their preflights are over the limit", async () => {
    const { ask } = await open({ policies: [calls] }, "forward");
    expect(await ask()).toEqual([[200, "2", "0", null], unreadable, unreadable]);
  });

  test("reads all three calls where preflights are forwarded under a policy of their own", async () => {
    const [recipe = ""] = /(?<=```yaml\n)cors:\n[^`]*name: calls[^`]*/.exec(read("docs/authentication.md")) ?? [];
    const folder = scratchFolder(cleanup);
    writeFileSync(join(folder, "c.yaml"), recipe);
    const loaded = loadSettings({ file: "c.yaml", env: {}, cwd: folder, overrides: [] });
    if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
    expect(configurationWarnings(loaded.settings)).toEqual([]);
    const policies = loaded.settings.policies.map((each) => (each.name === "calls" ? { ...each, limit: 2 } : each));
    const { ask, upstream } = await open({ policies }, "forward");
    expect(await ask()).toEqual([
      [200, "2", "1", null],
      [200, "2", "0", null],
      [429, "2", "0", expect.any(String)],
    ]);
    expect(upstream.hits()).toBe(5);
  });

  test("reads the 401 of a plain fetch, and nothing of those that docs/authentication.md names", async () => {
    const { page, gateway } = await open({ policies: [calls] }, "forward");
    const { url: elsewhere } = await startLoopbackServer(cleanup, (socket) => {
      const head = `Location: ${gateway.url}/v2/x\r\nAccess-Control-Allow-Origin: *\r\nConnection: close\r\n`;
      socket.once("data", () => socket.end(response("", head, "302 Found")));
    });
    const seen = await page.evaluate(`(async () => {
      const url = "${gateway.url}/v2/x";
      const fetched = (from, options) => fetch(from, options).then(({ status }) => status, String);
      const failed = (one, name, read) => new Promise((resolve) => { one[name] = (event) => resolve(read(event)); });
      return [
        await fetched(url),
        await fetched(url, { credentials: "include" }),
        await fetched(url, { mode: "no-cors" }),
        await fetched("${elsewhere}"),
        await failed(new EventSource(url), "onerror", ({ target }) => target.readyState),
        await failed(new WebSocket(url.replace("http", "ws")), "onclose", ({ code }) => code),
      ];
    })()`);
    expect(seen).toEqual([401, unreadable, 0, unreadable, 2, 1006]);
  });

  async function open(overrides: Overrides, preflights: "forward" | "answer") {
    const { page, origin } = await openPage();
    const stage = await stageHttp(
      cleanup,
      (req, res) => {
        res.setHeader("access-control-allow-origin", origin);
        if (req.method === "OPTIONS") res.setHeader("access-control-allow-headers", "authorization");
        res.writeHead(req.method === "OPTIONS" ? 204 : 200).end();
      },
      { cors: { origins: [origin], preflights }, ...overrides },
    );
    const ask = (options: RequestInit = {}): Promise<unknown> =>
      page.evaluate(`(async () => {
        const seen = [];
        for (let i = 0; i < 3; i += 1) {
          const options = { headers: { authorization: "Bearer x" }, ...${JSON.stringify(options)} };
          const names = ["ratelimit-limit", "ratelimit-remaining", "retry-after"];
          const read = ({ status, headers }) => [status, ...names.map((name) => headers.get(name))];
          seen.push(await fetch("${stage.gateway.url}/v2/x?" + i, options).then(read, String));
        }
        return seen;
      })()`);
    return { ...stage, page, ask };
  }

  async function openPage(): Promise<{ page: Page; origin: string }> {
    const { url: origin } = await startLoopbackServer(cleanup, (socket) => {
      socket.once("data", () => socket.end(response("", "Content-Type: text/html\r\nConnection: close\r\n")));
    });
    const context = await (await browser()).newContext();
    cleanup(() => context.close());
    const page = await context.newPage();
    await page.goto(origin);
    return { page, origin };
  }
});
