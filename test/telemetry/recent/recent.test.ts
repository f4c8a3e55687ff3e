// What several threads hand over is one answer, and a sample of it reaches whoever listens.
import { expect, test, vi } from "vitest";
import type { UpstreamErrorReason } from "../../../src/core/upstream.ts";
import { HistoryRow } from "../../../src/telemetry/recent/history.ts";
import type { PolicyTotals } from "../../../src/telemetry/recent/policy-history.ts";
import { Recent, type RecentThreads, type RefusalSample } from "../../../src/telemetry/recent/recent.ts";
import { RecentMemory } from "../../../src/telemetry/recent/recent-memory.ts";
import { generationMs } from "../../../src/telemetry/recent/refused-keys.ts";
import { stepMs } from "../../../src/telemetry/recent/steps.ts";
import { ThreadRecent } from "../../../src/telemetry/recent/thread-recent.ts";
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
  const sizes = { refusals: 100, keys: 10 };
  const threads = Array.from({ length: count }, (_, i) => {
    const forms = { clock, targetOf: (target: string) => target, requestIdOf: () => null };
    return new ThreadRecent({ sizes, history: new HistoryRow(memory, i + 1), ...forms });
  });
  const source: RecentThreads = { memory, take: () => threads.flatMap((thread) => thread.take()) };
  const failures: unknown[] = [];
  const policies: { totals: () => readonly PolicyTotals[] } = { totals: () => [] };
  const recent = new Recent({
    policies: () => policies.totals(),
    ...{
      threads: source,
      recentMemory: new RecentMemory(sizes),
      clock,
      residentBytes: () => 0,
    },
    sizes: () => sizes,
    onFailure: (error) => failures.push(error),
  });
  cleanup(() => recent.close());
  const refuse = (thread: number, id: string, times = 1, client = "192.0.2.1") => {
    const decision = decisionOf({ outcome: "throttled", policy, remaining: 0, resetMs: clock.nowMs });
    const instants = { startedMs: clock.nowMs, respondedMs: clock.nowMs, endedMs: clock.nowMs };
    const exchange = exchangeOf({ id, client, decision, problem: "throttled", status: 429, ...instants });
    for (let i = 0; i < times; i += 1) threads[thread]?.finish(exchange, "/v2/x");
  };
  const fail = (thread: number, reason: UpstreamErrorReason, address: string) => {
    threads[thread]?.upstreamFailed({ reason, address, code: null, id: "one" });
  };
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await vi.advanceTimersByTimeAsync(ms);
  };
  return { clock, recent, refuse, fail, pass, failures, policies, sizes };
}

test("a refusal is found whichever thread has it, the latest if several have one with its id", () => {
  const { recent, refuse, clock } = open(3);
  refuse(1, "one");
  expect(recent.request("one")).toMatchObject({ id: "one", atMs: clock.wallMs() });
  clock.advance(10);
  refuse(0, "one");
  clock.advance(10);
  refuse(2, "two");
  expect(recent.request("one")).toMatchObject({ id: "one", atMs: clock.wallMs() - 10 });
  expect(recent.request("three")).toBe(null);
});

test("the last refusals are those of all threads, the newest first", () => {
  const { recent, refuse, clock } = open(2);
  for (const [i, thread] of [0, 1, 1, 0].entries()) {
    refuse(thread, `${i}`);
    clock.advance(10);
  }
  const last = (limit: number) => {
    const { refusals, isComplete } = recent.last({ kind: "all" }, limit);
    return [refusals.map(({ id }) => id), isComplete];
  };
  expect(last(4)).toEqual([["3", "2", "1", "0"], true]);
  expect(last(3)).toEqual([["3", "2", "1"], false]);
  expect(last(1)).toEqual([["3"], false]);
});

test("refused keys are added up, and the answer says since when", () => {
  const { recent, refuse, clock } = open(2);
  const startedMs = clock.wallMs();
  refuse(0, "one", 3);
  refuse(1, "two", 4);
  expect(recent.refused(policy.name)).toMatchObject({ keys: [{ count: 7, error: 0 }], sinceMs: startedMs });
  expect(recent.refused("another").keys).toEqual([]);
  clock.advance(10 * generationMs);
  const generationAgo = clock.nowMs - (clock.nowMs % generationMs) - generationMs;
  expect(recent.refused(policy.name)).toEqual({ keys: [], sinceMs: generationAgo + clock.wallOffsetMs });
});

test("a reload of the sizes forgets what has no room any more", () => {
  const { recent, refuse, sizes } = open(1);
  for (const id of ["one", "two", "three"]) refuse(0, id);
  expect(recent.request("one")).not.toBe(null);
  Object.assign(sizes, { refusals: 2 });
  expect([recent.request("one"), recent.request("two")?.id]).toEqual([null, "two"]);
  expect(recent.refused(policy.name).keys).toMatchObject([{ count: 3 }]);
  Object.assign(sizes, { refusals: 0, keys: 0 });
  expect([recent.request("two"), recent.refused(policy.name).keys]).toEqual([null, []]);
  Object.assign(sizes, { refusals: 2, keys: 5 });
  refuse(0, "four");
  expect([recent.request("four")?.id, recent.refused(policy.name).keys]).toMatchObject(["four", [{ count: 1 }]]);
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

test("what failed at the upstream is told for five minutes, of all threads, the most frequent first", async () => {
  const { recent, pass, fail } = open(2);
  fail(0, "reset", "10.0.0.1:80");
  await pass(stepMs);
  for (const thread of [0, 1, 1]) fail(thread, "refused", "10.0.0.2:80");
  fail(1, "reset", "10.0.0.1:80");
  const refused = { reason: "refused", address: "10.0.0.2:80", count: 3 };
  const reset = { reason: "reset", address: "10.0.0.1:80", count: 2 };
  expect(recent.upstream()).toEqual({
    ms: 300_000,
    answered: 0,
    meanMs: null,
    abandoned: 0,
    failures: [refused, reset],
  });
  await pass(300_000 - stepMs);
  expect(recent.upstream().failures).toEqual([refused, reset]);
  await pass(stepMs);
  expect(recent.upstream().failures).toEqual([refused, { ...reset, count: 1 }]);
  await pass(300_000);
  expect(recent.upstream().failures).toEqual([]);
});

test("what policies say is read with each step, and on demand, and a failure is reported", async () => {
  const { recent, pass, clock, policies, failures } = open(1);
  let admitted = 0;
  policies.totals = () => [{ policy: "a", outcomes: { admitted, throttled: 0, would_throttle: 0, unavailable: 0 } }];
  const counted = () => recent.policyHistory().policies[0]?.counts.admitted;
  expect(counted()).toBeUndefined();
  admitted = 3;
  await pass(stepMs + 1);
  admitted = 7;
  clock.advance(stepMs);
  expect(counted()).toEqual([3, 4]);
  const error = new Error("a fault of the test");
  policies.totals = () => {
    throw error;
  };
  await pass(stepMs);
  expect(new Set(failures)).toEqual(new Set([error]));
});

test("a listener gets at most ten refusals a second of all threads, of many clients, and how many were left out", async () => {
  const { recent, refuse, pass } = open(2);
  refuse(0, "before");
  await pass(10_000);
  const samples: RefusalSample[] = [];
  refuse(0, "not taken yet");
  const end = recent.onRefusal((sample) => samples.push(sample));
  await pass(1_000);
  expect(samples).toEqual([]);
  refuse(0, "a", 20, "192.0.2.1");
  refuse(1, "a", 20, "192.0.2.1");
  refuse(0, "b", 2, "192.0.2.2");
  refuse(1, "c", 1, "192.0.2.3");
  // Somebody asks meanwhile.
  expect(recent.request("c")).not.toBe(null);
  await pass(1_000);
  await pass(1_000);
  const ids = (sample: RefusalSample) => sample.refusals.map(({ id }) => id);
  expect(samples.map((sample) => [ids(sample).sort().join(""), sample.leftOut])).toEqual([["aaaaaaabbc", 33]]);
  end();
  end();
  refuse(0, "d");
  await pass(10_000);
  expect(samples.length).toBe(1);
  // What was refused while nobody listened is not told to the next one.
  recent.onRefusal((sample) => samples.push(sample));
  await pass(1_000);
  refuse(1, "e");
  await pass(1_000);
  expect(samples.at(-1)).toMatchObject({ refusals: [{ id: "e" }], leftOut: 0 });
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
