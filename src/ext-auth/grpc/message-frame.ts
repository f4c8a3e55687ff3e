// The frame of a gRPC message: a byte that says whether it is compressed, four of its length, and the message. Takes the one
// message that a call of these services has; what is larger than allowed is refused by its announced length, before it is here.
import { type GrpcStatus, grpcCodes } from "./status.ts";

const prefixBytes = 5;

/** The bytes of a message, one to a character, with its frame. */
export function framed(message: string): string {
  const { length } = message;
  return String.fromCharCode(0, length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255, length & 255) + message;
}

/** What all calls together hold of messages that are not whole yet. */
export interface HeldBytes {
  readonly max: number;
  now: number;
}

export class MessageIntake {
  readonly #maxBytes: number;
  readonly #held: HeldBytes;
  readonly #pieces: Buffer[] = [];
  #length = 0;
  /** With the prefix; null until that is here. */
  #announced: number | null = null;

  constructor(maxBytes: number, held: HeldBytes) {
    this.#maxBytes = maxBytes;
    this.#held = held;
  }

  /** Why it cannot be taken, if so. */
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

  /** The message, once the caller has ended. */
  whole(): Buffer | GrpcStatus {
    return this.#length === this.#announced ? this.#joined().subarray(prefixBytes) : failures.notOneMessage;
  }

  forget(): void {
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
  tooManyBytes: { code: grpcCodes.resourceExhausted, message: "too many messages are under way" },
} as const;
