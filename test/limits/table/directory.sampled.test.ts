// The directory of one shard, against a Map: keys in two buckets, whose own line is free or taken.
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  addKey,
  Cursor,
  entryOfLine,
  findKey,
  freeEntry,
  freeLines,
  removeKey,
  takeLine,
} from "../../../src/limits/table/directory.ts";
import {
  bucketAt,
  bucketEntries,
  firstDataLine,
  identityOf,
  kinds,
  shardHeader,
} from "../../../src/limits/table/layout.ts";
import { runs, scaled } from "../../support/runs.ts";
import { createShard, freeLinesOf, type RawShard, shard } from "./raw-shard.ts";

const buckets = 4;
const lines = 50;

/** Where a key may be: many meet in one bucket, with one fingerprint, or want one line. */
function cursorOf(key: number, { geometry }: RawShard): Cursor {
  const cursor = new Cursor();
  cursor.shard = shard;
  cursor.fingerprint = 1 + (key % 3);
  cursor.firstBucket = key % 2;
  cursor.secondBucket = key % buckets;
  cursor.homeLine = firstDataLine(geometry) + ((key * 7) % lines);
  cursor.identity = identityOf(key % 2, kinds.own, true);
  cursor.setKey({ a: key, b: 0, c: 0xffff, d: 0 });
  return cursor;
}

/** Returns whether the key was added. */
function add(raw: RawShard, key: number): boolean {
  const cursor = cursorOf(key, raw);
  const entryAt = freeEntry(raw.w, cursor);
  if (entryAt === 0 || freeLines(raw.w, shard) === 0) return false;
  addKey(raw.w, cursor, takeLine(raw.w, shard, cursor.homeLine), entryAt);
  return true;
}

test("finds each key that was added and not removed, in its own line, and no other", () => {
  const steps = fc.array(fc.record({ key: fc.nat({ max: 79 }), adds: fc.constantFrom(true, true, false) }), {
    minLength: 50,
    maxLength: 250,
    size: "max",
  });
  const seen = { full: 0, away: 0, removed: 0 };
  fc.assert(
    fc.property(steps, (script) => {
      const raw = createShard(lines, buckets);
      const { w } = raw;
      const lineOf = new Map<number, number>();
      for (const { key, adds } of script) {
        const cursor = cursorOf(key, raw);
        cursor.line = findKey(w, cursor);
        if (!adds && cursor.line !== 0) {
          removeKey(w, shard, entryOfLine(w, cursor));
          lineOf.delete(key);
          seen.removed += 1;
        } else if (adds && cursor.line === 0) {
          if (add(raw, key)) lineOf.set(key, findKey(w, cursorOf(key, raw)));
          else seen.full += 1;
        }
        for (let other = 0; other < 80; other += 1) {
          const found = findKey(w, cursorOf(other, raw));
          if (found !== (lineOf.get(other) ?? 0)) expect([other, found]).toEqual([other, lineOf.get(other)]);
        }
      }
      expect(new Set(lineOf.values()).size).toBe(lineOf.size);
      expect(w[shard + shardHeader.keys]).toBe(lineOf.size);
      expect(freeLinesOf(raw)).toBe(lines - lineOf.size);
      for (let bucket = 0; bucket < buckets; bucket += 1) seen.away += w[bucketAt(shard, bucket)] ?? 0;
    }),
    runs(150),
  );
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(scaled(150));
});

test("a key whose buckets are full has no entry, and gets one when another is removed", () => {
  const raw = createShard(lines, buckets);
  // The first and the second bucket of these are the first.
  const keys = Array.from({ length: bucketEntries }, (_, i) => 4 * i);
  for (const key of keys) expect(add(raw, key)).toBe(true);
  expect(add(raw, 100)).toBe(false);
  // Those of this one are the first and the third.
  expect(add(raw, 2)).toBe(true);
  expect(raw.w[bucketAt(shard, 0)]).toBe(1);
  const cursor = cursorOf(0, raw);
  cursor.line = findKey(raw.w, cursor);
  removeKey(raw.w, shard, entryOfLine(raw.w, cursor));
  expect(findKey(raw.w, cursorOf(0, raw))).toBe(0);
  expect(add(raw, 100)).toBe(true);
  for (const key of [...keys.slice(1), 2, 100]) expect(findKey(raw.w, cursorOf(key, raw))).not.toBe(0);
});
