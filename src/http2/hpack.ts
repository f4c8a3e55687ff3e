// HPACK (RFC 7541): decodes and encodes header blocks.
import type { HeaderLines, HeaderList } from "../core/headers.ts";
import { maxFields, maxHeadBytes } from "../core/http-bounds.ts";

/** Appendix A, from index 1 on: the name and, if there is one, the value. */
const staticFields = `\
:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate`;

/** name, value, name, value…, from index 1 on. A value may be empty. */
export const staticTable: readonly string[] = staticFields.split("\n").flatMap((field) => {
  const name = /^\S+/.exec(field)?.[0] ?? "";
  return [name, field.slice(name.length + 1)];
});

/** Appendix B: the length of each octet's code in bits; the last one is EOS. */
// biome-ignore format: rows of sixteen
export const codeLengths: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30,
];

// Decodes the Huffman code of HPACK (RFC 7541, 5.2 and appendix B), four bits at a time.

/** The last symbol of the code, which no text may contain. */
const eos = 256;

/** An entry of `steps`: the next state in the lowest eight bits, then the octet that is complete, and two flags. */
const hasOctet = 1 << 16;
const hasEos = 1 << 17;

const { steps, mayEnd } = buildTables();

/**
 * Decodes `bytes` from `from` to `to` into `into`, which must have room for 8/5 of their number. Returns the number of octets;
 * -1 if the text contains EOS, or does not end with less than eight bits of padding that are all 1.
 */
export function decodeHuffman(bytes: Uint8Array, from: number, to: number, into: Uint8Array): number {
  let state = 0;
  let length = 0;
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] as number;
    const high = steps[(state << 4) | (byte >> 4)] as number;
    if ((high & hasOctet) !== 0) {
      into[length] = (high >> 8) & 0xff;
      length += 1;
    }
    const low = steps[((high & 0xff) << 4) | (byte & 0xf)] as number;
    if ((low & hasOctet) !== 0) {
      into[length] = (low >> 8) & 0xff;
      length += 1;
    }
    if (((high | low) & hasEos) !== 0) return -1;
    state = low & 0xff;
  }
  return mayEnd[state] === 1 ? length : -1;
}

/** An inner node of the code's tree: each child is another inner node, or a symbol, which is stored as `-1 - symbol`. */
type CodeNode = [zero: number, one: number];

function buildTables(): { steps: Uint32Array; mayEnd: Uint8Array } {
  const nodes = buildTree();
  const steps = new Uint32Array(16 * nodes.length);
  const step = (from: number, bits: number): number => {
    let node = from;
    let complete = 0;
    for (let bit = 3; bit >= 0; bit -= 1) {
      const next = nodes[node]?.[(bits >> bit) & 1] as number;
      if (next < 0) complete = -1 - next === eos ? hasEos : hasOctet | ((-1 - next) << 8);
      node = Math.max(0, next);
    }
    return complete | node;
  };
  for (let i = 0; i < steps.length; i += 1) steps[i] = step(i >> 4, i & 15);
  // Padding is the beginning of EOS, which is all ones.
  const mayEnd = new Uint8Array(nodes.length);
  for (let node = 0, bits = 0; bits < 8; bits += 1) {
    mayEnd[node] = 1;
    node = nodes[node]?.[1] as number;
  }
  return { steps, mayEnd };
}

/** No code is shorter than five bits, so four bits complete at most one symbol, and the code has 256 inner nodes. */
function buildTree(): CodeNode[] {
  const nodes: CodeNode[] = [[0, 0]];
  let code = 0;
  for (let length = 1; length <= 30; length += 1) {
    // The code is canonical: within one length, codes ascend in the order of the symbols.
    for (const [symbol, its] of codeLengths.entries()) {
      if (its !== length) continue;
      addCode(nodes, code, length, symbol);
      code += 1;
    }
    code *= 2;
  }
  return nodes;
}

function addCode(nodes: CodeNode[], code: number, length: number, symbol: number): void {
  let at = 0;
  for (let bit = length - 1; bit > 0; bit -= 1) {
    const node = nodes[at] as CodeNode;
    const side = (code >> bit) & 1;
    if (node[side] === 0) node[side] = nodes.push([0, 0]) - 1;
    at = node[side] as number;
  }
  (nodes[at] as CodeNode)[code & 1] = -1 - symbol;
}

/** SETTINGS_HEADER_TABLE_SIZE, which stays at its default. */
const maxTableBytes = 4096;

/** What each field counts in addition to its name and value (RFC 7541, 4.1; RFC 9113, 6.5.2). */
const bytesOnTop = 32;

/**
 * A head over the bounds gets a response, if its sender wants one. A block that is, or decodes to, more than twice the bounds
 * is not decoded to its end, so the connection cannot go on.
 */
const maxBlockFields = 2 * maxFields;

/** A longer block is decoded each time, so that a connection keeps little. */
const maxKeptBytes = 2048;

type BlockFlaw = "malformed" | "head_too_large";

/** Has room for the longest text so far, which is no longer than a block: no code is shorter than five bits. */
let decoded: Buffer = Buffer.alloc(0);
const noBytes: Buffer = Buffer.alloc(0);

/**
 * Decodes HPACK header blocks (RFC 7541). What a block may decode to is bounded before its texts are made, because a
 * few bytes can refer to one long entry again and again. A block that changes nothing in the table and has the bytes of
 * the last such block decodes to the same list: the bytes are compared, not decoded.
 */
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
  /** Of a block, and of what it decodes to. */
  readonly #maxBytes: number;

  constructor(maxBytes = 2 * maxHeadBytes) {
    this.#maxBytes = maxBytes;
  }

  /** Decodes the block in `bytes` from `from` to `to`. After a flaw the decoder cannot be used any more. */
  decode(bytes: Buffer, from: number, to: number): HeaderList | BlockFlaw {
    const last = this.#last;
    if (last !== null && last.length === to - from && isSame(this.#lastBytes, bytes, from, last.length)) {
      this.decodedBytes = last.decodedBytes;
      return last.fields;
    }
    if (to - from > this.#maxBytes) return "head_too_large";
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
    if (this.decodedBytes > this.#maxBytes || fields.length > 2 * maxBlockFields) this.#fail("head_too_large");
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
    if (length > this.#maxBytes) this.#fail("head_too_large");
    else if (this.#at > this.#to) this.#fail("malformed");
    if (this.#flaw !== null) return "";
    if (!isHuffman) return this.#bytes.toString("latin1", from, this.#at);
    if (length * 8 > decoded.length * 5) decoded = Buffer.allocUnsafeSlow(Math.ceil((length * 8) / 5));
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

/**
 * Encodes header blocks with the static table and literals without indexing (RFC 7541, 6.1 and 6.2.2). There is no
 * dynamic table, so a block is a text that can be prepared once for all connections, and no peer makes the gateway keep
 * anything. Sets the size of the dynamic table to 0. A connection sends it before its first block, so that it need not
 * answer a peer that lowers SETTINGS_HEADER_TABLE_SIZE (RFC 7541, 4.2).
 */
export const noDynamicTable = "\x20";

const nameIndexes = new Map<string, number>();
const fieldIndexes = new Map<string, number>();
for (let i = staticTable.length - 2; i >= 0; i -= 2) {
  const [name = "", value = ""] = staticTable.slice(i, i + 2);
  nameIndexes.set(name, i / 2 + 1);
  if (value !== "") fieldIndexes.set(`${name}\0${value}`, i / 2 + 1);
}

/** Returns the block of the fields; one character is one byte. Names are sent in lower case (RFC 9113, 8.2.1). */
export function encodeFields(fields: HeaderList): string {
  let block = "";
  for (let i = 0; i < fields.length; i += 2) block += encodeField((fields[i] ?? "").toLowerCase(), fields[i + 1] ?? "");
  return block;
}

/** The beginning of a field up to its value, by its name as it was given. */
const begins = new Map<string, string>();
const maxBegins = 500;

/** By status. */
const statusBlocks = new Map<number, string>();

/** Returns the block of a response's head. Values are not looked for in the static table, which has none of them. */
export function encodeHead(status: number, lines: HeaderLines): string {
  let block = statusBlocks.get(status);
  if (block === undefined) {
    block = encodeField(":status", `${status}`);
    statusBlocks.set(status, block);
  }
  for (let at = 0; at < lines.length; ) {
    const colon = lines.indexOf(": ", at);
    const end = lines.indexOf("\r\n", colon);
    const length = end - colon - 2;
    const begin = beginOf(lines.slice(at, colon));
    // Most values are shorter than 127 bytes.
    block +=
      begin + (length < 0x7f ? String.fromCharCode(length) : integer(length, 0x7f, 0)) + lines.slice(colon + 2, end);
    at = end + 2;
  }
  return block;
}

function beginOf(name: string): string {
  const known = begins.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  const index = nameIndexes.get(lower) ?? 0;
  const begin = integer(index, 0x0f, 0) + (index === 0 ? text(lower) : "");
  // The upstream chooses names, too.
  if (begins.size < maxBegins) begins.set(name, begin);
  return begin;
}

function encodeField(name: string, value: string): string {
  const known = fieldIndexes.get(`${name}\0${value}`);
  if (known !== undefined) return integer(known, 0x7f, 0x80);
  const index = nameIndexes.get(name) ?? 0;
  return integer(index, 0x0f, 0) + (index === 0 ? text(name) : "") + text(value);
}

function text(value: string): string {
  return integer(value.length, 0x7f, 0) + value;
}

/** RFC 7541, 5.1. `above`: the bits of the first octet that are not the integer's. */
function integer(value: number, mask: number, above: number): string {
  if (value < mask) return String.fromCharCode(above | value);
  let bytes = String.fromCharCode(above | mask);
  let rest = value - mask;
  for (; rest >= 128; rest >>>= 7) bytes += String.fromCharCode((rest & 0x7f) | 0x80);
  return bytes + String.fromCharCode(rest);
}
