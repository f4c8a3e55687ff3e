// The contenders side by side in interleaved rounds: under full load, at a constant rate, at a start, and with idle
// connections.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Certificate } from "./certificate.ts";
import { bareTls, type Contender, type Mode, type Started } from "./contenders.ts";
import { quantile } from "./figures.ts";
import { bytesOfOne, type IdleResult, idleKinds, measureIdle } from "./idle.ts";
import { type Arrival, constantRate, fullLoad, type LoadResult, wrk } from "./load.ts";
import { cpuTime, installed, residentBytes } from "./processes.ts";
import type { MachineWatch } from "./quiet.ts";
import { type Scenario, verifyAnswers } from "./scenarios.ts";
import type { Upstream } from "./upstream.ts";

export interface Run {
  readonly present: readonly Contender[];
  readonly rounds: number;
  readonly seconds: number;
  /** At a constant rate. */
  readonly perSecond: number;
  /** The one being measured has a core to itself; load and upstream share the other. */
  readonly cores: { readonly contender: number; readonly load: number };
  readonly upstream: Upstream;
  readonly certificate: Certificate | undefined;
  readonly folder: string;
  readonly watch: MachineWatch;
  readonly say: (text: string) => void;
}

export interface Measurement extends LoadResult {
  readonly contender: string;
  readonly scenario: string;
  readonly round: number;
  /** CPU time of the process and its children for each request, in microseconds. */
  readonly userUs: number;
  readonly systemUs: number;
  readonly memoryBytes: number;
}

export interface AddedLatency {
  readonly arrival: Arrival;
  readonly contender: string;
  readonly round: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly requests: number;
}

/** Of all responses at half of what Headgate can do, at most. */
export interface Tail {
  readonly contender: string;
  readonly round: number;
  readonly perSecond: number;
  readonly p99Us: number;
  readonly p999Us: number;
}

export interface Footprint {
  readonly contender: string;
  readonly round: number;
  readonly startMs: number;
  /** Without requests, but probed and scraped where there is something to probe. */
  readonly idleBytes: number;
}

/** Of Headgate in the same rounds as with its access log. */
export const unlogged = "Headgate without the log";

export async function startContender(run: Run, contender: Contender, mode: Mode): Promise<Started> {
  const { cores, upstream, certificate } = run;
  const folder = join(run.folder, `${contender.name}-${mode}`.replaceAll(/\W+/g, "-"));
  mkdirSync(folder, { recursive: true });
  const allCores = `${cores.load},${cores.contender}`;
  const upstreamPort = mode === "tls-upstream" ? upstream.tlsPort : upstream.port;
  const place = { mode, upstreamPort, certificate, folder, core: cores.contender, allCores };
  return contender.start(place);
}

/** All contenders run at once and idle but for the one whose turn it is; then the next round begins. */
export async function measureScenario(run: Run, scenario: Scenario): Promise<Measurement[]> {
  const { rounds, seconds, cores, upstream, folder, say } = run;
  const { mode, load } = scenario;
  const tool =
    (mode === "tls" || mode === "tls-upstream") && run.certificate === undefined
      ? "openssl"
      : load.streams !== undefined && !installed("h2load")
        ? "h2load"
        : null;
  if (tool !== null) {
    say(`left out: ${scenario.title}, ${tool} is not installed`);
    return [];
  }
  const able = run.present
    .filter(({ modes }) => modes.includes(scenario.mode))
    .flatMap((contender) => [
      { contender, mode: scenario.mode },
      ...(scenario.mode === "logged" && contender.name === "Headgate"
        ? [{ contender: { ...contender, name: unlogged }, mode: "open" as const }]
        : []),
    ]);
  const started: { contender: Contender; place: Started }[] = [];
  const measured: Measurement[] = [];
  try {
    for (const { contender, mode } of able) {
      const place = await startContender(run, contender, mode);
      started.push({ contender, place });
      await verifyAnswers(place.port, contender, scenario);
      await warmUp(run, scenario, place);
    }
    for (let round = 0; round < rounds; round += 1) {
      for (const { contender, place } of started) {
        const one = await measureOnce(run, scenario, place);
        measured.push({ contender: contender.name, scenario: scenario.id, round, ...one });
        const cpuUs = (one.userUs + one.systemUs).toFixed(1);
        say(`${scenario.id} round ${round + 1}: ${contender.name} ${cpuUs} µs CPU a request`);
        await sleep(200);
      }
      if (scenario.mode === "open" && scenario.isShort !== true) {
        const result = await wrk(
          upstream.port,
          { ...scenario.load, seconds: Math.min(seconds, 1) },
          folder,
          cores.load,
        );
        const none = { userUs: Number.NaN, systemUs: Number.NaN, memoryBytes: Number.NaN };
        measured.push({ contender: "no proxy", scenario: scenario.id, round, ...none, ...result });
      }
      run.watch.look(`in round ${round + 1} of ${scenario.id}`);
    }
  } finally {
    for (const { place } of started) await place.running.stop();
  }
  return measured;
}

/** Until the compiler has seen enough: a number of requests rather than seconds, which say little on a slow machine. */
async function warmUp({ folder, cores }: Run, { load }: Scenario, { port }: Started): Promise<void> {
  let requests = 0;
  for (let second = 0; second < 8 && (second < 2 || requests < 60_000); second += 2) {
    requests += (await fullLoad(port, { ...load, seconds: 2 }, folder, cores.load)).requests;
  }
}

async function measureOnce(
  { seconds, cores, folder }: Run,
  { mode, load, isShort }: Scenario,
  { port, running }: Started,
): Promise<Omit<Measurement, "contender" | "scenario" | "round">> {
  const before = cpuTime(running.pid);
  const result = await fullLoad(port, { ...load, seconds: isShort === true ? 1 : seconds }, folder, cores.load);
  const after = cpuTime(running.pid);
  const wrong = mode === "throttled" ? result.requests - result.refused : result.refused;
  // On a machine that is far too busy there may be none.
  const requests = result.requests === 0 ? Number.NaN : result.requests;
  return {
    ...result,
    errors: result.errors + wrong,
    userUs: (after.userUs - before.userUs) / requests,
    systemUs: (after.systemUs - before.systemUs) / requests,
    memoryBytes: residentBytes(running.pid),
  };
}

export async function measureLatency(run: Run): Promise<AddedLatency[]> {
  const { rounds, perSecond, cores, upstream, folder, say } = run;
  if (!installed("h2load")) {
    say("left out: latency at a constant rate, h2load is not installed");
    return [];
  }
  const load = { path: "/v2/200b", perSecond, seconds: 6 };
  const started: { name: string; port: number; stop: () => Promise<void> }[] = [];
  const results: AddedLatency[] = [];
  try {
    for (const contender of run.present) {
      const { port, running } = await startContender(run, contender, "open");
      started.push({ name: contender.name, port, stop: () => running.stop() });
      await wrk(port, { path: load.path, connections: 16, seconds: 2 }, folder, cores.load);
    }
    const all = [...started, { name: "no proxy", port: upstream.port, stop: async () => {} }];
    for (let round = 0; round < rounds; round += 1) {
      for (const arrival of ["one by one", "ten at the same moment"] as const) {
        for (const { name, port } of all) {
          const sorted = await constantRate(port, { ...load, arrival }, folder, cores.load);
          const [p50Us, p99Us] = [quantile(sorted, 0.5), quantile(sorted, 0.99)];
          results.push({ arrival, contender: name, round, p50Us, p99Us, requests: sorted.length });
          say(`latency ${arrival}, round ${round + 1}: ${name} p50 ${p50Us} µs, p99 ${p99Us} µs`);
        }
      }
      run.watch.look(`in round ${round + 1} of the latency`);
    }
  } finally {
    for (const { stop } of started) await stop();
  }
  return results;
}

/** Everybody at the same rate: half of what Headgate does under full load. */
export async function measureTails(run: Run): Promise<Tail[]> {
  const { rounds, seconds, cores, folder, say } = run;
  if (!installed("h2load")) {
    say("left out: latency at half of full load, h2load is not installed");
    return [];
  }
  const path = "/v2/200b";
  const started: { readonly name: string; readonly place: Started }[] = [];
  const results: Tail[] = [];
  try {
    let perSecond = 0;
    for (const contender of run.present) {
      const place = await startContender(run, contender, "open");
      started.push({ name: contender.name, place });
      const warm = { path, connections: 64, seconds: 4 };
      await wrk(place.port, warm, folder, cores.load);
      const { requests, seconds } = await wrk(place.port, warm, folder, cores.load);
      if (contender.name === "Headgate") perSecond = Math.round(requests / seconds / 20) * 10;
    }
    for (let round = 0; round < rounds && perSecond > 0; round += 1) {
      for (const { name, place } of started) {
        // The first second is not counted, and one request in a thousand is looked for.
        const load = { path, perSecond, seconds: 1 + 2 * seconds, arrival: "one by one" as const };
        const sorted = await constantRate(place.port, load, folder, cores.load);
        const [p99Us, p999Us] = [quantile(sorted, 0.99), quantile(sorted, 0.999)];
        results.push({ contender: name, round, perSecond, p99Us, p999Us });
        say(`latency at ${perSecond}/s, round ${round + 1}: ${name} p99 ${p99Us} µs, p99.9 ${p999Us} µs`);
      }
      run.watch.look(`in round ${round + 1} of half of full load`);
    }
  } finally {
    for (const { place } of started) await place.running.stop();
  }
  return results;
}

/** From nothing to the first answer, and what it weighs before any load, probed and scraped as people run it. */
export async function measureFootprints(run: Run): Promise<Footprint[]> {
  const results: Footprint[] = [];
  for (let round = 0; round < run.rounds; round += 1) {
    for (const contender of run.present) {
      const beganMs = performance.now();
      const { port, admin, running } = await startContender(run, contender, "open");
      await (await fetch(`http://127.0.0.1:${port}/v2/200b`)).arrayBuffer();
      const startMs = performance.now() - beganMs;
      if (admin !== undefined) await probe(admin);
      await sleep(2000);
      results.push({ contender: contender.name, round, startMs, idleBytes: residentBytes(running.pid) });
      run.say(`start round ${round + 1}: ${contender.name} ${startMs.toFixed(0)} ms`);
      await running.stop();
    }
    run.watch.look(`in round ${round + 1} of the starts`);
  }
  return results;
}

/** Two scrapes, and ten seconds of the probes of an orchestrator, in two. */
async function probe(admin: number): Promise<void> {
  for (let i = 0; i < 10; i += 1) {
    const paths = i % 5 === 0 ? ["readyz", "livez", "metrics"] : ["readyz", "livez"];
    for (const path of paths) await (await fetch(`http://127.0.0.1:${admin}/${path}`)).arrayBuffer();
    await sleep(200);
  }
}

/** Each in a process of its own, so that memory which the last round left behind is not used again. */
export async function measureIdleConnections(run: Run): Promise<IdleResult[]> {
  const results: IdleResult[] = [];
  for (const kind of idleKinds.filter(({ isTls }) => !isTls || run.certificate !== undefined)) {
    for (let round = 0; round < Math.min(run.rounds, 3); round += 1) {
      for (const contender of [...run.present, bareTls].filter(({ modes }) => modes.includes(kind.mode))) {
        const place = await startContender(run, contender, kind.mode);
        try {
          const result = await measureIdle(kind, contender.name, round, place);
          results.push(result);
          run.say(`${kind.title} round ${round + 1}: ${contender.name} ${bytesOfOne(result).toFixed(0)} bytes each`);
        } finally {
          await place.running.stop();
        }
      }
    }
  }
  return results;
}
