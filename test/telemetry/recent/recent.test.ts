// What several threads say is one answer, and a sample of refusals costs nothing while nobody listens.
import { expect, test, vi } from "vitest";
import { HistoryRow } from "../../../src/telemetry/recent/history.ts";
import type { PolicyTotals } from "../../../src/telemetry/recent/policy-history.ts";
import { Recent, type RecentThreads, type RefusalSample } from "../../../src/telemetry/recent/recent.ts";
import { generationMs } from "../../../src/telemetry/recent/sketch.ts";
import { stepMs } from "../../../src/telemetry/recent/steps.ts";
import { type RecentQuestion, ThreadRecent } from "../../../src/telemetry/recent/thread-recent.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { decisionOf } from "../../support/policy.ts";
import { exchangeOf, policy } from "../scrape.ts";

const cleanup = useCleanup();

function open(count: number) {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  cleanup(() => void vi.useRealTimers());
  const clock = new FakeClock();
  const memory = HistoryRow.createMemory();
  const threads = Array.from({ length: count }, (_, i) => {
    const history = new HistoryRow(memory, i + 1);
    return new ThreadRecent({
      sizes: { refusals: 100, keys: 10 },
      clock,
      history,
      requestIdOf: () => null,
      targetOf: (target) => target,
    });
  });
  const asked: RecentQuestion[] = [];
  const source: RecentThreads & { missing: number } = {
    ...{ memory, missing: 0 },
    async ask(question) {
      asked.push(question);
      return { answers: threads.map((thread) => thread.answer(question)), missing: source.missing };
    },
  };
  const failures: unknown[] = [];
  const policies: { totals: () => Promise<readonly PolicyTotals[]> } = { totals: async () => [] };
  const recent = new Recent({
    policies: () => policies.totals(),
    ...{ threads: source, clock, hasStore: false, residentBytes: () => 0 },
    onFailure: (error) => failures.push(error),
  });
  cleanup(() => recent.close());
  const refuse = (thread: number, id: string, times = 1) => {
    const decision = decisionOf({ outcome: "throttled", policy, remaining: 0, resetMs: clock.nowMs });
    const instants = { startedMs: clock.nowMs, respondedMs: clock.nowMs, endedMs: clock.nowMs };
    const exchange = exchangeOf({ id, decision, problem: "throttled", status: 429, ...instants });
    for (let i = 0; i < times; i += 1) threads[thread]?.finish(exchange, "/v2/x");
  };
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await vi.advanceTimersByTimeAsync(ms);
  };
  return { clock, source, asked, recent, refuse, pass, failures, policies };
}

test("a refusal is found whichever thread has it, the latest if several have one with its id", async () => {
  const { recent, refuse, clock } = open(3);
  refuse(1, "one");
  expect(await recent.request("one")).toMatchObject({ id: "one", atMs: clock.wallMs() });
  clock.advance(10);
  refuse(0, "one");
  clock.advance(10);
  refuse(2, "two");
  expect(await recent.request("one")).toMatchObject({ id: "one", atMs: clock.wallMs() - 10 });
  expect(await recent.request("three")).toBe(null);
});

test("the last refusals are those of all threads, the newest first, and a thread that is missing is told", async () => {
  const { recent, refuse, clock, source } = open(2);
  for (const [i, thread] of [0, 1, 1, 0].entries()) {
    refuse(thread, `${i}`);
    clock.advance(10);
  }
  const last = async (limit: number) => {
    const { refusals, isComplete } = await recent.last({ kind: "all" }, limit);
    return [refusals.map(({ id }) => id), isComplete];
  };
  expect(await last(4)).toEqual([["3", "2", "1", "0"], true]);
  expect(await last(3)).toEqual([["3", "2", "1"], false]);
  expect(await last(1)).toEqual([["3"], false]);
  source.missing = 1;
  expect(await last(4)).toEqual([["3", "2", "1", "0"], false]);
});

test("refused keys are added up, and the answer says since when, and how many threads are missing", async () => {
  const { recent, refuse, clock, source } = open(2);
  const startedMs = clock.wallMs();
  refuse(0, "one", 3);
  refuse(1, "two", 4);
  const told = (limit: number) => recent.refused(policy.name, limit);
  expect(await told(5)).toMatchObject({ keys: [{ count: 7, error: 0 }], sinceMs: startedMs, missing: 0 });
  expect((await told(0)).keys).toEqual([]);
  expect((await recent.refused("another", 5)).keys).toEqual([]);
  source.missing = 1;
  clock.advance(10 * generationMs);
  const generationAgo = clock.nowMs - (clock.nowMs % generationMs) - generationMs;
  expect(await told(5)).toEqual({ keys: [], sinceMs: generationAgo + clock.wallOffsetMs, missing: 1 });
});

test("the history is read every 5 s until it is closed", async () => {
  const { recent, refuse, pass, clock } = open(2);
  refuse(0, "one");
  refuse(1, "two");
  // The timer is a millisecond late.
  await pass(stepMs + 1);
  refuse(1, "three");
  await pass(stepMs);
  expect(recent.history()).toMatchObject({
    endMs: clock.wallMs() - 1,
    steps: [{ refused: { throttled: 2 } }, { refused: { throttled: 1 } }],
  });
  // A reader need not wait for the timer.
  clock.advance(stepMs);
  const { steps } = recent.history();
  expect(steps).toHaveLength(3);
  expect(recent.history(2).steps).toEqual(steps.slice(1));
  recent.close();
  expect(vi.getTimerCount()).toBe(0);
});

test("what policies say is read with each step, and on demand, and a failure is reported", async () => {
  const { recent, pass, clock, policies, failures } = open(1);
  let admitted = 0;
  policies.totals = async () => [
    { policy: "a", outcomes: { admitted, throttled: 0, would_throttle: 0, unavailable: 0 } },
  ];
  const counted = async () => (await recent.policyHistory()).policies[0]?.counts.admitted;
  expect(await counted()).toBeUndefined();
  admitted = 3;
  await pass(stepMs + 1);
  admitted = 7;
  clock.advance(stepMs);
  expect(await counted()).toEqual([3, 4]);
  const error = new Error("a fault of the test");
  policies.totals = async () => {
    throw error;
  };
  await pass(stepMs);
  expect(failures).toEqual([error]);
});

test("a listener gets at most ten refusals a second of all threads, and how many were left out", async () => {
  const { recent, refuse, pass, asked } = open(2);
  refuse(0, "before");
  await pass(10_000);
  expect(asked).toEqual([]);
  const samples: RefusalSample[] = [];
  const end = recent.onRefusal((sample) => samples.push(sample));
  await pass(1_000);
  expect(samples).toEqual([]);
  refuse(0, "a", 20);
  refuse(1, "b", 2);
  await pass(1_000);
  await pass(1_000);
  expect(
    samples.map(({ refusals, leftOut }) => [
      refusals
        .map(({ id }) => id)
        .sort()
        .join(""),
      leftOut,
    ]),
  ).toEqual([["aaaaaaaabb", 12]]);
  end();
  end();
  const before = asked.length;
  refuse(0, "c");
  await pass(10_000);
  expect([samples.length, asked.length]).toEqual([1, before]);
  // What was refused while nobody listened is not told to the next one.
  recent.onRefusal((sample) => samples.push(sample));
  await pass(1_000);
  refuse(1, "d");
  await pass(1_000);
  expect(samples.at(-1)).toMatchObject({ refusals: [{ id: "d" }], leftOut: 0 });
});

test("a listener that fails is reported, and the next sample comes all the same", async () => {
  const { recent, refuse, pass, failures } = open(1);
  const error = new Error("a fault of the test");
  recent.onRefusal(() => {
    throw error;
  });
  const samples: RefusalSample[] = [];
  recent.onRefusal((sample) => samples.push(sample));
  await pass(1_000);
  refuse(0, "one");
  await pass(1_000);
  refuse(0, "two");
  await pass(1_000);
  expect([failures, samples.length]).toEqual([[error, error], 2]);
});
