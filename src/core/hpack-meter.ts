// Measures HPACK header blocks (RFC 7541) without decoding them: how many fields and bytes a block has once it is
// decoded. A few bytes that refer to one long entry can decode to megabytes, and nghttp2 reports only what it keeps.
// The meter tracks the dynamic table by the sizes of its entries. All sizes must be exact: after a wrong one, a
// reference would mean a different entry to the meter than to nghttp2.
import { huffmanSteps, packLengths, staticLengths } from "./hpack-tables.ts";

/** SETTINGS_HEADER_TABLE_SIZE, which the gateway leaves at its default. */
const defaultTableBytes = 4096;

/** What each field counts in addition to its name and value (RFC 7541, 4.1; RFC 9113, 6.5.2). */
const bytesOnTop = 32;

/** More than any length that is accepted. */
const maxInteger = 0xff_ff;

const lengthUnit = packLengths(1, 0);

/** What the next octet belongs to. */
type Part = "field" | "name" | "value";

export class HpackMeter {
  /** Of the current block, as sent. */
  encodedBytes = 0;
  /** Of the current block, as decoded: names, values, and 32 bytes for each field. */
  decodedBytes = 0;
  /** Of the current block. */
  fields = 0;
  /** The block announces a name or a value that is longer than any that could be accepted. */
  isTextTooLong = false;
  /** Packed lengths of the dynamic table's entries, the newest last. Those before `#oldest` are evicted. */
  #table: number[] = [];
  #oldest = 0;
  #tableBytes = 0;
  #maxTableBytes = defaultTableBytes;
  #part: Part = "field";
  /**
   * The first octet of the integer that is being read, which also says what it stands for; -1 outside of an integer.
   */
  #firstOctet = -1;
  #value = 0;
  #shift = 0;
  /** Bytes of the current text that have not come yet. */
  #textLeft = 0;
  #textLength = 0;
  #isHuffman = false;
  #huffmanState = 0;
  /** The current field goes into the dynamic table. */
  #isIndexed = false;
  #nameLength = 0;

  /** Begins a block. */
  begin(): void {
    this.encodedBytes = 0;
    this.decodedBytes = 0;
    this.fields = 0;
    this.isTextTooLong = false;
    this.#part = "field";
    this.#firstOctet = -1;
    this.#textLeft = 0;
  }

  /** Reads a piece of the block, of any length. Returns false if it is not valid HPACK. */
  read(bytes: Uint8Array, from: number, to: number): boolean {
    this.encodedBytes += to - from;
    let at = from;
    while (at < to) {
      if (this.#textLeft > 0) at = this.#readText(bytes, at, to);
      else {
        if (!this.#readOctet(bytes[at] as number)) return false;
        at += 1;
      }
    }
    return true;
  }

  #readOctet(octet: number): boolean {
    if (this.#firstOctet !== -1) {
      this.#value += (octet & 0x7f) << this.#shift;
      this.#shift += 7;
      this.isTextTooLong = this.#part !== "field" && this.#value > maxInteger;
      if (this.#value > maxInteger || this.#shift > 21) return false;
      return octet >= 0x80 || this.#onInteger();
    }
    const mask = this.#part === "field" ? fieldMask(octet) : 0x7f;
    this.#firstOctet = octet;
    this.#value = octet & mask;
    this.#shift = 0;
    return this.#value === mask || this.#onInteger();
  }

  #onInteger(): boolean {
    const octet = this.#firstOctet;
    const value = this.#value;
    this.#firstOctet = -1;
    if (this.#part !== "field") {
      this.#beginText(octet >= 0x80, value);
      return true;
    }
    if (octet >= 0x80) return this.#onIndexedField(value);
    if (octet >= 0x40 || octet < 0x20) return this.#onFieldName(octet >= 0x40, value);
    this.#maxTableBytes = value;
    this.#evict(0);
    return value <= defaultTableBytes;
  }

  #onIndexedField(index: number): boolean {
    const lengths = this.#lengthsAt(index);
    if (lengths === undefined) return false;
    this.#count(Math.floor(lengths / lengthUnit), lengths % lengthUnit);
    return true;
  }

  /** Begins a literal field. If the index is 0, its name follows. */
  #onFieldName(isIndexed: boolean, index: number): boolean {
    this.#isIndexed = isIndexed;
    this.#part = index === 0 ? "name" : "value";
    const lengths = index === 0 ? 0 : this.#lengthsAt(index);
    if (lengths === undefined) return false;
    this.#nameLength = Math.floor(lengths / lengthUnit);
    return true;
  }

  #beginText(isHuffman: boolean, bytes: number): void {
    this.#isHuffman = isHuffman;
    this.#huffmanState = 0;
    this.#textLeft = bytes;
    this.#textLength = isHuffman ? 0 : bytes;
    if (bytes === 0) this.#onText();
  }

  #readText(bytes: Uint8Array, from: number, to: number): number {
    const end = Math.min(to, from + this.#textLeft);
    if (this.#isHuffman) this.#readHuffman(bytes, from, end);
    this.#textLeft -= end - from;
    if (this.#textLeft === 0) this.#onText();
    return end;
  }

  #readHuffman(bytes: Uint8Array, from: number, to: number): void {
    let state = this.#huffmanState;
    let length = 0;
    for (let at = from; at < to; at += 1) {
      const octet = bytes[at] as number;
      const half = huffmanSteps[state * 16 + (octet >> 4)] as number;
      const whole = huffmanSteps[(half >> 1) * 16 + (octet & 15)] as number;
      length += (half & 1) + (whole & 1);
      state = whole >> 1;
    }
    this.#huffmanState = state;
    this.#textLength += length;
  }

  #onText(): void {
    if (this.#part === "name") {
      this.#nameLength = this.#textLength;
      this.#part = "value";
      return;
    }
    this.#part = "field";
    this.#count(this.#nameLength, this.#textLength);
    if (this.#isIndexed) this.#add(this.#nameLength, this.#textLength);
  }

  #count(nameLength: number, valueLength: number): void {
    this.fields += 1;
    this.decodedBytes += nameLength + valueLength + bytesOnTop;
  }

  #lengthsAt(index: number): number | undefined {
    if (index <= staticLengths.length) return staticLengths[index - 1];
    const at = this.#table.length - (index - staticLengths.length);
    return at < this.#oldest ? undefined : this.#table[at];
  }

  /** An entry that is larger than the table empties it (RFC 7541, 4.4). */
  #add(nameLength: number, valueLength: number): void {
    const bytes = nameLength + valueLength + bytesOnTop;
    this.#evict(bytes);
    if (bytes > this.#maxTableBytes) return;
    this.#table.push(packLengths(nameLength, valueLength));
    this.#tableBytes += bytes;
  }

  /** Evicts the oldest entries until one of `bytes` fits. */
  #evict(bytes: number): void {
    while (this.#oldest < this.#table.length && this.#tableBytes + bytes > this.#maxTableBytes) {
      const lengths = this.#table[this.#oldest] as number;
      this.#tableBytes -= Math.floor(lengths / lengthUnit) + (lengths % lengthUnit) + bytesOnTop;
      this.#oldest += 1;
    }
    // No more than 4096 / 32 entries are in use.
    if (this.#oldest > 128) {
      this.#table = this.#table.slice(this.#oldest);
      this.#oldest = 0;
    }
  }
}

/** The bits of a representation's first octet that are its integer (RFC 7541, 6). */
function fieldMask(octet: number): number {
  if (octet >= 0x80) return 0x7f;
  if (octet >= 0x40) return 0x3f;
  return octet >= 0x20 ? 0x1f : 0x0f;
}
