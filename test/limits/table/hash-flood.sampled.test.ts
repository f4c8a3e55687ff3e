// What somebody can do who chooses addresses: not fill one bucket, because where a key goes is by a hash with a secret;
// not push out who is exhausted; not have strangers limited with a network.
import { expect, test } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import { Cursor, Locator } from "../../../src/limits/table/directory.ts";
import { geometryOf, kinds, shardAt } from "../../../src/limits/table/layout.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { scaled } from "../../support/runs.ts";
import { FloodedLimiter } from "./flood.ts";

const MiB = 1024 * 1024;
const geometry = geometryOf(32 * MiB);
const known = new Locator(geometry, new Uint8Array(16));
const secret = Uint8Array.from({ length: 16 }, (_, i) => 31 * i + 5);
const once = slidingPolicy({ limit: 1, windowMs: 60_000 });
const ipv4 = (address: number): CounterKey => new CounterKey(0, 0, 0xffff, address, true);

function placeOf(places: Locator, address: number): number {
  const cursor = new Cursor();
  places.point(cursor, kinds.own, ipv4(address));
  return (cursor.shard - shardAt(0, geometry)) * 8 + cursor.firstBucket;
}

/** The most keys that one bucket gets. */
function fullest(places: Locator, addresses: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const address of addresses) {
    const place = placeOf(places, address);
    counts.set(place, (counts.get(place) ?? 0) + 1);
  }
  return Math.max(...counts.values());
}

const chosen: Readonly<Record<string, (count: number) => number[]>> = {
  "the low bits of an address": (count) => Array.from({ length: count }, (_, i) => i << 12),
  "FNV-1a": (count) => addressesWhere(count, (address) => (fnv(address) & 0x1f) === 0),
  "the hash of this table with a secret of zeros": (count) =>
    addressesWhere(count, (address) => placeOf(known, address) < 8 * geometry.shardWords),
};

function addressesWhere(count: number, isChosen: (address: number) => boolean): number[] {
  const found: number[] = [];
  for (let address = 0x01000000; found.length < count; address += 1) if (isChosen(address)) found.push(address);
  return found;
}

function fnv(address: number): number {
  let hash = 0x811c9dc5;
  for (let shift = 24; shift >= 0; shift -= 8) hash = Math.imul(hash ^ ((address >>> shift) & 0xff), 0x01000193);
  return hash;
}

test.each(Object.entries(chosen))("addresses chosen against %s meet in no bucket", (_, choose) => {
  const addresses = choose(scaled(100_000));
  const random = Array.from(addresses, (_, i) => Math.imul(i + 1, 0x9e3779b1));
  const places = new Locator(geometry, secret);
  // By chance, the fullest of 50,000 places gets about 10 of 100,000 keys.
  expect(fullest(places, addresses)).toBeLessThanOrEqual(fullest(places, random) + 4);
});

test("clients that are exhausted are all kept, and strangers after them have counters of their own", () => {
  const clients = scaled(350_000);
  const flooded = new FloodedLimiter([once], (32 * MiB * clients) / 350_000, secret);
  const client = (i: number): CounterKey => ipv4(Math.imul(i + 1, 0x9e3779b1));
  const refused = (from: number, to: number): number => {
    let count = 0;
    for (let i = from; i < to; i += 1) if (flooded.take(client(i)).outcome === "throttled") count += 1;
    return count;
  };
  expect(refused(0, clients)).toBe(0);
  expect(refused(0, clients)).toBe(clients);
  expect(refused(clients, clients + 1000)).toBe(0);
  expect(flooded.table.figures().bySlot[0]).toMatchObject({ evictedLive: 0, coarse: 0 });
});

test.each([
  ["/24", (i: number) => ipv4(0xc6336400 | (i & 0xff)), 256, 1250],
  ["/48", (i: number) => new CounterKey(0x20010db8, 0x00070000 | (i & 0xffff), 0, 0, true), 1500, 500],
] as const)(
  "the addresses of a %s that fills its share are limited together, strangers never with them",
  (_, own, size, strangers) => {
    // Room for about 1,500 keys.
    const flooded = new FloodedLimiter([once], MiB / 8, secret);
    const outcomes = (count: number, keyOf: (i: number) => CounterKey): string[] => [
      ...new Set(Array.from({ length: count }, (_, i) => flooded.take(keyOf(i)).outcome)),
    ];
    const stranger = (i: number): CounterKey => ipv4(Math.imul(i + 1, 0x9e3779b1));
    expect(outcomes(strangers, stranger)).toEqual(["admitted"]);
    outcomes(size, own);
    expect(outcomes(50, (i) => stranger(strangers + i))).toEqual(["admitted"]);
    expect(outcomes(size, own)).toEqual(["throttled"]);
    expect(outcomes(strangers + 50, stranger)).toEqual(["throttled"]);
    expect(flooded.table.figures().bySlot[0]?.coarse).toBeGreaterThan(0);
  },
);
