// What a refusal says beside units that are only held, and who gives them back.

import { describe, expect, test } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { CalendarCounters } from "../../src/limits/calendar-counters.ts";
import { SlidingCounters } from "../../src/limits/counters.ts";
import { assignSlots } from "../../src/limits/policies.ts";
import type { ChargedCounters } from "../../src/limits/slot-counters.ts";
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { takeLine } from "../../src/limits/table/directory.ts";
import type { SlotRules } from "../../src/limits/table/key-log.ts";
import { geometryOf, minTableBytes, shardAt } from "../../src/limits/table/layout.ts";
import { FakeClock } from "../support/clock.ts";
import { slidingPolicy } from "../support/policy.ts";
import { type Asking, askCharged } from "./asking.ts";
import { keyOf, placeSecret, smallTable } from "./small-table.ts";

const key = keyOf("a");
const windowMs = 60_000;
const rules: SlotRules = { kind: "sliding", windowMs, limit: 5, cost: 1 };
const [slot, lastSlot] = [7, 126];

type Charged = Asking<ChargedCounters>;

function create(table: CounterTable, at = slot, before: Charged | null = null, ms = windowMs): Charged {
  return askCharged(new SlidingCounters(table, at, { ...rules, windowMs: ms }), table, at, before !== null);
}

function createCalendar(table: CounterTable, clock: Clock, per: "minute" | "hour", before: Charged | null = null) {
  const calendar = { per, timezone: "UTC" };
  const all = new CalendarCounters(table, slot, { ...rules, kind: "calendar" }, calendar, clock);
  return askCharged(all, table, slot, before !== null);
}

type Taken = { readonly charged: number } | { readonly refusedMs: number };

/** Asks and, if that is possible, charges. */
function take(counters: Charged, { locks }: CounterTable, limit: number, nowMs: number, by = key): Taken {
  counters.select(by, by);
  locks.acquire();
  try {
    const fits = counters.ask(limit, 1, nowMs);
    return fits ? { charged: counters.charge() } : { refusedMs: counters.resetMs - nowMs };
  } finally {
    locks.release();
  }
}

function chargedOf(taken: Taken): number {
  return "charged" in taken ? taken.charged : Number.NaN;
}

/** Takes several units, and returns what `charge` has returned for each. */
function hold(counters: Charged, table: CounterTable, count: number, nowMs: number): readonly number[] {
  return Array.from({ length: count }, () => chargedOf(take(counters, table, 5, nowMs)));
}

function keepAll(counters: Charged, charges: readonly number[]): void {
  for (const charged of charges) counters.keep(key, key, 5, 1, charged);
}

test("a refusal that would stand without the held units says when it ends, however many are held", () => {
  const table = smallTable();
  const counters = create(table);
  const charges = [0, 1, 2, 3, 4].flatMap((nowMs) => hold(counters, table, 1, nowMs));
  keepAll(counters, charges.slice(0, 3));
  expect(take(counters, table, 5, 10)).toEqual({ refusedMs: 1000 });
  // The limit was lowered: three are kept, so two of them have to expire, and the two that are held may.
  expect(take(counters, table, 3, 10)).toEqual({ refusedMs: windowMs - 10 + 2 });
  expect(take(counters, table, 4, 10)).toEqual({ refusedMs: 1000 });
  for (const charged of charges.slice(3)) counters.giveBack(key, key, 5, 1, charged);
  expect(take(counters, table, 3, 10)).toEqual({ refusedMs: windowMs - 10 });
  expect(take(counters, table, 4, 10)).toEqual({ charged: 10 });
});

test("a refusal that certainly ends within a second says so", () => {
  const table = smallTable();
  const counters = create(table);
  hold(counters, table, 5, 0);
  expect(take(counters, table, 5, windowMs - 999)).toEqual({ refusedMs: 999 });
});

describe("units that are held longer than they count make no room", () => {
  test("after the end of their window", () => {
    const table = smallTable();
    const counters = create(table);
    const old = hold(counters, table, 5, 0);
    keepAll(counters, hold(counters, table, 5, windowMs));
    expect(take(counters, table, 5, windowMs + 10)).toEqual({ refusedMs: windowMs - 10 });
    // Nor do they give back what others have taken.
    for (const charged of old) counters.giveBack(key, key, 5, 1, charged);
    expect(take(counters, table, 5, windowMs + 10)).toEqual({ refusedMs: windowMs - 10 });
  });

  test("after the end of their window, while others count that are kept", () => {
    const table = smallTable();
    const counters = create(table);
    const old = hold(counters, table, 2, 0);
    keepAll(counters, hold(counters, table, 3, 30_000));
    keepAll(counters, hold(counters, table, 2, windowMs));
    expect(take(counters, table, 5, windowMs)).toEqual({ refusedMs: 30_000 });
    keepAll(counters, old);
    expect(take(counters, table, 5, windowMs)).toEqual({ refusedMs: 30_000 });
  });

  test("after the border of their period, and those that are held after it do", () => {
    const clock = new FakeClock();
    clock.wallOffsetMs = Date.UTC(2026, 2, 10) - clock.nowMs;
    const table = smallTable();
    const counters = createCalendar(table, clock, "minute");
    const old = hold(counters, table, 5, clock.nowMs);
    expect(take(counters, table, 5, clock.nowMs)).toEqual({ refusedMs: 1000 });
    clock.advance(60_000);
    const later = hold(counters, table, 5, clock.nowMs);
    keepAll(counters, later.slice(1));
    expect(take(counters, table, 5, clock.nowMs)).toEqual({ refusedMs: 1000 });
    keepAll(counters, later.slice(0, 1));
    expect(take(counters, table, 5, clock.nowMs)).toEqual({ refusedMs: 60_000 });
    keepAll(counters, old);
    expect(take(counters, table, 5, clock.nowMs)).toEqual({ refusedMs: 60_000 });
  });

  test("after a reload that made the window shorter", () => {
    const table = smallTable();
    const before = create(table);
    const old = hold(before, table, 3, 0);
    const counters = create(table, slot, before, 10_000);
    keepAll(counters, hold(counters, table, 5, 20_000));
    expect(take(counters, table, 5, 20_000)).toEqual({ refusedMs: 10_000 });
    keepAll(before, old);
    expect(take(counters, table, 5, 20_000)).toEqual({ refusedMs: 10_000 });
  });

  test("after a reload that made the window longer, until it is over", () => {
    const table = smallTable();
    const before = create(table);
    const old = hold(before, table, 3, 0);
    const counters = create(table, slot, before, 3 * windowMs);
    keepAll(counters, hold(counters, table, 2, windowMs));
    expect(take(counters, table, 5, windowMs)).toEqual({ refusedMs: 1000 });
    keepAll(before, old.slice(1));
    expect(take(counters, table, 5, windowMs)).toEqual({ refusedMs: 1000 });
    keepAll(before, old.slice(0, 1));
    expect(take(counters, table, 5, windowMs)).toEqual({ refusedMs: 2 * windowMs });
  });

  test("after a reload to another period, which goes on", () => {
    const clock = new FakeClock();
    clock.wallOffsetMs = Date.UTC(2026, 2, 10) - clock.nowMs;
    const table = smallTable();
    const before = createCalendar(table, clock, "minute");
    const old = hold(before, table, 5, clock.nowMs);
    const counters = createCalendar(table, clock, "hour", before);
    expect(take(counters, table, 5, clock.nowMs)).toEqual({ refusedMs: 1000 });
    keepAll(before, old);
    expect(take(counters, table, 5, clock.nowMs)).toEqual({ refusedMs: 3_600_000 });
  });
});

test("what is held is forgotten with the key, when the table has evicted it", () => {
  const table = smallTable();
  const counters = create(table);
  hold(counters, table, 4, 0);
  counters.select(key, key);
  counters.ask(5, 1, 0);
  table.forget(counters.asked.cursor);
  keepAll(counters, hold(counters, table, 5, 10));
  expect(take(counters, table, 5, 10)).toEqual({ refusedMs: windowMs });
});

describe("in a table without room", () => {
  test("units that are held at several instants count as kept", () => {
    const { table, fill } = fillable();
    const counters = create(table);
    const charges = [...hold(counters, table, 5, 0)];
    fill();
    for (let nowMs = 1; nowMs <= 5; nowMs += 1) charges.push(chargedOf(take(counters, table, 10, nowMs)));
    keepAll(counters, charges);
    expect(take(counters, table, 10, 6)).not.toEqual({ refusedMs: 1000 });
  });

  test("units that others of the network hold make no room for a client that has a counter of its own", () => {
    const { table, fill } = fillable();
    const counters = create(table);
    const [client, neighbour] = [keyOf("192.0.2.1"), keyOf("192.0.2.2")];
    const takeAndKeep = (limit: number) =>
      counters.keep(client, client, limit, 1, chargedOf(take(counters, table, limit, 0, client)));
    for (let i = 0; i < 5; i += 1) takeAndKeep(5);
    fill();
    for (let i = 0; i < 4; i += 1) take(counters, table, 5, 0, neighbour);
    takeAndKeep(6);
    expect(take(counters, table, 6, 0, client)).toEqual({ refusedMs: windowMs });
  });
});

/** A table, and what takes all its lines, except those of coarse keys. */
function fillable(): { readonly table: CounterTable; readonly fill: () => void } {
  const memory = createTableMemory(minTableBytes);
  const geometry = geometryOf(minTableBytes);
  const fill = (): void => {
    for (let index = 0; index < geometry.ownShards; index += 1) {
      while (takeLine(new Int32Array(memory), shardAt(index, geometry)) !== 0);
    }
  };
  return { table: new CounterTable(memory, { secret: placeSecret }), fill };
}

test("units that the requests of a thread held when it ended are kept", () => {
  const memory = createTableMemory(minTableBytes);
  const [main, thread] = [1, 2].map((number) => {
    return new CounterTable(memory, { secret: placeSecret, thread: number, isShared: true });
  }) as [CounterTable, CounterTable];
  const [ofMain, ofThread] = [create(main), create(thread)];
  const kept = hold(ofMain, main, 2, 0);
  hold(ofThread, thread, 3, 0);
  expect(take(ofMain, main, 5, 10)).toEqual({ refusedMs: 1000 });
  main.maintenance.recover(2);
  expect(take(ofMain, main, 5, 10)).toEqual({ refusedMs: windowMs - 10 });
  for (const charged of kept) ofMain.giveBack(key, key, 5, 1, charged);
  expect(take(ofMain, main, 5, 10)).toEqual({ charged: 10 });
  expect(take(ofMain, main, 4, 10)).toEqual({ refusedMs: 1000 });
});

test("what is held leaves no key behind, and its slot is used again when the policy is gone and it is empty", () => {
  const table = smallTable();
  const counters = create(table, lastSlot);
  hold(counters, table, 1, 0);
  expect(table.figures().usedBytes).toBe(128);
  table.retire(lastSlot);
  expect(table.isSlotFree(lastSlot)).toBe(false);
  const sweep = (): void => {
    while (!table.maintenance.sweep(0));
  };
  sweep();
  expect(table.isSlotFree(lastSlot)).toBe(true);
  const again = create(table, lastSlot);
  hold(again, table, 1, 0);
  // Those of the policy before give nothing back.
  counters.giveBack(key, key, 5, 1, 0);
  expect(table.figures().usedBytes).toBe(128);
  again.giveBack(key, key, 5, 1, 0);
  expect(table.figures().usedBytes).toBe(0);
});

test("policies have 127 slots: the others are for what is held of them, and for connections", () => {
  const policies = Array.from({ length: 128 }, (_, i) => slidingPolicy({ name: `${i}`, limit: 1, windowMs: 1 }));
  expect(assignSlots(policies.slice(1), []).at(-1)?.slot).toBe(lastSlot);
  expect(() => assignSlots(policies, [])).toThrow("no slot left");
});
