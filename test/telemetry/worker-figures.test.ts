// The figures of worker threads in the main thread, over threads that end and are replaced.
import fc from "fast-check";
import { expect, test } from "vitest";
import { Cells, OutcomeMemory } from "../../src/core/cells.ts";
import { countsOf, outcomes } from "../../src/core/policy.ts";
import { noOutcomes } from "../../src/limits/policies.ts";
import { type CounterSeries, Families, figuresOf, type HistogramSeries } from "../../src/telemetry/families.ts";
import { familyText } from "../../src/telemetry/figures.ts";
import { eventLoopDelays } from "../../src/telemetry/process-metrics.ts";
import { SeenUpstream, type ThreadCells, type ThreadReport } from "../../src/telemetry/telemetry.ts";
import { type KnownThread, WorkerReadings } from "../../src/telemetry/worker-figures.ts";

const noReport: ThreadReport = {
  families: [],
  addresses: [],
  busiest: { client: "", ofClient: 0, ofAll: 0 },
  store: null,
};

/** A thread with a family of each type. */
class Thread implements KnownThread {
  readonly thread: number;
  readonly #cells = new Cells();
  readonly #families = new Families(() => true, this.#cells);
  readonly #seen = this.#cells.take(SeenUpstream.cellCount);
  readonly upstream = new SeenUpstream(this.#seen);
  readonly #labelled = this.#families.counter("e_total", "E.");
  readonly #outcomes = new OutcomeMemory(this.#cells);
  readonly counter: CounterSeries;
  readonly seconds: HistogramSeries;
  open = 1;
  /** Read elsewhere, and so known when the thread hands over. */
  elsewhere = 0;
  report = noReport;
  activeSeconds = 0;
  cells: ThreadCells;

  constructor(thread: number) {
    this.thread = thread;
    const families = this.#families;
    this.counter = families.counter("a_total", "A.").series();
    this.seconds = families.histogram("b_seconds", "B.", [1]).series();
    families.gauge("c", "C.", () => this.open);
    families.total("d_total", "D.", () => this.elsewhere);
    this.cells = this.#readCells();
    this.handOver();
  }

  /** Makes another series. */
  addSeries(labels: Readonly<Record<string, string>>, isRare = false): CounterSeries {
    const series = this.#labelled.series(labels, isRare);
    this.cells = this.#readCells();
    return series;
  }

  policy(name: string) {
    const outcomes = this.#outcomes.take(name, []);
    this.cells = this.#readCells();
    return outcomes;
  }

  handOver(): void {
    const read = this.#families.scraped.map((each) => each() as ReturnType<typeof each> & object);
    this.report = structuredClone({ ...this.report, families: read as ThreadReport["families"] });
  }

  #readCells(): ThreadCells {
    return structuredClone({
      families: this.#families.inCells,
      outcomes: this.#outcomes.ranges,
      upstream: this.#seen,
      delays: eventLoopDelays(),
    });
  }
}

function add(series: CounterSeries, times: number): void {
  for (let i = 0; i < times; i += 1) series.add();
}

/** The samples of a scrape; `own`: of the main thread. */
async function scraped(readings: WorkerReadings, own = new Families()): Promise<Record<string, number>> {
  const samples: Record<string, number> = {};
  for await (const family of readings.merged(figuresOf(own.all))) {
    if (family.name.startsWith("nodejs_")) continue;
    const lines = familyText(family).split("\n").slice(2);
    for (const line of lines) samples[line.slice(0, line.lastIndexOf(" "))] = Number(line.split(" ").at(-1));
  }
  return samples;
}

function started(count: number) {
  const readings = new WorkerReadings();
  const threads = Array.from({ length: count }, (_, i) => new Thread(i + 1));
  for (const thread of threads) readings.add(thread);
  return { readings, threads: threads as [Thread, Thread, ...Thread[]] };
}

test("the main thread's own figures count too", async () => {
  const { readings, threads } = started(2);
  const own = new Families();
  add(own.counter("a_total", "A.").series(), 8);
  for (const { counter } of threads) counter.add();
  expect(await scraped(readings, own)).toMatchObject({ a_total: 10, c: 2 });
});

test("what a thread counts is read at once, what it reads elsewhere when it has handed over", async () => {
  const { readings, threads } = started(1);
  const [thread] = threads;
  thread.counter.add();
  thread.seconds.observe(2);
  thread.elsewhere = 3;
  thread.open = 4;
  expect(await scraped(readings)).toMatchObject({ a_total: 1, b_seconds_sum: 2, d_total: 0, c: 1 });
  thread.handOver();
  expect(await scraped(readings)).toMatchObject({ a_total: 1, b_seconds_sum: 2, d_total: 3, c: 4 });
});

test("a rare series is shown once it has counted something", async () => {
  const { readings, threads } = started(1);
  const rare = threads[0].addSeries({ rare: "yes" }, true);
  threads[0].addSeries({ rare: "no" });
  expect(await scraped(readings)).toMatchObject({ 'e_total{rare="no"}': 0 });
  expect(await scraped(readings)).not.toHaveProperty('e_total{rare="yes"}');
  rare.add();
  expect(await scraped(readings)).toMatchObject({ 'e_total{rare="no"}': 0, 'e_total{rare="yes"}': 1 });
});

test("what a thread that is gone had counted stays, also since the last scrape, and its gauges go", async () => {
  const { readings, threads } = started(2);
  const [first, second] = threads;
  add(first.counter, 10);
  first.seconds.observe(2);
  second.counter.add();
  await scraped(readings);
  add(first.counter, 2);
  readings.remove(1);
  expect(await scraped(readings)).toMatchObject({ a_total: 13, b_seconds_sum: 2, b_seconds_count: 1, c: 1 });
  const third = new Thread(3);
  add(third.counter, 100);
  readings.add(third);
  expect(await scraped(readings)).toMatchObject({ a_total: 113, b_seconds_sum: 2, c: 2 });
});

test("without any thread the counters of those before are still there", async () => {
  const { readings, threads } = started(2);
  add(threads[0].counter, 3);
  readings.remove(1);
  readings.remove(2);
  expect(await scraped(readings)).toEqual({
    a_total: 3,
    'b_seconds_bucket{le="1.0"}': 0,
    'b_seconds_bucket{le="+Inf"}': 0,
    b_seconds_sum: 0,
    b_seconds_count: 0,
    d_total: 0,
  });
});

test("what a policy has said is the sum of all threads, those that are gone and those that replace them", () => {
  const { readings, threads } = started(2);
  const [first, second] = threads.map((thread) => thread.policy("a"));
  if (first === undefined || second === undefined) throw new Error("there are two");
  for (const [i, outcome] of outcomes.entries()) {
    first[outcome] += i + 1;
    second[outcome] += 10;
  }
  const all = { admitted: 11, throttled: 12, would_throttle: 13, exempt: 14, observed: 15, unavailable: 16 };
  expect(readings.outcomes("a")).toEqual(all);
  readings.remove(1);
  expect(readings.outcomes("a")).toEqual(all);
  const third = new Thread(3);
  third.policy("a").admitted = 100;
  readings.add(third);
  expect(readings.outcomes("a")).toEqual({ ...all, admitted: 111 });
  expect(readings.outcomes("another").admitted).toBe(0);
});

test("a policy that comes back has said nothing", () => {
  const memory = new OutcomeMemory(new Cells());
  memory.take("a", []).throttled += 1;
  expect(memory.take("b", ["a"]).throttled).toBe(0);
  expect(memory.take("a", ["b"]).throttled).toBe(0);
});

test("the outcomes of a thousand replaced policies are in the memory of 64, and those in force stay", () => {
  const memory = new OutcomeMemory(new Cells());
  const counts = memory.take("a", []);
  const buffers = new Set<ArrayBufferLike>();
  for (let i = 0; i < 1_000; i += 1) {
    const before = i === 0 ? ["a"] : ["a", `b${i - 1}`];
    const own = memory.take(`b${i}`, before);
    expect(countsOf((outcome) => own[outcome])).toEqual(noOutcomes());
    counts.admitted += 1;
    for (const outcome of outcomes) own[outcome] = 7;
    for (const { cells } of memory.ranges.values()) buffers.add(cells.buffer);
  }
  expect(counts.admitted).toBe(1_000);
  expect([...memory.ranges.keys()].slice(0, 2)).toEqual(["a", "b935"]);
  expect(memory.ranges.size).toBe(66);
  expect(buffers.size).toBe(1);
});

test("the delays of an event loop are those since the last scrape", async () => {
  const { readings } = started(1);
  const delay = async (): Promise<number> => {
    for await (const { name, values } of readings.merged(figuresOf([]))) {
      if (name === "nodejs_eventloop_lag_max_seconds") return values[0] ?? 0;
    }
    throw new Error("it has no delays");
  };
  await expect.poll(delay, { interval: 30 }).toBeGreaterThan(0);
  await delay();
  expect(await delay()).toBe(0);
});

test("a sum of fractions does not go back by its last bit when threads end", async () => {
  const { readings, threads } = started(3);
  for (const [i, thread] of threads.entries()) thread.seconds.observe((i + 1) / 10);
  // In another order the sum is 0.6.
  expect((await scraped(readings))["b_seconds_sum"]).toBe(0.6000000000000001);
  readings.remove(2);
  readings.remove(3);
  expect((await scraped(readings))["b_seconds_sum"]).toBe(0.6000000000000001);
});

test("no counter ever goes back, whatever threads count, end and are replaced", async () => {
  // Fractions that have no end in binary, so that each sum is rounded.
  const value = fc.integer({ min: 1, max: 30_000 }).map((each) => each / 10_000);
  const action = fc.oneof(
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("observe" as const), at: fc.nat(3), value }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("end" as const), at: fc.nat(3), value: fc.constant(0) }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 60 }), async (actions) => {
      const { readings, threads } = started(4);
      const numbers = [1, 2, 3, 4];
      let before: Record<string, number> = {};
      for (const { kind, at, value } of actions) {
        if (kind === "observe") threads[at]?.seconds.observe(value);
        if (kind === "end") {
          readings.remove(numbers[at] as number);
          numbers[at] = Math.max(...numbers) + 1;
          threads[at] = new Thread(numbers[at]);
          readings.add(threads[at]);
        }
        const now = await scraped(readings);
        for (const [name, sample] of Object.entries(before)) expect(now[name], name).toBeGreaterThanOrEqual(sample);
        before = now;
      }
    }),
    { numRuns: 100 },
  );
});

test("the upstream's state is that of the last attempt of all threads, and of a thread that is gone none", () => {
  const { readings, threads } = started(3);
  const [first, second] = threads;
  expect(readings.upstreamHealth()).toEqual({ state: "unknown", reason: null });
  first.upstream.answered(10);
  second.upstream.failed("refused", 20);
  expect(readings.upstreamHealth()).toEqual({ state: "down", reason: "refused" });
  readings.remove(2);
  expect(readings.upstreamHealth()).toEqual({ state: "up", reason: null });
});

test("the addresses are those of the thread that can use the fewest; one that is ejected anywhere is shown as ejected", () => {
  const { readings, threads } = started(3);
  const of = (...ejected: boolean[]) =>
    ejected.map((isEjected, i) => ({
      ...{ address: `${i}`, ejectedFor: isEjected ? "reset" : null, active: i },
    }));
  threads[0].report = { ...noReport, addresses: of(false, false, false) };
  threads[1].report = { ...noReport, addresses: of(true, false, true) };
  (threads[2] as Thread).report = { ...noReport, addresses: of(false, false, true) };
  expect(readings.addresses()).toEqual({ available: 1, ejected: 2 });
  expect(readings.addressStates()).toEqual([
    { address: "0", ejectedFor: "reset", active: 0 },
    { address: "1", ejectedFor: null, active: 3 },
    { address: "2", ejectedFor: "reset", active: 6 },
  ]);
});

test("the busiest client's share is of the requests of all threads", () => {
  const { readings, threads } = started(2);
  threads[0].report = { ...noReport, busiest: { client: "192.0.2.1", ofClient: 90, ofAll: 100 } };
  threads[1].report = { ...noReport, busiest: { client: "192.0.2.1", ofClient: 60, ofAll: 100 } };
  expect(readings.busiestClientRatio()).toBe(0.75);
  // All of one thread's requests, but a quarter of all.
  threads[0].report = { ...noReport, busiest: { client: "192.0.2.1", ofClient: 100, ofAll: 100 } };
  threads[1].report = { ...noReport, busiest: { client: "192.0.2.2", ofClient: 150, ofAll: 300 } };
  expect(readings.busiestClientRatio()).toBe(0);
});

test("a worker that replaces another continues the total of its event loop", () => {
  const { readings, threads } = started(2);
  threads[0].activeSeconds = 10;
  threads[1].activeSeconds = 20;
  expect(readings.activeSeconds()).toEqual([10, 20]);
  // Node says so of a thread that has ended.
  threads[0].activeSeconds = 0;
  readings.remove(1);
  expect(readings.activeSeconds()).toEqual([10, 20]);
  const third = new Thread(3);
  third.activeSeconds = 1;
  readings.add(third);
  expect(readings.activeSeconds()).toEqual([11, 20]);
});
