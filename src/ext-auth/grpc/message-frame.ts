// The frame of a gRPC message: one byte says whether it is compressed, four bytes hold its length, then comes the
// message. Each call of these services has one message. A message that is too large is refused by the length it
// announces.
import type { ClientBytes } from "../../core/client-share.ts";
import { type GrpcStatus, grpcCodes } from "./status.ts";

const prefixBytes = 5;

/** Puts the frame before a message. Each character is one byte. */
export function framed(message: string): string {
  const { length } = message;
  return String.fromCharCode(0, length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255, length & 255) + message;
}

/** Returns the message, without a copy, if these bytes are its frame and nothing else; null if not. */
export function onlyMessage(bytes: Buffer, maxBytes: number): Buffer | null {
  const length = bytes.length - prefixBytes;
  if (length < 0 || length > maxBytes || bytes[0] !== 0 || bytes.readUInt32BE(1) !== length) return null;
  return bytes.subarray(prefixBytes);
}

const smallestBuffer = 64;

/**
 * A message may come in this many pieces, and one more for each `bytesPerPiece`. Each piece costs about 10 µs besides
 * its bytes. Real callers send pieces of several KiB, or a few small ones.
 */
const freePieces = 64;
const bytesPerPiece = 64;

export class MessageReader {
  readonly #maxBytes: number;
  readonly #held: ClientBytes;
  readonly #caller: string;
  /** Pieces are copied, because a small piece would keep the large buffer that it was read into. */
  #buffer: Buffer = empty;
  #length = 0;
  #pieces = 0;
  /** Length of prefix and message; null until the prefix has arrived. */
  #announced: number | null = null;

  /** `held`: the memory of the incomplete messages of all callers. */
  constructor(maxBytes: number, held: ClientBytes, caller: string) {
    this.#maxBytes = maxBytes;
    this.#held = held;
    this.#caller = caller;
  }

  /** Returns why the message is refused, or null. */
  push(piece: Buffer): GrpcStatus | null {
    const length = this.#length + piece.length;
    this.#pieces += 1;
    if (this.#pieces > freePieces + length / bytesPerPiece) return failures.tinyPieces;
    const flaw = this.#readPrefix(piece);
    if (flaw !== null) return flaw;
    if (this.#announced !== null && length > this.#announced) return failures.notOneMessage;
    if (!this.#grow(length)) return failures.tooManyBytes;
    piece.copy(this.#buffer, this.#length);
    this.#length = length;
    return null;
  }

  /** Returns the message. Call it when the request has ended. */
  whole(): Buffer | GrpcStatus {
    return this.#length === this.#announced ? this.#buffer.subarray(prefixBytes, this.#length) : failures.notOneMessage;
  }

  release(): void {
    this.#held.add(this.#caller, -this.#buffer.length);
    this.#buffer = empty;
    this.#length = 0;
  }

  /** Reads the prefix if `piece` completes it. */
  #readPrefix(piece: Buffer): GrpcStatus | null {
    if (this.#announced !== null || this.#length + piece.length < prefixBytes) return null;
    const prefix = Buffer.concat([this.#buffer.subarray(0, this.#length), piece.subarray(0, prefixBytes)]);
    if (prefix[0] === 1) return failures.compressed;
    if (prefix[0] !== 0) return failures.notOneMessage;
    this.#announced = prefixBytes + prefix.readUInt32BE(1);
    return this.#announced - prefixBytes > this.#maxBytes ? failures.tooLarge : null;
  }

  /**
   * Doubles the buffer, so that at least half of it is used. Returns false if the caller, or all together, would hold too
   * much.
   */
  #grow(length: number): boolean {
    if (length <= this.#buffer.length) return true;
    const doubled = Math.max(length, 2 * this.#buffer.length, smallestBuffer);
    const grown = Math.min(doubled, this.#announced ?? doubled);
    const grownBytes = grown - this.#buffer.length;
    if (!this.#held.add(this.#caller, grownBytes)) {
      this.#held.add(this.#caller, -grownBytes);
      return false;
    }
    const buffer = Buffer.allocUnsafeSlow(grown);
    this.#buffer.copy(buffer, 0, 0, this.#length);
    this.#buffer = buffer;
    return true;
  }
}

const empty = Buffer.alloc(0);

const failures = {
  compressed: { code: grpcCodes.unimplemented, message: "compressed messages are not supported" },
  notOneMessage: { code: grpcCodes.invalidArgument, message: "a call has exactly one whole message" },
  tooLarge: { code: grpcCodes.resourceExhausted, message: "the message is larger than allowed" },
  tinyPieces: { code: grpcCodes.resourceExhausted, message: "the message comes in too many small pieces" },
  tooManyBytes: { code: grpcCodes.resourceExhausted, message: "too many messages are being received" },
} as const;
