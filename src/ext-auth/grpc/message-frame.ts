// The frame of a gRPC message: one byte says whether it is compressed, four bytes hold its length, then comes the message. Each
// call of these services has one message. A message that is too large is refused by the length it announces.
import { type GrpcStatus, grpcCodes } from "./status.ts";

const prefixBytes = 5;

/** Puts the frame before a message. Each character is one byte. */
export function framed(message: string): string {
  const { length } = message;
  return String.fromCharCode(0, length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255, length & 255) + message;
}

/** The bytes of incomplete messages that all calls together hold. */
export interface HeldBytes {
  readonly max: number;
  now: number;
}

export class MessageReader {
  readonly #maxBytes: number;
  readonly #held: HeldBytes;
  readonly #pieces: Buffer[] = [];
  #length = 0;
  /** Length of prefix and message; null until the prefix has arrived. */
  #announced: number | null = null;

  constructor(maxBytes: number, held: HeldBytes) {
    this.#maxBytes = maxBytes;
    this.#held = held;
  }

  /** Returns why the message is refused, or null. */
  push(piece: Buffer): GrpcStatus | null {
    this.#pieces.push(piece);
    this.#length += piece.length;
    this.#held.now += piece.length;
    if (this.#held.now > this.#held.max) return failures.tooManyBytes;
    if (this.#announced === null && this.#length >= prefixBytes) {
      const prefix = this.#joined();
      if (prefix[0] === 1) return failures.compressed;
      if (prefix[0] !== 0) return failures.notOneMessage;
      this.#announced = prefixBytes + prefix.readUInt32BE(1);
      if (this.#announced - prefixBytes > this.#maxBytes) return failures.tooLarge;
    }
    return this.#announced !== null && this.#length > this.#announced ? failures.notOneMessage : null;
  }

  /** Returns the message. Call it when the request has ended. */
  whole(): Buffer | GrpcStatus {
    return this.#length === this.#announced ? this.#joined().subarray(prefixBytes) : failures.notOneMessage;
  }

  release(): void {
    this.#held.now -= this.#length;
    this.#length = 0;
    this.#pieces.length = 0;
  }

  #joined(): Buffer {
    const [only] = this.#pieces;
    return this.#pieces.length === 1 && only !== undefined ? only : Buffer.concat(this.#pieces);
  }
}

const failures = {
  compressed: { code: grpcCodes.unimplemented, message: "compressed messages are not supported" },
  notOneMessage: { code: grpcCodes.invalidArgument, message: "a call has exactly one whole message" },
  tooLarge: { code: grpcCodes.resourceExhausted, message: "the message is larger than allowed" },
  tooManyBytes: { code: grpcCodes.resourceExhausted, message: "too many messages are being received" },
} as const;
