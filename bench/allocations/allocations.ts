// What Headgate allocates for a request. A busy machine does not change these figures: a process counts the bytes that it
// has allocated, an exact number of requests is sent, and the counters are read before and after.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { median } from "../figures.ts";
import { gatewayFrame } from "../gateway-config.ts";
import { accepts, freePort } from "../processes.ts";
import { FixedLoadSender } from "./fixed-load.ts";
import type { Counters, Place, Profile, Question } from "./probe.ts";

export interface Allocations {
  readonly checkout: string;
  readonly scenario: string;
  readonly title: string;
  /** Of objects on V8's heap. */
  readonly heapBytes: number;
  /** Of new buffers outside the heap; NaN if some may have been freed before they were counted. */
  readonly bufferBytes: number;
  readonly objects: number;
  readonly places: readonly Place[];
}

interface Case {
  readonly id: string;
  readonly title: string;
  readonly isThrottled?: boolean;
  readonly isCheck?: boolean;
  readonly isFresh?: boolean;
  readonly isLogged?: boolean;
  readonly request: string;
}

interface Surroundings {
  readonly wanted: ReadonlySet<string>;
  readonly folder: string;
  readonly upstreamPort: number;
  readonly say: (text: string) => void;
}

interface Gateway {
  readonly port: number;
  readonly ask: <Reply>(question: Question) => Promise<Reply>;
  readonly stop: () => Promise<void>;
}

const head = (first: string, ...fields: string[]): string =>
  `${[first, "Host: api.example.com", ...fields].join("\r\n")}\r\n\r\n`;
const get = head("GET /v2/200b HTTP/1.1");

export const cases: readonly Case[] = [
  { id: "get-64", title: "GET, 200 bytes", request: get },
  { id: "throttled", title: "429", isThrottled: true, request: get },
  {
    id: "post-4k",
    title: "POST with 4 KiB",
    request:
      head("POST /v2/200b HTTP/1.1", "Content-Type: application/json", "Content-Length: 4096") + "x".repeat(4096),
  },
  {
    id: "fresh",
    title: "GET on a new connection",
    isFresh: true,
    request: head("GET /v2/200b HTTP/1.1", "Connection: close"),
  },
  { id: "get-64-logged", title: "GET with the access log", isLogged: true, request: get },
  {
    id: "check",
    title: "check over HTTP",
    isCheck: true,
    request: head(
      "GET /auth-request HTTP/1.1",
      "X-Original-Method: GET",
      "X-Original-URI: /v2/200b",
      "X-Forwarded-For: 192.0.2.7",
    ),
  },
];

const connections = 64;
/** After these, nearly all code is compiled. */
const warmUpRequests = 60_000;
/** Few enough that no collection frees a buffer before it is counted. */
const countedRequests = 4000;
const repetitions = 5;
/** V8 records each object with its stack, which takes long. */
const profiledRequests = 2000;
/** Holds what all counted requests allocate. */
const youngGenerationMebibytes = 256;

/** `checkouts`: names and folders that have been built. `wanted`: ids of scenarios. */
export async function measureAllocations(
  checkouts: ReadonlyMap<string, string>,
  { wanted, folder, upstreamPort, say }: Surroundings,
): Promise<Allocations[]> {
  const results: Allocations[] = [];
  for (const each of cases.filter(({ id }) => wanted.has(id))) {
    for (const [checkout, path] of checkouts) {
      const gateway = await startGateway(path, each, upstreamPort, join(folder, `allocations-${results.length}`));
      try {
        const result = { checkout, scenario: each.id, title: each.title, ...(await measure(gateway, each)) };
        results.push(result);
        say(`allocations: ${checkout}, ${each.title}: ${result.heapBytes.toFixed(0)} bytes`);
      } finally {
        await gateway.stop();
      }
    }
  }
  return results;
}

async function measure(
  { port, ask }: Gateway,
  { request, isThrottled = false, isFresh = false }: Case,
): Promise<Omit<Allocations, "checkout" | "scenario" | "title">> {
  const load = { port, connections, request, isFresh, status: isThrottled ? 429 : 200 };
  if (isThrottled) await new FixedLoadSender({ ...load, connections: 1, isFresh: true, status: 200 }).send(1);
  const sender = new FixedLoadSender(load);
  await sender.send(warmUpRequests);
  const counted: { heapBytes: number; bufferBytes: number }[] = [];
  for (let i = 0; i < repetitions; i += 1) {
    await ask("collect");
    const before = await ask<Counters>("count");
    await sender.send(countedRequests);
    const after = await ask<Counters>("count");
    const buffers = after.collections > before.collections ? Number.NaN : after.bufferBytes - before.bufferBytes;
    counted.push({
      heapBytes: (after.heapBytes - before.heapBytes) / countedRequests,
      bufferBytes: buffers / countedRequests,
    });
  }
  await ask("begin profile");
  await sender.send(profiledRequests);
  const { objects, places } = await ask<Profile>("end profile");
  sender.close();
  return {
    heapBytes: median(counted.map((one) => one.heapBytes)),
    bufferBytes: median(counted.map((one) => one.bufferBytes)),
    objects: objects / profiledRequests,
    places: places.map((one) => ({
      place: one.place,
      objects: one.objects / profiledRequests,
      bytes: one.bytes / profiledRequests,
    })),
  };
}

async function startGateway(
  checkout: string,
  { isThrottled = false, isCheck = false, isLogged = false }: Case,
  upstreamPort: number,
  folder: string,
): Promise<Gateway> {
  mkdirSync(folder, { recursive: true });
  const [port, admin, checks] = [await freePort(), await freePort(), await freePort()];
  const config = join(folder, "headgate.yaml");
  writeFileSync(
    config,
    `${gatewayFrame({ port, admin, upstreamPort }, ["newConnectionsPerPeer: 1000000"])}
policies: [{ name: bench, ${isThrottled ? "limit: 1, window: 1h" : "limit: 1000000, window: 1s"} }]
log: { access: ${isLogged} }
${isCheck ? `extAuth: { trustedCallers: [127.0.0.1], http: { enabled: true, host: 127.0.0.1, port: ${checks} } }` : ""}
`,
  );
  const flags = ["--min-semi-space-size", "--max-semi-space-size"].map((flag) => `${flag}=${youngGenerationMebibytes}`);
  const child = spawn(
    process.execPath,
    [
      ...flags,
      "--sampling-heap-profiler-suppress-randomness",
      "--import",
      join(import.meta.dirname, "probe.ts"),
      join(checkout, "dist/main.js"),
      ...["start", "--config", config],
    ],
    { stdio: ["ignore", "ignore", "inherit", "ipc"] },
  );
  const measured = isCheck ? checks : port;
  while (!(await accepts(measured))) {
    if (child.exitCode !== null) throw new Error("the gateway did not start");
    await sleep(20);
  }
  return { port: measured, ask: (question) => ask(child, question), stop: () => stop(child) };
}

async function ask<Reply>(child: ChildProcess, question: Question): Promise<Reply> {
  const reply = once(child, "message");
  child.send(question);
  const [answer] = await reply;
  return answer as Reply;
}

async function stop(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 3000);
  await ended;
  clearTimeout(timer);
}
