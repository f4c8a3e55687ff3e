// What a refusal says beside units that are only held, and who gives them back.
import { expect, test } from "vitest";
import { ChargedCounters } from "../../src/limits/charged-counters.ts";
import { assignSlots } from "../../src/limits/policy-slots.ts";
import { SlidingCounters } from "../../src/limits/sliding-counters.ts";
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import type { SlotRules } from "../../src/limits/table/slot-rules.ts";
import { slidingPolicy } from "../support/policy.ts";
import { keyOf, placeSecret, smallTable } from "./small-table.ts";

const key = keyOf("a");
const windowMs = 60_000;
const rules: SlotRules = { kind: "sliding", windowMs, limit: 5, cost: 1 };
const [slot, lastSlot] = [7, 126];

function create(table: CounterTable, at = slot): ChargedCounters {
  return new ChargedCounters(new SlidingCounters(table, at, rules), table, at);
}

/** Asks and, if that is possible, charges. Returns until when a refusal lasts; null for none. */
function take(counters: ChargedCounters, { locks }: CounterTable, limit: number, nowMs: number): number | null {
  counters.select(key, key);
  locks.acquire();
  try {
    const fits = counters.ask(limit, 1, nowMs);
    if (fits) counters.charge();
    return fits ? null : counters.resetMs - nowMs;
  } finally {
    locks.release();
  }
}

test("a refusal that would stand without the held units says when it ends, however many are held", () => {
  const table = smallTable();
  const counters = create(table);
  for (let i = 0; i < 5; i += 1) expect(take(counters, table, 5, i)).toBeNull();
  for (let i = 0; i < 3; i += 1) counters.keep(key, key, 1);
  expect(take(counters, table, 5, 10)).toBe(1000);
  // The limit was lowered: three are kept, so two of them have to expire, and the two that are held may.
  expect(take(counters, table, 3, 10)).toBe(windowMs - 10 + 2);
  expect(take(counters, table, 4, 10)).toBe(1000);
  counters.giveBack(key, key, 5, 1, 4);
  counters.giveBack(key, key, 5, 1, 3);
  expect(take(counters, table, 3, 10)).toBe(windowMs - 10);
  expect(take(counters, table, 4, 10)).toBeNull();
});

test("a refusal that certainly ends within a second says so", () => {
  const table = smallTable();
  const counters = create(table);
  for (let i = 0; i < 5; i += 1) take(counters, table, 5, 0);
  expect(take(counters, table, 5, windowMs - 999)).toBe(999);
});

test("units that the requests of a thread held when it ended are kept", () => {
  const memory = createTableMemory(minTableBytes);
  const [main, thread] = [1, 2].map((number) => {
    return new CounterTable(memory, { secret: placeSecret, thread: number, isShared: true });
  }) as [CounterTable, CounterTable];
  const [ofMain, ofThread] = [create(main), create(thread)];
  for (let i = 0; i < 5; i += 1) take(ofThread, thread, 5, 0);
  expect(take(ofMain, main, 5, 10)).toBe(1000);
  main.maintenance.recover(2);
  expect(take(ofMain, main, 5, 10)).toBe(windowMs - 10);
});

test("what is held leaves no key behind, and its slot is used again when the policy is gone and it is empty", () => {
  const table = smallTable();
  const counters = create(table, lastSlot);
  take(counters, table, 5, 0);
  expect(table.figures().usedBytes).toBe(128);
  table.retire(lastSlot);
  expect(table.isSlotFree(lastSlot)).toBe(false);
  const sweep = (): void => {
    while (!table.maintenance.sweep(0));
  };
  sweep();
  expect(table.isSlotFree(lastSlot)).toBe(true);
  const again = create(table, lastSlot);
  take(again, table, 5, 0);
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
