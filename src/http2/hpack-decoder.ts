// Decodes HPACK header blocks (RFC 7541). What a block may decode to is bounded before its texts are made, because a few
// bytes can refer to one long entry again and again. A block that changes nothing in the table and has the bytes of the
// last such block decodes to the same list: the bytes are compared, not decoded.
import type { HeaderList } from "../core/headers.ts";
import { maxFields, maxHeadBytes } from "../core/http-bounds.ts";
import { staticTable } from "./hpack-tables.ts";
import { decodeHuffman } from "./huffman.ts";

/** SETTINGS_HEADER_TABLE_SIZE, which stays at its default. */
const maxTableBytes = 4096;

/** What each field counts in addition to its name and value (RFC 7541, 4.1; RFC 9113, 6.5.2). */
const bytesOnTop = 32;

/**
 * A head over the bounds gets a response, if its sender wants one. A block that is, or decodes to, more than twice the bounds
 * is not decoded to its end, so the connection cannot go on.
 */
export const maxBlockBytes = 2 * maxHeadBytes;
const maxBlockFields = 2 * maxFields;

/** A longer block is decoded each time, so that a connection keeps little. */
const maxKeptBytes = 2048;

type BlockFlaw = "malformed" | "head_too_large";

/** No text has more octets: none is longer than a block, and no code is shorter than five bits. */
const decoded = Buffer.allocUnsafeSlow(Math.ceil((maxBlockBytes * 8) / 5));
const noBytes: Buffer = Buffer.alloc(0);

export class HpackDecoder {
  /** Of the last block: names, values, and 32 bytes for each field. */
  decodedBytes = 0;
  readonly #table = new DynamicTable();
  #bytes: Buffer = noBytes;
  #at = 0;
  #to = 0;
  #flaw: BlockFlaw | null = null;
  #changesTable = false;
  /** The last block that changed nothing, its bytes in the first part of `#lastBytes`. */
  #last: { readonly length: number; readonly fields: HeaderList; readonly decodedBytes: number } | null = null;
  #lastBytes: Buffer = noBytes;

  /** Decodes the block in `bytes` from `from` to `to`. After a flaw the decoder cannot be used any more. */
  decode(bytes: Buffer, from: number, to: number): HeaderList | BlockFlaw {
    const last = this.#last;
    if (last !== null && last.length === to - from && isSame(this.#lastBytes, bytes, from, last.length)) {
      this.decodedBytes = last.decodedBytes;
      return last.fields;
    }
    if (to - from > maxBlockBytes) return "head_too_large";
    this.decodedBytes = 0;
    this.#bytes = bytes;
    this.#at = from;
    this.#to = to;
    this.#flaw = null;
    this.#changesTable = false;
    const fields: string[] = [];
    while (this.#at < to && this.#flaw === null) this.#readField(fields);
    this.#bytes = noBytes;
    if (this.#flaw !== null) return this.#flaw;
    if (this.#changesTable) this.#last = null;
    else if (to - from <= maxKeptBytes) this.#keep(bytes, from, to, fields);
    return fields;
  }

  /** The fields that `decode` returns again for the same bytes. */
  get keptFields(): HeaderList | null {
    return this.#last?.fields ?? null;
  }

  /** Gives the memory back that only makes the next block cheaper. */
  forget(): void {
    this.#last = null;
    this.#lastBytes = noBytes;
  }

  #keep(bytes: Buffer, from: number, to: number, fields: HeaderList): void {
    const length = to - from;
    if (this.#lastBytes.length < length) this.#lastBytes = Buffer.allocUnsafeSlow(length);
    for (let i = 0; i < length; i += 1) this.#lastBytes[i] = bytes[from + i] as number;
    this.#last = { length, fields, decodedBytes: this.decodedBytes };
  }

  /** Reads a representation (RFC 7541, 6). */
  #readField(fields: string[]): void {
    const octet = this.#bytes[this.#at] as number;
    if (octet >= 0x80) {
      const index = this.#integer(0x7f);
      this.#add(fields, this.#nameAt(index), this.#valueAt(index));
    } else if (octet >= 0x40) {
      const name = this.#name(0x3f);
      const value = this.#text();
      this.#add(fields, name, value);
      if (this.#flaw !== null) return;
      this.#table.add(name, value);
      this.#changesTable = true;
    } else if (octet >= 0x20) this.#resize(fields);
    else {
      const name = this.#name(0x0f);
      this.#add(fields, name, this.#text());
    }
  }

  /** An update of the table's size comes before the first field (RFC 7541, 4.2). */
  #resize(fields: readonly string[]): void {
    const bytes = this.#integer(0x1f);
    if (bytes > maxTableBytes || fields.length > 0) this.#fail("malformed");
    if (this.#flaw !== null) return;
    this.#table.resize(bytes);
    this.#changesTable = true;
  }

  #add(fields: string[], name: string, value: string): void {
    if (this.#flaw !== null) return;
    this.decodedBytes += name.length + value.length + bytesOnTop;
    fields.push(name, value);
    if (this.decodedBytes > maxBlockBytes || fields.length > 2 * maxBlockFields) this.#fail("head_too_large");
  }

  #fail(flaw: BlockFlaw): void {
    this.#flaw ??= flaw;
  }

  #name(mask: number): string {
    const index = this.#integer(mask);
    return index === 0 && this.#flaw === null ? this.#text() : this.#nameAt(index);
  }

  #nameAt(index: number): string {
    return this.#textAt(index, staticTable[2 * index - 2] ?? this.#table.nameAt(index - staticTable.length / 2));
  }

  #valueAt(index: number): string {
    return this.#textAt(index, staticTable[2 * index - 1] ?? this.#table.valueAt(index - staticTable.length / 2));
  }

  #textAt(index: number, text: string | undefined): string {
    if (index === 0 || text === undefined) this.#fail("malformed");
    return text ?? "";
  }

  /** Reads an integer (RFC 7541, 5.1) in the bits of `mask`, at most the value that three more octets can add. */
  #integer(mask: number): number {
    const bytes = this.#bytes;
    let value = (bytes[this.#at] as number) & mask;
    this.#at += 1;
    if (value < mask) return value;
    for (let shift = 0; shift <= 14; shift += 7) {
      if (this.#at >= this.#to) break;
      const octet = bytes[this.#at] as number;
      this.#at += 1;
      value += (octet & 0x7f) << shift;
      if (octet < 0x80) return value;
    }
    this.#fail("malformed");
    return 0;
  }

  /** Reads a text (RFC 7541, 5.2). */
  #text(): string {
    if (this.#flaw !== null) return "";
    const isHuffman = this.#at < this.#to && (this.#bytes[this.#at] as number) >= 0x80;
    if (this.#at >= this.#to) this.#fail("malformed");
    const length = this.#flaw === null ? this.#integer(0x7f) : 0;
    const from = this.#at;
    this.#at += length;
    if (length > maxBlockBytes) this.#fail("head_too_large");
    else if (this.#at > this.#to) this.#fail("malformed");
    if (this.#flaw !== null) return "";
    if (!isHuffman) return this.#bytes.toString("latin1", from, this.#at);
    const octets = decodeHuffman(this.#bytes, from, this.#at, decoded);
    if (octets < 0) this.#fail("malformed");
    return octets < 0 ? "" : decoded.toString("latin1", 0, octets);
  }
}

/** Entries from the oldest to the newest (RFC 7541, 2.3.2). */
class DynamicTable {
  #names: string[] = [];
  #values: string[] = [];
  /** Those before it are evicted. */
  #oldest = 0;
  #bytes = 0;
  #maxBytes = maxTableBytes;

  /** `age`: 1 for the newest entry. */
  nameAt(age: number): string | undefined {
    return age < 1 ? undefined : this.#names[this.#at(age)];
  }

  valueAt(age: number): string | undefined {
    return age < 1 ? undefined : this.#values[this.#at(age)];
  }

  #at(age: number): number {
    const at = this.#names.length - age;
    return at < this.#oldest ? -1 : at;
  }

  /** An entry that is larger than the table empties it (RFC 7541, 4.4). */
  add(name: string, value: string): void {
    const bytes = name.length + value.length + bytesOnTop;
    this.#evict(bytes);
    if (bytes > this.#maxBytes) return;
    this.#names.push(name);
    this.#values.push(value);
    this.#bytes += bytes;
  }

  resize(maxBytes: number): void {
    this.#maxBytes = maxBytes;
    this.#evict(0);
  }

  /** Evicts the oldest entries until one of `bytes` fits. */
  #evict(bytes: number): void {
    while (this.#oldest < this.#names.length && this.#bytes + bytes > this.#maxBytes) {
      this.#bytes -= (this.#names[this.#oldest] ?? "").length + (this.#values[this.#oldest] ?? "").length + bytesOnTop;
      this.#names[this.#oldest] = "";
      this.#values[this.#oldest] = "";
      this.#oldest += 1;
    }
    // No more than 4096 / 32 entries are in use.
    if (this.#oldest <= maxTableBytes / bytesOnTop) return;
    this.#names = this.#names.slice(this.#oldest);
    this.#values = this.#values.slice(this.#oldest);
    this.#oldest = 0;
  }
}

function isSame(kept: Uint8Array, bytes: Uint8Array, from: number, length: number): boolean {
  for (let i = 0; i < length; i += 1) if (kept[i] !== bytes[from + i]) return false;
  return true;
}
