// `npm run bench:store`: what a store that gateways share costs a request. CPU of a proxied request and of a 429 with and
// without it, the latency that it adds at a constant rate, and how often four gateways call it. What leases save is measured
// only with `--only leases,proxied`. Prints Markdown.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { cpus, release, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { quantile } from "../figures.ts";
import { constantRate, wrk } from "../load.ts";
import { cpuTimeUs, freePort, installed, type Running, start } from "../processes.ts";
import { startUpstream, type Upstream } from "../upstream.ts";
import { alone, type Limit, type StoreContender, shared, storeContenders } from "./contenders.ts";
import { measureLeases } from "./leases.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "4" },
    // Of the parts leases and proxied: requests a second at three gateways together.
    rate: { type: "string", default: "10000" },
    only: { type: "string", default: "held,asked,throttled,latency,calls" },
    contenders: { type: "string", default: storeContenders.map(({ name }) => name).join(",") },
  },
});
const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
const parts = new Set(values.only.split(","));
const chosen = storeContenders.filter(({ name }) => values.contenders.split(",").includes(name));
/** The contender has a core to itself; load, upstream and store share the other. */
const cores = { contender: 1, others: 0 };
const path = "/v2/200b";

interface Scenario extends Limit {
  readonly id: string;
  readonly title: string;
  /** Clients by header, one drawn for each request. */
  readonly clients?: number;
}

const scenarios: readonly Scenario[] = [
  { id: "held", title: "GET, one client far below a high limit", limit: 1_000_000, windowMs: 1000, key: "address" },
  {
    id: "asked",
    title: "GET, 20,000 clients with a limit of 100 a minute each",
    limit: 100,
    windowMs: 60_000,
    key: "header",
    clients: 20_000,
  },
  { id: "throttled", title: "429, one client", limit: 1, windowMs: 3_600_000, key: "address" },
];

interface Stage {
  readonly folder: string;
  readonly upstream: Upstream;
  readonly redis: { readonly port: number; readonly running: Running };
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

const cli = ({ redis }: Stage, ...args: string[]): string =>
  execFileSync("redis-cli", ["-p", String(redis.port), ...args], { encoding: "utf8" });

/** Calls of scripts and other commands that clients have sent, but for those of redis-cli. */
function callsOf(stage: Stage): number {
  const commands = [...cli(stage, "INFO", "commandstats").matchAll(/^cmdstat_(\S+):calls=(\d+)/gm)];
  return commands.reduce((sum, [, name = "", calls]) => sum + (/^evalsha/.test(name) ? Number(calls) : 0), 0);
}

function median(all: readonly number[]): number {
  return all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? Number.NaN;
}

function table(title: string, head: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  process.stdout.write(`### ${title}\n\n${lines.join("\n")}\n\n`);
}

const place = (stage: Stage, limit: Limit) => ({
  ...limit,
  folder: stage.folder,
  upstreamPort: stage.upstream.port,
  redisPort: stage.redis.port,
  core: cores.contender,
});

async function measureLoad(stage: Stage, scenario: Scenario): Promise<void> {
  const { title, clients } = scenario;
  const load = { path, connections: 64, ...(clients === undefined ? {} : { clients }) };
  const started: { name: string; port: number; running: Running }[] = [];
  const measured: { name: string; figures: number[] }[] = [];
  try {
    for (const contender of chosen) {
      started.push({ name: contender.name, ...(await contender.start(place(stage, scenario))) });
      const port = started.at(-1)?.port ?? 0;
      await sleep(1000);
      await wrk(port, { ...load, seconds: 2 }, stage.folder, cores.others);
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const { name, port, running } of started) {
        const [before, storeBefore, callsBefore] = [
          cpuTimeUs(running.pid),
          cpuTimeUs(stage.redis.running.pid),
          callsOf(stage),
        ];
        const result = await wrk(port, { ...load, seconds }, stage.folder, cores.others);
        const per = (total: number): number => total / result.requests;
        const wrong = scenario.id === "throttled" ? result.requests - result.refused : result.refused;
        const cpuUs = per(cpuTimeUs(running.pid) - before);
        const storeUs = per(cpuTimeUs(stage.redis.running.pid) - storeBefore);
        const calls = per(callsOf(stage) - callsBefore);
        const perSecond = result.requests / result.seconds;
        measured.push({
          name,
          figures: [cpuUs, perSecond, result.p50Us / 1000, result.p99Us / 1000, storeUs, calls, wrong + result.errors],
        });
        say(`${scenario.id} round ${round + 1}: ${name} ${cpuUs.toFixed(1)} µs CPU a request, ${wrong} wrong`);
      }
    }
  } finally {
    for (const { running } of started) await running.stop();
  }
  const of = (name: string, figure: number): number[] =>
    measured.filter((one) => one.name === name).map(({ figures }) => figures[figure] ?? Number.NaN);
  const own = of(alone.name, 0);
  const rows = chosen.map(({ name }) => [
    name,
    median(of(name, 0)).toFixed(1),
    median(of(name, 0).map((cpuUs, round) => cpuUs / (own[round] ?? Number.NaN))).toFixed(2),
    median(of(name, 1)).toFixed(0),
    median(of(name, 2)).toFixed(2),
    median(of(name, 3)).toFixed(2),
    median(of(name, 4)).toFixed(1),
    median(of(name, 5)).toFixed(3),
    String(of(name, 6).reduce((sum, errors) => sum + errors, 0)),
  ]);
  const head = [
    "contender",
    "CPU µs/request",
    "× without",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "store µs/request",
    "calls/request",
    "errors",
  ];
  table(title, head, rows);
}

/** At 500 requests a second of one client, so that none waits for another. */
async function measureLatency(stage: Stage): Promise<void> {
  const [held, asked] = [
    { limit: 1_000_000, windowMs: 1000, key: "address" },
    { limit: 999, windowMs: 1000, key: "address" },
  ] as const;
  const all: (readonly [string, StoreContender, Limit])[] = [
    ...chosen.map((one): [string, StoreContender, Limit] => [one.name, one, held]),
    ...(chosen.includes(shared) ? [[`${shared.name}, each request asks`, shared, asked] as const] : []),
  ];
  const started: { name: string; port: number; stop: () => Promise<void> }[] = [];
  const measured: { name: string; p50Us: number; p99Us: number }[] = [];
  const load = { path, perSecond: 500, arrival: "one by one" } as const;
  try {
    for (const [name, contender, limit] of all) {
      const { port, running } = await contender.start(place(stage, limit));
      started.push({ name, port, stop: () => running.stop() });
      await sleep(500);
      await constantRate(port, { ...load, seconds: 2 }, stage.folder, cores.others);
    }
    if (chosen.includes(alone)) started.push({ name: "no proxy", port: stage.upstream.port, stop: async () => {} });
    for (let round = 0; round < rounds; round += 1) {
      for (const { name, port } of started) {
        const sorted = await constantRate(port, { ...load, seconds: seconds + 1 }, stage.folder, cores.others);
        const [p50Us, p99Us] = [quantile(sorted, 0.5), quantile(sorted, 0.99)];
        measured.push({ name, p50Us, p99Us });
        say(`latency round ${round + 1}: ${name} p50 ${p50Us} µs, p99 ${p99Us} µs`);
      }
    }
  } finally {
    for (const { stop } of started) await stop();
  }
  const rows = started.map(({ name }) => {
    const own = measured.filter((one) => one.name === name);
    return [name, String(median(own.map(({ p50Us }) => p50Us))), String(median(own.map(({ p99Us }) => p99Us)))];
  });
  table("Latency at 500 requests per second", ["contender", "p50 µs", "p99 µs"], rows);
}

/** Four gateways with one client each, who all are one to the store, and ask for a fifth more than the limit. */
async function measureCalls(stage: Stage): Promise<void> {
  const rows: string[][] = [];
  for (const limit of [100, 1_000, 10_000]) rows.push(await callsOfGateways(stage, limit));
  table(
    "Calls of four gateways, 20 s of a demand of 1.2 times the limit",
    ["limit", "requests", "admitted", "calls an admission"],
    rows,
  );
}

async function callsOfGateways(stage: Stage, limit: number): Promise<string[]> {
  const gateways: { readonly port: number; readonly running: Running }[] = [];
  try {
    for (let i = 0; i < 4; i += 1) {
      gateways.push(await shared.start(place(stage, { limit, windowMs: 10_000, key: "address" })));
    }
    await sleep(3000);
    const idleBefore = callsOf(stage);
    await sleep(3000);
    const beats = (callsOf(stage) - idleBefore) / 3;
    const [before, beganMs] = [callsOf(stage), performance.now()];
    const perSecond = (limit * 1.2) / 10 / 4;
    const statuses = (await Promise.all(gateways.map(({ port }) => paced(port, perSecond, 20)))).flat();
    const calls = callsOf(stage) - before - (beats * (performance.now() - beganMs)) / 1000;
    const admitted = statuses.filter((status) => status === 200).length;
    const perAdmission = (calls / admitted).toFixed(2);
    say(`calls: limit ${limit}: ${admitted} of ${statuses.length} admitted, ${perAdmission} calls an admission`);
    return [`${limit} in 10 s`, String(statuses.length), String(admitted), perAdmission];
  } finally {
    for (const { running } of gateways) await running.stop();
  }
}

async function paced(port: number, perSecond: number, forSeconds: number): Promise<number[]> {
  const [gapMs, beganMs] = [1000 / perSecond, performance.now()];
  const statuses: Promise<number>[] = [];
  for (let i = 0; i < perSecond * forSeconds; i += 1) {
    const waitMs = beganMs + i * gapMs - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    statuses.push(
      fetch(`http://127.0.0.1:${port}${path}`)
        .then(async (response) => {
          await response.arrayBuffer();
          return response.status;
        })
        // An idle connection was closed as it was used.
        .catch(() => 0),
    );
  }
  return Promise.all(statuses);
}

async function main(): Promise<void> {
  for (const tool of ["wrk", "taskset", "redis-server", "h2load"])
    if (!installed(tool)) throw new Error(`this needs ${tool}`);
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "headgate-bench-"));
  const port = await freePort();
  const upstream = await startUpstream(folder, cores.others);
  const command = ["redis-server", "--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder];
  const stage = { folder, upstream, redis: { port, running: await start(command, { core: cores.others, port }) } };
  const version = /redis_version:(\S+)/.exec(cli(stage, "INFO", "server"))?.[1];
  process.stdout.write(
    `\`npm run bench:store -- ${process.argv.slice(2).join(" ")}\`, ${rounds} rounds of ${seconds} s each, on ${cpus().length} × ${cpus()[0]?.model.trim()}, Linux ${release()}, Node ${process.versions.node}, Redis ${version}.\n\n`,
  );
  try {
    for (const scenario of scenarios) if (parts.has(scenario.id)) await measureLoad(stage, scenario);
    if (parts.has("latency")) await measureLatency(stage);
    if (parts.has("calls")) await measureCalls(stage);
    if (parts.has("leases") || parts.has("proxied")) {
      const [run, calls] = [(...args: string[]) => cli(stage, ...args), () => callsOf(stage)];
      const settings = { rounds, seconds, perSecond: Number(values.rate) };
      const places = { ...stage, cores: { ...cores, all: `0-${cpus().length - 1}` } };
      await measureLeases({ ...places, ...settings, cli: run, calls, say, table }, parts);
    }
  } finally {
    await stage.redis.running.stop();
    await upstream.running.stop();
    rmSync(folder, { recursive: true });
  }
}

await main();
