// What is measured, and that a contender answers it rightly before a clock starts: a fast wrong answer is no result.
import type { Contender, Mode } from "./contenders.ts";
import type { Load } from "./load.ts";
import { bodies, type UpstreamPath } from "./upstream.ts";

export interface Scenario {
  readonly id: string;
  readonly title: string;
  readonly mode: Mode;
  readonly load: Omit<Load, "seconds"> & { readonly path: UpstreamPath };
}

const get = (path: UpstreamPath, connections: number) => ({ path, connections });

export const scenarios: readonly Scenario[] = [
  { id: "get-64", title: "GET, 200 bytes, 64 connections", mode: "open", load: get("/v2/200b", 64) },
  { id: "get-64-logged", title: "the same with an access log", mode: "logged", load: get("/v2/200b", 64) },
  { id: "get-1", title: "GET, 200 bytes, 1 connection", mode: "open", load: get("/v2/200b", 1) },
  { id: "get-512", title: "GET, 200 bytes, 512 connections", mode: "open", load: get("/v2/200b", 512) },
  { id: "throttled", title: "429, 64 connections", mode: "throttled", load: get("/v2/200b", 64) },
  { id: "get-20k", title: "GET, 20 KiB, 64 connections", mode: "open", load: get("/v2/20k", 64) },
  { id: "get-1m", title: "GET, 1 MiB, 8 connections", mode: "open", load: get("/v2/1m", 8) },
  {
    id: "post-4k",
    title: "POST with 4 KiB, 64 connections",
    mode: "open",
    load: { path: "/v2/200b", connections: 64, method: "POST", bodyBytes: 4096 },
  },
  {
    id: "fresh",
    title: "GET, 200 bytes, each on a new connection, 64 at once",
    mode: "open",
    load: { path: "/v2/200b", connections: 64, fresh: true },
  },
];

/** Throws what is wrong with the answers. Of a throttled contender the first request is admitted, as its quota says. */
export async function verifyAnswers(port: number, contender: Contender, scenario: Scenario): Promise<void> {
  const { mode, load } = scenario;
  const ask = async (): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${load.path}`, {
      method: load.method ?? "GET",
      body: load.bodyBytes === undefined ? null : "x".repeat(load.bodyBytes),
    });
  const fail = (what: string): never => {
    throw new Error(`${contender.name} does not answer ${scenario.id} rightly: ${what}`);
  };
  if (mode === "throttled") await (await ask()).arrayBuffer();
  const response = await ask();
  const body = await response.text();
  const expected = mode === "throttled" ? 429 : 200;
  if (response.status !== expected) fail(`status ${response.status}, expected ${expected}`);
  if (expected === 200 && body !== bodies[load.path]) fail(`a body of ${body.length} bytes that is not the upstream's`);
  const limit = response.headers.get("ratelimit-limit") ?? response.headers.get("x-ratelimit-limit");
  const needed = mode === "throttled" ? "1" : "1000000";
  if (contender.hasFields && !limit?.startsWith(needed)) fail(`limit field ${limit}, expected ${needed}`);
}
