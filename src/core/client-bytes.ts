// Bounds memory that clients share: a total for all clients, and for each client a share that shrinks with what is free.
import { clientShare } from "./client-share.ts";

export class ClientBytes {
  readonly #byClient = new Map<string, number>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of memory that are kept now. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Counts bytes that a client now keeps; a negative number counts bytes that it keeps no longer. Returns false if a bound
   * is exceeded. The bytes are counted in that case too, and the caller subtracts them when it drops them.
   */
  add(client: string, bytes: number): boolean {
    const keptBytes = this.#byClient.get(client) ?? 0;
    const hasShareLeft = keptBytes < clientShare(this.#maxBytes - this.#bytes, this.#maxBytes);
    if (keptBytes + bytes > 0) this.#byClient.set(client, keptBytes + bytes);
    else this.#byClient.delete(client);
    this.#bytes += bytes;
    return bytes <= 0 || (hasShareLeft && this.#bytes <= this.#maxBytes);
  }
}
