// Counts the open connections of clients, over all threads. Each thread counts in its own part of shared memory, so that the
// connections of a thread that has ended can be subtracted.
import type { Peer } from "./client-address.ts";
import { maxThreads } from "./settings.ts";

export interface ConnectionCount {
  /** Open connections of all threads. */
  readonly total: number;
  /** Those of them whose peer is known and admitted. */
  readonly admitted: number;
  /** Those of the other threads that are idle. */
  readonly idleElsewhere: number;
  /** When the longest idle one of them became idle; infinite if there is none. */
  readonly idleElsewhereSinceMs: number;
  enter(): void;
  /** Counts a connection as admitted. It has entered, and its peer is now known. */
  admit(): void;
  leave(wasAdmitted: boolean): void;
  /** Publishes to the other threads how many connections of this thread are idle, and since when. Called for each request. */
  setIdle(count: number, sinceMs: number): void;
}

export class LocalConnectionCount implements ConnectionCount {
  total = 0;
  admitted = 0;
  readonly idleElsewhere = 0;
  readonly idleElsewhereSinceMs = Number.POSITIVE_INFINITY;

  enter(): void {
    this.total += 1;
  }

  admit(): void {
    this.admitted += 1;
  }

  leave(wasAdmitted: boolean): void {
    this.total -= 1;
    if (wasAdmitted) this.admitted -= 1;
  }

  /** Does nothing, because there is no other thread. */
  setIdle(): void {}
}

/** What a thread has in the memory. */
const words = { open: 0, admitted: 1, idle: 2, idleSince: 3 } as const;
/** A cache line, so that what changes with each request of one thread does not slow down the others. */
const wordsOfThread = 64 / Int32Array.BYTES_PER_ELEMENT;
/** A word of 32 bits then lasts for years. */
const sinceUnitMs = 100;

/**
 * A thread increments the count before it reads the total. So two threads that enter together may both read a total that is
 * too high by one, but never one that is too low.
 */
export class SharedConnectionCount implements ConnectionCount {
  readonly #memory: Int32Array;
  readonly #own: number;

  constructor(memory: SharedArrayBuffer, thread: number) {
    this.#memory = new Int32Array(memory);
    this.#own = thread * wordsOfThread;
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer((maxThreads + 1) * wordsOfThread * Int32Array.BYTES_PER_ELEMENT);
  }

  get total(): number {
    return this.#sum(words.open);
  }

  get admitted(): number {
    return this.#sum(words.admitted);
  }

  get idleElsewhere(): number {
    return this.#sum(words.idle) - Atomics.load(this.#memory, this.#own + words.idle);
  }

  get idleElsewhereSinceMs(): number {
    let earliest = Number.POSITIVE_INFINITY;
    for (let at = wordsOfThread; at < this.#memory.length; at += wordsOfThread) {
      if (at === this.#own || Atomics.load(this.#memory, at + words.idle) === 0) continue;
      earliest = Math.min(earliest, Atomics.load(this.#memory, at + words.idleSince) * sinceUnitMs);
    }
    return earliest;
  }

  enter(): void {
    Atomics.add(this.#memory, this.#own + words.open, 1);
  }

  admit(): void {
    Atomics.add(this.#memory, this.#own + words.admitted, 1);
  }

  leave(wasAdmitted: boolean): void {
    Atomics.sub(this.#memory, this.#own + words.open, 1);
    if (wasAdmitted) Atomics.sub(this.#memory, this.#own + words.admitted, 1);
  }

  setIdle(count: number, sinceMs: number): void {
    if (count > 0) Atomics.store(this.#memory, this.#own + words.idleSince, sinceMs / sinceUnitMs);
    Atomics.store(this.#memory, this.#own + words.idle, count);
  }

  /** The thread has ended, and its connections with it. */
  static forget(memory: SharedArrayBuffer, thread: number): void {
    new Int32Array(memory).fill(0, thread * wordsOfThread, (thread + 1) * wordsOfThread);
  }

  #sum(word: number): number {
    let sum = 0;
    for (let at = wordsOfThread; at < this.#memory.length; at += wordsOfThread) {
      sum += Atomics.load(this.#memory, at + word);
    }
    return sum;
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
