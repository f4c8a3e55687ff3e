// Bounds the memory of request bodies that wait for a connection to the upstream: of all clients, and of each client. A
// body beyond a bound is not refused: it asks for a connection at once, and connections have bounds too.

/**
 * Of the process. By default, 256 requests wait for a connection. Together they use half of this if each of them keeps
 * 64 KiB.
 */
export const maxWaitingBodyBytes = 32 * 1024 * 1024;

export class WaitingBodies {
  readonly #byClient = new Map<string, number>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes = maxWaitingBodyBytes) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of memory that are kept now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds bytes to what a client's bodies keep; negative to subtract. Returns false if a bound is exceeded. */
  add(client: string, bytes: number): boolean {
    const clientBytes = (this.#byClient.get(client) ?? 0) + bytes;
    if (clientBytes > 0) this.#byClient.set(client, clientBytes);
    else this.#byClient.delete(client);
    this.#bytes += bytes;
    return bytes <= 0 || (this.#bytes <= this.#maxBytes && clientBytes <= this.#maxBytes / 4);
  }
}
