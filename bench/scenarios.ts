// What is measured, and that a contender answers it rightly before a clock starts: a fast wrong answer is no result.
import { once } from "node:events";
import { request as http, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { connect } from "node:http2";
import { request as https } from "node:https";
import { text } from "node:stream/consumers";
import type { Contender, Mode } from "./contenders.ts";
import { chunkSizes, type Load } from "./load.ts";
import { bodies, type UpstreamPath } from "./upstream.ts";

export interface Scenario {
  readonly id: string;
  readonly title: string;
  readonly mode: Mode;
  /** Measured for a second in each round, and not without a proxy. */
  readonly isShort?: true;
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
  {
    id: "get-utf8",
    title: "GET with a field of UTF-8 (`X-Name: Jürgen`), 64 connections",
    mode: "open",
    isShort: true,
    load: { path: "/v2/200b", connections: 64, headers: { "X-Name": "Jürgen" } },
  },
  {
    id: "get-odd-query",
    title: "GET with `|`, `[` and `{` in the query, 64 connections",
    mode: "open",
    isShort: true,
    load: { path: "/v2/200b", query: "?q=a|b[c]{d}", connections: 64 },
  },
  {
    id: "post-64k",
    title: "POST of 64 KiB by Content-Length, 16 connections",
    mode: "open",
    isShort: true,
    load: { path: "/v2/read", connections: 16, method: "POST", bodyBytes: 64 * 1024 },
  },
  {
    id: "post-64k-chunks",
    title: "POST of 64 KiB in chunks of 8 KiB, 16 connections",
    mode: "open",
    isShort: true,
    load: { path: "/v2/read", connections: 16, method: "POST", bodyBytes: 64 * 1024, chunkBytes: 8 * 1024 },
  },
  {
    id: "get-after-chunks",
    title: "GETs on connections that began with one POST in chunks, 64 connections",
    mode: "open",
    isShort: true,
    load: { path: "/v2/200b", connections: 64, bodyBytes: 1024, chunkBytes: 1024, beginsWithChunks: true },
  },
  {
    id: "post-expect",
    title: "POST of 1 KiB with Expect: 100-continue, sent after the 100, 16 connections",
    mode: "open",
    isShort: true,
    load: { path: "/v2/read", connections: 16, method: "POST", bodyBytes: 1024, expects: true },
  },
  {
    id: "h2",
    title: "GET, 200 bytes, over HTTP/2, 10 connections with one stream at a time",
    mode: "tls",
    isShort: true,
    load: { path: "/v2/200b", connections: 10, isTls: true, streams: 1 },
  },
  {
    id: "h2-10",
    title: "GET, 200 bytes, over HTTP/2, 10 connections with ten streams at a time",
    mode: "tls",
    isShort: true,
    load: { path: "/v2/200b", connections: 10, isTls: true, streams: 10 },
  },
  {
    id: "h2-get-1m",
    title: "GET, 1 MiB, over HTTP/2, 8 connections",
    mode: "tls",
    load: { path: "/v2/1m", connections: 8, isTls: true, streams: 1 },
  },
  {
    id: "h2-post-1m",
    title: "POST of 1 MiB over HTTP/2, 8 connections",
    mode: "tls",
    load: { path: "/v2/read", connections: 8, isTls: true, streams: 1, method: "POST", bodyBytes: 1024 * 1024 },
  },
  {
    id: "tls-upstream",
    title: "GET, 200 bytes, to an upstream over TLS, 64 connections",
    mode: "tls-upstream",
    isShort: true,
    load: get("/v2/200b", 64),
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

/** Over HTTP/2, on a connection of its own. */
async function sendHttp2(port: number, { path, method = "GET", bodyBytes = 0 }: Scenario["load"]): Promise<Answer> {
  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  try {
    const stream = session.request({ ":method": method, ":path": path }, { endStream: bodyBytes === 0 });
    if (bodyBytes > 0) stream.end("x".repeat(bodyBytes));
    const [headers] = (await once(stream, "response")) as [IncomingHttpHeaders & { readonly ":status": number }];
    return { status: headers[":status"], headers, body: await text(stream) };
  } finally {
    session.destroy();
  }
}

/** On a connection of its own. Whoever answers has the certificate of this run. */
async function send(port: number, load: Scenario["load"]): Promise<Answer> {
  if (load.streams !== undefined) return sendHttp2(port, load);
  const { path, query = "", method = "GET", bodyBytes = 0, chunkBytes, isTls = false, expects = false } = load;
  const isChunked = chunkBytes !== undefined;
  const headers = {
    ...Object.fromEntries(Object.entries(load.headers ?? {}).map(([name, value]) => [name, bytesOf(value)])),
    ...(expects ? { Expect: "100-continue", "Content-Length": bodyBytes } : {}),
    ...(isChunked ? { "Transfer-Encoding": "chunked" } : {}),
  };
  const asked = isChunked ? "POST" : method;
  const options = { host: "127.0.0.1", port, path: path + query, method: asked, headers, agent: false };
  const request = isTls ? https({ ...options, rejectUnauthorized: false }) : http(options);
  if (expects) {
    request.flushHeaders();
    await once(request, "continue");
  }
  if (isChunked) for (const bytes of chunkSizes(load)) request.write("x".repeat(bytes));
  request.end(isChunked ? "" : "x".repeat(bodyBytes));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

/** Node sends each character of a header as one byte. */
function bytesOf(value: string): string {
  return Buffer.from(value).toString("latin1");
}
