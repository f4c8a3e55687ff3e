// Bounds memory that clients share: of all clients together, and of each client by its share of what is free.
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

  /** Adds to the bytes that a client keeps; negative to subtract. Returns false if a bound is exceeded, and adds all the same. */
  add(client: string, bytes: number): boolean {
    const keptBytes = this.#byClient.get(client) ?? 0;
    const hasShareLeft = keptBytes < clientShare(this.#maxBytes - this.#bytes, this.#maxBytes);
    if (keptBytes + bytes > 0) this.#byClient.set(client, keptBytes + bytes);
    else this.#byClient.delete(client);
    this.#bytes += bytes;
    return bytes <= 0 || (hasShareLeft && this.#bytes <= this.#maxBytes);
  }
}
