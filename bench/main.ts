// `npm run bench`: everybody in one run on one machine, in interleaved rounds, each contender on a core of its own, load
// and upstream on another. Prints the tables; with --write they go to docs/benchmarks.md. Nothing here is a test.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { measureAsked } from "./asked.ts";
import { type Contender, contenders, headgateOf, type Mode, type Started } from "./contenders.ts";
import { measureDecisions } from "./decisions.ts";
import { constantRate, wrk } from "./load.ts";
import { cpuTimeUs, installed, residentBytes } from "./processes.ts";
import { type AddedLatency, type Footprint, type Measurement, type Results, write } from "./report.ts";
import { type Scenario, scenarios, verifyAnswers } from "./scenarios.ts";
import { startUpstream, type Upstream } from "./upstream.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "4" },
    scenarios: { type: "string", default: scenarios.map(({ id }) => id).join(",") },
    contenders: { type: "string", default: contenders.map(({ name }) => name).join(",") },
    only: { type: "string", default: "load,latency,decisions,asked,footprint" },
    // Another checkout that has been built, such as the state before a change, measured beside this one.
    against: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
const parts = new Set(values.only.split(","));
/** The one being measured has this core to itself; load and upstream share the other. */
const cores = { contender: 1, load: 0 };
const allCores = `${cores.load},${cores.contender}`;
const perSecond = 500;

const others = values.against === undefined ? [] : [headgateOf(values.against, "Headgate, the other")];
const wanted = [...others, ...contenders.filter(({ name }) => values.contenders.split(",").includes(name))];
const present = wanted.filter(({ version }) => version !== null);
const chosen = scenarios.filter(({ id }) => values.scenarios.split(",").includes(id));

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

async function startContender(contender: Contender, mode: Mode, upstream: Upstream, folder: string): Promise<Started> {
  const own = join(folder, `${contender.name}-${mode}`.replaceAll(/\W+/g, "-"));
  mkdirSync(own, { recursive: true });
  return contender.start({ mode, upstreamPort: upstream.port, folder: own, core: cores.contender, allCores });
}

/** All contenders run at once and idle but for the one whose turn it is; then the next round begins. */
async function measureScenario(scenario: Scenario, upstream: Upstream, folder: string): Promise<Measurement[]> {
  const able = present.filter(({ modes }) => modes.includes(scenario.mode));
  const started: { contender: Contender; place: Started }[] = [];
  const measured: Measurement[] = [];
  try {
    for (const contender of able) {
      const place = await startContender(contender, scenario.mode, upstream, folder);
      started.push({ contender, place });
      await verifyAnswers(place.port, contender, scenario);
      // Warms it up, the compiler above all.
      await wrk(place.port, { ...scenario.load, seconds: 2 }, folder, cores.load);
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const { contender, place } of started) {
        const before = cpuTimeUs(place.running.pid);
        const result = await wrk(place.port, { ...scenario.load, seconds }, folder, cores.load);
        const cpuUs = (cpuTimeUs(place.running.pid) - before) / result.requests;
        const wrong = scenario.mode === "throttled" ? result.requests - result.refused : result.refused;
        const memoryBytes = residentBytes(place.running.pid);
        measured.push({
          contender: contender.name,
          scenario: scenario.id,
          round,
          cpuUs,
          memoryBytes,
          ...result,
          errors: result.errors + wrong,
        });
        say(`${scenario.id} round ${round + 1}: ${contender.name} ${cpuUs.toFixed(1)} µs CPU a request`);
        await sleep(200);
      }
      if (scenario.mode === "open") {
        const result = await wrk(upstream.port, { ...scenario.load, seconds: 1 }, folder, cores.load);
        const direct = { contender: "no proxy", cpuUs: Number.NaN, memoryBytes: Number.NaN };
        measured.push({ ...direct, scenario: scenario.id, round, ...result });
      }
    }
  } finally {
    for (const { place } of started) await place.running.stop();
  }
  return measured;
}

async function measureLatency(upstream: Upstream, folder: string): Promise<AddedLatency[]> {
  if (!installed("h2load")) {
    say("left out: latency at a constant rate, h2load is not installed");
    return [];
  }
  const load = { path: "/v2/200b", perSecond, seconds: 6 };
  const started: { name: string; port: number; stop: () => Promise<void> }[] = [];
  const results: AddedLatency[] = [];
  try {
    for (const contender of present) {
      const { port, running } = await startContender(contender, "open", upstream, folder);
      started.push({ name: contender.name, port, stop: () => running.stop() });
      await wrk(port, { path: load.path, connections: 16, seconds: 2 }, folder, cores.load);
    }
    const all = [...started, { name: "no proxy", port: upstream.port, stop: async () => {} }];
    for (let round = 0; round < rounds; round += 1) {
      for (const { name, port } of all) {
        const sorted = await constantRate(port, load, folder, cores.load);
        const at = (share: number): number => sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
        results.push({ contender: name, round, p50Us: at(0.5), p99Us: at(0.99), requests: sorted.length });
        say(`latency round ${round + 1}: ${name} p50 ${at(0.5)} µs, p99 ${at(0.99)} µs`);
      }
    }
  } finally {
    for (const { stop } of started) await stop();
  }
  return results;
}

/** From nothing to the first answer, and what it weighs before any load. */
async function measureFootprints(upstream: Upstream, folder: string): Promise<Footprint[]> {
  const results: Footprint[] = [];
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of present) {
      const beganMs = performance.now();
      const { port, running } = await startContender(contender, "open", upstream, folder);
      await (await fetch(`http://127.0.0.1:${port}/v2/200b`)).arrayBuffer();
      const startMs = performance.now() - beganMs;
      await sleep(2000);
      results.push({ contender: contender.name, round, startMs, idleBytes: residentBytes(running.pid) });
      say(`start round ${round + 1}: ${contender.name} ${startMs.toFixed(0)} ms`);
      await running.stop();
    }
  }
  return results;
}

async function main(): Promise<void> {
  for (const { name } of wanted.filter(({ version }) => version === null)) say(`left out: ${name} is not installed`);
  for (const tool of ["wrk", "taskset"]) if (!installed(tool)) throw new Error(`the bench needs ${tool}`);
  // In memory, where there is such a place: access logs must not measure a disk.
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "headgate-bench-"));
  const upstream = await startUpstream(folder, cores.load);
  const results: Results = {
    versions: present.map(({ name, version, lacks }) => ({ name, version: version ?? "", lacks })),
    settings: { rounds, seconds, perSecond, command: `npm run bench -- ${process.argv.slice(2).join(" ")}`.trim() },
    measurements: [],
    latencies: [],
    footprints: [],
    decisions: [],
    asked: [],
  };
  try {
    if (parts.has("footprint")) results.footprints.push(...(await measureFootprints(upstream, folder)));
    if (parts.has("decisions")) {
      results.decisions.push(...(await measureDecisions([1_000, 100_000, 1_000_000], cores.contender)));
    }
    if (parts.has("asked")) results.asked.push(...(await measureAsked({ folder, rounds, seconds, cores })));
    if (parts.has("latency")) results.latencies.push(...(await measureLatency(upstream, folder)));
    if (parts.has("load")) {
      for (const scenario of chosen) results.measurements.push(...(await measureScenario(scenario, upstream, folder)));
    }
    write(results, values.write);
  } finally {
    await upstream.running.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
