// What a call costs, in lines of memory instead of time: however many keys have expired and however full the table is,
// no call does the work of all of them, and every answer is exact meanwhile.
import fc from "fast-check";
import { expect, test } from "vitest";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import { askedRequest, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { runs } from "../support/runs.ts";
import { NaiveLog } from "./naive-log.ts";
import { LimitedTable, type WindowLimit } from "./one-limit.ts";
import { addressAt, placeSecret, reusedTable } from "./small-table.ts";
import { openWatched, type Watch } from "./watched-memory.ts";

/** Two views of one table: the second one tells which lines it uses. */
function watchedStore(policy: WindowLimit): { store: LimitedTable; seen: LimitedTable; watch: Watch } {
  const memory = createTableMemory(minTableBytes);
  const { table, watch } = openWatched(memory, placeSecret);
  const store = new LimitedTable(policy, new CounterTable(memory, { secret: placeSecret }));
  return { store, seen: new LimitedTable(policy, table), watch };
}

/** Returns the most lines that one of some calls reads or writes. */
function mostLines(watch: Watch, calls: number, call: (i: number) => void): number {
  let most = 0;
  for (let i = 0; i < calls; i += 1) {
    watch.lines.clear();
    call(i);
    most = Math.max(most, watch.lines.size);
  }
  return most;
}

test("a stored key takes at most four lines, and a new one in a full table at most 25", () => {
  const { store, seen, watch } = watchedStore({ limit: 2, windowMs: 1000 });
  for (let i = 0; i < 15_000; i += 1) store.acquire(`client ${i}`, i / 1000);
  expect(mostLines(watch, 300, (i) => seen.acquire(`client ${14_700 + i}`, 20))).toBeLessThanOrEqual(4);
  expect(mostLines(watch, 300, (i) => seen.acquire(`live ${i}`, 30))).toBeLessThanOrEqual(25);
  const { evictedLive } = store.stats();
  expect(mostLines(watch, 300, (i) => seen.acquire(`expired ${i}`, 1030))).toBeLessThanOrEqual(25);
  expect(store.stats()).toMatchObject({ evictedLive, evictedExpired: 300 });
});

test("where nothing may go, a call looks at no more than 300 lines of 14,000", () => {
  const { store, seen, watch } = watchedStore({ limit: 1, windowMs: 1000 });
  for (let i = 0; i < 14_500; i += 1) store.acquire(addressAt(i), 0);
  expect(mostLines(watch, 200, (i) => seen.acquire(addressAt(20_000 + i), 0))).toBeLessThanOrEqual(300);
  expect(store.stats()).toMatchObject({ evictedLive: 0, evictedExpired: 0 });
});

test("100,000 requests of one client take as many pairs as a window has cells, and expire in one walk", () => {
  const { store, seen, watch } = watchedStore({ limit: 100_000, windowMs: 100_000 });
  for (let i = 0; i < 100_000; i += 1) store.acquire("client", i / 2);
  expect(store.acquire("client", 99_999).outcome).toBe("throttled");
  // 2048 pairs, seven in a line.
  expect(store.table.figures().usedBytes / 64).toBeLessThan(300);
  expect(mostLines(watch, 1, () => seen.acquire("client", 150_000))).toBeLessThan(310);
  expect(store.table.figures().usedBytes / 64).toBeLessThan(3);
  expect(mostLines(watch, 1, () => seen.acquire("client", 150_001))).toBeLessThanOrEqual(4);
});

test("the newest unit of 9,000 is given back without a walk through the others", () => {
  const { store, seen, watch } = watchedStore({ limit: 10_000, windowMs: 100_000 });
  for (let i = 0; i < 9_000; i += 1) store.acquire("client", i);
  const giveBack = (i: number): number => {
    store.acquire("client", 9_000 + i);
    return mostLines(watch, 1, () => seen.giveBack("client", 9_000 + i));
  };
  expect(Math.max(...Array.from({ length: 10 }, (_, i) => giveBack(i)))).toBeLessThanOrEqual(6);
  expect(store.peek("client", 9_010).remaining).toBe(1_000);
});

test("equals the naive log while hundreds of keys expire at once", () => {
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
      const small = { limit, windowMs: 100 };
      const store = new LimitedTable(small, reusedTable());
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
  expect(limiter.ask(askedRequest(request, head, 0), "anonymous")).toMatchObject({ remaining: 4 });
  expect(reads).toBe(1);
  token = "second";
  expect(limiter.ask(askedRequest(request, head, 0), "anonymous")).toMatchObject({ remaining: 4 });
});
