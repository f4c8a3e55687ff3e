// Encodes a snapshot. Its memory is one section; each finished section goes to `write`, which must take it at once.
import { createHash } from "node:crypto";
import type { CounterRecord } from "../table/records.ts";
import { encodeDescription, type SnapshotDescription } from "./description.ts";
import {
  addressBit,
  endBytes,
  fileHeader,
  finishSection,
  maxContentBytes,
  pairBytes,
  recordHeaderBytes,
  recordKinds,
  sectionHeaderBytes,
  sections,
} from "./format.ts";

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

  finish(description: SnapshotDescription): void {
    this.#flush();
    const content = encodeDescription(description);
    this.#put(finishSection(Buffer.concat([Buffer.alloc(sectionHeaderBytes), content]), sections.description));
    const end = Buffer.alloc(sectionHeaderBytes + endBytes);
    end.writeBigUInt64LE(BigInt(this.#records), sectionHeaderBytes);
    this.#hash.digest().copy(end, sectionHeaderBytes + 8);
    this.#write(finishSection(end, sections.end));
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
