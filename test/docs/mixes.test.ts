// The recipes of docs/recipes.md, run as they stand there: what each says that clients get.
import { writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { configurationWarnings } from "../../src/config/warnings.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";
import { read } from "./markdown.ts";

const cleanup = useCleanup();

/** `warnings`: those that the page speaks of. */
async function stage(heading: string, respond: (path: string, res: ServerResponse) => void, warnings = 0) {
  const section = read("docs/recipes.md").split(`## ${heading}\n`)[1] ?? "";
  const [, yaml = ""] = /^```yaml\n(.*?)^```/ms.exec(section) ?? [];
  const folder = scratchFolder(cleanup);
  writeFileSync(join(folder, "c.yaml"), yaml);
  writeFileSync(join(folder, "tokens.txt"), `${digestOf("t")} scopes=export # partner\n${digestOf("u")} # other\n`);
  const loaded = loadSettings({ file: "c.yaml", env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  expect(configurationWarnings(loaded.settings)).toHaveLength(warnings);
  const { auth, policies, counters } = loaded.settings;
  const upstream = cleanup(await startUpstream((req, res) => respond(req.url ?? "", res)));
  const start = async () => {
    const overrides = {
      auth,
      policies,
      counters: { ...counters, memoryBytes: minTableBytes },
      drain: { timeoutMs: 500 },
    };
    const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides });
    let isOpen = true;
    const close = async (): Promise<void> => {
      if (isOpen) await gateway.close();
      isOpen = false;
    };
    cleanup(close);
    const ask = async (path: string, token: string | null, method = "GET") => {
      const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
      const response = await fetch(gateway.url + path, { method, headers });
      await response.arrayBuffer();
      return response;
    };
    return { gateway, ask, close };
  };
  return { start, upstream };
}

const end = (res: ServerResponse, status = 200): void => void res.writeHead(status).end("{}");

test("failed logins: open to everybody, ten failures of an address, and logins that succeed cost none", async () => {
  const { start } = await stage("Failed logins, open to everybody", (path, res) =>
    end(res, path.includes("?wrong") ? 401 : 200),
  );
  const { ask } = await start();
  const login = async (query: string) => (await ask(`/v1/login${query}`, null, "POST")).status;
  for (let i = 0; i < 15; i += 1) expect(await login("")).toBe(200);
  for (let i = 0; i < 10; i += 1) expect(await login("?wrong")).toBe(401);
  expect([await login("?wrong"), await login("")]).toEqual([429, 429]);
  expect([(await ask("/v1/x", null)).status, (await ask("/v1/x", "t")).status]).toEqual([401, 200]);
});

test("10,000 a month: each partner has his own, and a restart keeps what was spent", async () => {
  const { start } = await stage("10,000 a month for each partner", (_, res) => end(res));
  const first = await start();
  const left = async ({ ask }: typeof first, token: string | null) => {
    const { headers } = await ask("/v1/x", token);
    return [headers.get("ratelimit-limit"), headers.get("ratelimit-remaining")];
  };
  expect([await left(first, "t"), await left(first, "t")]).toEqual([
    ["10000", "9999"],
    ["10000", "9998"],
  ]);
  expect(await left(first, "u")).toEqual(["10000", "9999"]);
  expect(await left(first, null)).toEqual(["100", "99"]);
  await first.close();
  expect(await left(await start(), "t")).toEqual(["10000", "9997"]);
});

test("two exports at once for each partner, with the scope", async () => {
  const held: ServerResponse[] = [];
  const { start } = await stage("Two exports at once for each partner", (path, res) => {
    if (path.includes("slow")) held.push(res);
    else end(res);
  });
  const { ask } = await start();
  const slow = [ask("/v2/export/slow", "t"), ask("/v2/export/slow", "t")];
  await eventually("both are on their way", () => held.length === 2);
  const third = await ask("/v2/export/x", "t");
  expect([third.status, third.headers.get("retry-after")]).toEqual([429, "1"]);
  expect([(await ask("/v2/x", "t")).status, (await ask("/v2/export/x", "u")).status]).toEqual([200, 403]);
  for (const res of held) end(res);
  expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([200, 200]);
  expect((await ask("/v2/export/x", "t")).status).toBe(200);
});

test("a new limit in shadow refuses nothing, and counts what it would have refused", async () => {
  const { start } = await stage("A new limit in shadow first", (_, res) => end(res));
  const { ask, gateway } = await start();
  for (let i = 0; i < 100; i += 1) expect((await ask("/v1/x", "any")).status).toBe(200);
  expect((await ask("/v1/x", "any")).status).toBe(429);
  // Of the 101st request, the enforcing policy has decided.
  const name = 'headgate_decisions_total{policy="tighter",outcome="would_throttle"}';
  expect(await metric(gateway, name)).toBe(41);
});
