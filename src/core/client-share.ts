// How much of a shared resource one client may hold. The bound shrinks with what is free (dynamic thresholds, as switches
// share their buffers: Choudhury and Hahne, 1998), because what is held cannot always be taken back. So a client alone
// gets a half, and n clients that take together get three quarters among them; the last quarter stays free for others.

export const sharedResources = [
  "connections", // to the upstream
  "queue", // places of requests that wait for such a connection
  "tunnels",
  "client_connections", // of clients to the gateway, with a request
] as const;

export type SharedResource = (typeof sharedResources)[number];

/** Called for each request or tunnel that is refused or ended because its client, or peer, has used up its share. */
export type OnShareExceeded = (resource: SharedResource, client: string) => void;

/**
 * Returns the bound on what a client may hold when `free` of `total` are free: a client that holds less gets one more. The
 * last quarter is for clients that hold nothing. Without it, clients that come one after the other would each take a half
 * of what is free, and a pool of 256 would have nothing left for the tenth.
 */
export function clientShare(free: number, total: number): number {
  return free > Math.floor(total / 4) ? free : Math.min(free, 1);
}

/** Bounds memory: a total for all clients, and for each client its share. */
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
