// The sliding window of a policy, in a table of one thread and in a shared one. The timeline, read from top to bottom, is its
// specification; policy-model.sampled.test.ts compares any other with a model.
import { describe, expect, test } from "vitest";
import type { Outcome } from "../../src/core/policy.ts";
import { justBefore } from "./float.ts";
import { LimitedTable } from "./one-limit.ts";
import { smallTable } from "./small-table.ts";

type Row = readonly [
  atMs: number,
  ask: "acquire" | "peek",
  client: string,
  outcome: Outcome,
  remaining: number,
  resetMs: number,
];

// Three requests in a second. An instant within a millisecond counts as the end of it.
const timeline: readonly Row[] = [
  [0, "peek", "a", "observed", 3, 1000], // nothing known: now + window
  [100, "peek", "a", "observed", 3, 1100], // and looking left nothing behind
  [100, "acquire", "a", "admitted", 2, 1100],
  [100, "peek", "a", "observed", 2, 1100],
  [100, "acquire", "a", "admitted", 1, 1100], // two in one millisecond are two
  [400, "acquire", "a", "admitted", 0, 1100], // the reset is the oldest one's
  [400, "acquire", "a", "throttled", 0, 1100],
  [400, "acquire", "b", "admitted", 2, 1400], // somebody else
  [1099, "acquire", "a", "throttled", 0, 1100],
  [1099.999, "acquire", "a", "throttled", 0, 1100],
  [1099.999, "peek", "a", "observed", 0, 1100],
  [1100, "peek", "a", "observed", 2, 1400], // both of 100 have gone at once
  [1100, "acquire", "a", "admitted", 1, 1400],
  [1200.25, "acquire", "a", "admitted", 0, 1400],
  [1200.25, "acquire", "a", "throttled", 0, 1400],
  [1399, "acquire", "b", "admitted", 1, 1400],
  [1400, "acquire", "a", "admitted", 0, 2100], // one went, one came
  [1400, "peek", "b", "observed", 2, 2399],
  [2100, "acquire", "a", "admitted", 0, 2201],
  [2200, "acquire", "a", "throttled", 0, 2201],
  [2200.25, "acquire", "a", "throttled", 0, 2201], // 1200.25 counts from 1201 on
  [2200.875, "acquire", "a", "throttled", 0, 2201],
  [2201, "acquire", "a", "admitted", 0, 2400],
  [3200.25, "peek", "a", "observed", 2, 3201],
  [3201, "peek", "a", "observed", 3, 4201], // idle for a window: all is back
  [3201.25, "acquire", "a", "admitted", 2, 4202],
  [9000, "peek", "b", "observed", 3, 10_000],
];

const windows = [1, 1000, 60_000, 0.5, 333.3, 86_400_000];
const starts = [0, 1, 5_000_000.75, 123_456_789.123_456];
const borders = windows.flatMap((windowMs) => starts.map((startMs) => [windowMs, startMs] as const));

describe.each([
  ["a table of one thread", {}],
  ["a table that threads share", { thread: 2, isShared: true }],
])("%s", (_, options) => {
  const create = (limit: number, windowMs: number) => new LimitedTable({ limit, windowMs }, smallTable(options));

  test("three a second, on one timeline", () => {
    const store = create(3, 1000);
    for (const [atMs, ask, client, outcome, remaining, resetMs] of timeline) {
      expect(store[ask](client, atMs), `${ask} ${client} at ${atMs}`).toEqual({ outcome, remaining, resetMs });
    }
  });

  test.each(borders)(
    "a window of %d ms from %d on is free at its age in whole milliseconds and not before",
    (windowMs, startMs) => {
      const store = create(1, windowMs);
      const { resetMs } = store.acquire("a", startMs);
      expect(resetMs).toBe(Math.ceil(startMs) + Math.ceil(windowMs));
      if (resetMs - 1 > startMs) expect(store.acquire("a", resetMs - 1).outcome).toBe("throttled");
      expect(store.acquire("a", justBefore(resetMs)).outcome).toBe("throttled");
      expect(store.acquire("a", resetMs).outcome).toBe("admitted");
    },
  );

  test("what one client spends takes nothing from another, however alike their names are", () => {
    const store = create(2, 100);
    expect(store.stats()).toMatchObject({ keys: 0, evictedLive: 0 });
    const clients = ["1.2.3.4", "1.2.3.40", "2001:db8::/64", "2001:db8::1", "__proto__", "constructor", "", " "];
    for (const client of clients) {
      expect(store.peek(client, 5)).toMatchObject({ remaining: 2, resetMs: 105 });
      expect([store.acquire(client, 5).remaining, store.acquire(client, 5).remaining]).toEqual([1, 0]);
    }
    for (const client of clients) expect(store.acquire(client, 6).outcome).toBe("throttled");
    expect(store.stats()).toMatchObject({ keys: clients.length, evictedLive: 0 });
  });
});
