// `npm run bench`: everybody in one run on one machine, in interleaved rounds, each contender on a core of its own, load
// and upstream on another. Prints the tables; with --write they go to docs/benchmarks.md and docs/inside/. Nothing here is
// a test.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { measureAllocations } from "./allocations/allocations.ts";
import { measureAsked } from "./asked.ts";
import { makeCertificate } from "./certificate.ts";
import { contenders, headgateOf } from "./contenders.ts";
import { allStores, comparedStores, measureDecisions } from "./decisions.ts";
import { installed } from "./processes.ts";
import { MachineWatch } from "./quiet.ts";
import { write } from "./report.ts";
import type { Results } from "./results.ts";
import { measureReuse } from "./reuse.ts";
import {
  measureFootprints,
  measureIdleConnections,
  measureLatency,
  measureScenario,
  measureTails,
  type Run,
} from "./runs.ts";
import { scenarios } from "./scenarios.ts";
import { startUpstream } from "./upstream.ts";

const { values } = parseArgs({
  options: {
    // Exactly what the table of goals needs.
    goals: { type: "boolean", default: false },
    rounds: { type: "string", default: "5" },
    seconds: { type: "string" },
    scenarios: { type: "string" },
    // Names, or "all".
    contenders: { type: "string", default: "Headgate,nginx limit_req,HAProxy stick-table" },
    only: { type: "string", default: "footprint,decisions,asked,allocations,idle,latency,tails,reuse,load" },
    // Another checkout that has been built, such as the state before a change, measured beside this one.
    against: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const outsideTheGoals = ["get-1", "get-512"];
const scenarioIds = [...scenarios.map(({ id }) => id), "check"].filter(
  (id) => !values.goals || !outsideTheGoals.includes(id),
);
const rounds = Number(values.rounds);
const seconds = Number(values.seconds ?? (values.goals ? 2 : 4));
const parts = new Set(values.only.split(","));
const chosen = new Set(values.scenarios?.split(",") ?? scenarioIds);
const cores = { contender: 1, load: 0 };

const against = values.against === undefined ? undefined : resolve(values.against);
/** Those whose allocations are measured. */
const checkouts = new Map([["Headgate", join(import.meta.dirname, "..")]]);
if (against !== undefined) checkouts.set("Headgate, the other", against);
const others = against === undefined ? [] : [headgateOf(against, "Headgate, the other")];
const names = values.contenders.split(",");
const wanted = [...others, ...contenders.filter(({ name }) => values.contenders === "all" || names.includes(name))];
const present = wanted.filter(({ version }) => version !== null);

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

async function measure(run: Run, results: Results): Promise<void> {
  const { folder, upstream } = run;
  if (parts.has("footprint")) results.footprints.push(...(await measureFootprints(run)));
  if (parts.has("decisions")) {
    const stores = values.goals ? comparedStores : allStores;
    results.decisions.push(...(await measureDecisions([1_000, 100_000, 1_000_000], stores, cores.contender)));
    run.watch.look("during the decisions");
  }
  if (parts.has("asked")) {
    results.asked.push(...(await measureAsked({ folder, rounds, seconds, cores, upstreamPort: upstream.port })));
    run.watch.look("during the checks that an ingress asks for");
  }
  if (parts.has("allocations")) {
    const place = { wanted: chosen, folder, upstreamPort: upstream.port, say };
    results.allocations.push(...(await measureAllocations(checkouts, place)));
  }
  if (parts.has("idle")) results.idle.push(...(await measureIdleConnections(run)));
  // What others did meanwhile says nothing about figures that do not depend on it.
  run.watch.forget();
  if (parts.has("latency")) results.latencies.push(...(await measureLatency(run)));
  if (parts.has("tails")) results.tails.push(...(await measureTails(run)));
  if (parts.has("reuse")) results.reuse.push(...(await measureReuse(run)));
  if (parts.has("load")) {
    for (const scenario of scenarios.filter(({ id }) => chosen.has(id))) {
      results.measurements.push(...(await measureScenario(run, scenario)));
    }
  }
}

async function main(): Promise<void> {
  const beganMs = performance.now();
  for (const { name } of wanted.filter(({ version }) => version === null)) say(`left out: ${name} is not installed`);
  for (const tool of ["wrk", "taskset"]) if (!installed(tool)) throw new Error(`the bench needs ${tool}`);
  // In memory, where there is such a place: access logs must not measure a disk.
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "headgate-bench-"));
  const watch = new MachineWatch(say);
  await watch.begin();
  const certificate = makeCertificate(folder);
  const upstream = await startUpstream(folder, cores.load, certificate);
  const run: Run = { present, rounds, seconds, perSecond: 500, cores, upstream, certificate, folder, watch, say };
  const results: Results = {
    versions: present.map(({ name, version, lacks }) => ({ name, version: version ?? "", lacks })),
    settings: {
      rounds,
      seconds,
      perSecond: run.perSecond,
      command: `npm run bench -- ${process.argv.slice(2).join(" ")}`.trim(),
      date: new Date().toISOString().slice(0, 10),
    },
    measurements: [],
    latencies: [],
    tails: [],
    reuse: [],
    footprints: [],
    idle: [],
    decisions: [],
    asked: [],
    allocations: [],
    remarks: [],
  };
  try {
    await measure(run, results);
    const minutes = (performance.now() - beganMs) / 60_000;
    results.remarks.push(`The run took ${minutes.toFixed(0)} minutes.`, watch.summary());
    write(results, values.write);
  } finally {
    await upstream.running.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
