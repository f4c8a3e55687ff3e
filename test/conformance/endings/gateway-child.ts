// A gateway in a process of its own, which says what is open and in memory there after a collection, and reloads and
// drains on demand. Reads connections as HEADGATE_TEST_READS says.
import { EventEmitter } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { queryObjects } from "node:v8";
import type { Settings } from "../../../src/core/settings.ts";
import { Exchange } from "../../../src/exchange/exchange.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../../support/gateway.ts";

export interface ChildStart {
  readonly upstreamUrl: string;
  readonly overrides: Overrides;
}

export interface Ports {
  readonly traffic: number;
  readonly admin: number;
  readonly checks: number;
  readonly grpc: number;
}

/** What must come back to where it was, exactly. */
export interface Counts {
  /** What keeps the event loop alive. */
  readonly handles: number;
  /** Objects in memory: also those that nothing keeps alive but a forgotten timer or listener. */
  readonly timers: number;
  readonly emitters: number;
  readonly exchanges: number;
}

export interface Memory {
  readonly rss: number;
  readonly external: number;
  readonly arrayBuffers: number;
  readonly heap: number;
}

export interface Figures {
  readonly counts: Counts;
  readonly memory: Memory;
}

/** `start` opens another gateway of the same configuration, which `drain` ends. */
export type Request = "measure" | "reload" | "start" | "drain";

const { upstreamUrl, overrides } = JSON.parse(process.argv[2] ?? "") as ChildStart;
const Timer = setTimeout(() => {}).constructor;
const gateway = await start();
let second: TestGateway | null = null;
let reloads = 0;

const handlers: Readonly<Record<Request, () => Promise<object>>> = { measure, reload, start: startSecond, drain };
process.on("message", async (request: Request) => void process.send?.(await handlers[request]()));
process.on("disconnect", () => process.exit());
process.send?.(portsOf(gateway));

async function start(): Promise<TestGateway> {
  const started = await startTestGateway({ upstreamUrl, overrides });
  // Lines that are kept for tests would look like a leak.
  Object.assign(started.logLines, { push: () => 0 });
  return started;
}

async function measure(): Promise<Figures> {
  const count = (kind: unknown): number => Number(queryObjects(kind as typeof Exchange));
  // Several, with turns between them in which finalizers run.
  for (let i = 0; i < 3; i += 1) {
    globalThis.gc?.();
    await nextTurn();
  }
  const { rss, external, arrayBuffers, heapUsed: heap } = process.memoryUsage();
  const handles = process.getActiveResourcesInfo().length;
  const counts = { handles, timers: count(Timer), emitters: count(EventEmitter), exchanges: count(Exchange) };
  return { counts, memory: { rss, external, arrayBuffers, heap } };
}

/** The old upstream ends after its requests. */
async function reload(): Promise<object> {
  reloads += 1;
  const settings: Settings = testSettings(upstreamUrl, overrides);
  const connectTimeoutMs = settings.upstream.connectTimeoutMs + (reloads % 2);
  await gateway.reload({ ...settings, upstream: { ...settings.upstream, connectTimeoutMs } });
  return {};
}

async function startSecond(): Promise<Ports> {
  second = await start();
  return portsOf(second);
}

async function drain(): Promise<object> {
  await second?.close();
  second = null;
  return {};
}

function portsOf({ traffic, admin, extAuth, grpc }: TestGateway): Ports {
  return { traffic: traffic.port, admin: admin.port, checks: extAuth?.port ?? 0, grpc: grpc?.port ?? 0 };
}
