// What a page in Debian's Chromium reads of three calls where two are admitted, in each way that docs/authentication.md names.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { noBrowser, useBrowser } from "../console/console-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import type { Overrides } from "../support/gateway.ts";
import { startLoopbackServer } from "../support/loopback-server.ts";
import { slidingPolicy } from "../support/policy.ts";
import { response, stageHttp } from "../support/stage.ts";

const calls = slidingPolicy({ limit: 2, windowMs: 60_000 });
const usual = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const unreadable = "TypeError: Failed to fetch";

describe.skipIf(noBrowser)("a page of a listed origin that calls three times", { timeout: 30_000 }, () => {
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

  test("reads nothing of the second and third where they are forwarded, because their preflights are over the limit", async () => {
    const { ask } = await open({ policies: [calls] }, "forward");
    expect(await ask()).toEqual([[200, "2", "0", null], unreadable, unreadable]);
  });

  test("reads all three where preflights are forwarded under a policy of their own", async () => {
    const policies = [
      slidingPolicy({ name: "all", limit: 1_000, windowMs: 60_000 }),
      { ...calls, name: "calls", match: { paths: [], methods: usual } },
    ];
    const { ask, upstream } = await open({ policies }, "forward");
    expect(await ask()).toEqual([
      [200, "2", "1", null],
      [200, "2", "0", null],
      [429, "2", "0", expect.any(String)],
    ]);
    expect(upstream.hits()).toBe(5);
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
    return { ...stage, ask };
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
