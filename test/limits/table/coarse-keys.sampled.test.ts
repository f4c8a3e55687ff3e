// A table full of keys that must not be forgotten: whoever has no room is limited with its client or its network, never
// unlimited, and nobody is limited with a network that is not its own.

import { describe, expect, test } from "vitest";
import type { CounterKey } from "../../../src/core/counter-key.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { header } from "../../../src/limits/table/layout.ts";
import { type Asking, askSliding } from "../asking.ts";
import { filledBytes, filledPart, keyOf, placeSecret } from "../small-table.ts";
import { flawsOf } from "./sound-table.ts";

const windowMs = 60_000;
const slot = 3;

/** More clients than there is room for, and a few more that come then. */
const [crowd, more] = [16_000 * filledPart, 3000 * filledPart];

/** Kept, because it takes long to fill one. */
let fullTable: Int32Array | null = null;

/** A policy in a table of the smallest size, or of a part of it. */
class Store {
  readonly memory = createTableMemory(filledBytes);
  readonly table = new CounterTable(this.memory, { secret: placeSecret });
  readonly counters: Asking;
  readonly limit: number;

  constructor(limit: number) {
    this.limit = limit;
    this.counters = askSliding(this.table, slot, { kind: "sliding", windowMs, limit, cost: 1 });
  }

  /** `limit`: of an override. */
  take(client: string, nowMs = 0, key: CounterKey = keyOf(client), limit = this.limit): boolean {
    this.counters.select(key, key.isAddress ? key : keyOf(client));
    const fits = this.counters.ask(limit, 1, nowMs);
    if (fits) this.counters.charge();
    return fits;
  }

  /** Returns how many of some requests are admitted. */
  admitted(clients: readonly string[], nowMs = 0): number {
    return clients.filter((client) => this.take(client, nowMs)).length;
  }

  /** Stores exhausted clients, no two of one network, until no shard has room. The limit is 1. */
  fill(): void {
    const words = new Int32Array(this.memory);
    if (fullTable !== null) {
      words.set(fullTable);
      return;
    }
    for (const client of strangers(0, 17_000 * filledPart)) {
      const key = keyOf(client);
      this.take(client, 0, key);
      if (words[header.coarseKeys] !== 0) this.counters.giveBack(key, key, 1, 1, 0);
    }
    if (this.figures().evictedLive > 0) throw new Error("a client was forgotten");
    fullTable = words.slice();
  }

  figures() {
    return this.table.figures().bySlot[slot] ?? { keys: 0, coarse: 0, evictedLive: 0, evictedExpired: 0, merged: 0 };
  }
}

const list = (count: number, textAt: (i: number) => string): string[] =>
  Array.from({ length: count }, (_, i) => textAt(i));
/** Clients of one /48. */
const heavy = (from: number, count: number): string[] =>
  list(count, (i) => `2001:db8:1:${(from + i).toString(16)}::/64`);
/** Clients of which no two are of one /48 or /24. */
const strangers = (from: number, count: number): string[] =>
  list(count, (i) =>
    (from + i) % 2 === 0
      ? `10.${(from + i) >>> 8}.${(from + i) & 0xff}.7`
      : `2001:db8:${(from + i + 0x1000).toString(16)}::/64`,
  );

describe("a network that fills the table with exhausted clients", () => {
  test("leaves every stranger a counter of its own, and its other addresses share one", () => {
    const store = new Store(1);
    store.admitted(heavy(0, crowd));
    expect(store.figures().evictedLive).toBe(0);
    const others = strangers(0, 1000 * filledPart);
    expect(store.admitted(others)).toBe(others.length);
    expect(store.admitted(others)).toBe(0);
    expect(store.figures()).toMatchObject({ coarse: 1, evictedLive: 0 });
    expect(store.admitted(heavy(20_000, more))).toBe(0);
    expect(store.admitted(heavy(0, crowd))).toBe(0);
    expect(flawsOf(store.memory, placeSecret)).toEqual([]);
  });

  test("is admitted no more than its clients' limits together, and its clients again when their window is over", () => {
    const store = new Store(3);
    let admitted = 0;
    for (const client of heavy(0, crowd)) admitted += store.admitted([client, client, client, client]);
    const { keys, coarse, evictedLive } = store.figures();
    expect([coarse, evictedLive]).toEqual([1, 0]);
    // Each with a counter of its own, and the network.
    expect(admitted).toBe(3 * (keys + 1));
    expect(store.admitted(heavy(0, crowd), windowMs - 1)).toBe(0);
    expect(store.admitted(heavy(0, 100), windowMs)).toBe(100);
  });

  test("does not lift the limit of a client that it counts", () => {
    const store = new Store(1);
    const clients = heavy(0, crowd);
    const admitted = new Set(clients.filter((client) => store.take(client)));
    for (const stranger of strangers(0, more)) store.take(stranger);
    for (const nowMs of [1, 1000, windowMs - 1]) {
      for (const client of admitted) if (store.take(client, nowMs)) throw new Error(`${client} twice in a window`);
    }
  });

  test("forgets nothing of a client that it counts whose own limit is higher", () => {
    const store = new Store(1);
    const limit = 20;
    const customers = heavy(0, 300 * filledPart).map((client) => ({ client, key: keyOf(client) }));
    const admitted = (nowMs: number): number =>
      customers.filter(({ client, key }) => store.take(client, nowMs, key, limit)).length;
    for (let i = 0; i < limit; i += 1) expect(admitted(i)).toBe(customers.length);
    store.admitted(heavy(300, crowd), limit);
    store.admitted(strangers(0, more), limit);
    expect(store.figures()).toMatchObject({ coarse: expect.toSatisfy((count) => count > 0), evictedLive: 0 });
    expect(admitted(limit)).toBe(0);
    expect(admitted(windowMs - 1)).toBe(0);
  });
});

describe("many networks that fill the table", () => {
  test("let a newcomer be counted with its own network, and no other", () => {
    const store = new Store(1);
    store.fill();
    const clients = list(400, (i) => `172.16.${i >>> 1}.${i & 1}`);
    // Of two addresses of a network, one is admitted.
    expect(clients.map((client) => store.take(client))).toEqual(clients.map((_, i) => i % 2 === 0));
    expect(store.figures()).toMatchObject({ coarse: 200, evictedLive: 0 });
    expect(store.admitted(clients, 1)).toBe(0);
    expect(store.admitted(clients, windowMs)).toBe(400);
  });

  test("beyond the room for networks too, refuse newcomers until a window is over, and never more", () => {
    const store = new Store(1);
    store.admitted(strangers(0, 17_000 * filledPart));
    const late = strangers(30_000, 500);
    const admitted = store.admitted(late);
    expect(admitted).toBeLessThan(50);
    expect(store.counters).toMatchObject({ remaining: 0, resetMs: windowMs });
    expect(store.admitted(late, windowMs)).toBe(500);
    expect(flawsOf(store.memory, placeSecret)).toEqual([]);
  });
});

describe("keys that are no addresses", () => {
  test("fall back to their client, who gains nothing by inventing more of them", () => {
    const store = new Store(1);
    store.fill();
    const taken = (client: string, from: number) =>
      list(4, (i) => `token ${from + i}`).map((token) => store.take(client, 0, keyOf(token)));
    // Each client has a limit of its own.
    expect(taken("192.0.2.1", 0)).toEqual([true, false, false, false]);
    expect(taken("192.0.2.2", 10)).toEqual([true, false, false, false]);
    expect(taken("192.0.2.1", 20)).toEqual([false, false, false, false]);
    expect(store.figures()).toMatchObject({ coarse: 2, evictedLive: 0 });
    expect(store.take("192.0.2.2", windowMs, keyOf("token 11"))).toBe(true);
  });

  test("are given back where they were counted", () => {
    const store = new Store(1);
    store.fill();
    expect(store.take("192.0.2.2", 5, keyOf("first"))).toBe(true);
    expect(store.take("192.0.2.2", 5, keyOf("second"))).toBe(false);
    store.counters.giveBack(keyOf("first"), keyOf("192.0.2.2"), 1, 1, 5);
    expect(store.figures().coarse).toBe(0);
    expect(store.take("192.0.2.2", 5, keyOf("second"))).toBe(true);
  });
});
