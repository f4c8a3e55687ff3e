// The last minutes in steps: what each thread counts is there, once, also when a thread has ended or the process stood still.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { ExchangeRecord } from "../../../src/core/exchange-record.ts";
import { maxThreads } from "../../../src/core/settings.ts";
import { History, HistoryRow, type HistoryStep } from "../../../src/telemetry/recent/history.ts";
import { maxSteps, stepMs } from "../../../src/telemetry/recent/steps.ts";
import { runs } from "../../support/runs.ts";
import { exchangeOf } from "../scrape.ts";

const startMs = 1_000 * stepMs;
const wallOffsetMs = 1_700_000_000_000;

function open(threads = 1) {
  const memory = HistoryRow.createMemory();
  const rows = Array.from({ length: threads }, (_, i) => new HistoryRow(memory, i));
  const resident = { bytes: 0, isReadable: true };
  const readResident = (): number => {
    if (!resident.isReadable) throw new Error("EMFILE: too many open files, uv_resident_set_memory");
    return resident.bytes;
  };
  const history = new History(memory, readResident, startMs);
  const steps = (nowMs: number) => history.view(nowMs, nowMs + wallOffsetMs).steps;
  return { memory, rows, row: rows[0] as HistoryRow, history, steps, resident };
}

/** A refusal before anything was forwarded. */
const refusal = (problem: ExchangeRecord["problem"]) => exchangeOf({ problem, dispatchedMs: null, answeredMs: null });
const lasting = (ms: number) => exchangeOf({ startedMs: 1_000, endedMs: 1_000 + ms });
const nothing = {
  admitted: 0,
  refused: {},
  latencyMs: null,
  upstream: { answered: 0, meanMs: null, abandoned: 0, latencyMs: null, failedByReason: {} },
  store: null,
  memory: { residentBytes: 0, heapBytes: 0, externalBytes: 0 },
};

test("a step has what ended in it: admitted, refused by reason, the upstream's time and its errors", () => {
  const { row, history, steps } = open();
  row.finished(exchangeOf());
  row.finished(exchangeOf({ answeredMs: 1_003 }));
  for (const problem of ["throttled", "throttled", "no_token"] as const) row.finished(refusal(problem));
  row.finished(exchangeOf({ problem: "upstream_timeout", answeredMs: null }));
  row.upstreamFailed("response_timeout");
  history.read(startMs + stepMs + 3);
  row.finished(exchangeOf({ source: "ext-auth", dispatchedMs: null, answeredMs: null }));
  history.read(startMs + 2 * stepMs + 1);
  expect(steps(startMs + 2 * stepMs + 1)).toEqual([
    {
      durationMs: stepMs + 3,
      ...{ admitted: 2, refused: { throttled: 2, no_token: 1, upstream_timeout: 1 } },
      latencyMs: { p50: expect.closeTo(50, -1), p90: expect.closeTo(50, -1), p99: expect.closeTo(50, -1) },
      upstream: {
        ...{ answered: 2, meanMs: 20.5, abandoned: 0, failedByReason: { response_timeout: 1 } },
        latencyMs: { p50: expect.closeTo(1, 0), p90: expect.closeTo(40, -1), p99: expect.closeTo(40, -1) },
      },
      ...{ store: null, memory: nothing.memory },
    },
    { durationMs: stepMs - 2, ...nothing, admitted: 1 },
  ]);
});

test("a response that broke off after its head counts once, as a failure", () => {
  const { row, history, steps } = open();
  row.finished(exchangeOf());
  const fault = { reason: "reset", code: "ECONNRESET", address: "10.0.0.1:80", id: "one" } as const;
  row.upstreamFailed(fault.reason);
  row.finished(exchangeOf({ fault, answeredMs: 1_900, complete: false }));
  history.read(startMs + stepMs);
  expect(steps(startMs + stepMs)).toMatchObject([
    { upstream: { answered: 1, meanMs: 40, failedByReason: { reset: 1 } } },
  ]);
});

test("a request whose client left before the upstream answered is abandoned, whether it was sent or waited", () => {
  const { row, history, steps } = open();
  row.finished(exchangeOf({ answeredMs: null, complete: false }));
  row.finished(exchangeOf({ queuedMs: 1_001, dispatchedMs: null, answeredMs: null, complete: false }));
  row.finished(exchangeOf({ complete: false }));
  row.finished(exchangeOf({ problem: "upstream_timeout", answeredMs: null }));
  row.finished(exchangeOf({ source: "ext-auth", dispatchedMs: null, answeredMs: null }));
  history.read(startMs + stepMs);
  expect(steps(startMs + stepMs)).toMatchObject([{ upstream: { answered: 1, abandoned: 2 } }]);
});

test("a step ends once, and its end is an instant of the wall clock", () => {
  const { history, row } = open();
  const viewAt = (nowMs: number) => history.view(nowMs, nowMs + wallOffsetMs);
  expect(viewAt(startMs)).toEqual({ stepMs, endMs: null, steps: [] });
  history.read(startMs + 1);
  history.read(startMs + stepMs - 1);
  expect(viewAt(startMs).steps).toEqual([]);
  row.finished(refusal("throttled"));
  history.read(startMs + stepMs);
  row.finished(refusal("throttled"));
  history.read(startMs + stepMs + 1);
  expect(viewAt(startMs + stepMs + 1)).toMatchObject({
    endMs: startMs + stepMs + wallOffsetMs,
    steps: [{ refused: { throttled: 1 } }],
  });
});

test("steps that a process missed are gaps, and the next one has what was counted in them and says how long it is", () => {
  const { row, history, steps } = open();
  history.read(startMs + stepMs);
  row.finished(exchangeOf());
  history.read(startMs + 4 * stepMs + 10);
  const [first, second, third, fourth, ...others] = steps(startMs + 4 * stepMs + 10);
  expect([second, third, others]).toEqual([null, null, []]);
  expect(first).toMatchObject({ admitted: 0, durationMs: stepMs });
  expect(fourth).toMatchObject({ admitted: 1, durationMs: 3 * stepMs + 10 });
});

test("15 minutes are kept, and a longer gap leaves nothing of what was before it", () => {
  const { row, history, steps } = open();
  for (let step = 1; step <= maxSteps + 5; step += 1) {
    for (let i = 0; i < step; i += 1) row.finished(refusal("throttled"));
    history.read(startMs + step * stepMs);
  }
  const throttled = (step: HistoryStep | null | undefined) => step?.refused.throttled;
  const kept = steps(0);
  expect([kept.length, throttled(kept[0]), throttled(kept.at(-1))]).toEqual([maxSteps, 6, maxSteps + 5]);
  history.read(startMs + 1_000 * stepMs);
  expect(steps(0).filter((step) => step !== null)).toMatchObject([{ refused: {}, durationMs: (1_000 - 185) * stepMs }]);
});

test("threads add up, and one that has ended loses nothing, nor does the one that goes on in its row", () => {
  const { memory, rows, history, steps } = open(3);
  for (const row of rows) row.finished(exchangeOf());
  rows[1]?.storeSeen("away", 3);
  rows[1]?.storeSeen("away", 5);
  rows[2]?.storeSeen("up", 2);
  HistoryRow.forget(memory, 1);
  const next = new HistoryRow(memory, 1);
  next.finished(exchangeOf());
  next.storeSeen("slow", 0);
  next.storeSeen("slow", 1);
  new HistoryRow(memory, maxThreads).finished(exchangeOf());
  history.read(startMs + stepMs);
  history.read(startMs + 2 * stepMs);
  expect(steps(0)).toMatchObject([
    { admitted: 5, store: { state: "slow", lateDecisions: 8 } },
    { admitted: 0, store: { state: "slow", lateDecisions: 0 } },
  ]);
  HistoryRow.forget(memory, 1);
  HistoryRow.forget(memory, 2);
  history.read(startMs + 3 * stepMs);
  expect(steps(0).at(-1)).toMatchObject({ store: null });
});

test("a count that begins anew at 2^32 is read like any other", () => {
  const { memory, row, history, steps } = open();
  const words = new Uint32Array(memory);
  words[0] = 0xffff_ffff;
  history.read(startMs + stepMs);
  row.finished(exchangeOf());
  row.finished(exchangeOf());
  history.read(startMs + 2 * stepMs);
  expect([words[0], steps(0).at(-1)?.admitted]).toEqual([1, 2]);
});

test("a percentile is at most an eighth off, from 64 µs to two minutes", () => {
  const times = fc.array(fc.double({ min: 0.064, max: 130_000, noNaN: true }), { minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(times, (all) => {
      const { row, history, steps } = open();
      for (const ms of all) row.finished(lasting(ms));
      history.read(startMs + stepMs);
      const told = steps(0)[0]?.latencyMs;
      const sorted = all.toSorted((x, y) => x - y);
      for (const [name, share] of [
        ["p50", 0.5],
        ["p90", 0.9],
        ["p99", 0.99],
      ] as const) {
        const truth = sorted[Math.max(0, Math.ceil(share * all.length) - 1)] as number;
        expect(Math.abs((told?.[name] ?? 0) - truth)).toBeLessThanOrEqual(truth / 8 + 0.001);
      }
    }),
    runs(500),
  );
});

test("a time that was read backwards, none, or an hour is counted in the lowest or the highest bucket", () => {
  for (const [ms, from, to] of [
    [-1, 0, 0.064],
    [0, 0, 0.064],
    [3_600_000, 120_000, 135_000],
  ] as const) {
    const { row, history, steps } = open();
    row.finished(lasting(ms));
    history.read(startMs + stepMs);
    const p50 = steps(0)[0]?.latencyMs?.p50 ?? Number.NaN;
    expect([p50 > from, p50 <= to]).toEqual([true, true]);
  }
});

test("the memory of a step is that of the process at its end, and what the heaps of all threads had last", () => {
  const { memory, rows, history, steps, resident } = open(2);
  for (const row of rows) row.memorySeen(10 * 1024, 3 * 1024);
  rows[1]?.memorySeen(20 * 1024 + 500, 4 * 1024);
  resident.bytes = 123_456_789;
  history.read(startMs + stepMs);
  resident.bytes = 99;
  HistoryRow.forget(memory, 1);
  history.read(startMs + 2 * stepMs);
  expect(steps(startMs + 2 * stepMs).map((step) => step?.memory)).toEqual([
    { residentBytes: 123_456_789, heapBytes: 30 * 1024, externalBytes: 7 * 1024 },
    { residentBytes: 99, heapBytes: 10 * 1024, externalBytes: 3 * 1024 },
  ]);
});

test("a process that can open no more files has its steps, with the memory of the one before", () => {
  const { row, history, steps, resident } = open();
  resident.bytes = 99;
  history.read(startMs + stepMs);
  row.finished(exchangeOf());
  resident.isReadable = false;
  history.read(startMs + 2 * stepMs);
  expect(steps(startMs + 2 * stepMs)[1]).toMatchObject({ admitted: 1, memory: { residentBytes: 99 } });
  expect(history.recent(stepMs).map(({ memory }) => memory.residentBytes)).toEqual([99, 99]);
});
