// The load: wrk as fast as answers come, h2load over HTTP/2 and at a constant rate, and a client of our own for requests that
// wait in between. All run on the load's core and end by themselves.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { quantile } from "./figures.ts";

const run = promisify(execFile);

export interface Load {
  readonly path: string;
  readonly connections: number;
  readonly seconds: number;
  readonly method?: "GET" | "POST";
  /** Behind the path, as it is. */
  readonly query?: string;
  readonly bodyBytes?: number;
  /** The body is sent in chunks of so many bytes. */
  readonly chunkBytes?: number;
  /** The first request of each connection is a POST in chunks; the others are GETs. */
  readonly beginsWithChunks?: boolean;
  /** The head is sent with Expect: 100-continue, and the body when the 100 has come. */
  readonly expects?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Each request on a connection of its own. */
  readonly fresh?: boolean;
  readonly isTls?: boolean;
  /** Over HTTP/2, with so many requests at once on each connection. */
  readonly streams?: number;
  /** Each request with a header X-Client that has one of so many values. */
  readonly clients?: number;
}

/** Latencies in microseconds. */
export interface LoadResult {
  readonly requests: number;
  readonly seconds: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly p999Us: number;
  /** Connections and reads that failed or took too long, and later answers with the wrong status. */
  readonly errors: number;
  /** Answers with a status of 400 or more. */
  readonly refused: number;
}

const report = `
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('RESULT {"requests":%d,"us":%d,"p50Us":%d,"p99Us":%d,"p999Us":%d,"errors":%d,"refused":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    e.connect + e.read + e.write + e.timeout, e.status))
end
`;

/** Sends requests as fast as answers come. */
export function fullLoad(port: number, load: Load, folder: string, core: number): Promise<LoadResult> {
  if (load.expects === true) return expecting(port, load, core);
  if (load.streams !== undefined) return h2load(port, load, folder, core);
  return wrk(port, load, folder, core);
}

/** The fields that a body has besides its length. */
export const bodyFields = { "Content-Type": "application/json" } as const;

/** Sizes of the chunks of a body. */
export function chunkSizes({ bodyBytes = 0, chunkBytes = 0 }: Pick<Load, "bodyBytes" | "chunkBytes">): number[] {
  return Array.from({ length: Math.ceil(bodyBytes / chunkBytes) }, (_, i) =>
    Math.min(chunkBytes, bodyBytes - i * chunkBytes),
  );
}

export async function wrk(port: number, load: Load, folder: string, core: number): Promise<LoadResult> {
  const script = join(folder, "wrk.lua");
  writeFileSync(script, luaOf(load));
  const url = `${load.isTls === true ? "https" : "http"}://127.0.0.1:${port}${load.path}`;
  const wrkArguments = ["wrk", "-t1", `-c${load.connections}`, `-d${load.seconds}s`, "-s", script, url];
  const { stdout } = await run("taskset", ["-c", String(core), ...wrkArguments]);
  const line = /^RESULT (.*)$/m.exec(stdout)?.[1];
  if (line === undefined) throw new Error(`wrk reported nothing: ${stdout}`);
  const { us, ...rest } = JSON.parse(line);
  return { ...rest, seconds: us / 1_000_000 };
}

function luaOf(load: Load): string {
  const { path, query = "", method = "GET", bodyBytes = 0, fresh = false, headers = {}, clients = 0 } = load;
  const isChunked = load.chunkBytes !== undefined;
  const fields = { ...headers, ...(bodyBytes > 0 ? bodyFields : {}), ...(fresh ? { Connection: "close" } : {}) };
  return `wrk.method = "${method}"
wrk.path = "${path}${query}"
${bodyBytes > 0 && !isChunked ? `wrk.body = string.rep("x", ${bodyBytes})` : ""}
${Object.entries(fields)
  .map(([name, value]) => `wrk.headers["${name}"] = "${value}"`)
  .join("\n")}
${clients > 0 ? `request = function() wrk.headers["X-Client"] = math.random(${clients}) return wrk.format() end` : ""}
${isChunked ? luaOfChunks(load) : ""}
${report}`;
}

/** wrk itself would announce a length. It asks once for a request that it does not send, and then for each connection. */
function luaOfChunks(load: Load): string {
  const chunks = chunkSizes(load).map(
    (bytes) => `"${bytes.toString(16)}\\r\\n" .. string.rep("x", ${bytes}) .. "\\r\\n"`,
  );
  const rest = load.beginsWithChunks === true ? `asked > ${load.connections + 1}` : "false";
  return `local asked, chunked, plain = 0, nil, nil
init = function()
  plain = wrk.format()
  wrk.headers["Transfer-Encoding"] = "chunked"
  chunked = wrk.format("POST") .. ${chunks.join(" .. ")} .. "0\\r\\n\\r\\n"
end
request = function()
  asked = asked + 1
  if ${rest} then return plain end
  return chunked
end`;
}

async function expecting(port: number, load: Load, core: number): Promise<LoadResult> {
  const { path, connections, seconds, bodyBytes } = load;
  const client = [process.execPath, join(import.meta.dirname, "expecting-client.ts")];
  const asked = [port, path, connections, seconds, bodyBytes].map(String);
  const { stdout } = await run("taskset", ["-c", String(core), ...client, ...asked]);
  return JSON.parse(stdout) as LoadResult;
}

/** `body`: of each request, if it has one. */
export async function h2load(
  port: number,
  load: Load,
  folder: string,
  core: number,
  body: Buffer = Buffer.alloc(load.bodyBytes ?? 0, "x"),
): Promise<LoadResult> {
  const { path, connections, seconds, streams = 1, isTls = false } = load;
  const [log, data] = [join(folder, "h2load.log"), join(folder, "h2load.body")];
  writeFileSync(log, "");
  writeFileSync(data, body);
  const headers = { ...load.headers, ...(load.bodyBytes === undefined ? {} : bodyFields) };
  const options = [
    ...["-t1", `-c${connections}`, `-m${streams}`, `-D${seconds}`, `--log-file=${log}`],
    ...Object.entries(headers).map(([name, value]) => `--header=${name}: ${value}`),
    ...(body.length > 0 ? [`--data=${data}`] : []),
  ];
  const url = `${isTls ? "https" : "http"}://127.0.0.1:${port}${path}`;
  const { stdout } = await run("taskset", ["-c", String(core), "h2load", ...options, url]);
  const count = (what: string): number => Number(new RegExp(`(\\d+) ${what}\\b`).exec(stdout)?.[1]);
  const times = latenciesIn(log, () => true);
  return {
    requests: count("succeeded") + count("4xx") + count("5xx"),
    seconds,
    p50Us: quantile(times, 0.5),
    p99Us: quantile(times, 0.99),
    p999Us: quantile(times, 0.999),
    errors: count("errored") + count("timeout"),
    refused: count("4xx") + count("5xx"),
  };
}

/** Microseconds, ascending, of the answers in a log of h2load that are counted. */
function latenciesIn(log: string, isCounted: (startUs: number, status: number) => boolean): number[] {
  const answers = readFileSync(log, "utf8").trim().split("\n");
  const rows = answers.map((row) => row.split("\t").map(Number));
  return rows
    .filter(([startUs = 0, status = 0]) => isCounted(startUs, status))
    .map(([, , us = 0]) => us)
    .sort((a, b) => a - b);
}

/** How requests come at a constant rate: at equal distances, or ten at the same moment. */
export type Arrival = "one by one" | "ten at the same moment";

/** Over ten connections; latencies of all requests, ascending, in microseconds. */
export async function constantRate(
  port: number,
  {
    path,
    perSecond,
    seconds,
    arrival,
    bodyBytes = 0,
  }: Pick<Load, "path" | "seconds" | "bodyBytes"> & { readonly perSecond: number; readonly arrival: Arrival },
  folder: string,
  core: number,
): Promise<number[]> {
  const log = join(folder, "h2load.log");
  writeFileSync(log, "");
  // Each connection sends at its own rate from its beginning, so for equal distances they begin one after the other.
  const turns =
    arrival === "ten at the same moment" ? [] : ["-r1", `--rate-period=${Math.max(1, Math.round(1000 / perSecond))}ms`];
  const data = join(folder, "h2load.body");
  writeFileSync(data, Buffer.alloc(bodyBytes, "x"));
  const body = bodyBytes > 0 ? [`--data=${data}`] : [];
  const rate = ["-c10", "-t1", ...turns, `--rps=${perSecond / 10}`, `-n${perSecond * seconds}`, `--log-file=${log}`];
  await run("taskset", ["-c", String(core), "h2load", "--h1", ...rate, ...body, `http://127.0.0.1:${port}${path}`]);
  // The first second opens connections and warms code up.
  const beginUs = Number.parseInt(readFileSync(log, "utf8"), 10) + 1_000_000;
  return latenciesIn(log, (startUs, status) => startUs >= beginUs && status === 200);
}
