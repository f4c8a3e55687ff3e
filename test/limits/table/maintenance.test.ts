// What the thread that owns the table does for it.

import { describe, expect, test } from "vitest";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import type { SlotRules } from "../../../src/limits/table/key-log.ts";
import { geometryOf, header, shardAt, shardHeader } from "../../../src/limits/table/layout.ts";
import { recordsOf } from "../../../src/limits/table/maintenance.ts";
import { FakeClock } from "../../support/clock.ts";
import { seededRandom } from "../../support/random.ts";
import { type Asking, askCalendar, askConcurrency, askSliding } from "../asking.ts";
import { addressAt, keyOf, placeSecret } from "../small-table.ts";
import { MortalThread } from "./mortal-thread.ts";
import { flawsOf } from "./sound-table.ts";

const bytes = 256 * 1024;
const sliding = 0;
const calendar = 1;
const concurrency = 2;

const rules = (kind: SlotRules["kind"], limit: number): SlotRules => ({
  kind,
  windowMs: kind === "sliding" ? 1000 : 0,
  limit,
  cost: 1,
});

/** Asking of all kinds in one table. */
function createAll(table: CounterTable, limit = 100) {
  const clock = new FakeClock();
  const slidingCounters = askSliding(table, sliding, rules("sliding", limit));
  const calendarCounters = askCalendar(
    table,
    calendar,
    rules("calendar", limit),
    { per: "hour", timezone: "UTC" },
    clock,
  );
  const concurrencyCounters = askConcurrency(table, concurrency, rules("concurrency", limit));
  return { clock, slidingCounters, calendarCounters, concurrencyCounters };
}

function take(table: CounterTable, counters: Asking, text: string, nowMs: number, limit = 100): boolean {
  const key = keyOf(text);
  counters.select(key, key);
  table.locks.acquire();
  try {
    const fits = counters.ask(limit, 1, nowMs);
    if (fits) counters.charge();
    return fits;
  } finally {
    table.locks.release();
  }
}

function remaining(counters: Asking, text: string, nowMs: number, limit = 100): number {
  counters.peek(keyOf(text), keyOf(text), limit, nowMs);
  return counters.remaining;
}

/** Returns the portions. */
function sweepAll({ maintenance }: CounterTable, nowMs: number): number {
  let portions = 1;
  while (!maintenance.sweep(nowMs)) portions += 1;
  return portions;
}

const keysIn = (table: CounterTable, slot: number) => table.figures().bySlot[slot]?.keys;
const open = (memory: SharedArrayBuffer, thread = 1, isShared = false) =>
  new CounterTable(memory, { secret: placeSecret, thread, isShared });

describe("a sweep", () => {
  test("removes what has expired of each kind, and nothing else", () => {
    const memory = createTableMemory(bytes);
    const table = open(memory);
    const { clock, slidingCounters, calendarCounters, concurrencyCounters } = createAll(table);
    for (let i = 0; i < 300; i += 1) {
      const nowMs = i < 200 ? 0 : 500;
      take(table, slidingCounters, addressAt(i), nowMs);
      take(table, calendarCounters, addressAt(i), nowMs);
      take(table, concurrencyCounters, addressAt(i), nowMs);
    }
    sweepAll(table, 999);
    expect([sliding, calendar, concurrency].map((slot) => keysIn(table, slot))).toEqual([300, 300, 300]);
    sweepAll(table, 1000);
    expect([sliding, calendar, concurrency].map((slot) => keysIn(table, slot))).toEqual([100, 300, 300]);
    clock.advance(3_600_000);
    expect(calendarCounters.unspentResetMs(0)).toBeGreaterThan(0);
    sweepAll(table, 5000);
    expect([sliding, calendar, concurrency].map((slot) => keysIn(table, slot))).toEqual([0, 0, 300]);
    for (let i = 0; i < 300; i += 1) {
      concurrencyCounters.giveBack(keyOf(addressAt(i)), keyOf(addressAt(i)), 100, 1, 0);
    }
    expect(table.figures()).toMatchObject({ usedBytes: 0 });
    expect(flawsOf(memory, placeSecret)).toEqual([]);
  });

  test("looks at no more than a portion at once, and says when it was the last one", () => {
    const table = open(createTableMemory(1024 * 1024));
    // As many portions as shards, each time.
    expect([sweepAll(table, 0), sweepAll(table, 0)]).toEqual([16, 16]);
    const large = open(createTableMemory(64 * 1024 * 1024));
    expect(sweepAll(large, 0)).toBe(128);
  });

  test("does not look at the buckets of shards without keys", () => {
    const memory = createTableMemory(bytes);
    const table = open(memory);
    const { slidingCounters } = createAll(table);
    take(table, slidingCounters, addressAt(0), 0);
    const w = new Int32Array(memory);
    const geometry = geometryOf(bytes);
    const keyWords = Array.from({ length: geometry.shards }, (_, i) => shardAt(i, geometry) + shardHeader.keys);
    const at = keyWords.find((word) => w[word] === 1) ?? 0;
    // What only a look could find.
    w[at] = 0;
    sweepAll(table, 5000);
    expect(keysIn(table, sliding)).toBe(1);
    w[at] = 1;
    sweepAll(table, 5000);
    expect(keysIn(table, sliding)).toBe(0);
  });

  test("passes over a shard that another thread has", () => {
    const memory = createTableMemory(bytes);
    const [main, worker] = [open(memory, 1, true), open(memory, 2, true)];
    const { slidingCounters } = createAll(main);
    const { slidingCounters: ofWorker } = createAll(worker);
    for (let i = 0; i < 300; i += 1) take(main, slidingCounters, addressAt(i), 0);
    ofWorker.select(keyOf(addressAt(0)), keyOf(addressAt(0)));
    worker.locks.acquire();
    sweepAll(main, 1000);
    const left = keysIn(main, sliding) ?? 0;
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThan(60);
    worker.locks.release();
    sweepAll(main, 1000);
    expect(keysIn(main, sliding)).toBe(0);
  });
});

test("the keys of a policy that is gone are removed before its slot is free, and those of others stay", () => {
  const table = open(createTableMemory(bytes));
  const { slidingCounters, concurrencyCounters } = createAll(table);
  for (let i = 0; i < 200; i += 1) {
    take(table, slidingCounters, addressAt(i), 0);
    take(table, concurrencyCounters, addressAt(i), 0);
  }
  table.retire(concurrency);
  expect(table.isSlotFree(concurrency)).toBe(false);
  expect(table.isSlotFree(sliding)).toBe(false);
  sweepAll(table, 10);
  expect(table.isSlotFree(concurrency)).toBe(true);
  expect(remaining(slidingCounters, addressAt(0), 10)).toBe(99);
  const again = askConcurrency(table, concurrency, rules("concurrency", 1));
  expect(take(table, again, addressAt(0), 10, 1)).toBe(true);
});

test("the slot of a policy that is gone gets free, also if a thread has ended while it added or removed a key", () => {
  const key = keyOf("198.18.0.1");
  for (let lifetime = 0, isOver = false; !isOver; lifetime += 1) {
    const memory = createTableMemory(32 * 1024);
    const table = open(memory, 1, true);
    const mortal = new MortalThread(memory, { secret: placeSecret, thread: 2, isShared: true });
    const counters = askSliding(mortal.table, sliding, rules("sliding", 10));
    isOver = mortal.run(lifetime, () => {
      counters.select(key, key);
      mortal.table.locks.acquire();
      const charged = counters.ask(10, 1, 0) ? counters.charge() : Number.NaN;
      mortal.table.locks.release();
      counters.giveBack(key, key, 10, 1, charged);
    });
    table.maintenance.recover(2);
    table.retire(sliding);
    sweepAll(table, 0);
    const found = { keys: keysIn(table, sliding), isFree: table.isSlotFree(sliding) };
    expect(found, `ended at store ${lifetime}`).toEqual({ keys: 0, isFree: true });
  }
});

describe("a snapshot", () => {
  test("has every key with its pairs, and a table with another secret and size counts them", () => {
    const random = seededRandom(5);
    const upTo = (count: number): number => Math.floor(random() * count);
    const memory = createTableMemory(bytes);
    const table = open(memory);
    const all = createAll(table, 50);
    const kinds = [all.slidingCounters, all.calendarCounters, all.concurrencyCounters];
    for (let i = 0; i < 5000; i += 1) {
      const text = upTo(2) === 0 ? addressAt(upTo(60)) : `token ${upTo(60)}`;
      take(table, kinds[upTo(3)] as Asking, text, i / 10, 50);
    }
    const shards = Array.from({ length: table.maintenance.shardCount }, (_, i) => table.maintenance.copyShard(i));
    const records = shards.flatMap((shard) => (shard === null ? [] : [...recordsOf(shard)]));
    const copy = new CounterTable(createTableMemory(2 * bytes), { secret: Buffer.alloc(16, 77) });
    const restored = createAll(copy, 50);
    copy.periodOf(calendar).restore(table.periodOf(calendar).number, table.periodOf(calendar));
    for (const record of records) expect(copy.maintenance.restore(record)).toBe(true);
    for (const record of records) expect(copy.maintenance.restore(record)).toBe(false);
    const copies = [restored.slidingCounters, restored.calendarCounters, restored.concurrencyCounters];
    for (let i = 0; i < 60; i += 1) {
      for (const [kind, counters] of kinds.entries()) {
        for (const text of [addressAt(i), `token ${i}`]) {
          for (const nowMs of [500, 1000, 1250, 1499]) {
            const [was, is] = [counters, copies[kind] as Asking].map((one) => {
              one.peek(keyOf(text), keyOf(text), 50, nowMs);
              return [one.remaining, one.resetMs];
            });
            expect(is, `${kind} ${text} at ${nowMs}`).toEqual(was);
          }
        }
      }
    }
  });

  test("a table without room refuses what is left, and stays sound", () => {
    const memory = createTableMemory(48 * 1024);
    const table = open(memory);
    let restored = 0;
    for (let i = 0; i < 2000; i += 1) {
      const key = [0, 0, 0xffff, i] as const;
      const record = { slot: 0, kind: "own", key, isAddress: true, entries: [[1, 1]] } as const;
      if (table.maintenance.restore(record)) restored += 1;
    }
    expect(restored).toBe(keysIn(table, 0));
    expect(restored).toBeLessThan(1000);
    expect(flawsOf(memory, placeSecret)).toEqual([]);
  });
});

test("slots of many threads come back, though no block is free for their pairs", () => {
  const memory = createTableMemory(32 * 1024);
  const tables = Array.from({ length: 7 }, (_, i) => open(memory, i + 1, true));
  const counters = tables.map((table) => createAll(table, 10).concurrencyCounters);
  const [main, first] = [tables[0] as CounterTable, counters[0] as Asking];
  take(main, first, "a", 0, 10);
  for (let i = 0; i < 1000; i += 1) take(main, first, addressAt(i), 0, 10);
  for (const [i, each] of counters.entries()) {
    for (let n = 0; n < (i === 0 ? 0 : 2); n += 1) take(tables[i] as CounterTable, each, "a", 0, 20);
  }
  expect(remaining(first, "a", 0, 20)).toBe(20 - 13);
  for (const [i, each] of counters.entries()) {
    for (let n = 0; n < (i === 0 ? 1 : 2); n += 1) each.giveBack(keyOf("a"), keyOf("a"), 20, 1, 0);
  }
  expect(remaining(first, "a", 0, 20)).toBe(20);
});

describe("a thread that is gone", () => {
  test("gives its slots back, and those of others stay; a busy shard comes later", () => {
    const memory = createTableMemory(bytes);
    const [main, second, third] = [open(memory, 1, true), open(memory, 2, true), open(memory, 3, true)];
    const counters = [main, second, third].map((table) => createAll(table).concurrencyCounters);
    const [ofMain, ofSecond, ofThird] = counters as Asking[] as [Asking, Asking, Asking];
    const texts = Array.from({ length: 100 }, (_, i) => addressAt(i));
    for (const text of texts) {
      for (let n = 0; n < 3; n += 1) take(second, ofSecond, text, 0);
      take(third, ofThird, text, 0);
    }
    ofThird.select(keyOf(texts[0] ?? ""), keyOf(texts[0] ?? ""));
    third.locks.acquire();
    main.maintenance.recover(2);
    third.locks.release();
    const left = texts.map((text) => remaining(ofMain, text, 0));
    expect(left.filter((each) => each === 99).length).toBeGreaterThan(80);
    expect(left).toContain(96);
    sweepAll(main, 0);
    expect(texts.map((text) => remaining(ofMain, text, 0))).toEqual(texts.map(() => 99));
    for (const text of texts) ofThird.giveBack(keyOf(text), keyOf(text), 100, 1, 0);
    sweepAll(main, 0);
    expect(keysIn(main, concurrency)).toBe(0);
    expect(flawsOf(memory, placeSecret)).toEqual([]);
  });

  test("leaves no lock behind", () => {
    const memory = createTableMemory(bytes);
    const [main, second] = [open(memory, 1, true), open(memory, 2, true)];
    const [ofMain, ofSecond] = [createAll(main).slidingCounters, createAll(second).slidingCounters];
    for (let i = 0; i < 50; i += 1) ofSecond.select(keyOf(addressAt(i)), keyOf(addressAt(i)));
    second.locks.acquire();
    second.locks.takeAlone(header.calendarLock);
    main.maintenance.recover(2);
    for (let i = 0; i < 50; i += 1) expect(take(main, ofMain, addressAt(i), 0)).toBe(true);
    expect(flawsOf(memory, placeSecret)).toEqual([]);
  });
});
