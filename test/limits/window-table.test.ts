import { describe, expect, test } from "vitest";
import { describeCounterStore } from "./limiter.contract.ts";
import { LimitedTable, type WindowLimit } from "./one-limit.ts";

describeCounterStore("the memory store", (policy) => new LimitedTable(policy));

const policy: WindowLimit = { limit: 2, windowMs: 100, maxClients: 3 };

/** Takes at one instant, once for each letter. */
function takeAll(store: LimitedTable, clients: string, nowMs: number): void {
  for (const client of clients) store.acquire(client, nowMs);
}

/** Whom the store knows of, found out without changing anything. */
function remembered(store: LimitedTable, clients: string, nowMs: number): string {
  return [...clients].filter((client) => store.peek(client, nowMs).remaining < store.policy.limit).join("");
}

describe("when the store is full", () => {
  test("the client that has been idle longest is forgotten first", () => {
    const store = new LimitedTable({ ...policy, limit: 5 });
    takeAll(store, "abc", 0);
    takeAll(store, "a", 1);
    takeAll(store, "d", 2);
    expect(remembered(store, "abcd", 2)).toBe("acd");
    expect(store.stats()).toEqual({ clients: 3, capacity: 3, evictedExpired: 0, evictedLive: 1 });
  });

  test("a look does not keep a client from being forgotten", () => {
    const store = new LimitedTable({ ...policy, limit: 5 });
    takeAll(store, "abc", 0);
    store.peek("a", 1);
    takeAll(store, "d", 2);
    expect(remembered(store, "abcd", 2)).toBe("bcd");
  });

  test("an exhausted client outlives those that came after it and have quota left", () => {
    const store = new LimitedTable(policy);
    takeAll(store, "aabcdefgh", 0);
    expect(store.acquire("a", 0).outcome).toBe("throttled");
    expect(remembered(store, "abcdefgh", 0)).toBe("agh");
    expect(store.stats().evictedLive).toBe(5);
  });

  test("if all are exhausted, the one released next goes, and the newcomer is counted", () => {
    const store = new LimitedTable(policy);
    takeAll(store, "aa", 0);
    takeAll(store, "cc", 1);
    takeAll(store, "bb", 2);
    takeAll(store, "d", 3);
    expect(remembered(store, "abcd", 3)).toBe("bcd");
    expect(store.acquire("d", 3)).toMatchObject({ outcome: "admitted", remaining: 0 });
    expect(store.acquire("d", 3).outcome).toBe("throttled");
    expect(store.stats()).toEqual({ clients: 3, capacity: 3, evictedExpired: 0, evictedLive: 1 });
  });

  test("who is no longer exhausted is forgotten before who still is", () => {
    const store = new LimitedTable(policy);
    takeAll(store, "a", 0);
    takeAll(store, "a", 50);
    takeAll(store, "bbcc", 60);
    takeAll(store, "d", 100); // one of a's two has just expired
    expect(remembered(store, "abcd", 100)).toBe("bcd");
  });

  test("what has expired goes before what counts, also after having been exhausted", () => {
    const store = new LimitedTable(policy);
    takeAll(store, "a", 0);
    takeAll(store, "a", 10); // exhausted until 100, counted until 110
    takeAll(store, "b", 50); // counted until 150
    takeAll(store, "c", 100); // a is released
    takeAll(store, "d", 120); // full; only a has expired
    expect(remembered(store, "abcd", 120)).toBe("bcd");
    expect(store.stats()).toEqual({ clients: 3, capacity: 3, evictedExpired: 1, evictedLive: 0 });
  });

  test("who is admitted after a release is as recent as that, not as the release", () => {
    const store = new LimitedTable({ ...policy, limit: 3 });
    takeAll(store, "aaa", 0);
    takeAll(store, "b", 110);
    takeAll(store, "a", 120);
    takeAll(store, "cd", 130);
    expect(remembered(store, "abcd", 130)).toBe("acd");
  });
});

test("a burst of clients is forgotten as others come, without a timer", () => {
  const store = new LimitedTable({ ...policy, maxClients: 1000 });
  for (let i = 0; i < 1000; i += 1) store.acquire(`burst ${i}`, 0);
  for (let i = 0; i < 500; i += 1) store.acquire(`later ${i}`, 100);
  expect(store.stats()).toEqual({ clients: 500, capacity: 1000, evictedExpired: 1000, evictedLive: 0 });
});

test("a flood of 20,000 new clients gives an exhausted one nothing back", () => {
  const store = new LimitedTable({ limit: 100, windowMs: 60_000, maxClients: 5000 });
  for (let i = 0; i < 100; i += 1) store.acquire("victim of itself", i);
  for (let i = 0; i < 20_000; i += 1) {
    expect(store.acquire(`flood ${i}`, 100).outcome).toBe("admitted");
    if (i % 1000 === 0) expect(store.acquire("victim of itself", 100).outcome).toBe("throttled");
  }
  expect(store.acquire("victim of itself", 59_999)).toMatchObject({ outcome: "throttled", resetMs: 60_000 });
  expect(store.stats()).toEqual({ clients: 5000, capacity: 5000, evictedExpired: 0, evictedLive: 15_001 });
});
