// Figures to tables: medians over the rounds, goals as ratios taken within each round, one chart. Written as Markdown.
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, release } from "node:os";
import { join } from "node:path";
import type { AskedResult } from "./asked.ts";
import { chart } from "./chart.ts";
import type { DecisionResult } from "./decisions.ts";
import type { LoadResult } from "./load.ts";
import { scenarios } from "./scenarios.ts";

export interface Measurement extends LoadResult {
  readonly contender: string;
  readonly scenario: string;
  readonly round: number;
  /** CPU time of the process and its children for each request, in microseconds. */
  readonly cpuUs: number;
  readonly memoryBytes: number;
}

export interface AddedLatency {
  readonly contender: string;
  readonly round: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly requests: number;
}

export interface Footprint {
  readonly contender: string;
  readonly round: number;
  readonly startMs: number;
  readonly idleBytes: number;
}

export interface Results {
  readonly versions: { readonly name: string; readonly version: string; readonly lacks: string }[];
  readonly settings: {
    readonly rounds: number;
    readonly seconds: number;
    readonly perSecond: number;
    readonly command: string;
  };
  readonly measurements: Measurement[];
  readonly latencies: AddedLatency[];
  readonly footprints: Footprint[];
  readonly decisions: DecisionResult[];
  readonly asked: AskedResult[];
}

const docs = join(import.meta.dirname, "../docs");
const begin = "<!-- results: npm run bench -- --write -->\n";
const end = "<!-- end of results -->\n";

/** To standard output, and between the marks in docs/benchmarks.md if asked to. */
export function write(results: Results, toDocs: boolean): void {
  const text = [machine(results), goals(results), ...scenarioTables(results), ...otherTables(results)].join("\n");
  process.stdout.write(text);
  if (!toDocs) return;
  const page = join(docs, "benchmarks.md");
  const old = readFileSync(page, "utf8");
  writeFileSync(page, old.slice(0, old.indexOf(begin) + begin.length) + text + old.slice(old.indexOf(end)));
  writeFileSync(join(docs, "benchmarks.svg"), chart(barsOf(results)));
}

function barsOf(results: Results): { label: string; value: number }[] {
  return results.versions.map(({ name }) => ({
    label: name,
    value: median(select(results, "get-64", name).map(({ cpuUs }) => cpuUs)),
  }));
}

function machine({ settings, versions }: Results): string {
  const all = versions.map(
    ({ name, version, lacks }) => `${name} ${version}${lacks === "" ? "" : ` (lacks ${lacks})`}`,
  );
  return `\`${settings.command}\`, ${settings.rounds} rounds of ${settings.seconds} s each, on ${cpus().length} × ${
    cpus()[0]?.model.trim() ?? "unknown"
  }, Linux ${release()}, Node ${process.versions.node}.

${all.map((line) => `- ${line}`).join("\n")}
`;
}

interface Goal {
  readonly what: string;
  readonly goal: string;
  readonly found: (results: Results) => string;
}

const cpuRatio =
  (scenario: string, peer: string) =>
  (results: Results): string =>
    ratio(results, (name, round) => cpuOf(results, scenario, name, round), peer);

const goalsOfTheProject: readonly Goal[] = [
  { what: "CPU of a proxied GET, beside nginx", goal: "≤ 2.5", found: cpuRatio("get-64", "nginx limit_req") },
  { what: "… beside the stock Fastify pair", goal: "≤ 0.45", found: cpuRatio("get-64", "stock Fastify pair") },
  { what: "… beside Caddy", goal: "≤ 0.5", found: cpuRatio("get-64", "Caddy reverse_proxy") },
  { what: "… with the access log, beside without", goal: "≤ 1.15", found: loggedRatio },
  { what: "CPU of a 429, beside nginx", goal: "≤ 1.5", found: cpuRatio("throttled", "nginx limit_req") },
  { what: "p99 added at a constant rate, beside HAProxy's", goal: "≤ 1.5", found: addedRatio },
  {
    what: "CPU of 20 KiB, beside the stock Fastify pair",
    goal: "≤ 0.6",
    found: cpuRatio("get-20k", "stock Fastify pair"),
  },
  {
    what: "CPU of 1 MiB, beside the stock Fastify pair",
    goal: "≤ 0.6",
    found: cpuRatio("get-1m", "stock Fastify pair"),
  },
  {
    what: "CPU of a POST, beside the stock Fastify pair",
    goal: "≤ 0.6",
    found: cpuRatio("post-4k", "stock Fastify pair"),
  },
  {
    what: "a decision among 1,000 clients",
    goal: "≤ 100 ns",
    found: (all) => `${shown(ownDecision(all, 1_000)?.decisionNs ?? Number.NaN, 0)} ns`,
  },
  {
    what: "a decision among 100,000 clients, beside the fastest peer's",
    goal: "≤ 0.4",
    found: (all) => shown(decisionRatio(all, 100_000), 2),
  },
  {
    what: "a decision among 1,000,000 clients, beside the fastest peer's",
    goal: "≤ 0.4",
    found: (all) => shown(decisionRatio(all, 1_000_000), 2),
  },
  {
    what: "memory of a client with one request",
    goal: "≤ 110 bytes",
    found: (all) => `${shown(ownDecision(all)?.bytesPerClient ?? Number.NaN, 0)} bytes`,
  },
  {
    what: "start to first answer",
    goal: "≤ 250 ms",
    found: (all) => `${shown(median(ownFootprints(all).map(({ startMs }) => startMs)), 0)} ms`,
  },
  {
    what: "idle resident memory",
    goal: "≤ 70 MiB",
    found: (all) => mebibytes(median(ownFootprints(all).map(({ idleBytes }) => idleBytes))),
  },
];

function goals(results: Results): string {
  const rows = goalsOfTheProject.map(({ what, goal, found }) => `| ${what} | ${goal} | ${found(results)} |`);
  return ["| measure | goal | found |", "|---|---|---|", ...rows, ""].join("\n");
}

function scenarioTables(results: Results): string[] {
  return scenarios
    .filter(({ id }) => results.measurements.some(({ scenario }) => scenario === id))
    .map(({ id, title }) => {
      const names = [...results.versions.map(({ name }) => name), "no proxy"];
      const rows = names.flatMap((name) => {
        const all = select(results, id, name);
        if (all.length === 0) return [];
        const of = (figure: (one: Measurement) => number): number => median(all.map(figure));
        const cells = [
          shown(
            of(({ cpuUs }) => cpuUs),
            1,
          ),
          shown(
            of(({ requests, seconds }) => requests / seconds),
            0,
          ),
          ...[of(({ p50Us }) => p50Us), of(({ p99Us }) => p99Us), of(({ p999Us }) => p999Us)].map((us) =>
            shown(us / 1000, 2),
          ),
          String(all.reduce((sum, { errors }) => sum + errors, 0)),
          mebibytes(of(({ memoryBytes }) => memoryBytes)),
        ];
        return [`| ${name} | ${cells.join(" | ")} |`];
      });
      const head = "| contender | CPU µs/request | requests/s | p50 ms | p99 ms | p99.9 ms | errors | memory |";
      return [`### ${title}`, "", head, "|---|---|---|---|---|---|---|---|", ...rows, ""].join("\n");
    });
}

function otherTables(results: Results): string[] {
  const names = [...results.versions.map(({ name }) => name), "no proxy"];
  const latency = names.flatMap((name) => {
    const all = results.latencies.filter(({ contender }) => contender === name);
    if (all.length === 0) return [];
    return [`| ${name} | ${median(all.map(({ p50Us }) => p50Us))} | ${median(all.map(({ p99Us }) => p99Us))} |`];
  });
  const footprint = results.versions.map(({ name }) => {
    const all = results.footprints.filter(({ contender }) => contender === name);
    const startMs = median(all.map((one) => one.startMs));
    return `| ${name} | ${shown(startMs, 0)} | ${mebibytes(median(all.map(({ idleBytes }) => idleBytes)))} |`;
  });
  const decisions = results.decisions.map(
    ({ store, clients, decisionNs, bytesPerClient }) =>
      `| ${clients} | ${store} | ${decisionNs.toFixed(0)} | ${shown(clients < 10_000 ? Number.NaN : bytesPerClient, 0)} |`,
  );
  const table = (title: string, head: string, rows: string[]): string[] =>
    rows.length === 0 ? [] : [[`### ${title}`, "", head, head.replaceAll(/[^|]+/g, "---"), ...rows, ""].join("\n")];
  const { perSecond } = results.settings;
  return [
    ...table(`Latency at ${perSecond} requests per second`, "| contender | p50 µs | p99 µs |", latency),
    ...table(
      "Start and idle",
      "| contender | first answer ms | resident |",
      results.footprints.length === 0 ? [] : footprint,
    ),
    ...table("Decisions that an ingress asks for", "| over | CPU µs | a second |", askedRows(results)),
    ...table("Decisions", "| clients | store | ns | bytes a client |", decisions),
  ];
}

function askedRows({ asked, measurements }: Results): string[] {
  const rows = [...new Set(asked.map(({ how }) => how))].map((how) => {
    const all = asked.filter((one) => one.how === how);
    const [cpuUs, perSecond] = [median(all.map((one) => one.cpuUs)), median(all.map((one) => one.perSecond))];
    return `| ${how} | ${shown(cpuUs, 1)} | ${shown(perSecond, 0)} |`;
  });
  const own = measurements.filter(({ contender, scenario }) => contender === "Headgate" && scenario === "get-64");
  if (rows.length === 0 || own.length === 0) return rows;
  const perSecond = median(own.map(({ requests, seconds }) => requests / seconds));
  return [
    ...rows,
    `| the proxy itself | ${shown(median(own.map(({ cpuUs }) => cpuUs)), 1)} | ${shown(perSecond, 0)} |`,
  ];
}

function loggedRatio(results: Results): string {
  const rounds = new Set(results.measurements.map(({ round }) => round));
  const ratios = [...rounds].map(
    (round) => cpuOf(results, "get-64-logged", "Headgate", round) / cpuOf(results, "get-64", "Headgate", round),
  );
  return shown(median(ratios), 2);
}

function addedRatio(results: Results): string {
  const p99 = (name: string, round: number): number =>
    results.latencies.find((one) => one.contender === name && one.round === round)?.p99Us ?? Number.NaN;
  return ratio(results, (name, round) => p99(name, round) - p99("no proxy", round), "HAProxy stick-table");
}

/** Headgate's figure by the peer's, each of the same round; the median of the rounds. */
function ratio(results: Results, figure: (name: string, round: number) => number, peer: string): string {
  const rounds = Array.from({ length: results.settings.rounds }, (_, round) => round);
  return shown(median(rounds.map((round) => figure("Headgate", round) / figure(peer, round))), 2);
}

function cpuOf(results: Results, scenario: string, name: string, round: number): number {
  return select(results, scenario, name).find((one) => one.round === round)?.cpuUs ?? Number.NaN;
}

function select(results: Results, id: string, name: string): Measurement[] {
  return results.measurements.filter(({ contender, scenario }) => contender === name && scenario === id);
}

function ownDecision({ decisions }: Results, count = 100_000): DecisionResult | undefined {
  return decisions.find(({ store, clients }) => store === "Headgate" && clients === count);
}

/** Of a key that the connection knows. */
function decisionRatio(results: Results, count: number): number {
  const peers = results.decisions.filter(({ store, clients }) => clients === count && !store.startsWith("Headgate"));
  return (ownDecision(results, count)?.decisionNs ?? Number.NaN) / Math.min(...peers.map((peer) => peer.decisionNs));
}

function ownFootprints({ footprints }: Results): Footprint[] {
  return footprints.filter(({ contender }) => contender === "Headgate");
}

function median(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

function shown(value: number, digits: number): string {
  return Number.isNaN(value) ? "–" : value.toFixed(digits);
}

function mebibytes(bytes: number): string {
  return Number.isNaN(bytes) ? "–" : `${(bytes / 1024 / 1024).toFixed(0)} MiB`;
}
