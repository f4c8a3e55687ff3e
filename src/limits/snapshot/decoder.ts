// Reads a snapshot: first all of it, to check it, then its records. Never holds more than one section. Whatever the
// bytes are, the answer is a snapshot or the reason why they are none, in linear time.
import { createHash, type Hash } from "node:crypto";
import type { CounterRecord } from "../table/records.ts";
import { decodeDescription, type SnapshotDescription } from "./description.ts";
import {
  addressBit,
  checksumOf,
  endBytes,
  fileHeaderBytes,
  magic,
  maxContentBytes,
  pairBytes,
  recordHeaderBytes,
  recordKinds,
  sectionHeaderBytes,
  sections,
  version,
} from "./format.ts";

/** Reads up to `target.length` bytes from a position; resolves with how many there were, 0 at the end. */
export type ReadAt = (target: Buffer, position: number) => Promise<number>;

export type SnapshotReading =
  | { readonly ok: true; readonly snapshot: Snapshot }
  /** `reason`: a sentence's end, after "the snapshot". */
  | { readonly ok: false; readonly reason: string };

export interface Snapshot {
  readonly description: SnapshotDescription;
  readonly records: number;
  /** Reads the file again. Rejects if it is no longer what was checked. */
  eachRecord(visit: (record: CounterRecord) => void): Promise<void>;
}

/** The reason for a refusal; never leaves this file. */
class Refusal extends Error {}

/** Enough for the description of a few policies. */
const firstBytes = 4096;

const foreign = "is not one of this program";
const cut = "is cut short";
const damaged = "is damaged";

export async function readSnapshot(readAt: ReadAt): Promise<SnapshotReading> {
  try {
    const { description, records } = await check(readAt);
    const eachRecord: Snapshot["eachRecord"] = async (visit) => {
      for await (const { kind, content } of sectionsOf(readAt, null)) {
        if (kind === sections.records) for (const record of recordsIn(content)) visit(record);
      }
    };
    return { ok: true, snapshot: { description, records, eachRecord } };
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, reason: error.message };
    throw error;
  }
}

async function check(readAt: ReadAt): Promise<{ description: SnapshotDescription; records: number }> {
  const hash = createHash("sha256");
  const slots = new Set<number>();
  let records = 0;
  let description: SnapshotDescription | null = null;
  for await (const { kind, content } of sectionsOf(readAt, hash)) {
    if (kind === sections.records && description === null) records += countRecords(content, slots);
    else if (kind === sections.description && description === null) description = decodeDescription(content);
    else if (kind !== sections.end || !isEnd(content, records, hash)) throw new Refusal(damaged);
  }
  if (description === null) throw new Refusal(damaged);
  for (const { slot } of description.policies) slots.delete(slot);
  if (slots.size > 0) throw new Refusal(damaged);
  return { description, records };
}

interface SectionRead {
  readonly kind: number;
  /** Until the next section is read. */
  readonly content: Buffer;
}

/** The sections up to the end, which is one too. `hash`: gets everything before the end. */
async function* sectionsOf(readAt: ReadAt, hash: Hash | null): AsyncGenerator<SectionRead> {
  let buffer = Buffer.allocUnsafe(firstBytes);
  let position = await readFileHeader(readAt, buffer);
  hash?.update(buffer.subarray(0, position));
  for (let kind = 0; kind !== sections.end; ) {
    const header = buffer.subarray(0, sectionHeaderBytes);
    if ((await fill(readAt, header, position)) < header.length) throw new Refusal(cut);
    const length = header.readUInt32LE(4);
    if (length > maxContentBytes) throw new Refusal(damaged);
    if (sectionHeaderBytes + length > buffer.length) buffer = grown(header, sectionHeaderBytes + maxContentBytes);
    const section = buffer.subarray(0, sectionHeaderBytes + length);
    const content = section.subarray(sectionHeaderBytes);
    if ((await fill(readAt, content, position + sectionHeaderBytes)) < length) throw new Refusal(cut);
    if (section.readUInt32LE(8) !== checksumOf(section)) throw new Refusal(damaged);
    position += section.length;
    kind = section.readUInt32LE(0);
    if (kind !== sections.end) hash?.update(section);
    yield { kind, content };
  }
  if ((await fill(readAt, buffer.subarray(0, 1), position)) > 0) throw new Refusal(damaged);
}

function grown(begin: Buffer, length: number): Buffer<ArrayBuffer> {
  const buffer = Buffer.allocUnsafe(length);
  begin.copy(buffer);
  return buffer;
}

async function readFileHeader(readAt: ReadAt, buffer: Buffer): Promise<number> {
  const header = buffer.subarray(0, fileHeaderBytes);
  const length = await fill(readAt, header, 0);
  const begun = header.subarray(0, Math.min(length, magic.length));
  if (!magic.subarray(0, begun.length).equals(begun)) throw new Refusal(foreign);
  if (length < fileHeaderBytes) throw new Refusal(cut);
  const found = header.readUInt32LE(magic.length);
  if (found !== version) throw new Refusal(`is of version ${found}, and this program reads version ${version}`);
  return fileHeaderBytes;
}

async function fill(readAt: ReadAt, target: Buffer, position: number): Promise<number> {
  let length = 0;
  while (length < target.length) {
    const read = await readAt(target.subarray(length), position + length);
    if (read === 0) break;
    length += read;
  }
  return length;
}

function isEnd(content: Buffer, records: number, hash: Hash): boolean {
  if (content.length !== endBytes || content.readBigUInt64LE(0) !== BigInt(records)) return false;
  return content.subarray(8).equals(hash.digest());
}

/** Adds the slots of the records to `slots`. */
function countRecords(content: Buffer, slots: Set<number>): number {
  let records = 0;
  for (let at = 0; at < content.length; at += recordLength(content, at)) {
    slots.add(content[at] as number);
    records += 1;
  }
  return records;
}

/** Throws a Refusal if there is no record. */
function recordLength(content: Buffer, at: number): number {
  if (content.length - at < recordHeaderBytes) throw new Refusal(damaged);
  const about = content[at + 1] as number;
  const pairs = content.readUInt32LE(at + 4);
  const length = recordHeaderBytes + pairBytes * pairs;
  const isRecord = (about & ~addressBit) < recordKinds.length && content.readUInt16LE(at + 2) === 0 && pairs > 0;
  if (!isRecord || content.length - at < length) throw new Refusal(damaged);
  return length;
}

function* recordsIn(content: Buffer): Generator<CounterRecord> {
  let length = 0;
  for (let at = 0; at < content.length; at += length) {
    length = recordLength(content, at);
    const about = content[at + 1] as number;
    const word = (i: number): number => content.readInt32LE(at + 8 + 4 * i);
    const entries: [number, number][] = [];
    for (let pair = at + recordHeaderBytes; pair < at + length; pair += pairBytes) {
      entries.push([content.readUInt32LE(pair), content.readUInt32LE(pair + 4)]);
    }
    yield {
      slot: content[at] as number,
      kind: recordKinds[about & ~addressBit] as CounterRecord["kind"],
      key: [word(0), word(1), word(2), word(3)],
      isAddress: (about & addressBit) !== 0,
      entries,
    };
  }
}
