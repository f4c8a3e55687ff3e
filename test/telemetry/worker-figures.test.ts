// The figures of worker threads in the main thread, over threads that end, are replaced and do not answer.
import fc from "fast-check";
import { expect, test } from "vitest";
import { type CounterSeries, Families, figuresOf, type HistogramSeries } from "../../src/telemetry/families.ts";
import { type FamilyFigures, familyText } from "../../src/telemetry/figures.ts";
import type { FiguresWanted, WorkerFacts, WorkerFigures } from "../../src/telemetry/telemetry.ts";
import { WorkerReadings } from "../../src/telemetry/worker-figures.ts";

const noFacts: WorkerFacts = {
  upstream: { state: "unknown", reason: null, atMs: Number.NEGATIVE_INFINITY },
  addresses: { available: 1, ejected: 0 },
  busiest: { client: "", ofClient: 0, ofAll: 0 },
  activeSeconds: 0,
  store: null,
};

/** A thread with a family of each type. */
class Thread {
  readonly #families = new Families();
  readonly counter: CounterSeries;
  readonly seconds: HistogramSeries;
  open = 1;
  facts = noFacts;

  constructor() {
    const families = this.#families;
    this.counter = families.counter("a_total", "A.").series();
    this.seconds = families.histogram("b_seconds", "B.", [1]).series();
    families.gauge("c", "C.", () => this.open);
  }

  readonly ask = async (wanted: FiguresWanted = "all"): Promise<WorkerFigures> => {
    if (wanted === "facts") return structuredClone({ families: null, facts: this.facts });
    const families: FamilyFigures[] = [];
    for await (const family of figuresOf(this.#families.all)) families.push(family);
    return structuredClone({ families, facts: this.facts });
  };
}

/** The samples of a scrape; `own`: of the main thread. */
async function scraped(readings: WorkerReadings, own = new Families()): Promise<Record<string, number>> {
  const samples: Record<string, number> = {};
  for await (const family of readings.merged(figuresOf(own.all))) {
    const lines = familyText(family).split("\n").slice(2);
    for (const line of lines) samples[line.slice(0, line.lastIndexOf(" "))] = Number(line.split(" ").at(-1));
  }
  return samples;
}

function started(count: number) {
  const readings = new WorkerReadings({ timeoutMs: 5, factsMaxAgeMs: 0 });
  const threads = Array.from({ length: count }, () => new Thread());
  for (const [i, thread] of threads.entries()) readings.add(i + 1, thread.ask);
  return { readings, threads: threads as [Thread, Thread, ...Thread[]] };
}

test("the main thread's own figures count too", async () => {
  const { readings, threads } = started(2);
  const own = new Families();
  own.counter("a_total", "A.").series().value = 8;
  for (const thread of threads) thread.counter.value = 1;
  expect(await scraped(readings, own)).toMatchObject({ a_total: 10, c: 2 });
});

test("what a thread that is gone had counted when it was last read stays, and its gauges go", async () => {
  const { readings, threads } = started(2);
  const [first, second] = threads;
  first.counter.value = 10;
  first.seconds.observe(2);
  second.counter.value = 1;
  await scraped(readings);
  first.counter.value = 12;
  readings.remove(1);
  expect(await scraped(readings)).toMatchObject({ a_total: 11, b_seconds_sum: 2, b_seconds_count: 1, c: 1 });
  const third = new Thread();
  third.counter.value = 100;
  readings.add(3, third.ask);
  expect(await scraped(readings)).toMatchObject({ a_total: 111, b_seconds_sum: 2, c: 2 });
});

test("without any thread the counters of those before are still there", async () => {
  const { readings, threads } = started(2);
  threads[0].counter.value = 3;
  await scraped(readings);
  readings.remove(1);
  readings.remove(2);
  expect(await scraped(readings)).toEqual({
    a_total: 3,
    'b_seconds_bucket{le="1.0"}': 0,
    'b_seconds_bucket{le="+Inf"}': 0,
    b_seconds_sum: 0,
    b_seconds_count: 0,
  });
});

test("a thread that does not answer in time, or cannot, is shown as it was, and the scrape goes on", async () => {
  const { readings, threads } = started(2);
  const [first, second] = threads;
  let mode: "ok" | "late" | "fails" = "ok";
  const late = Promise.withResolvers<WorkerFigures>();
  let asked = 0;
  readings.add(3, async () => {
    asked += 1;
    if (mode === "fails") throw new Error("its port is closed");
    return mode === "late" ? late.promise : first.ask();
  });
  second.counter.value = 5;
  first.counter.value = 1;
  expect((await scraped(readings))["a_total"]).toBe(7);
  first.counter.value = 2;
  mode = "fails";
  expect((await scraped(readings))["a_total"]).toBe(8);
  mode = "late";
  expect((await scraped(readings))["a_total"]).toBe(8);
  mode = "ok";
  // It is not asked again before it has answered.
  expect((await scraped(readings))["a_total"]).toBe(8);
  expect(asked).toBe(3);
  late.resolve(await first.ask());
  expect((await scraped(readings))["a_total"]).toBe(9);
  expect((await scraped(readings))["a_total"]).toBe(9);
  expect(asked).toBe(4);
});

test("a thread that answers when it is gone changes nothing", async () => {
  const { readings, threads } = started(1);
  const late = Promise.withResolvers<WorkerFigures>();
  readings.add(2, () => late.promise);
  threads[0].counter.value = 4;
  await scraped(readings);
  readings.remove(2);
  late.resolve(await threads[0].ask());
  expect(await scraped(readings)).toMatchObject({ a_total: 4, c: 1 });
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
          threads[at] = new Thread();
          numbers[at] = Math.max(...numbers) + 1;
          readings.add(numbers[at], threads[at].ask);
        }
        const now = await scraped(readings);
        for (const [name, sample] of Object.entries(before)) expect(now[name], name).toBeGreaterThanOrEqual(sample);
        before = now;
      }
    }),
    { numRuns: 100 },
  );
});

test("the upstream's state is that of the last attempt of all threads, and of a thread that is gone none", async () => {
  const { readings, threads } = started(3);
  const [first, second] = threads;
  expect(readings.upstreamHealth()).toEqual({ state: "unknown", reason: null });
  first.facts = { ...noFacts, upstream: { state: "up", reason: null, atMs: 10 } };
  second.facts = { ...noFacts, upstream: { state: "down", reason: "refused", atMs: 20 } };
  await readings.refresh();
  expect(readings.upstreamHealth()).toEqual({ state: "down", reason: "refused" });
  readings.remove(2);
  expect(readings.upstreamHealth()).toEqual({ state: "up", reason: null });
});

test("the addresses are those of the thread that can use the fewest", async () => {
  const { readings, threads } = started(3);
  threads[0].facts = { ...noFacts, addresses: { available: 3, ejected: 0 } };
  threads[1].facts = { ...noFacts, addresses: { available: 1, ejected: 2 } };
  (threads[2] as Thread).facts = { ...noFacts, addresses: { available: 2, ejected: 1 } };
  await readings.refresh();
  expect(readings.addresses()).toEqual({ available: 1, ejected: 2 });
});

test("the busiest client's share is of the requests of all threads", async () => {
  const { readings, threads } = started(2);
  threads[0].facts = { ...noFacts, busiest: { client: "192.0.2.1", ofClient: 90, ofAll: 100 } };
  threads[1].facts = { ...noFacts, busiest: { client: "192.0.2.1", ofClient: 60, ofAll: 100 } };
  await readings.refresh();
  expect(readings.busiestClientRatio()).toBe(0.75);
  // All of one thread's requests, but a quarter of all.
  threads[0].facts = { ...noFacts, busiest: { client: "192.0.2.1", ofClient: 100, ofAll: 100 } };
  threads[1].facts = { ...noFacts, busiest: { client: "192.0.2.2", ofClient: 150, ofAll: 300 } };
  await scraped(readings);
  expect(readings.busiestClientRatio()).toBe(0);
});

test("a worker that replaces another continues the total of its event loop", async () => {
  const { readings, threads } = started(2);
  threads[0].facts = { ...noFacts, activeSeconds: 10 };
  threads[1].facts = { ...noFacts, activeSeconds: 20 };
  await scraped(readings);
  readings.remove(1);
  expect(readings.activeSeconds()).toEqual([10, 20]);
  const third = new Thread();
  third.facts = { ...noFacts, activeSeconds: 1 };
  readings.add(3, third.ask);
  await scraped(readings);
  expect(readings.activeSeconds()).toEqual([11, 20]);
});

test("a health check does not read the metrics: the lag of event loops is that since they were last read", async () => {
  const readings = new WorkerReadings();
  const thread = new Thread();
  const asked: FiguresWanted[] = [];
  readings.add(1, (wanted) => {
    asked.push(wanted);
    return thread.ask(wanted);
  });
  await readings.refresh();
  expect(asked).toEqual(["facts"]);
  expect(await scraped(readings)).toMatchObject({ a_total: 0 });
  expect(asked).toEqual(["facts", "all"]);
});

test("health checks that follow each other closely ask the threads once", async () => {
  const readings = new WorkerReadings({ factsMaxAgeMs: 60_000 });
  let asked = 0;
  const thread = new Thread();
  readings.add(1, () => {
    asked += 1;
    return thread.ask();
  });
  await Promise.all([readings.refresh(), readings.refresh()]);
  await readings.refresh();
  expect(asked).toBe(1);
});
