// A full table must forget somebody. Whom is random, so what is usual is shown by statistics; that no key is ever
// admitted more than its limit while it is kept, and that an exhausted one is kept, holds without exception.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runs, scaled } from "../support/runs.ts";
import { LimitedTable, type WindowLimit } from "./one-limit.ts";
import { addressAt, filledBytes, filledPart, reusedTable, smallTable } from "./small-table.ts";

/** Of so many keys in a table of the smallest size, those for as large a part of it as is tried. */
const part = (keys: number): number => keys * filledPart;
const tableOf = (limit: WindowLimit): LimitedTable => new LimitedTable(limit, smallTable({}, filledBytes));

/** More than the table has room for. */
const flood = part(20_000);

/** Returns how many of some clients have less than the whole limit left. */
function remembered(store: LimitedTable, clients: readonly string[], nowMs: number): number {
  return clients.filter((client) => store.peek(client, nowMs).remaining < store.policy.limit).length;
}

const named = (name: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${name} ${i}`);

function takeAll(store: LimitedTable, clients: readonly string[], nowMs: number): void {
  for (const client of clients) store.acquire(client, nowMs);
}

describe("who goes first", () => {
  test("what has expired, as long as some of it is left", () => {
    const store = tableOf({ limit: 5, windowMs: 1000 });
    takeAll(store, named("expired", part(10_000)), 0);
    const live = named("live", part(5000));
    takeAll(store, live, 1000);
    expect(remembered(store, live, 1000)).toBeGreaterThan(part(4800));
    expect(store.stats().evictedExpired).toBeGreaterThan(part(1000));
  });

  test("then the keys with the fewest requests", () => {
    const store = tableOf({ limit: 10, windowMs: 1000 });
    const heavy = named("heavy", part(3000));
    for (let i = 0; i < 5; i += 1) takeAll(store, heavy, i);
    takeAll(store, named("light", flood), 10);
    expect(remembered(store, heavy, 20)).toBeGreaterThan(part(2800));
    expect(store.stats().evictedExpired).toBe(0);
  });

  test("of equals the one that has been idle longest, most of the time", () => {
    const store = tableOf({ limit: 10, windowMs: 1000 });
    const groups = Array.from({ length: 5 }, (_, i) => named(`group ${i}`, part(4000)));
    for (const [i, group] of groups.entries()) takeAll(store, group, 100 * i);
    const left = groups.map((group) => remembered(store, group, 500));
    expect(left[4]).toBeGreaterThan(part(3500));
    expect(left[0]).toBeLessThan(part(1000));
    expect(left).toEqual(left.toSorted((a, b) => a - b));
  });

  test("a burst of clients is forgotten as others come, without a timer", () => {
    const store = tableOf({ limit: 2, windowMs: 100 });
    takeAll(store, named("burst", flood), 0);
    const { evictedLive } = store.stats();
    takeAll(store, named("later", part(500)), 100);
    expect(store.stats()).toMatchObject({ evictedLive, evictedExpired: part(500) });
  });
});

describe("an exhausted client is not forgotten", () => {
  test("by a flood of new clients", () => {
    const store = tableOf({ limit: 100, windowMs: 60_000 });
    for (let i = 0; i < 100; i += 1) store.acquire("victim of itself", i);
    for (let i = 0; i < flood; i += 1) {
      if (store.acquire(`flood ${i}`, 100).outcome !== "admitted") throw new Error(`flood ${i} was refused`);
      if (i % 100 === 0) expect(store.acquire("victim of itself", 100).outcome).toBe("throttled");
    }
    expect(store.acquire("victim of itself", 59_999)).toMatchObject({ outcome: "throttled", resetMs: 60_000 });
    expect(store.stats().evictedLive).toBeGreaterThan(part(5000));
  });

  test("by those that are exhausted too: as many as there is room for are all kept until their windows end", () => {
    const store = tableOf({ limit: 2, windowMs: 1000 });
    const first = Array.from({ length: part(8000) }, (_, i) => addressAt(i));
    takeAll(store, [...first, ...first], 0);
    const later = Array.from({ length: flood }, (_, i) => addressAt(50_000 + i));
    takeAll(store, [...later, ...later], 500);
    const admitted = first.filter((client) => store.acquire(client, 999).outcome === "admitted");
    expect(admitted).toEqual([]);
  });

  test("though no more than its next request does not fit", () => {
    const store = tableOf({ limit: 10, windowMs: 1000, units: 4 });
    for (let i = 0; i < 2; i += 1) expect(store.acquire("exhausted", i).outcome).toBe("admitted");
    takeAll(store, named("flood", flood), 10);
    expect(store.acquire("exhausted", 20)).toMatchObject({ outcome: "throttled", remaining: 2 });
  });
});

test("no client is admitted more than its limit while it is kept, and none that is exhausted before its window ends", () => {
  const scripts = fc.record({
    // With one request each, strangers are not exhausted.
    limit: fc.integer({ min: 2, max: 4 }),
    steps: fc.array(
      fc.record({
        client: fc.nat({ max: 10 }),
        gapMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 60 })),
        strangers: fc.constantFrom(0, 0, 0, 300),
      }),
      { minLength: 20, maxLength: 60, size: "max" },
    ),
  });
  const ones = named("one", 11_000);
  let [evicted, refused] = [0, 0];
  fc.assert(
    fc.property(scripts, ({ limit, steps }) => {
      const store = new LimitedTable({ limit, windowMs: 1000 }, reusedTable());
      // Most of the room is taken by clients with one request each.
      takeAll(store, ones, 0);
      const admittedAtMs = new Map<number, number[]>();
      let nowMs = 0;
      let strangers = 0;
      for (const step of steps) {
        nowMs += step.gapMs;
        for (let i = 0; i < step.strangers; i += 1) store.acquire(`stranger ${strangers + i}`, nowMs);
        strangers += step.strangers;
        const counted = (admittedAtMs.get(step.client) ?? []).filter((atMs) => nowMs < atMs + 1000);
        const { outcome, remaining } = store.acquire(`client ${step.client}`, nowMs);
        if (outcome === "throttled") refused += 1;
        // Exhausted keys are kept.
        if (counted.length >= limit) expect(outcome).toBe("throttled");
        else if (outcome === "throttled") throw new Error(`refused with ${counted.length} of ${limit}`);
        // What is forgotten was forgotten as a whole.
        if (outcome === "admitted") {
          const kept = limit - remaining === counted.length + 1;
          if (!kept) expect(remaining).toBe(limit - 1);
          admittedAtMs.set(step.client, [...(kept ? counted : []), nowMs]);
        }
      }
      evicted += store.stats().evictedLive;
    }),
    runs(50),
  );
  expect(evicted).toBeGreaterThan(scaled(500));
  expect(refused).toBeGreaterThan(scaled(50));
});
