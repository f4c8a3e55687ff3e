// What is measured, and that a contender answers it rightly before a clock starts: a fast wrong answer is no result.
import { once } from "node:events";
import { request as http, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { request as https } from "node:https";
import { text } from "node:stream/consumers";
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
  {
    id: "tls",
    title: "GET, 200 bytes, 64 connections over TLS",
    mode: "tls",
    load: { path: "/v2/200b", connections: 64, isTls: true },
  },
];

/** Throws what is wrong with the answers. Of a throttled contender the first request is admitted, as its quota says. */
export async function verifyAnswers(port: number, contender: Contender, scenario: Scenario): Promise<void> {
  const { mode, load } = scenario;
  const ask = (): Promise<Answer> => send(port, load);
  const fail = (what: string): never => {
    throw new Error(`${contender.name} does not answer ${scenario.id} rightly: ${what}`);
  };
  if (mode === "throttled") await ask();
  const { status, body, headers } = await ask();
  const expected = mode === "throttled" ? 429 : 200;
  if (status !== expected) fail(`status ${status}, expected ${expected}`);
  if (expected === 200 && body !== bodies[load.path]) fail(`a body of ${body.length} bytes that is not the upstream's`);
  const limit = headers["ratelimit-limit"] ?? headers["x-ratelimit-limit"];
  const needed = mode === "throttled" ? "1" : "1000000";
  if (contender.hasFields && !String(limit).startsWith(needed)) fail(`limit field ${limit}, expected ${needed}`);
}

interface Answer {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** On a connection of its own. Whoever answers has the certificate of this run. */
async function send(
  port: number,
  { path, method = "GET", bodyBytes = 0, isTls = false }: Scenario["load"],
): Promise<Answer> {
  const options = { host: "127.0.0.1", port, path, method, agent: false, rejectUnauthorized: false };
  const request = isTls ? https(options) : http(options);
  request.end("x".repeat(bodyBytes));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}
