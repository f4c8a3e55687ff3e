// What leasing units ahead of need brings: the decisions of three gateways at a constant rate, with a store behind a network
// that delays and stalls, as it is and where each request asks. The gateways decide and proxy nothing, because 10,000
// proxied requests a second do not fit two processors; proxied.ts measures one gateway with its share of them. Latency counts
// from the instant at which a request is due.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { median, quantile } from "../figures.ts";
import { cpuTimeUs, freePort, type Running, start } from "../processes.ts";
import { watchOthers } from "../quiet.ts";
import type { LaneResult, LaneTask } from "./decision-lane.ts";
import { measureProxied } from "./proxied.ts";

export interface LeasesStage {
  readonly folder: string;
  readonly upstream: { readonly port: number };
  readonly redis: { readonly port: number; readonly running: Running };
  readonly cores: { readonly contender: number; readonly others: number; readonly all: string };
  readonly rounds: number;
  readonly seconds: number;
  /** Requests of all gateways together. */
  readonly perSecond: number;
  cli(...args: string[]): string;
  calls(): number;
  say(text: string): void;
  table(title: string, head: readonly string[], rows: readonly (readonly string[])[]): void;
}

const gateways = 3;
const warmUpMs = 2000;
/** In milliseconds, each way; a stall of the store, and from the beginning of one to that of the next. */
const network = { delayMs: 1, stallMs: 30, stallEveryMs: 500 };

type Demand = Pick<LaneTask, "keys" | "limit" | "windowMs" | "waitMs">;

/** `waitMs`: what the gateway derives from the window. */
const demands: readonly Demand[] = [
  { keys: 1, limit: 1_000_000, windowMs: 60_000, waitMs: 50 },
  { keys: 100, limit: 10_000, windowMs: 60_000, waitMs: 50 },
  { keys: 100_000, limit: 1_000, windowMs: 60_000, waitMs: 50 },
  { keys: 1, limit: 20_000, windowMs: 1_000, waitMs: 20 },
];

interface Variant {
  readonly name: string;
  readonly hasStore: boolean;
  readonly asksAlone: boolean;
}

const variants: readonly Variant[] = [
  { name: "without a store", hasStore: false, asksAlone: false },
  { name: "as it is", hasStore: true, asksAlone: false },
  { name: "asking alone", hasStore: true, asksAlone: true },
];

/** One round of one variant. */
interface Measured {
  readonly p50Us: number;
  readonly p99Us: number;
  readonly alonePercent: number;
  readonly latePercent: number;
  readonly callsPerSecond: number;
  /** Of the time from sending a call to its answer. */
  readonly callP50Us: number;
  readonly cpuUs: number;
  readonly storeUs: number;
  /** Share of a core that others have used meanwhile. */
  readonly others: number;
  readonly requests: number;
  readonly refused: number;
}

type Named = Measured & { readonly of: string };

const bench = import.meta.dirname;

/** A lane that waits for its beginning. */
async function startLane(task: LaneTask, asksAlone: boolean, core: string) {
  const hook = asksAlone ? ["--import", join(bench, "asking-alone.ts")] : [];
  const script = [...hook, join(bench, "decision-lane.ts"), JSON.stringify(task)];
  const command = ["-c", core, process.execPath, ...script];
  const child: ChildProcess = spawn("taskset", command, { stdio: ["pipe", "pipe", "inherit"] });
  if (child.stdin === null || child.stdout === null) throw new Error("a lane has pipes");
  const { stdin } = child;
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => {
    const { value, done } = await lines.next();
    if (done) throw new Error("a lane has ended");
    return value;
  };
  await next();
  return {
    begin: () => void stdin.write("go\n"),
    result: async (): Promise<LaneResult> => JSON.parse(await next()),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

async function measure(stage: LeasesStage, storePort: number, demand: Demand, variant: Variant): Promise<Measured> {
  const { perSecond } = stage;
  const measuredMs = stage.seconds * 1000;
  stage.cli("FLUSHALL");
  const task = (lane: number): LaneTask => ({
    ...{ ...demand, lane, warmUpMs, measuredMs, perSecond: perSecond / gateways },
    storePort: variant.hasStore ? storePort : null,
  });
  const lanes: Awaited<ReturnType<typeof startLane>>[] = [];
  const used = () => ({
    ...{ atMs: performance.now(), calls: stage.calls(), storeUs: cpuTimeUs(stage.redis.running.pid) },
  });
  try {
    for (let lane = 0; lane < gateways; lane += 1)
      lanes.push(await startLane(task(lane), variant.asksAlone, stage.cores.all));
    for (const lane of lanes) lane.begin();
    await sleep(warmUpMs + 100);
    const others = watchOthers();
    const before = used();
    await sleep(measuredMs - 200);
    const [after, byOthers] = [used(), others()];
    const results = await Promise.all(lanes.map((lane) => lane.result()));
    const sum = (of: (result: LaneResult) => number): number => results.reduce((all, result) => all + of(result), 0);
    const latencies = results.flatMap(({ latenciesUs }) => latenciesUs).sort((a, b) => a - b);
    const [requests, seconds] = [latencies.length, (after.atMs - before.atMs) / 1000];
    const calls = results.flatMap(({ callsUs }) => callsUs).sort((a, b) => a - b);
    return {
      ...{ p50Us: quantile(latencies, 0.5), p99Us: quantile(latencies, 0.99), requests },
      alonePercent: (100 * sum(({ alone }) => alone)) / requests,
      latePercent: (100 * sum(({ late }) => late)) / requests,
      callP50Us: quantile(calls, 0.5),
      callsPerSecond: (after.calls - before.calls) / seconds,
      cpuUs: sum(({ cpuUs }) => cpuUs) / requests,
      storeUs: (after.storeUs - before.storeUs) / (seconds * perSecond),
      others: byOthers,
      refused: sum(({ refused }) => refused),
    };
  } finally {
    for (const lane of lanes) await lane.stop();
  }
}

export async function measureLeases(stage: LeasesStage, parts: ReadonlySet<string>): Promise<void> {
  const port = await freePort();
  const { delayMs, stallMs, stallEveryMs } = network;
  const places = [port, stage.redis.port, delayMs, stallMs, stallEveryMs].map(String);
  const command = [process.execPath, join(bench, "slow-store.ts"), ...places];
  const proxy = await start(command, { core: stage.cores.others, port });
  try {
    if (parts.has("leases")) await measureDecisions(stage, port);
    if (parts.has("proxied")) await measureProxied(stage, port, Math.floor(stage.perSecond / gateways / 10) * 10);
  } finally {
    await proxy.stop();
  }
}

async function measureDecisions(stage: LeasesStage, port: number): Promise<void> {
  const measured: Named[] = [];
  for (let round = 1; round <= stage.rounds; round += 1) {
    for (const demand of demands) {
      for (const variant of variants) {
        const one = await measure(stage, port, demand, variant);
        measured.push({ ...one, of: titleOf(stage, demand) + variant.name });
        const figures = Object.entries(one).map(([name, figure]) => `${name} ${figure.toFixed(2)}`);
        stage.say(`leases round ${round}, ${titleOf(stage, demand)}, ${variant.name}: ${figures.join(", ")}`);
      }
    }
  }
  for (const demand of demands) show(stage, demand, measured);
}

function titleOf({ perSecond }: LeasesStage, { keys, limit, windowMs, waitMs }: Demand): string {
  return `${perSecond} decisions a second of ${keys} keys, ${limit} in ${windowMs / 1000} s, wait ${waitMs} ms`;
}

const columns: readonly (readonly [head: string, figure: keyof Measured, digits: number])[] = [
  ["p50 µs", "p50Us", 0],
  ["p99 µs", "p99Us", 0],
  ["alone %", "alonePercent", 2],
  ["late %", "latePercent", 2],
  ["calls/s", "callsPerSecond", 0],
  ["a call, p50 µs", "callP50Us", 0],
  ["CPU µs/decision", "cpuUs", 1],
  ["store µs/decision", "storeUs", 1],
  ["refused", "refused", 0],
  ["cores of others", "others", 2],
];

function show(stage: LeasesStage, demand: Demand, measured: readonly Named[]): void {
  const title = titleOf(stage, demand);
  const rows = variants.map(({ name }) => {
    const own = measured.filter((one) => one.of === title + name);
    return [name, ...columns.map(([, figure, digits]) => median(own.map((one) => one[figure])).toFixed(digits))];
  });
  stage.table(title, ["decisions", ...columns.map(([head]) => head)], rows);
}
