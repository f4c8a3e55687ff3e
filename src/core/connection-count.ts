// Counts the open connections of clients, over all threads where there are several. Each thread has a place of its own in
// shared memory, so that what a thread had can be given back when it has ended.
import type { Peer } from "./client-address.ts";
import { maxThreads } from "./thread-share.ts";

export interface ConnectionCount {
  /** Open connections of all threads. */
  readonly total: number;
  enter(): void;
  leave(): void;
}

export class LocalConnectionCount implements ConnectionCount {
  total = 0;

  enter(): void {
    this.total += 1;
  }

  leave(): void {
    this.total -= 1;
  }
}

/**
 * A thread enters before it reads the total. Two threads that enter at once may so both see one too many, and neither
 * sees one too few.
 */
export class SharedConnectionCount implements ConnectionCount {
  readonly #byThread: Int32Array;
  readonly #thread: number;

  constructor(memory: SharedArrayBuffer, thread: number) {
    this.#byThread = new Int32Array(memory);
    this.#thread = thread;
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer((maxThreads + 1) * Int32Array.BYTES_PER_ELEMENT);
  }

  get total(): number {
    let total = 0;
    for (let thread = 1; thread <= maxThreads; thread += 1) total += Atomics.load(this.#byThread, thread);
    return total;
  }

  enter(): void {
    Atomics.add(this.#byThread, this.#thread, 1);
  }

  leave(): void {
    Atomics.sub(this.#byThread, this.#thread, 1);
  }

  /** The thread has ended, and its connections with it. */
  static forget(memory: SharedArrayBuffer, thread: number): void {
    Atomics.store(new Int32Array(memory), thread, 0);
  }
}

/** Counts the connections of each peer, over all threads. */
export interface PeerConnections {
  /** Returns false, and counts nothing, if the peer has `max` connections. */
  enter(peer: Peer, max: number): boolean;
  leave(peer: Peer): void;
}

export class LocalPeerConnections implements PeerConnections {
  readonly #counts = new Map<string, number>();

  enter({ key }: Peer, max: number): boolean {
    const count = this.#counts.get(key) ?? 0;
    if (count >= max) return false;
    this.#counts.set(key, count + 1);
    return true;
  }

  leave({ key }: Peer): void {
    const left = (this.#counts.get(key) ?? 0) - 1;
    if (left > 0) this.#counts.set(key, left);
    else this.#counts.delete(key);
  }
}
