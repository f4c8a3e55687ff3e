// How a snapshot of the counters stands in a file. It depends on neither the layout nor the size of the table. All
// numbers are little-endian.
//
//   file          | magic: 8 bytes | version: 4 | section | section | … |
//   section       | kind: 1 byte, 3 zero | length of its content: 4 | checksum: 4 | content |
//   sections      any number of records · any number of rules · one description · one end, after which nothing follows
//   records       | record | record | … |
//   record        | slot: 1 | kind: bits 0–1, is an address: bit 7 | 2 zero | pairs: 4 | key: 16 | pair | pair | … |
//   pair          | instant: 4 | units: 4 |, the oldest first; of an exhausted key a last one without units
//   rules         JSON, see `encodeRules`; without rules there is no such section
//   description   JSON, see SnapshotDescription
//   end           | number of records: 8 | SHA-256 of everything before this section except rules: 32 |
//
// The checksum of a section is the CRC-32 of its kind, its length and its content. The description follows the records
// because it tells the instant to which they all belong, which is after the last of them was copied.
import { createHash, type Hash } from "node:crypto";
import { crc32 } from "node:zlib";
import { calendarPeriods, type KeyPart, type PeriodName } from "../../core/policy.ts";
import { parseRule, type Rule } from "../../core/rules.ts";
import { connectionSlot } from "../table/layout.ts";
import type { CounterRecord } from "../table/maintenance.ts";

const magic = Buffer.from("HGCOUNTS", "latin1");
const version = 1;
const fileHeaderBytes = magic.length + 4;

export const sections = { records: 1, description: 2, end: 3, rules: 4 } as const;
export const sectionHeaderBytes = 12;
/** A longer one is no section. */
const maxContentBytes = 1024 * 1024;

const recordHeaderBytes = 24;
const pairBytes = 8;
const recordKinds = ["own", "client", "network"] as const;
const addressBit = 0x80;

function fileHeader(): Buffer {
  const header = Buffer.alloc(fileHeaderBytes);
  magic.copy(header);
  header.writeUInt32LE(version, magic.length);
  return header;
}

/** Writes the header of a section whose content follows it in `section`. */
export function finishSection(section: Buffer, kind: number): Buffer {
  section.fill(0, 0, sectionHeaderBytes);
  section[0] = kind;
  section.writeUInt32LE(section.length - sectionHeaderBytes, 4);
  section.writeUInt32LE(checksumOf(section), 8);
  return section;
}

function sectionOf(content: Buffer, kind: number): Buffer {
  return finishSection(Buffer.concat([Buffer.alloc(sectionHeaderBytes), content]), kind);
}

/** The checksum that the section must have. */
function checksumOf(section: Buffer): number {
  return crc32(section.subarray(sectionHeaderBytes), crc32(section.subarray(0, 8)));
}

// What a snapshot says about its records: when they were written, by which secrets their keys were made, and to which
// policy each slot belonged.

export interface SnapshotDescription {
  /** The wall clock and the table's time at one instant, to which all records belong. */
  readonly wallMs: number;
  readonly tableMs: number;
  /** 16 bytes: where keys are in the table. */
  readonly placeSecret: Uint8Array;
  /** 16 bytes: with which keys that are no addresses were hashed. */
  readonly keySecret: Uint8Array;
  /** What a store that gateways share calls the one that has counted. Null: a snapshot from before there was a store. */
  readonly owner: string | null;
  /** Since when a reload was on trial, by the wall clock; null: none was, or an older snapshot. */
  readonly trialSinceMs: number | null;
  readonly policies: readonly DescribedPolicy[];
}

/** Name, kind and key say whether a policy of today is the same one. */
export interface DescribedPolicy {
  readonly slot: number;
  readonly name: string;
  readonly key: readonly KeyPart[];
  readonly rate: DescribedRate;
}

export type DescribedRate = { readonly kind: "sliding" } | ({ readonly kind: "calendar" } & DescribedPeriod);

/** The period that was under way, and the instant of the wall clock at which it ends. */
interface DescribedPeriod {
  readonly per: PeriodName;
  readonly timezone: string;
  readonly period: number;
  readonly endWallMs: number;
  /** When the wall clock was to show that, by the table's time. Missing in older snapshots: then by `wallMs`. */
  readonly dueTableMs?: number;
}

export function encodeDescription({ placeSecret, keySecret, ...others }: SnapshotDescription): Buffer {
  const hex = (secret: Uint8Array): string => Buffer.from(secret).toString("hex");
  return Buffer.from(JSON.stringify({ ...others, placeSecret: hex(placeSecret), keySecret: hex(keySecret) }));
}

/** Null if it is not the description of a snapshot. */
export function decodeDescription(content: Buffer): SnapshotDescription | null {
  const value = jsonIn(content);
  if (!isObject(value)) return null;
  const { wallMs, tableMs, placeSecret: place, keySecret: key, owner = null, trialSinceMs = null, policies } = value;
  const [placeSecret, keySecret] = [secretIn(place), secretIn(key)];
  if (!isNumber(wallMs) || !isNumber(tableMs) || placeSecret === null || keySecret === null) return null;
  if (!isOwner(owner) || !(trialSinceMs === null || isNumber(trialSinceMs))) return null;
  if (!Array.isArray(policies) || !policies.every(isPolicy)) return null;
  if (new Set(policies.map(({ slot }) => slot)).size < policies.length) return null;
  return { wallMs, tableMs, placeSecret, keySecret, owner, trialSinceMs, policies };
}

/** Null if it is no JSON. */
function jsonIn(content: Buffer): unknown {
  try {
    return JSON.parse(content.toString("utf8"));
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function secretIn(value: unknown): Uint8Array | null {
  return typeof value === "string" && /^[0-9a-f]{32}$/.test(value) ? Uint8Array.from(Buffer.from(value, "hex")) : null;
}

function isOwner(value: unknown): value is string | null {
  return value === null || (typeof value === "string" && /^[A-Za-z0-9]{12}$/.test(value));
}

function isPolicy(value: unknown): value is DescribedPolicy {
  if (!isObject(value)) return false;
  const { slot, name, key, rate } = value;
  return (
    isWithin(slot, connectionSlot) &&
    typeof name === "string" &&
    Array.isArray(key) &&
    key.every(isKeyPart) &&
    isRate(rate)
  );
}

function isKeyPart(value: unknown): value is KeyPart {
  if (!isObject(value)) return false;
  const { kind, name } = value;
  return typeof kind === "string" && (name === undefined || typeof name === "string");
}

function isRate(value: unknown): value is DescribedRate {
  if (!isObject(value)) return false;
  const { kind, per, timezone, period, endWallMs, dueTableMs = 0 } = value;
  if (kind === "sliding") return true;
  const isPeriod = calendarPeriods.some((each) => each === per) && typeof timezone === "string";
  const isEnd = isNumber(endWallMs) && isNumber(dueTableMs);
  return kind === "calendar" && isPeriod && isWithin(period, 2 ** 32) && isEnd;
}

function isWithin(value: unknown, end: number): boolean {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) < end;
}

// Encodes a snapshot. Its memory is one section; each finished section goes to `write`, which must take it at once.

export class SnapshotEncoder {
  readonly #write: (bytes: Buffer) => void;
  readonly #hash = createHash("sha256");
  readonly #section = Buffer.alloc(sectionHeaderBytes + maxContentBytes);
  #end = sectionHeaderBytes;
  #records = 0;

  constructor(write: (bytes: Buffer) => void) {
    this.#write = write;
    this.#put(fileHeader());
  }

  get records(): number {
    return this.#records;
  }

  /** Throws a RangeError for a record that no section can hold, with more than 100,000 pairs. */
  add({ slot, kind, key, isAddress, entries }: CounterRecord): void {
    const length = recordHeaderBytes + pairBytes * entries.length;
    if (this.#end + length > this.#section.length) this.#flush();
    if (this.#end + length > this.#section.length) throw new RangeError("a key has too many instants");
    const section = this.#section;
    let at = this.#end;
    section[at] = slot;
    section[at + 1] = recordKinds.indexOf(kind) | (isAddress ? addressBit : 0);
    section.writeUInt16LE(0, at + 2);
    section.writeUInt32LE(entries.length, at + 4);
    at += 8;
    for (const word of key) at = section.writeInt32LE(word, at);
    for (const [instant, units] of entries) {
      at = section.writeUInt32LE(instant >>> 0, at);
      at = section.writeUInt32LE(units, at);
    }
    this.#end = at;
    this.#records += 1;
  }

  addRules(rules: readonly Rule[]): void {
    this.#flush();
    for (const content of encodeRules(rules, maxContentBytes)) {
      this.#write(sectionOf(content, sections.rules));
    }
  }

  finish(description: SnapshotDescription): void {
    this.#flush();
    this.#put(sectionOf(encodeDescription(description), sections.description));
    this.#write(sectionOf(encodeEnd(this.#records, this.#hash), sections.end));
  }

  #flush(): void {
    if (this.#end === sectionHeaderBytes) return;
    this.#put(finishSection(this.#section.subarray(0, this.#end), sections.records));
    this.#end = sectionHeaderBytes;
  }

  #put(bytes: Buffer): void {
    this.#hash.update(bytes);
    this.#write(bytes);
  }
}

// Reads a snapshot: first all of it, to check it, then its records. Never holds more than one section. Whatever the
// bytes are, the answer is a snapshot or the reason why they are none, in linear time.

/** Reads up to `target.length` bytes from a position; resolves with how many there were, 0 at the end. */
type ReadAt = (target: Buffer, position: number) => Promise<number>;

export type SnapshotReading =
  | { readonly ok: true; readonly snapshot: Snapshot }
  /** `reason`: a sentence's end, after "the snapshot". */
  | { readonly ok: false; readonly reason: string };

export interface Snapshot {
  readonly description: SnapshotDescription;
  readonly records: number;
  /** Null: they are damaged. */
  readonly rules: readonly Rule[] | null;
  /** Reads the file again. Rejects if it is no longer what was checked. */
  eachRecord(visit: (record: CounterRecord) => void): Promise<void>;
}

/** The reason for a refusal; never leaves this file. */
class UnreadableError extends Error {}

const foreign = "is not one of this program";
const cut = "is cut short";
const damaged = "is damaged";

export async function readSnapshot(readAt: ReadAt): Promise<SnapshotReading> {
  try {
    const { description, records, rules } = await check(readAt);
    const eachRecord: Snapshot["eachRecord"] = async (visit) => {
      for await (const { kind, content } of sectionsOf(readAt, null)) {
        if (kind === sections.records) for (const at of recordsIn(content)) visit(recordAt(content, at));
      }
    };
    return { ok: true, snapshot: { description, records, rules, eachRecord } };
  } catch (error) {
    if (error instanceof UnreadableError) return { ok: false, reason: error.message };
    throw error;
  }
}

async function check(readAt: ReadAt): Promise<Omit<Snapshot, "eachRecord">> {
  const hash = createHash("sha256");
  const slots = new Set<number>();
  const rules: (readonly Rule[] | null)[] = [];
  let records = 0;
  let description: SnapshotDescription | null = null;
  let isWhole = false;
  for await (const section of sectionsOf(readAt, hash)) {
    const { kind, content } = section;
    if (kind === sections.rules) rules.push(decodeRules(section));
    else if (kind === sections.end) isWhole = content.equals(encodeEnd(records, hash));
    else if (description !== null) throw new UnreadableError(damaged);
    else if (kind === sections.records) records += countRecords(content, slots);
    else if (kind === sections.description) description = decodeDescription(content);
    else throw new UnreadableError(damaged);
  }
  const described = new Set(description?.policies.map(({ slot }) => slot));
  if (description === null || !isWhole || [...slots].some((slot) => !described.has(slot)))
    throw new UnreadableError(damaged);
  const sound = rules.filter((list) => list !== null);
  return { description, records, rules: sound.length < rules.length ? null : sound.flat() };
}

interface SectionRead {
  readonly kind: number;
  /** Holds until the next section is read. */
  readonly content: Buffer;
  /** Whether its checksum is right. Counters do not depend on rules, so only rules may be damaged. */
  readonly isSound: boolean;
}

/** The sections up to the end, which is one too. `hash`: gets everything before the end but the rules. */
async function* sectionsOf(readAt: ReadAt, hash: Hash | null): AsyncGenerator<SectionRead> {
  const buffer = Buffer.allocUnsafe(sectionHeaderBytes + maxContentBytes);
  let position = await readFileHeader(readAt, buffer);
  hash?.update(buffer.subarray(0, position));
  for (let kind = 0; kind !== sections.end; ) {
    await readAll(readAt, buffer.subarray(0, sectionHeaderBytes), position);
    const length = buffer.readUInt32LE(4);
    if (length > maxContentBytes) throw new UnreadableError(damaged);
    const section = buffer.subarray(0, sectionHeaderBytes + length);
    const content = section.subarray(sectionHeaderBytes);
    await readAll(readAt, content, position + sectionHeaderBytes);
    kind = section.readUInt32LE(0);
    const isSound = section.readUInt32LE(8) === checksumOf(section);
    if (!isSound && kind !== sections.rules) throw new UnreadableError(damaged);
    if (kind !== sections.end && kind !== sections.rules) hash?.update(section);
    position += section.length;
    yield { kind, content, isSound };
  }
  if ((await fill(readAt, buffer.subarray(0, 1), position)) > 0) throw new UnreadableError(damaged);
}

async function readFileHeader(readAt: ReadAt, buffer: Buffer): Promise<number> {
  const header = buffer.subarray(0, fileHeaderBytes);
  const length = await fill(readAt, header, 0);
  const begun = header.subarray(0, Math.min(length, magic.length));
  if (!magic.subarray(0, begun.length).equals(begun)) throw new UnreadableError(foreign);
  if (length < fileHeaderBytes) throw new UnreadableError(cut);
  const found = header.readUInt32LE(magic.length);
  if (found !== version) throw new UnreadableError(`is of version ${found}, and this program reads version ${version}`);
  return fileHeaderBytes;
}

async function readAll(readAt: ReadAt, target: Buffer, position: number): Promise<void> {
  if ((await fill(readAt, target, position)) < target.length) throw new UnreadableError(cut);
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

/** What the end says of everything before it. */
function encodeEnd(records: number, hash: Hash): Buffer {
  const count = Buffer.alloc(8);
  count.writeBigUInt64LE(BigInt(records));
  return Buffer.concat([count, hash.digest()]);
}

/** Adds the slots of the records to `slots`. */
function countRecords(content: Buffer, slots: Set<number>): number {
  let records = 0;
  for (const at of recordsIn(content)) {
    slots.add(content[at] as number);
    records += 1;
  }
  return records;
}

/** Where each record of a section begins. */
function* recordsIn(content: Buffer): Generator<number> {
  for (let at = 0; at < content.length; at += recordLength(content, at)) yield at;
}

/** Throws an UnreadableError if there is no record. */
function recordLength(content: Buffer, at: number): number {
  if (content.length - at < recordHeaderBytes) throw new UnreadableError(damaged);
  const about = content[at + 1] as number;
  const pairs = content.readUInt32LE(at + 4);
  const length = recordHeaderBytes + pairBytes * pairs;
  const isRecord = (about & ~addressBit) < recordKinds.length && content.readUInt16LE(at + 2) === 0 && pairs > 0;
  if (!isRecord || content.length - at < length) throw new UnreadableError(damaged);
  return length;
}

function recordAt(content: Buffer, at: number): CounterRecord {
  const about = content[at + 1] as number;
  const word = (i: number): number => content.readInt32LE(at + 8 + 4 * i);
  const pairsAt = at + recordHeaderBytes;
  return {
    slot: content[at] as number,
    kind: recordKinds[about & ~addressBit] as CounterRecord["kind"],
    key: [word(0), word(1), word(2), word(3)],
    isAddress: (about & addressBit) !== 0,
    entries: Array.from({ length: content.readUInt32LE(at + 4) }, (_, i) => {
      const pair = pairsAt + pairBytes * i;
      return [content.readUInt32LE(pair), content.readUInt32LE(pair + 4)];
    }),
  };
}

/**
 * The rules in a snapshot: each section is a JSON list of rules. Counters do not depend on rules, so a damaged list is
 * left out, and the counters are read all the same. Returns the contents of the sections, each at most `maxBytes` long.
 */
function* encodeRules(rules: readonly Rule[], maxBytes: number): Generator<Buffer> {
  let texts: string[] = [];
  let bytes = 0;
  for (const text of rules.map((rule) => JSON.stringify(rule))) {
    // With a comma, and the brackets of the list.
    const length = Buffer.byteLength(text) + 2;
    if (bytes + length > maxBytes) {
      yield Buffer.from(`[${texts.join()}]`);
      [texts, bytes] = [[], 0];
    }
    texts.push(text);
    bytes += length;
  }
  if (texts.length > 0) yield Buffer.from(`[${texts.join()}]`);
}

/** Null if it is no list of rules. */
function decodeRules({ content, isSound }: SectionRead): readonly Rule[] | null {
  const value = isSound ? jsonIn(content) : null;
  if (!Array.isArray(value)) return null;
  const rules = value.map(parseRule);
  return rules.every((rule) => rule !== null) ? rules : null;
}
