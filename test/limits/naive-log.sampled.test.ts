// The promise to clients, for any policy and any traffic: 10,000 runs against an oracle that keeps every admission.
import fc from "fast-check";
import { expect, test } from "vitest";
import { runs, scaled } from "../support/runs.ts";
import { justBefore } from "./float.ts";
import { NaiveLog } from "./naive-log.ts";
import { LimitedTable, OneWindow, type WindowLimit } from "./one-limit.ts";
import { reusedTable } from "./small-table.ts";

const fractional = (maxMs: number) => fc.double({ min: 0, max: maxMs, noNaN: true });

const policies: fc.Arbitrary<WindowLimit> = fc.record({
  limit: fc.integer({ min: 1, max: 20 }),
  windowMs: fc.oneof(
    fc.integer({ min: 1, max: 500 }),
    fractional(499).map((ms) => ms + 1),
  ),
});

// How long until the next request: nothing, a while, a fraction, or exactly until (or just before) some quota is back.
const gaps = fc.oneof(
  { weight: 4, arbitrary: fc.constant(0) },
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 60 }) },
  { weight: 3, arbitrary: fractional(40) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 600 }) },
  { weight: 2, arbitrary: fc.constant("to the reset" as const) },
  { weight: 2, arbitrary: fc.constant("to just before the reset" as const) },
);

// Also around the instants at which a tick of 32 bits changes its sign or begins again.
const starts = fc.oneof(
  { weight: 4, arbitrary: fractional(1e7) },
  { weight: 1, arbitrary: fractional(1000).map((ms) => 2 ** 31 - ms) },
  { weight: 1, arbitrary: fractional(1000).map((ms) => 2 ** 32 - ms) },
);

const requests = fc.array(
  fc.record({ gap: gaps, client: fc.constantFrom("a", "a", "a", "b", "c"), isPeek: fc.integer({ min: 0, max: 5 }) }),
  { minLength: 1, maxLength: 80, size: "max" },
);

test("equals the naive log in every decision, remaining and reset, with several clients and looks in between", () => {
  let decisions = 0;
  let throttled = 0;
  fc.assert(
    fc.property(policies, requests, starts, (policy, script, startMs) => {
      const store = new LimitedTable(policy, reusedTable());
      const log = new NaiveLog(policy);
      let nowMs = startMs;
      for (const { gap, client, isPeek } of script) {
        nowMs = advance(nowMs, gap, log.peek(client, nowMs).resetMs);
        const ask = isPeek === 0 ? "peek" : "acquire";
        const actual = store[ask](client, nowMs);
        const expected = log[ask](client, nowMs);
        decisions += 1;
        if (actual.outcome === "throttled") throttled += 1;
        // Compared by hand: a million calls of expect() would take longer than everything else.
        const isEqual =
          actual.outcome === expected.outcome &&
          actual.remaining === expected.remaining &&
          actual.resetMs === expected.resetMs;
        if (!isEqual) expect(actual).toEqual(expected);
      }
    }),
    runs(10_000, 40),
  );
  expect(decisions).toBeGreaterThan(scaled(100_000, 40));
  expect(throttled).toBeGreaterThan(scaled(10_000, 40));
});

/** Never backwards: to the smallest float before the reset only if that is still to come. */
function advance(nowMs: number, gap: number | string, resetMs: number): number {
  if (typeof gap === "number") return nowMs + gap;
  return Math.max(nowMs, gap === "to the reset" ? resetMs : justBefore(resetMs));
}

test("never admits more than the limit in any trailing window, counted over the whole past at every admission", () => {
  fc.assert(
    fc.property(policies, requests, starts, (policy, script, startMs) => {
      const window = new OneWindow(policy);
      const admittedAtMs: number[] = [];
      let nowMs = startMs;
      for (const { gap, isPeek } of script) {
        nowMs = advance(nowMs, gap, window.peek(nowMs).resetMs);
        if (isPeek === 0 || window.take(nowMs).outcome !== "admitted") continue;
        admittedAtMs.push(nowMs);
        // Every window that ends at an admission; those that end elsewhere hold no more than the one before them.
        const inWindow = admittedAtMs.filter((atMs) => nowMs < atMs + policy.windowMs).length;
        if (inWindow > policy.limit) throw new Error(`${inWindow} in the window that ends at ${nowMs}`);
      }
    }),
    runs(10_000, 40),
  );
});

test("at the announced reset a throttled client is admitted, and just before it is not", () => {
  let waits = 0;
  fc.assert(
    fc.property(policies, requests, starts, (policy, script, startMs) => {
      const window = new OneWindow(policy);
      let nowMs = startMs;
      for (const { gap } of script) {
        if (typeof gap === "number") nowMs += gap;
        const { outcome, resetMs } = window.take(nowMs);
        if (outcome !== "throttled" || gap === 0) continue;
        const tooEarlyMs = [resetMs - 1, justBefore(resetMs)].filter((atMs) => atMs >= nowMs);
        for (const atMs of tooEarlyMs) {
          if (window.take(atMs).outcome !== "throttled") throw new Error(`admitted at ${atMs}, before ${resetMs}`);
        }
        nowMs = resetMs;
        if (window.take(nowMs).outcome !== "admitted") throw new Error(`throttled at the reset, ${resetMs}`);
        waits += 1;
      }
    }),
    runs(10_000, 40),
  );
  expect(waits).toBeGreaterThan(scaled(10_000, 40));
});

test("Remaining rises only when something has expired, and then by what has expired", () => {
  fc.assert(
    fc.property(policies, requests, (policy, script) => {
      const window = new OneWindow(policy);
      let nowMs = 0;
      let before = window.peek(nowMs);
      for (const { gap } of script) {
        nowMs = advance(nowMs, gap, before.resetMs);
        const now = window.peek(nowMs);
        const hasExpired = nowMs >= before.resetMs && before.remaining < policy.limit;
        if (hasExpired !== now.remaining > before.remaining) throw new Error(`${before.remaining} → ${now.remaining}`);
        window.take(nowMs);
        before = window.peek(nowMs);
      }
    }),
    runs(2000),
  );
});
