// Forgiveness in the table: what is counted as one with others is forgiven with them, threads see it at once, and one that
// ends in the middle leaves nothing that a later request would pay for or profit from.
import { describe, expect, test } from "vitest";
import type { LocalCounters } from "../../../src/limits/counters.ts";
import { createCounters } from "../../../src/limits/policies.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import type { TableOptions } from "../../../src/limits/table/eviction.ts";
import { isForgivenSince } from "../../../src/limits/table/forgiveness.ts";
import { BusyError, geometryOf, header, minTableBytes, shardAt, whenFree } from "../../../src/limits/table/layout.ts";
import { clockOf } from "../../support/clock.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { Asking } from "../asking.ts";
import { addressAt, filledBytes, filledPart, keyOf, placeSecret } from "../small-table.ts";
import { EffectiveUnits } from "./effective-units.ts";
import { MortalThread } from "./mortal-thread.ts";
import { flawsOf } from "./sound-table.ts";

const windowMs = 60_000;
const slot = 3;
const clock = clockOf(
  () => 0,
  () => 0,
);

function countersIn(table: CounterTable, limit: number, chargeStatuses: number[] | null = null): LocalCounters {
  return createCounters(slidingPolicy({ limit, windowMs, chargeStatuses }), table, slot, clock);
}

/** More clients than a table has room for that tests fill. */
const crowd = 16_000 * filledPart;

/** Kept, because it takes long to fill one. */
let fullTable: Int32Array | null = null;

class Store {
  readonly memory = createTableMemory(filledBytes);
  readonly table: CounterTable;
  readonly counters: LocalCounters;
  readonly #asking: Asking;
  readonly #limit: number;

  constructor(limit: number, chargeStatuses: number[] | null = null) {
    this.#limit = limit;
    this.table = new CounterTable(this.memory, { secret: placeSecret });
    this.counters = countersIn(this.table, limit, chargeStatuses);
    this.#asking = new Asking(this.counters, false);
  }

  /** Returns what is to be given back; null if it is refused. */
  take(client: string, key = keyOf(client)) {
    const asking = this.#asking;
    asking.select(key, key.isAddress ? key : keyOf(client));
    if (!asking.ask(this.#limit, 1, 0)) return null;
    const charged = asking.charge();
    return { key, client: asking.asked.client, limit: this.#limit, units: 1, charged, marks: asking.asked.marks };
  }

  admitted(clients: readonly string[]): number {
    return clients.filter((client) => this.take(client) !== null).length;
  }

  /** Stores exhausted clients, no two of one network, until no shard has room. The limit is 1. */
  fill(): void {
    const words = new Int32Array(this.memory);
    if (fullTable !== null) {
      words.set(fullTable);
      return;
    }
    // Nothing is held of them: that may be forgotten, which makes room.
    const plain = new Asking(countersIn(this.table, 1), false);
    for (const client of strangers(17_000 * filledPart)) {
      const key = keyOf(client);
      plain.select(key, key);
      if (plain.ask(1, 1, 0)) plain.charge();
      if (this.isCoarse()) plain.giveBack(key, key, 1, 1, 0);
    }
    fullTable = words.slice();
  }

  forgive(client: string, key = keyOf(client)) {
    return this.counters.forgive(key, key.isAddress ? key : keyOf(client), 0);
  }

  /** Whether the network of a client is counted as one. */
  isCoarse(): boolean {
    return new Int32Array(this.memory)[header.coarseKeys] !== 0;
  }
}

const list = (count: number, textAt: (i: number) => string): string[] =>
  Array.from({ length: count }, (_, i) => textAt(i));
/** Clients of one /48. */
const heavy = (from: number, count: number): string[] =>
  list(count, (i) => `2001:db8:1:${(from + i).toString(16)}::/64`);

/** Clients of which no two are of one /48 or /24. */
const strangers = (count: number): string[] =>
  list(count, (i) => (i % 2 === 0 ? `10.${i >>> 8}.${i & 0xff}.7` : `2001:db8:${(i + 0x1000).toString(16)}::/64`));

describe("a network that is counted as one", () => {
  test("is forgiven with each of its clients, and the exhausted clients of others are not", () => {
    const store = new Store(1);
    const stranger = "10.1.2.3";
    expect(store.admitted([stranger])).toBe(1);
    store.admitted(heavy(0, crowd));
    expect(store.isCoarse()).toBe(true);
    const late = "2001:db8:1:ffff::/64";
    expect(store.admitted([late])).toBe(0);
    expect(store.forgive(late)).toMatchObject({ keys: 1, coarse: "network" });
    expect(store.isCoarse()).toBe(false);
    expect(store.table.figures().bySlot[slot]).toMatchObject({ coarse: 0, forgiven: 1 });
    expect(store.admitted([late])).toBe(1);
    expect(store.admitted([late, stranger])).toBe(0);
    expect(flawsOf(store.memory, placeSecret)).toEqual([]);
  });

  test("gives the client that has a key of its own its whole limit, and its units once", () => {
    const store = new Store(2);
    const own = "2001:db8:1:0::/64";
    store.take(own);
    for (const client of heavy(1, crowd)) store.admitted([client, client]);
    expect(store.isCoarse()).toBe(true);
    expect(store.forgive(own)).toMatchObject({ coarse: "network" });
    expect(store.admitted([own, own, own])).toBe(2);
  });

  test("has no unit of a later request given back by one that it was charged before", () => {
    const store = new Store(1, [401]);
    store.fill();
    const [first, second] = ["172.16.0.1", "172.16.0.2"];
    const before = store.take(first);
    expect([before === null, store.take(second)]).toEqual([false, null]);
    expect(store.forgive(second)).toMatchObject({ units: 1, coarse: "network" });
    expect(store.take(second)).not.toBeNull();
    if (before !== null) store.counters.giveBack(before);
    expect([store.take(first), store.take(second)]).toEqual([null, null]);
  });
});

describe("a key that is counted by its client", () => {
  test("is forgiven with the client's other keys", () => {
    const store = new Store(1);
    store.fill();
    const [mine, other] = ["192.0.2.1", "192.0.2.2"];
    expect(store.take(mine, keyOf("token 1"))).not.toBeNull();
    expect(store.take(other, keyOf("token 2"))).not.toBeNull();
    expect(store.take(mine, keyOf("token 3"))).toBeNull();
    expect(store.forgive(mine, keyOf("token 4"))).toMatchObject({ units: 1, coarse: "client" });
    expect(store.take(mine, keyOf("token 3"))).not.toBeNull();
    expect(store.take(other, keyOf("token 5"))).toBeNull();
  });

  test("is forgiven alone if nobody says which client that is", () => {
    const store = new Store(1);
    store.fill();
    expect(store.take("192.0.2.1", keyOf("token 1"))).not.toBeNull();
    expect(store.counters.forgive(keyOf("token 1"), null, 0)).toEqual({ units: 0, keys: 0, coarse: null });
    expect(store.take("192.0.2.1", keyOf("token 1"))).toBeNull();
  });
});

describe("several threads", () => {
  const opened = (memory: SharedArrayBuffer, thread: number, more: Partial<TableOptions> = {}): CounterTable =>
    new CounterTable(memory, { secret: placeSecret, thread, isShared: true, ...more });

  test("see a forgiveness at once, and give back nothing that was charged before it", () => {
    const memory = createTableMemory(minTableBytes);
    const key = keyOf("192.0.2.1");
    const tables = [opened(memory, 1), opened(memory, 2)] as const;
    const first = countersIn(tables[0], 2, [401]);
    const second = countersIn(tables[1], 2, [401]);
    const before = [chargeBy(first, tables[0]), chargeBy(first, tables[0])];
    expect(chargeBy(second, tables[1])).toBeNull();
    expect(second.forgive(key, key, 0)).toEqual({ units: 2, keys: 1, coarse: null });
    expect([chargeBy(first, tables[0]), chargeBy(second, tables[1])]).not.toContain(null);
    for (const each of before) if (each !== null) first.giveBack(each);
    expect(chargeBy(first, tables[0])).toBeNull();
    expect(flawsOf(memory, placeSecret)).toEqual([]);
  });

  test("are not waited for by one that must not sleep", async () => {
    const memory = createTableMemory(minTableBytes);
    const main = opened(memory, 255, { maySleep: false });
    const counters = countersIn(main, 2);
    const key = keyOf("192.0.2.1");
    expect(chargeBy(counters, main)).not.toBeNull();
    const geometry = geometryOf(minTableBytes);
    const other = opened(memory, 2);
    const shards = Array.from({ length: geometry.ownShards }, (_, i) => shardAt(i, geometry));
    for (const at of shards) other.locks.want(at);
    other.locks.acquire();
    expect(() => counters.forgive(key, key, 0)).toThrow(BusyError);
    other.locks.release();
    // The lock of the coarse keys is the last one: those before it are freed again.
    const last = shardAt(geometry.ownShards, geometry);
    other.locks.acquireLast(last);
    expect(() => counters.forgive(key, key, 0)).toThrow(BusyError);
    expect(shards.filter((at) => other.locks.isHeldBy(at, 255))).toEqual([]);
    expect(other.locks.isHeldBy(last, 2)).toBe(true);
    const forgiven = whenFree(() => counters.forgive(key, key, 0));
    other.locks.release();
    expect(await forgiven).toMatchObject({ units: 1 });
    expect(flawsOf(memory, placeSecret)).toEqual([]);
  });
});

function chargeBy(counters: LocalCounters, table: CounterTable, client = "192.0.2.1") {
  const asking = new Asking(counters, false);
  const key = keyOf(client);
  asking.select(key, key);
  return table.locks.within(() => {
    if (!asking.ask(2, 1, 0)) return null;
    const charged = asking.charge();
    return { key, client: key, limit: 2, units: 1, charged, marks: asking.asked.marks };
  });
}

describe("a thread that ends within a forgiveness", () => {
  test("leaves a sound table, other keys as they were, and nobody with more than the limit", () => {
    const memory = createTableMemory(48 * 1024);
    const words = new Int32Array(memory);
    const main = new CounterTable(memory, { secret: placeSecret, thread: 1, isShared: true });
    const counters = countersIn(main, 2, [401]);
    const mortal = new MortalThread(memory, { secret: placeSecret, thread: 2, isShared: true });
    const dying = countersIn(mortal.table, 2, [401]);
    const key = keyOf("192.0.2.1");
    const before = [chargeBy(counters, main), chargeBy(counters, main)];
    for (const client of ["192.0.2.2", "10.0.0.1"]) chargeBy(counters, main, client);
    const begin = words.slice();
    mortal.run(Number.POSITIVE_INFINITY, () => dying.forgive(key, key, 0));
    const { stores } = mortal;
    expect(stores).toBeGreaterThan(10);
    for (let lifetime = 0; lifetime <= stores; lifetime += 1) {
      words.set(begin);
      mortal.run(lifetime, () => dying.forgive(key, key, 0));
      main.maintenance.recover(2);
      expect(flawsOf(memory, placeSecret)).toEqual([]);
      const units = new EffectiveUnits(memory);
      for (const client of ["192.0.2.2", "10.0.0.1"]) {
        const { a, b, c, d } = keyOf(client);
        expect(units.of(slot, [a, b, c, d], [a, b, c, d])).toEqual([[0, 1]]);
      }
      const after = [chargeBy(counters, main), chargeBy(counters, main)].filter((each) => each !== null);
      for (const each of before) if (each !== null) counters.giveBack(each);
      for (let i = after.length; chargeBy(counters, main) !== null; i += 1) expect(i).toBeLessThan(2);
      // Whoever forgives again completes it.
      counters.forgive(key, key, 0);
      expect([1, 2, 3].map(() => chargeBy(counters, main) !== null)).toEqual([true, true, false]);
    }
  });
});

test("marks are about one key only: of 10,000 others, next to none has both", () => {
  const table = new CounterTable(createTableMemory(minTableBytes), { secret: placeSecret });
  const counters = countersIn(table, 1, [401]);
  const marksOf = (client: string): number => {
    const asking = new Asking(counters, false);
    asking.select(keyOf(client), keyOf(client));
    return table.marksOf(asking.asked.cursor);
  };
  const others = list(10_000, (i) => addressAt(5 * i));
  const before = others.map(marksOf);
  const own = marksOf("192.0.2.1");
  counters.forgive(keyOf("192.0.2.1"), keyOf("192.0.2.1"), 0);
  expect(isForgivenSince(own, marksOf("192.0.2.1"))).toBe(true);
  const changed = others.filter((client, i) => isForgivenSince(before[i] as number, marksOf(client)));
  expect(changed.length).toBeLessThan(20);
});
