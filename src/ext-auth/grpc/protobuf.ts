// Reads and writes the wire format of protobuf. Reading never throws: a malformed message ends early and sets `isBroken`.
// Unknown fields, and fields of an unexpected wire type, are skipped, as the format requires. Only the texts that are asked
// for are copied, and the depth of calls is that of the reading code, never that of the message.

/** The tags of the two wire types that are read here. A tag combines a field's number with its wire type. */
export const varintTag = (field: number): number => field * 8;
export const bytesTag = (field: number): number => field * 8 + wireTypes.bytes;

const wireTypes = { varint: 0, fixed64: 1, bytes: 2, groupStart: 3, groupEnd: 4, fixed32: 5 } as const;

/** A varint holds 64 bits, seven in each byte. */
const maxVarintBytes = 10;
/** The depth that other implementations allow. */
const maxGroupDepth = 100;

export class ProtobufReader {
  readonly #bytes: Buffer;
  #at = 0;
  #end: number;
  #tag = 0;
  #isBroken = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#end = bytes.length;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Returns the tag of the next field, or 0 at the end of the message. The caller then reads or skips the value. */
  next(): number {
    this.#tag = 0;
    if (this.#at >= this.#end) return 0;
    const tag = this.#varint();
    // Fields are numbered from 1 to 2^29 - 1.
    if (tag < 8 || tag > 0xffff_ffff) this.#break();
    else this.#tag = tag;
    return this.#tag;
  }

  /** A number of 64 bits. Above 2^53 it is not exact, but still large. */
  number(): number {
    return this.#varint();
  }

  /** A text in which each character is one byte, as in the fields of HTTP. */
  latin1(): string {
    const length = this.#varint();
    const start = this.#at;
    return this.#advance(length) ? this.#bytes.toString("latin1", start, this.#at) : "";
  }

  /** Reads a nested message: `read` sees its fields and no others. */
  message<T>(read: (reader: ProtobufReader, into: T) => void, into: T): void {
    const length = this.#varint();
    const start = this.#at;
    if (!this.#advance(length)) return;
    const [after, end] = [this.#at, this.#end];
    this.#at = start;
    this.#end = after;
    read(this, into);
    this.#end = end;
    this.#at = this.#isBroken ? end : after;
  }

  skip(): void {
    if ((this.#tag & 7) === wireTypes.groupStart) this.#skipGroup();
    else this.#skipValue();
  }

  #skipValue(): void {
    switch (this.#tag & 7) {
      case wireTypes.varint:
        this.#varint();
        break;
      case wireTypes.fixed64:
        this.#advance(8);
        break;
      case wireTypes.bytes:
        this.#advance(this.#varint());
        break;
      case wireTypes.fixed32:
        this.#advance(4);
        break;
      default:
        this.#break();
    }
  }

  #skipGroup(): void {
    const open = [this.#tag >>> 3];
    while (open.length > 0) {
      const tag = this.next();
      const wireType = tag & 7;
      const isWrong =
        tag === 0 ||
        (wireType === wireTypes.groupStart && open.push(tag >>> 3) > maxGroupDepth) ||
        (wireType === wireTypes.groupEnd && open.pop() !== tag >>> 3);
      if (isWrong) {
        this.#break();
        return;
      }
      if (wireType !== wireTypes.groupStart && wireType !== wireTypes.groupEnd) this.#skipValue();
    }
  }

  #varint(): number {
    let value = 0;
    let factor = 1;
    for (let i = 0; i < maxVarintBytes && this.#at < this.#end; i += 1) {
      const byte = this.#bytes[this.#at] ?? 0;
      this.#at += 1;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      factor *= 128;
    }
    this.#break();
    return 0;
  }

  #advance(length: number): boolean {
    if (length > this.#end - this.#at) this.#break();
    else this.#at += length;
    return !this.#isBroken;
  }

  /** Ends the reading at every depth. */
  #break(): void {
    this.#isBroken = true;
    this.#tag = 0;
    this.#at = this.#end;
  }
}

// A message is written as a string in which each character is one byte: a nested message is preceded by its length, which a
// string knows. All texts of the gateway are ASCII. A default value takes no bytes, as the format recommends.

export function numberField(field: number, value: number): string {
  return value === 0 ? "" : varint(field * 8) + varint(value);
}

export function textField(field: number, text: string): string {
  return text === "" ? "" : messageField(field, text);
}

/** `content` is the concatenation of the message's fields. An empty message is written too. */
export function messageField(field: number, content: string): string {
  return varint(field * 8 + 2) + varint(content.length) + content;
}

function varint(value: number): string {
  let rest = value;
  let text = "";
  while (rest >= 128) {
    text += String.fromCharCode((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  return text + String.fromCharCode(rest);
}
