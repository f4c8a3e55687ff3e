// The memory of request bodies that wait for a connection to the upstream, with a bound on all of it and one on each
// client's part. A body beyond a bound is not refused: it takes a connection at once, and connections have bounds too.

/** With the default of 256 connections as many requests wait, which is half of this if each has a body of 64 KiB. */
const maxBytes = 32 * 1024 * 1024;
const maxClientBytes = maxBytes / 4;

export class WaitingBodies {
  readonly #byClient = new Map<string, number>();
  #bytes = 0;

  /** Bytes of memory that are kept now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds to what a client's bodies keep, or takes away if negative. False: a bound is reached. */
  add(client: string, bytes: number): boolean {
    const clientBytes = (this.#byClient.get(client) ?? 0) + bytes;
    if (clientBytes > 0) this.#byClient.set(client, clientBytes);
    else this.#byClient.delete(client);
    this.#bytes += bytes;
    return bytes <= 0 || (this.#bytes <= maxBytes && clientBytes <= maxClientBytes);
  }
}
