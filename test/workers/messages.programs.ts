// What the admin listener asks of the threads that carry traffic: nothing, but what a reload, a rule and a forgiveness change.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { afterEach, expect, test, vi } from "vitest";
import { call, readToken, writeToken } from "../admin/api-stage.ts";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startFromFile } from "../support/gateway-from-file.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
afterEach(() => void vi.restoreAllMocks());

const rule = { client: "203.0.113.7", action: "block", for: "1h" };
const parameters: Readonly<Record<string, string>> = { key: "client:203.0.113.7", id: "a-rule" };

/** Those that change what threads do, with the messages that this takes. */
const changes: Readonly<Record<string, { readonly body?: unknown; readonly names: readonly string[] }>> = {
  "PUT /api/rules/{id}": { body: rule, names: ["changeRules"] },
  "DELETE /api/rules/{id}": { names: ["changeRules"] },
  "DELETE /api/clients/{key}": { names: ["forgive"] },
  "POST /api/reload": { body: { confirmWithin: "1m" }, names: ["prepare", "commit"] },
  "POST /api/reload/confirm": { names: ["endTrial"] },
  "POST /api/reload/take-back": { names: [] },
};
const bodies: Readonly<Record<string, unknown>> = {
  "POST /api/check": { method: "GET", path: "/v2/x", client: "203.0.113.7" },
};

async function start() {
  const upstream = cleanup(await startUpstream());
  const folder = scratchFolder(cleanup);
  const file = join(folder, "headgate.yaml");
  const tokens = `${digestOf(readToken)} read # dashboard\n${digestOf(writeToken)} write # ops\n`;
  writeFileSync(join(folder, "admin.txt"), tokens);
  const write = (yaml: string): void =>
    writeFileSync(
      file,
      `admin: { port: 0, tokensFile: ${join(folder, "admin.txt")} }\nreload: { watch: false }\n${yaml}`,
    );
  write("");
  const gateway = await startFromFile(cleanup, upstream.url, file, { workers: "2" });
  return { gateway, write };
}

/** The calls of the API, as its document lists them. */
async function callsOf(port: number): Promise<string[]> {
  const { json } = await call(port, "GET", "/api/openapi.json");
  const { paths } = json as { readonly paths: Readonly<Record<string, object>> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
}

test("no call of the admin listener posts a message to a thread, but a reload, a rule and a forgiveness", async () => {
  const { gateway, write } = await start();
  const { port } = gateway.admin;
  await fetch(`${gateway.url}/v2/x`, { headers: { authorization: "Bearer x" } });
  const post = vi.spyOn(Worker.prototype, "postMessage");
  /** The names of the messages that were posted meanwhile, each once. */
  const during = async (work: () => Promise<unknown>): Promise<string[]> => {
    post.mockClear();
    await work();
    const names = post.mock.calls.map(([message]) => (message as { readonly name: string }).name);
    return [...new Set(names)];
  };
  const known = (await callsOf(port)).filter((each) => each !== "POST /api/drain" && each !== "GET /api/events");
  const reads = known.filter((each) => changes[each] === undefined);
  expect(reads.length).toBeGreaterThan(12);
  for (const each of reads) {
    const [method = "", path = ""] = each.split(" ");
    const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => parameters[name] ?? "");
    const body = bodies[each];
    const ask = () => call(port, method, target, body === undefined ? {} : { body });
    expect(await during(ask), each).toEqual([]);
  }
  for (const path of ["/metrics", "/livez", "/readyz", "/", "/api/clients?sort=refused"]) {
    expect(await during(() => call(port, "GET", path)), path).toEqual([]);
  }
  const listening = async (): Promise<void> => {
    const stop = new AbortController();
    const headers = { authorization: `Bearer ${readToken}` };
    const stream = await fetch(`${gateway.adminUrl}/api/events`, { headers, signal: stop.signal });
    expect(stream.status).toBe(200);
    // Long enough to look for changes of the upstream.
    await setTimeout(1_200);
    stop.abort();
  };
  expect(await during(listening), "GET /api/events").toEqual([]);
  write("routes: [/v2/, /v9/]\n");
  for (const [each, { body, names }] of Object.entries(changes)) {
    const [method = "", path = ""] = each.split(" ");
    const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => parameters[name] ?? "");
    const wanted = body ?? (method === "POST" ? {} : undefined);
    expect(await during(() => call(port, method, target, wanted === undefined ? {} : { body: wanted })), each).toEqual(
      names,
    );
  }
});
