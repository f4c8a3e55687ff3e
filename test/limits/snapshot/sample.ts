// A snapshot in memory, as tests write, damage and read it.

import type { Rule } from "../../../src/core/rules.ts";
import type { DescribedPolicy, SnapshotDescription } from "../../../src/limits/snapshot/format.ts";
import { readSnapshot, SnapshotEncoder, type SnapshotReading } from "../../../src/limits/snapshot/format.ts";
import type { CounterRecord } from "../../../src/limits/table/maintenance.ts";

export const sliding: DescribedPolicy = {
  slot: 0,
  name: "per-ip",
  key: [{ kind: "client" }],
  rate: { kind: "sliding" },
};

export const monthly: DescribedPolicy = {
  slot: 3,
  name: "monthly",
  key: [{ kind: "token" }, { kind: "header", name: "x-plan" }],
  rate: { kind: "calendar", per: "month", timezone: "UTC", period: 7, endWallMs: 1_800_000_000_000 },
};

export function describe(others: Partial<SnapshotDescription> = {}): SnapshotDescription {
  return {
    wallMs: 1_790_000_000_000,
    tableMs: 100_000.5,
    placeSecret: Uint8Array.from(Buffer.from("0123456789abcdef")),
    keySecret: Uint8Array.from(Buffer.from("fedcba9876543210")),
    owner: "Abc012Def345",
    trialSinceMs: null,
    policies: [sliding, monthly],
    ...others,
  };
}

export function record(others: Partial<CounterRecord> = {}): CounterRecord {
  const entries: CounterRecord["entries"] = [
    [60_000, 1],
    [2 ** 32 - 1, 2],
  ];
  return { slot: 0, kind: "own", key: [0, 0, 0xffff, -1], isAddress: true, entries, ...others };
}

export const sampleRecords: readonly CounterRecord[] = [
  record(),
  record({ slot: 3, kind: "client", isAddress: false, key: [1, -2, 3, -4], entries: [[7, 1_000_000_000]] }),
  record({
    kind: "network",
    entries: [
      [1, 1],
      [2, 2],
      [3, 3],
    ],
  }),
];

export function encode(
  records: Iterable<CounterRecord> = sampleRecords,
  description = describe(),
  rules: readonly Rule[] = [],
): Buffer {
  const pieces: Buffer[] = [];
  const encoder = new SnapshotEncoder((bytes) => void pieces.push(Buffer.from(bytes)));
  for (const each of records) encoder.add(each);
  encoder.addRules(rules);
  encoder.finish(description);
  return Buffer.concat(pieces);
}

/** `most`: bytes that one read gets. */
export function read(bytes: Buffer, most = Number.POSITIVE_INFINITY): Promise<SnapshotReading> {
  return readSnapshot(async (target, position) => {
    const end = Math.min(bytes.length, position + Math.min(target.length, most));
    return position >= end ? 0 : bytes.copy(target, 0, position, end);
  });
}
