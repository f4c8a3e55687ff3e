// Counts the open connections of clients, and those of them that are idle, over all threads where there are several. Each
// thread has places of its own in shared memory, so that what a thread had can be given back when it has ended.
import type { Peer } from "./client-address.ts";
import { maxThreads } from "./thread-share.ts";

export interface ConnectionCount {
  /** Open connections of all threads. */
  readonly total: number;
  /** Those without a request, as each thread has noted last. */
  readonly idle: number;
  enter(): void;
  leave(): void;
  /** Notes how many connections of this thread are idle. */
  noteIdle(count: number): void;
}

export class LocalConnectionCount implements ConnectionCount {
  total = 0;
  idle = 0;

  enter(): void {
    this.total += 1;
  }

  leave(): void {
    this.total -= 1;
  }

  noteIdle(count: number): void {
    this.idle = count;
  }
}

/**
 * A thread enters before it reads the total. Two threads that enter at once may so both see one too many, and neither
 * sees one too few.
 */
export class SharedConnectionCount implements ConnectionCount {
  readonly #open: Int32Array;
  readonly #idle: Int32Array;
  readonly #thread: number;

  constructor(memory: SharedArrayBuffer, thread: number) {
    this.#open = new Int32Array(memory, 0, places);
    this.#idle = new Int32Array(memory, this.#open.byteLength, places);
    this.#thread = thread;
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer(2 * places * Int32Array.BYTES_PER_ELEMENT);
  }

  get total(): number {
    return sum(this.#open);
  }

  get idle(): number {
    return sum(this.#idle);
  }

  enter(): void {
    Atomics.add(this.#open, this.#thread, 1);
  }

  leave(): void {
    Atomics.sub(this.#open, this.#thread, 1);
  }

  noteIdle(count: number): void {
    Atomics.store(this.#idle, this.#thread, count);
  }

  /** The thread has ended, and its connections with it. */
  static forget(memory: SharedArrayBuffer, thread: number): void {
    const ended = new SharedConnectionCount(memory, thread);
    Atomics.store(ended.#open, thread, 0);
    ended.noteIdle(0);
  }
}

/** Threads are numbered from 1. */
const places = maxThreads + 1;

function sum(byThread: Int32Array): number {
  let total = 0;
  for (let thread = 1; thread < places; thread += 1) total += Atomics.load(byThread, thread);
  return total;
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
