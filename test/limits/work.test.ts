// What a call costs, in steps instead of time: however many clients are released or requests expire at once, no call
// does the work of all of them, and every answer is exact meanwhile.
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { SlidingWindow } from "../../src/core/sliding-window.ts";
import { PolicyLimiter } from "../../src/limits/policy-limiter.ts";
import { TimedWindows } from "../../src/limits/timed-windows.ts";
import { limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { runs } from "../support/runs.ts";
import { NaiveLog } from "./naive-log.ts";
import { LimitedTable, OneWindow, type WindowLimit } from "./one-limit.ts";

afterEach(() => vi.restoreAllMocks());

const policy: WindowLimit = { limit: 1, windowMs: 1000, maxClients: 100_000 };

test("a call moves at most 8 of 5,000 clients that are released at once", () => {
  const store = new LimitedTable(policy);
  for (let i = 0; i < 5000; i += 1) store.acquire(`exhausted ${i}`, 0);
  const moves = vi.spyOn(TimedWindows.prototype, "add");
  const deletions = vi.spyOn(TimedWindows.prototype, "delete");
  let calls = 0;
  // Each of these clients becomes exhausted itself, and still the number of those that wait shrinks.
  for (let moved = 0; moved < 5000; calls += 1) {
    moves.mockClear();
    deletions.mockClear();
    store.acquire(`new ${calls}`, 1000);
    expect(moves.mock.calls.length).toBeLessThanOrEqual(9);
    expect(deletions.mock.calls.length).toBeLessThanOrEqual(14);
    moved += moves.mock.calls.length - 1;
  }
  expect(calls).toBeLessThan(800);
});

test("a client whose release still waits is admitted at once, counted once, and exhausted again", () => {
  const store = new LimitedTable(policy);
  for (let i = 0; i < 1000; i += 1) store.acquire(`client ${i}`, i / 1000);
  expect(store.peek("client 999", 1000)).toMatchObject({ remaining: 0 });
  expect(store.peek("client 999", 2000)).toMatchObject({ remaining: 1, resetMs: 3000 });
  expect(store.acquire("client 998", 2000)).toMatchObject({ outcome: "admitted", remaining: 0, resetMs: 3000 });
  expect(store.acquire("client 998", 2000).outcome).toBe("throttled");
  expect(store.acquire("client 999", 2000)).toMatchObject({ outcome: "admitted", remaining: 0 });
  expect(store.stats().clients + store.stats().evictedExpired).toBe(1000);
});

test("equals the naive log while hundreds of releases wait", () => {
  const clients = Array.from({ length: 300 }, (_, i) => `client ${i}`);
  const step = fc.record({
    client: fc.constantFrom(...clients),
    isPeek: fc.boolean(),
    gapMs: fc.constantFrom(0, 0, 1),
  });
  const scripts = fc.record({
    limit: fc.integer({ min: 1, max: 3 }),
    pausesMs: fc.array(fc.constantFrom(50, 99, 100, 101, 130), { minLength: 1, maxLength: 4 }),
    steps: fc.array(step, { minLength: 1, maxLength: 60, size: "max" }),
  });
  fc.assert(
    fc.property(scripts, ({ limit, pausesMs, steps }) => {
      const small = { limit, windowMs: 100, maxClients: 1000 };
      const store = new LimitedTable(small);
      const log = new NaiveLog(small);
      let nowMs = 0;
      for (const pauseMs of pausesMs) {
        for (const client of clients) for (let i = 0; i < limit; i += 1) same(client, "acquire");
        nowMs += pauseMs;
        for (const { client, isPeek, gapMs } of steps) {
          nowMs += gapMs;
          same(client, isPeek ? "peek" : "acquire");
        }
      }
      function same(client: string, ask: "peek" | "acquire"): void {
        const { outcome, remaining, resetMs } = store[ask](client, nowMs);
        const expected = log[ask](client, nowMs);
        const isEqual =
          outcome === expected.outcome && remaining === expected.remaining && resetMs === expected.resetMs;
        if (!isEqual) expect({ client, nowMs, outcome, remaining, resetMs }).toEqual(expected);
      }
    }),
    runs(200),
  );
});

test("a full store forgets who waits for the release before who is exhausted", () => {
  const store = new LimitedTable({ ...policy, maxClients: 100 });
  for (let i = 0; i < 50; i += 1) store.acquire(`released ${i}`, 0);
  for (let i = 0; i < 50; i += 1) store.acquire(`exhausted ${i}`, 900);
  for (let i = 0; i < 50; i += 1) store.acquire(`new ${i}`, 1000);
  for (let i = 0; i < 50; i += 1) expect(store.acquire(`exhausted ${i}`, 1000).outcome).toBe("throttled");
  expect(store.stats()).toMatchObject({ clients: 100, evictedExpired: 50, evictedLive: 0 });
});

test("a store that becomes empty clears no array of its maximum size", () => {
  const store = new LimitedTable({ ...policy, maxClients: 1_000_000 });
  const fill = vi.spyOn(Array.prototype, "fill");
  for (let i = 0; i < 10; i += 1) store.acquire("the only client", i * 1000);
  const lengths = fill.mock.contexts.map((array) => (array as unknown[]).length);
  expect(Math.max(0, ...lengths)).toBeLessThan(10);
});

test("100,000 requests that expire at one instant are forgotten in fewer than 50 comparisons", () => {
  let comparisons = 0;
  // Each comparison adds the window to an instant.
  const windowMs = {
    valueOf() {
      comparisons += 1;
      return 1000;
    },
  };
  const counting = { ...policy, limit: 100_000, windowMs: windowMs as unknown as number };
  const window = new OneWindow(counting);
  for (let i = 0; i < 100_000; i += 1) window.take(i < 99_990 ? 0 : 10);
  for (const [nowMs, remaining] of [
    [999, 0],
    [1000, 99_990],
    [1010, 100_000],
  ] as const) {
    comparisons = 0;
    expect(window.peek(nowMs).remaining).toBe(remaining);
    expect(comparisons).toBeLessThan(50);
  }
});

test("giving back units near either end of 200,000 moves only those between them and that end", () => {
  const window = new SlidingWindow();
  for (let i = 0; i < 200_000; i += 1) window.record(1, i, 200_000);
  const begin = process.threadCpuUsage();
  for (let i = 100; i < 5000; i += 1) {
    window.remove(1, i);
    window.remove(1, 200_000 - i);
  }
  const { user, system } = process.threadCpuUsage(begin);
  expect(window.remove(0, 0)).toBe(200_000 - 9800);
  // Moving the other side would take about a billion steps each.
  expect(user + system).toBeLessThan(1_500_000);
});

test("a token is read once, however many policies are by token, and is not kept", () => {
  const key = [{ kind: "token" }] as const;
  const overrides = [{ part: "token", value: "0".repeat(64), limit: 9 }] as const;
  const policies = Array.from({ length: 32 }, (_, i) =>
    slidingPolicy({ name: `p${i}`, limit: 5, windowMs: 1000, key, overrides }),
  );
  const limiter = new PolicyLimiter(policies);
  const rawHeaders = ["Authorization", ""];
  let token = "first";
  let reads = 0;
  Object.defineProperty(rawHeaders, 1, {
    get: () => {
      reads += 1;
      return `Bearer ${token}`;
    },
  });
  const { request, head } = limitedRequest({ rawHeaders });
  expect(limiter.acquire(request, head, 0)).toMatchObject({ remaining: 4 });
  expect(reads).toBe(1);
  token = "second";
  expect(limiter.acquire(request, head, 0)).toMatchObject({ remaining: 4 });
});
