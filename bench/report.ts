// A run as Markdown: the goals, a table for each scenario with medians over the rounds, one chart.
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, release } from "node:os";
import { join } from "node:path";
import { allocationTable, topAllocations } from "./allocations/report.ts";
import { chart } from "./chart.ts";
import { mebibytes, median, namesOf, shown, table } from "./figures.ts";
import { goalsTable } from "./goals.ts";
import { bytesOfOne, idleKinds } from "./idle.ts";
import type { Arrival } from "./load.ts";
import type { Results } from "./results.ts";
import type { Measurement } from "./runs.ts";
import { scenarios } from "./scenarios.ts";

const docs = join(import.meta.dirname, "../docs");
const begin = "<!-- results: npm run bench -- --write -->\n";
const end = "<!-- end of results -->\n";

/** To standard output and, if asked to, between the marks of two pages: the goals, and the tables behind them. */
export function write(results: Results, toDocs: boolean): void {
  const tables = [...scenarioTables(results), ...otherTables(results)];
  const goals = [machine(results), goalsTable(results)];
  process.stdout.write([...goals, ...tables, ...topAllocations(results.allocations)].join("\n"));
  if (!toDocs) return;
  writeBetweenMarks("benchmarks.md", goals.join("\n"));
  writeBetweenMarks("inside/benchmarks-results.md", [machine(results), ...tables].join("\n"));
  writeFileSync(join(docs, "benchmarks.svg"), chart(barsOf(results)));
}

function writeBetweenMarks(name: string, text: string): void {
  const page = join(docs, name);
  const old = readFileSync(page, "utf8");
  writeFileSync(page, `${old.slice(0, old.indexOf(begin) + begin.length)}${text}\n${old.slice(old.indexOf(end))}`);
}

function barsOf({ versions, measurements }: Results): { label: string; value: number }[] {
  const ofGet = measurements.filter(({ scenario }) => scenario === "get-64");
  return versions.map(({ name }) => ({
    label: name,
    value: median(ofGet.filter(({ contender }) => contender === name).map(cpuUs)),
  }));
}

function cpuUs({ userUs, systemUs }: Measurement): number {
  return userUs + systemUs;
}

function machine({ settings, versions, remarks }: Results): string {
  const { command, date, rounds, seconds } = settings;
  const processor = `${cpus().length} × ${cpus()[0]?.model.trim() ?? "unknown"}`;
  const all = versions.map(
    ({ name, version, lacks }) => `- ${name} ${version}${lacks === "" ? "" : ` (lacks ${lacks})`}`,
  );
  return `\`${command}\` on ${date}, ${rounds} rounds of ${seconds} s each, on ${processor}, Linux ${release()}, Node ${process.versions.node}.
${remarks.join(" ")}

${all.join("\n")}
`;
}

function scenarioTables({ measurements }: Results): string[] {
  const head =
    "| contender | CPU µs/request | user | system | requests/s | p50 ms | p99 ms | p99.9 ms | errors | memory |";
  return scenarios.flatMap(({ id, title }) => {
    const ofScenario = measurements.filter(({ scenario }) => scenario === id);
    return table(
      title,
      head,
      namesOf(ofScenario).map((name) =>
        scenarioRow(
          name,
          ofScenario.filter(({ contender }) => contender === name),
        ),
      ),
    );
  });
}

function scenarioRow(name: string, all: readonly Measurement[]): string {
  const of = (figure: (one: Measurement) => number, digits: number): string => shown(median(all.map(figure)), digits);
  const cells = [
    of(cpuUs, 1),
    of(({ userUs }) => userUs, 1),
    of(({ systemUs }) => systemUs, 1),
    of(({ requests, seconds }) => requests / seconds, 0),
    of(({ p50Us }) => p50Us / 1000, 2),
    of(({ p99Us }) => p99Us / 1000, 2),
    of(({ p999Us }) => p999Us / 1000, 2),
    all.reduce((sum, { errors }) => sum + errors, 0),
    mebibytes(median(all.map(({ memoryBytes }) => memoryBytes))),
  ];
  return `| ${name} | ${cells.join(" | ")} |`;
}

function otherTables({
  latencies,
  tails,
  footprints,
  idle,
  asked,
  allocations,
  decisions,
  reuse,
  settings,
}: Results): string[] {
  const rowsOf = <One extends { readonly contender: string }>(
    all: readonly One[],
    ...cells: ((of: (figure: (one: One) => number) => number) => string)[]
  ): string[] =>
    namesOf(all).map((name) => {
      const own = all.filter(({ contender }) => contender === name);
      return `| ${[name, ...cells.map((cell) => cell((figure) => median(own.map(figure))))].join(" | ")} |`;
    });
  const latencyTable = (wanted: Arrival): string[] =>
    table(
      `Latency at ${settings.perSecond} requests per second, ${wanted}`,
      "| contender | p50 µs | p99 µs |",
      rowsOf(
        latencies.filter(({ arrival }) => arrival === wanted),
        (of) =>
          shown(
            of(({ p50Us }) => p50Us),
            0,
          ),
        (of) =>
          shown(
            of(({ p99Us }) => p99Us),
            0,
          ),
      ),
    );
  const tailRows = rowsOf(
    tails,
    (of) =>
      shown(
        of(({ p99Us }) => p99Us),
        0,
      ),
    (of) =>
      shown(
        of(({ p999Us }) => p999Us),
        0,
      ),
  );
  const footprintRows = rowsOf(
    footprints,
    (of) =>
      shown(
        of(({ startMs }) => startMs),
        0,
      ),
    (of) => mebibytes(of(({ idleBytes }) => idleBytes)),
  );
  const idleTables = idleKinds.flatMap(({ kind, title }) =>
    table(
      title,
      "| contender | resident before | with them | bytes each |",
      rowsOf(
        idle.filter((one) => one.kind === kind),
        (of) => mebibytes(of(({ emptyBytes }) => emptyBytes)),
        (of) => mebibytes(of(({ fullBytes }) => fullBytes)),
        (of) => shown(of(bytesOfOne), 0),
      ),
    ),
  );
  const askedRows = rowsOf(
    asked.map((one) => ({ ...one, contender: one.how })),
    (of) =>
      shown(
        of((one) => one.cpuUs),
        1,
      ),
    (of) =>
      shown(
        of((one) => one.perSecond),
        0,
      ),
  );
  const decisionRows = decisions.map(
    ({ store, clients, decisionNs, bytesPerClient }) =>
      `| ${clients} | ${store} | ${decisionNs.toFixed(0)} | ${shown(clients < 10_000 ? Number.NaN : bytesPerClient, 0)} |`,
  );
  const reuseRows = reuse.map(
    ({ contender, method, perSecond, requests, connections }) =>
      `| ${contender} | ${method} | ${perSecond} | ${requests} | ${connections} | ${shown((100 * (requests - connections)) / requests, 2)} % |`,
  );
  return [
    ...latencyTable("one by one"),
    ...latencyTable("ten at the same moment"),
    ...table(
      `Latency at half of full load (${tails[0]?.perSecond} requests per second), one by one`,
      "| contender | p99 µs | p99.9 µs |",
      tailRows,
    ),
    ...table(
      "Connections to the upstream, at constant rates",
      "| contender | method | a second | requests | connections opened | on one used before |",
      reuseRows,
    ),
    ...table("Start and idle", "| contender | first answer ms | resident |", footprintRows),
    ...idleTables,
    ...table("Checks that an ingress asks for", "| request | CPU µs | a second |", askedRows),
    ...allocationTable(allocations),
    ...table("Decisions", "| clients | store | ns | bytes a client |", decisionRows),
  ];
}
