// What every Limiter keeps, whatever it counts in. Results are awaited, so a shared store fits as well as a local
// one. The table is one timeline read from top to bottom: it is the specification of the window.
import { describe, expect, test } from "vitest";
import type { Outcome } from "../../src/core/policy.ts";
import { justBefore } from "./float.ts";
import type { LimitedTable, WindowLimit } from "./one-limit.ts";

export function describeCounterStore(name: string, create: (policy: WindowLimit) => LimitedTable): void {
  describe(`${name} keeps the contract of a counter store`, () => {
    tellsTheTimeline(create);
    keepsTheBorder(create);
    spendsNothingNeedlessly(create);
    keepsClientsApart(create);
  });
}

type Create = (policy: WindowLimit) => LimitedTable;
type Row = readonly [
  atMs: number,
  ask: "acquire" | "peek",
  client: string,
  outcome: Outcome,
  remaining: number,
  resetMs: number,
];

const policyOf = (limit: number, windowMs: number): WindowLimit => ({
  limit,
  windowMs,
});

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

function tellsTheTimeline(create: Create): void {
  test("three a second, on one timeline", async () => {
    const store = create(policyOf(3, 1000));
    for (const [atMs, ask, client, outcome, remaining, resetMs] of timeline) {
      const decision = await store[ask](client, atMs);
      expect(decision, `${ask} ${client} at ${atMs}`).toEqual({ outcome, remaining, resetMs });
    }
  });
}

const windows = [1, 1000, 60_000, 0.5, 333.3, 86_400_000];
const starts = [0, 1, 5_000_000.75, 123_456_789.123_456];

function keepsTheBorder(create: Create): void {
  const borders = windows.flatMap((windowMs) => starts.map((startMs) => [windowMs, startMs] as const));

  test.each(borders)(
    "a window of %d ms from %d on is free at its age in whole milliseconds and not before",
    async (windowMs, startMs) => {
      const store = create(policyOf(1, windowMs));
      const { resetMs } = await store.acquire("a", startMs);
      expect(resetMs).toBe(Math.ceil(startMs) + Math.ceil(windowMs));
      if (resetMs - 1 > startMs) expect((await store.acquire("a", resetMs - 1)).outcome).toBe("throttled");
      expect((await store.acquire("a", justBefore(resetMs))).outcome).toBe("throttled");
      expect((await store.acquire("a", resetMs)).outcome).toBe("admitted");
    },
  );

  test("who waits until the reset of a refusal is admitted, and 1 ms earlier is not, again and again", async () => {
    const store = create(policyOf(5, 700.7));
    for (let i = 0; i < 5; i += 1) await store.acquire("a", 13.37 * i);
    let nowMs = 13.37 * 5;
    for (let i = 0; i < 100; i += 1) {
      const { outcome, resetMs } = await store.acquire("a", nowMs);
      expect(outcome).toBe("throttled");
      if (resetMs - 1 >= nowMs) expect((await store.acquire("a", resetMs - 1)).outcome).toBe("throttled");
      nowMs = resetMs;
      expect((await store.acquire("a", nowMs)).outcome).toBe("admitted");
    }
  });
}

function spendsNothingNeedlessly(create: Create): void {
  test("hammering while throttled does not lengthen the block", async () => {
    const store = create(policyOf(2, 100));
    await store.acquire("a", 0);
    await store.acquire("a", 10);
    for (let nowMs = 10; nowMs < 100; nowMs += 0.5) {
      expect(await store.acquire("a", nowMs)).toMatchObject({ outcome: "throttled", remaining: 0, resetMs: 100 });
    }
    expect((await store.acquire("a", 100)).outcome).toBe("admitted");
    expect((await store.acquire("a", 110)).outcome).toBe("admitted");
  });

  test("a thousand looks spend nothing", async () => {
    const store = create(policyOf(1, 100));
    for (let i = 0; i < 1000; i += 1) expect((await store.peek("a", i)).remaining).toBe(1);
    expect((await store.acquire("a", 1000)).outcome).toBe("admitted");
    for (let i = 0; i < 99; i += 1) expect((await store.peek("a", 1000 + i)).resetMs).toBe(1100);
    expect((await store.acquire("a", 1100)).outcome).toBe("admitted");
  });

  test("Remaining is how many are admitted now: that many, and not one more", async () => {
    const store = create(policyOf(7, 100));
    for (const atMs of [0, 0, 30, 60, 90]) await store.acquire("a", atMs);
    for (const nowMs of [95, 100, 130, 165, 400]) {
      const { remaining } = await store.peek("a", nowMs);
      for (let left = remaining - 1; left >= 0; left -= 1) {
        expect(await store.acquire("a", nowMs)).toMatchObject({ outcome: "admitted", remaining: left });
      }
      expect((await store.acquire("a", nowMs)).outcome).toBe("throttled");
    }
  });

  test("idle for a window gives all back", async () => {
    const policy = policyOf(40, 100);
    const store = create(policy);
    for (let round = 0; round < 5; round += 1) {
      const startMs = round * 139;
      for (let i = 0; i < 40; i += 1) expect((await store.acquire("a", startMs + i)).outcome).toBe("admitted");
      expect(await store.acquire("a", startMs + 39)).toMatchObject({ outcome: "throttled", resetMs: startMs + 100 });
      expect(await store.peek("a", startMs + 139)).toMatchObject({ remaining: 40, resetMs: startMs + 239 });
    }
  });
}

function keepsClientsApart(create: Create): void {
  test("what one client spends takes nothing from another, however alike their names are", async () => {
    const store = create(policyOf(2, 100));
    const clients = ["1.2.3.4", "1.2.3.40", "2001:db8::/64", "2001:db8::1", "__proto__", "constructor", "", " "];
    for (const client of clients) {
      expect(await store.peek(client, 5)).toMatchObject({ remaining: 2, resetMs: 105 });
      expect((await store.acquire(client, 5)).remaining).toBe(1);
      expect((await store.acquire(client, 5)).remaining).toBe(0);
    }
    for (const client of clients) expect((await store.acquire(client, 6)).outcome).toBe("throttled");
  });

  test("of a thousand requests at one instant exactly the limit is admitted", async () => {
    const store = create(policyOf(100, 1000));
    const decisions = await Promise.all(Array.from({ length: 1000 }, () => store.acquire("a", 1)));
    expect(decisions.filter(({ outcome }) => outcome === "admitted")).toHaveLength(100);
    const remaining = decisions.filter(({ outcome }) => outcome === "admitted").map((decision) => decision.remaining);
    expect(remaining.toSorted((a, b) => b - a)).toEqual(Array.from({ length: 100 }, (_, i) => 99 - i));
  });

  test("says how many clients it remembers", async () => {
    const store = create(policyOf(2, 100));
    expect(store.stats()).toMatchObject({ keys: 0, evictedLive: 0 });
    await store.acquire("a", 0);
    await store.acquire("b", 0);
    expect(store.stats().keys).toBe(2);
  });
}
