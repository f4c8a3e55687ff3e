// Remembers the last call of a connection. Many requests of one client for one target make an ingress send the same bytes
// again: then what was read from them is used again, which is much cheaper. The bytes are compared, so the result is the
// same.
import type { RequestHead } from "../../core/request-head.ts";
import type { HttpCheck } from "./http-check.ts";

export interface ReadCall extends HttpCheck {
  /** The caller asks to close the connection after the answer. */
  readonly isLast: boolean;
  /** It is remembered, because it may come again. */
  isKept: boolean;
  /** Of the request that the call is about; null: not read yet. */
  head: RequestHead | null;
}

/** With what is read from it, a call takes about five times its size. */
const maxBytes = 2 * 1024;

/** After so many different calls, only one in as many is remembered: most connections carry calls of many clients. */
const maxMisses = 16;

export class CallMemory {
  #bytes: Buffer | null = null;
  #length = 0;
  #call: ReadCall | null = null;
  /** Calls since one came again. */
  #misses = 0;

  /** Returns the last call if it had the same bytes. */
  find(packet: Buffer): ReadCall | null {
    const call = this.#call;
    if (call === null || this.#bytes === null || packet.length !== this.#length) return null;
    if (packet.compare(this.#bytes, 0, this.#length) !== 0) return null;
    this.#misses = 0;
    return call;
  }

  /** Returns whether the call is kept, so that what is read from it is worth keeping too. */
  keep(packet: Buffer, call: ReadCall): boolean {
    this.#misses += 1;
    this.#call = null;
    if (packet.length > maxBytes || (this.#misses > maxMisses && this.#misses % maxMisses !== 0)) return false;
    this.#bytes ??= Buffer.allocUnsafeSlow(maxBytes);
    packet.copy(this.#bytes);
    this.#length = packet.length;
    this.#call = call;
    return true;
  }
}
