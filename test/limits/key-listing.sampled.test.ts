// What listing the keys costs: the table is read in portions of a few thousand keys, and a reading is followed by a pause.
import { afterEach, expect, test, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { KeyListing } from "../../src/limits/key-listing.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { geometryOf, minTableBytes, shardAt } from "../../src/limits/table/layout.ts";
import { TopKeys } from "../../src/limits/table/top-keys.ts";
import { decided } from "../support/decided.ts";
import { askedRequest, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { inFullOr } from "../support/runs.ts";
import { addressAt, placeSecret } from "./small-table.ts";

afterEach(() => vi.restoreAllMocks());

const policy = slidingPolicy({ limit: 10, windowMs: 60_000 });

function filled(keys: number, isShared = false, bytes = minTableBytes) {
  const memory = createTableMemory(bytes);
  const table = new CounterTable(memory, { secret: placeSecret, isShared });
  const limiter = new PolicyLimiter([policy], { table });
  const nowMs = systemClock.monotonicMs();
  for (let i = 0; i < keys; i += 1) {
    const { request, head } = limitedRequest({ client: addressAt(i) });
    for (let unit = i % 7; unit >= 0; unit -= 1) decided(limiter.ask(askedRequest(request, head, nowMs), "anonymous"));
  }
  return {
    memory,
    table,
    limiter,
    spans: [{ now: Math.floor(nowMs) | 0, window: 60_000, limit: 10, hasInstants: true }],
  };
}

const byUse = { slot: null, sort: "used", matches: null, limit: 5 } as const;

test("a portion reads a bounded number of keys", () => {
  // With several thousand keys in a shard; in `npm test`, with two thousand.
  const [keys, mebibytes] = inFullOr([100_000, 16], [30_000, 4]);
  const { table, spans } = filled(keys, false, mebibytes * 1024 * 1024);
  const top = new TopKeys(table.memory, [byUse], spans);
  let read = 0;
  const portions: number[] = [];
  const counting = { ...byUse, sort: "recent" as const, matches: () => read++ >= 0 };
  const all = new TopKeys(table.memory, [{ ...counting, limit: 1_000 }], spans);
  for (let isLast = false; !isLast; ) {
    const before = read;
    isLast = all.readPortion();
    portions.push(read - before);
  }
  expect(portions.length).toBeGreaterThan(2);
  expect(Math.max(...portions)).toBeLessThan(3_100);
  while (!top.readPortion());
  expect(top.lists()[0]?.map(({ units }) => units)).toEqual([7, 7, 7, 7, 7]);
});

test("a shard that another thread has locked is read later, and never waited for", () => {
  const { memory, table, spans } = filled(2_000, true);
  const other = new CounterTable(memory, { secret: placeSecret, thread: 2, isShared: true });
  const lockAt = shardAt(0, geometryOf(minTableBytes));
  other.locks.want(lockAt);
  other.locks.acquire();
  const top = new TopKeys(
    table.memory,
    [
      { ...byUse, limit: 1_000 },
      { ...byUse, limit: 999 },
    ],
    spans,
  );
  for (let i = 0; i < 50; i += 1) expect(top.readPortion()).toBe(false);
  other.locks.release();
  while (!top.readPortion());
  expect(top.lists().map((list) => list.length)).toEqual([1_000, 999]);
  expect(top.lists()[0]?.every(({ units }) => units >= 4)).toBe(true);
});

test("a shard that stays locked is left out at last", () => {
  const { memory, table, spans } = filled(500, true);
  const other = new CounterTable(memory, { secret: placeSecret, thread: 2, isShared: true });
  other.locks.want(shardAt(0, geometryOf(minTableBytes)));
  other.locks.acquire();
  const top = new TopKeys(table.memory, [{ ...byUse, limit: 1_000 }], spans);
  let portions = 0;
  while (!top.readPortion()) portions += 1;
  expect(portions).toBeLessThan(2_000);
  expect(top.lists()[0]?.length).toBeGreaterThan(300);
});

test("a reading is followed by a pause of 19 times what it took, in which others wait", async () => {
  const { limiter } = filled(3_000);
  // Whatever reads the clock takes a millisecond. A whole number, so that differences are whole too.
  let nowMs = Math.ceil(systemClock.monotonicMs());
  const clock = { monotonicMs: () => (nowMs += 1) };
  const context = { ipv6Prefix: 64, listed: null, routes: [] };
  let readings = 0;
  const source = () => {
    readings += 1;
    return { view: limiter.view(), context };
  };
  const delays: number[] = [];
  const real = globalThis.setTimeout;
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((run: () => void, ms: number) => {
    delays.push(ms);
    return real(run, 0);
  }) as typeof setTimeout);
  const listing = new KeyListing(source, clock);
  const query = { policy: null, sort: "used", search: "", limit: 3 } as const;
  const first = listing.top(query);
  const others = [listing.top({ ...query, limit: 4 }), listing.top({ ...query, limit: 4 }), listing.top(query)];
  expect((await first).map(({ used }) => used)).toEqual([7, 7, 7]);
  for (const each of await Promise.all(others)) expect(each.map(({ used }) => used)).toEqual(each.map(() => 7));
  expect(readings).toBe(2);
  // Names, the query, at least a portion of the table, and one of the names that are shown. What is left of other tests of
  // this process may set timers meanwhile, of a round number of milliseconds.
  const pauses = delays.filter((ms) => ms >= 19 * 4 && ms % 19 === 0);
  expect(pauses.length).toBeGreaterThanOrEqual(readings);
});
