// The file of a snapshot: what is written is read again, and what is not exactly that is refused with one reason.
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, describe as group, test } from "vitest";
import {
  decodeDescription,
  finishSection,
  type SnapshotDescription,
  sectionHeaderBytes,
  sections,
} from "../../../src/limits/snapshot/format.ts";
import type { CounterRecord } from "../../../src/limits/table/maintenance.ts";
import { inFullOr } from "../../support/runs.ts";
import { describe, encode, monthly, read, record, sampleRecords, sliding } from "./sample.ts";

async function recordsIn(bytes: Buffer, most?: number) {
  const reading = await read(bytes, most);
  if (!reading.ok) throw new Error(reading.reason);
  const records: CounterRecord[] = [];
  await reading.snapshot.eachRecord((each) => void records.push(each));
  return { records, count: reading.snapshot.records, description: reading.snapshot.description };
}

async function reasonOf(bytes: Buffer): Promise<string> {
  const reading = await read(bytes);
  return reading.ok ? "accepted" : reading.reason;
}

const cut = "is cut short";
const damaged = "is damaged";
const foreign = "is not one of this program";

group("what is written is read again", () => {
  test("records and description", async () => {
    expect(await recordsIn(encode())).toEqual({ records: sampleRecords, count: 3, description: describe() });
  });

  test("an empty one", async () => {
    expect(await recordsIn(encode([]))).toMatchObject({ records: [], count: 0 });
  });

  test("one of many sections, however little one read gets", async () => {
    const entries = Array.from({ length: 10_000 }, (_, i) => [i, 1] as const);
    const many = Array.from({ length: 14 }, (_, i) => record({ key: [i, 0, 0, 0], entries }));
    const bytes = encode(many);
    expect(bytes.length).toBeGreaterThan(1024 * 1024);
    expect(JSON.stringify((await recordsIn(bytes, 100_000)).records)).toBe(JSON.stringify(many));
  });

  test("any record", async () => {
    const word = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
    const unsigned = fc.nat({ max: 2 ** 31 - 1 });
    const records = fc.array(
      fc.record({
        slot: fc.constantFrom(0, 3),
        kind: fc.constantFrom<CounterRecord["kind"]>("own", "client", "network"),
        key: fc.tuple(word, word, word, word),
        isAddress: fc.boolean(),
        entries: fc.array(fc.tuple(unsigned, unsigned), { minLength: 1, maxLength: 9 }),
      }),
      { maxLength: 9 },
    );
    await fc.assert(
      fc.asyncProperty(records, async (written) => {
        expect((await recordsIn(encode(written))).records).toEqual(written);
      }),
    );
  });

  test("a record that no section can hold is an error of the writer", () => {
    const entries = Array.from({ length: 140_000 }, () => [1, 1] as const);
    expect(() => encode([record({ entries })])).toThrow(RangeError);
  });
});

group("a damaged file is refused", () => {
  const whole = encode();

  test("cut after any of its bytes", async () => {
    for (let length = 0; length < whole.length; length += 1) {
      expect([length, await reasonOf(whole.subarray(0, length))]).toEqual([length, cut]);
    }
  });

  test("with any one bit flipped", async () => {
    // In `npm test` one bit of most bytes, each time another one.
    for (let bit = 0; bit < 8 * whole.length; bit += inFullOr(1, 9)) {
      const bytes = Buffer.from(whole);
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
      const reason = await reasonOf(bytes);
      if (!/^is (not one|of version|cut|damaged)/.test(reason)) expect([bit, reason]).toEqual([bit, damaged]);
    }
  });

  test.each([
    ["text", Buffer.from("listen:\n  port: 8080\n"), foreign],
    ["one byte", Buffer.from("x"), foreign],
    ["zeroes", Buffer.alloc(4096), foreign],
    ["one that something follows", Buffer.concat([whole, Buffer.from([0])]), damaged],
    ["two in one", Buffer.concat([whole, whole]), damaged],
  ])("%s", async (_, bytes, reason) => {
    expect(await reasonOf(bytes)).toBe(reason);
  });

  test("a newer version", async () => {
    const newer = Buffer.from(whole);
    newer.writeUInt32LE(2, 8);
    expect(await reasonOf(newer)).toBe("is of version 2, and this program reads version 1");
  });

  test("a length that is a lie reserves no memory", async () => {
    const lie = Buffer.from(whole);
    lie.writeUInt32LE(2 ** 32 - 1, 12 + 4);
    const before = process.memoryUsage().arrayBuffers;
    expect(await reasonOf(lie)).toBe(damaged);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * 1024 * 1024);
  });
});

/** A file with sections of the test's own, all checksums right. */
function forge(...written: readonly (readonly [kind: number, content: Buffer])[]): Buffer {
  const pieces = [encode([]).subarray(0, 12)];
  const add = (kind: number, content: Buffer): void => {
    pieces.push(finishSection(Buffer.concat([Buffer.alloc(sectionHeaderBytes), content]), kind));
  };
  for (const [kind, content] of written) add(kind, content);
  const end = Buffer.alloc(40);
  end.writeBigUInt64LE(1n);
  createHash("sha256").update(Buffer.concat(pieces)).digest().copy(end, 8);
  add(sections.end, end);
  return Buffer.concat(pieces);
}

function recordBytes({ slot = 0, about = 0, zero = 0, pairs = 1, length = 32 } = {}): Buffer {
  const bytes = Buffer.alloc(length);
  bytes[0] = slot;
  bytes[1] = about;
  bytes.writeUInt16LE(zero, 2);
  bytes.writeUInt32LE(pairs, 4);
  return bytes;
}

const described = (others: Record<string, unknown> = {}): Buffer => {
  const hex = "00".repeat(16);
  const value = { wallMs: 1, tableMs: 1, placeSecret: hex, keySecret: hex, policies: [sliding], ...others };
  return Buffer.from(JSON.stringify(value));
};

group("what no gateway writes is refused, even with the right checksums", () => {
  test("the forgery itself is sound", async () => {
    expect((await recordsIn(forge([1, recordBytes()], [2, described()]))).records).toHaveLength(1);
  });

  test.each<[string, Buffer]>([
    ["a kind of key that there is not", recordBytes({ about: 3 })],
    ["unknown bits of a key", recordBytes({ about: 0x40 })],
    ["bytes that should be zero", recordBytes({ zero: 1 })],
    ["no pairs", recordBytes({ pairs: 0, length: 24 })],
    ["more pairs than bytes", recordBytes({ pairs: 2 })],
    ["four billion pairs", recordBytes({ pairs: 2 ** 32 - 1 })],
    ["half of another one", Buffer.concat([recordBytes(), Buffer.alloc(5)])],
    ["a slot without a policy", recordBytes({ slot: 1 })],
  ])("a record with %s", async (_, bytes) => {
    expect(await reasonOf(forge([1, bytes], [2, described()]))).toBe(damaged);
  });

  const { rate } = monthly;
  test.each<[string, Buffer]>([
    ["no JSON", Buffer.from("{")],
    ["a list", Buffer.from("[]")],
    ["null", Buffer.from("null")],
    ["no time", described({ wallMs: "now" })],
    ["a short secret", described({ keySecret: "00" })],
    ["an owner that is none", described({ owner: "Abc012" })],
    ["no policies", described({ policies: null })],
    ["a policy that is none", described({ policies: [null] })],
    ["a slot over 254", described({ policies: [{ ...sliding, slot: 255 }] })],
    ["two policies in a slot", described({ policies: [sliding, { ...monthly, slot: 0 }] })],
    ["a key that is none", described({ policies: [{ ...sliding, key: ["client"] }] })],
    ["a kind that is none", described({ policies: [{ ...sliding, rate: { kind: "concurrency" } }] })],
    ["a calendar without its end", described({ policies: [{ ...sliding, rate: { ...rate, endWallMs: null } }] })],
    ["a calendar that is none", described({ policies: [{ ...sliding, rate: { ...rate, per: "fortnight-ish" } }] })],
  ])("a description with %s", async (_, content) => {
    expect(await reasonOf(forge([1, recordBytes()], [2, content]))).toBe(damaged);
  });

  const records = [1, recordBytes()] as const;
  const description = [2, described()] as const;
  test.each([
    ["no description", [records]],
    ["two descriptions", [records, description, description]],
    ["records after the description", [description, records]],
    ["sections of an unknown kind", [records, [9, Buffer.alloc(3)] as const, description]],
    ["another number of records", [records, records, description]],
  ])("%s", async (_, written) => {
    expect(await reasonOf(forge(...written))).toBe(damaged);
  });
});

test("a snapshot from before there was a store has no owner", () => {
  expect(decodeDescription(described())).toMatchObject({ owner: null });
});

test("a description is the same after it was written and read", async () => {
  const description: SnapshotDescription = describe({ policies: [monthly], tableMs: 0.1 + 0.2, wallMs: 1e15 });
  expect((await recordsIn(encode([], description))).description).toEqual(description);
});
