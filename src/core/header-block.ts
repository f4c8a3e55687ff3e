// Finds the header blocks in HTTP/2 frames (RFC 9113, 4.3), and measures them before nghttp2 decodes them. A block is
// in HEADERS and CONTINUATION frames; their padding and priority are no part of it.
import { maxFields, maxHeadBytes } from "./head-bounds.ts";
import { HpackMeter } from "./hpack-meter.ts";

export const headersType = 0x1;
export const pushPromiseType = 0x5;
export const continuationType = 0x9;
const endHeaders = 0x4;
const padded = 0x8;
const priority = 0x20;

/**
 * A head over the bounds gets a response. A head over twice the bounds is not decoded, because a few bytes can take a
 * long time to decode.
 */
const maxBytes = 2 * maxHeadBytes;
const maxBlockFields = 2 * maxFields;

export class HeaderBlock {
  /** Whether the block continues in the next frame. */
  isOpen = false;
  readonly #meter = new HpackMeter();
  #isPadLengthNext = false;
  /** In the current frame: the bytes to skip before the block, and the bytes of the block that have not come yet. */
  #skip = 0;
  #left = 0;

  get decodedBytes(): number {
    return this.#meter.decodedBytes;
  }

  /** Begins a frame that is a part of a header block. */
  beginFrame(type: number, flags: number, length: number): void {
    const isFirst = type !== continuationType;
    if (isFirst) this.#meter.begin();
    this.#isPadLengthNext = isFirst && (flags & padded) !== 0;
    const priorityBytes = type === headersType && (flags & priority) !== 0 ? 5 : 0;
    const promisedBytes = type === pushPromiseType ? 4 : 0;
    this.#skip = (this.#isPadLengthNext ? 1 : 0) + priorityBytes + promisedBytes;
    this.#left = Math.max(0, length - this.#skip);
    this.isOpen = (flags & endHeaders) === 0;
  }

  /** Reads a piece of the frame's payload. Returns why the block must not be decoded. */
  read(bytes: Uint8Array, from: number, to: number): "head_too_large" | "malformed" | null {
    if (this.#isPadLengthNext) this.#left = Math.max(0, this.#left - (bytes[from] as number));
    this.#isPadLengthNext = false;
    const begin = Math.min(to, from + this.#skip);
    this.#skip -= begin - from;
    const end = Math.min(to, begin + this.#left);
    this.#left -= end - begin;
    const meter = this.#meter;
    if (!meter.read(bytes, begin, end)) return meter.isTextTooLong ? "head_too_large" : "malformed";
    const isTooLarge = meter.encodedBytes > maxBytes || meter.decodedBytes > maxBytes || meter.fields > maxBlockFields;
    return isTooLarge ? "head_too_large" : null;
  }
}
