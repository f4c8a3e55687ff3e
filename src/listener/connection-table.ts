// The open connections of clients, and the idle ones in the order of their idle time. A connection leaves the table when
// its socket closes. Idle connections are a linked list, because each request takes its connection out and puts it back.
// One peer has at most as many busy connections as are free, even if it has more idle ones.
// Also counts the connections of all threads.
import type { Peer } from "../core/client-address.ts";
import { clientShare, type OnShareExceeded } from "../core/client-share.ts";
import { maxThreads, type Replaceable, type StreamSettings } from "../core/settings.ts";
import {
  type ClientConnection,
  type ConnectionPlace,
  type ConnectionRegistry,
  inPortions,
} from "../exchange/connection.ts";

/** A connection that has been idle for so long is not expected to be used again soon. */
const forgetAfterMs = 5_000;

/** A search is short, because each new connection of a peer over its bound begins one. */
const maxLookedAt = 1_000;

export class ConnectionTable implements ConnectionRegistry {
  /** True: every response from now on announces that its connection closes. */
  isDraining = false;
  readonly #places = new Set<TablePlace>();
  readonly #idle: IdleList;
  readonly #busy: BusyConnections;
  readonly #nowMs: () => number;
  #isEnding = false;
  #isSweeping = false;

  constructor(
    settings: Replaceable<StreamSettings>,
    count: IdleCount,
    nowMs: () => number,
    onShareExceeded: OnShareExceeded,
  ) {
    this.#nowMs = nowMs;
    this.#idle = new IdleList(nowMs, count);
    this.#busy = new BusyConnections(settings, onShareExceeded);
  }

  get idleCount(): number {
    return this.#idle.count;
  }

  /** When the idle time of the longest idle connection began; infinite if no connection is idle. */
  get idleSinceMs(): number {
    return this.#idle.first?.sinceMs ?? Number.POSITIVE_INFINITY;
  }

  add(connection: ClientConnection): void {
    const place = new TablePlace(connection, this.#places, this.#idle, this.#busy);
    connection.place = place;
    this.#places.add(place);
    this.#idle.append(place);
    if (this.#isEnding) connection.endWhenIdle();
  }

  /**
   * Returns the connection that has been idle longest. Of one peer: the longest idle one that is not expected to be used again
   * soon, if it is among the first. It is not returned again before its next request has ended.
   */
  takeIdle(peer: Peer | null = null): ClientConnection | undefined {
    const found = peer === null ? this.#idle.first : this.#idle.find(peer, this.#nowMs() - forgetAfterMs);
    if (found === null) return undefined;
    this.#idle.remove(found);
    return found.connection;
  }

  /**
   * Closes, in portions, the connections that have been idle for their maximum time, and those that are stalled. Connections
   * that have been idle for a while give up what they remember.
   */
  async sweep(): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    const nowMs = this.#nowMs();
    await inPortions(this.#places, (place) => {
      const { connection, isIdle, sinceMs } = place;
      if (!isIdle) {
        connection.endStalled(nowMs);
      } else if (nowMs - sinceMs >= connection.idleTimeoutMs) {
        this.#idle.remove(place);
        connection.endIdle();
      } else if (nowMs - sinceMs >= forgetAfterMs) {
        connection.forgetHead();
      }
    });
    this.#isSweeping = false;
  }

  /** Closes every connection, in portions, after its requests in progress. Includes connections that are added later. */
  endWhenIdle(): void {
    this.#isEnding = true;
    void inPortions([...this.#places], ({ connection }) => connection.endWhenIdle());
  }

  /** Aborts all connections. Resolves with the number of requests that were in progress, when all exchanges have ended. */
  async abortAll(): Promise<number> {
    let aborted = 0;
    await inPortions(this.#places, ({ connection }) => {
      aborted += connection.activeCount;
      connection.abort();
    });
    return aborted;
  }
}

/** A connection in the table and, while it is idle, in the list. */
class TablePlace implements ConnectionPlace {
  readonly connection: ClientConnection;
  readonly #places: Set<TablePlace>;
  readonly #idle: IdleList;
  readonly #busy: BusyConnections;
  readonly #peer: PeerCount;
  /** False after `takeIdle` too. */
  isIdle = false;
  #isBusy = false;
  /** The start of its idle time. */
  sinceMs = 0;
  before: TablePlace | null = null;
  after: TablePlace | null = null;

  constructor(connection: ClientConnection, places: Set<TablePlace>, idle: IdleList, busy: BusyConnections) {
    this.connection = connection;
    this.#places = places;
    this.#idle = idle;
    this.#busy = busy;
    this.#peer = busy.join(connection.peer);
  }

  begin(): boolean {
    if (this.#isBusy) return true;
    if (!this.#busy.add(this.#peer)) return false;
    this.#isBusy = true;
    if (this.isIdle) this.#idle.remove(this);
    return true;
  }

  end(nowMs?: number): void {
    this.#endBusy();
    if (this.isIdle) this.#idle.remove(this);
    if (!this.connection.socket.destroyed) this.#idle.append(this, nowMs);
  }

  leave(): void {
    this.connection.place = null;
    this.#places.delete(this);
    this.#endBusy();
    if (this.isIdle) this.#idle.remove(this);
    this.#busy.leave(this.#peer);
  }

  #endBusy(): void {
    if (this.#isBusy) this.#busy.remove(this.#peer);
    this.#isBusy = false;
  }
}

interface PeerCount {
  readonly id: string;
  /** As the metrics and the log know it. */
  readonly client: string;
  /** A trusted proxy has connections for many clients. */
  readonly isTrusted: boolean;
  open: number;
  busy: number;
}

/** Counts the busy connections of each peer in this thread. Those that it opened idle must not exceed its share either. */
class BusyConnections {
  readonly #settings: Replaceable<StreamSettings>;
  readonly #peers = new Map<string, PeerCount>();
  readonly #onShareExceeded: OnShareExceeded;
  #count = 0;

  constructor(settings: Replaceable<StreamSettings>, onShareExceeded: OnShareExceeded) {
    this.#settings = settings;
    this.#onShareExceeded = onShareExceeded;
  }

  join({ key, isTrusted }: Peer): PeerCount {
    // A reload changes whether a peer is trusted.
    const id = `${key} ${isTrusted}`;
    const peer = this.#peers.get(id) ?? { id, client: key, isTrusted, open: 0, busy: 0 };
    this.#peers.set(id, peer);
    peer.open += 1;
    return peer;
  }

  leave(peer: PeerCount): void {
    peer.open -= 1;
    if (peer.open === 0) this.#peers.delete(peer.id);
  }

  /** Returns false, and counts nothing, if the peer has used up its share. Its first one always has a place. */
  add(peer: PeerCount): boolean {
    // Connections have the bounds of streams; these are of this thread.
    const { max } = this.#settings.current.streams;
    const isWithin = peer.isTrusted || peer.busy === 0 || peer.busy < clientShare(max - this.#count, max);
    if (!isWithin) {
      this.#onShareExceeded("client_connections", peer.client);
      return false;
    }
    peer.busy += 1;
    this.#count += 1;
    return true;
  }

  remove(peer: PeerCount): void {
    peer.busy -= 1;
    this.#count -= 1;
  }
}

class IdleList {
  readonly #nowMs: () => number;
  readonly #allThreads: IdleCount;
  first: TablePlace | null = null;
  #last: TablePlace | null = null;
  count = 0;

  constructor(nowMs: () => number, allThreads: IdleCount) {
    this.#nowMs = nowMs;
    this.#allThreads = allThreads;
  }

  /** Returns the first one of the peer, if it is idle since this instant or before. */
  find({ key }: Peer, untilMs: number): TablePlace | null {
    let place = this.first;
    for (let i = 0; i < maxLookedAt && place !== null && place.sinceMs <= untilMs; i += 1) {
      if (place.connection.peer.key === key) return place;
      place = place.after;
    }
    return null;
  }

  append(place: TablePlace, nowMs = this.#nowMs()): void {
    place.isIdle = true;
    place.sinceMs = nowMs;
    place.before = this.#last;
    if (this.#last === null) this.first = place;
    else this.#last.after = place;
    this.#last = place;
    this.#setCount(this.count + 1);
  }

  remove(place: TablePlace): void {
    const { before, after } = place;
    if (before === null) this.first = after;
    else before.after = after;
    if (after === null) this.#last = before;
    else after.before = before;
    place.before = null;
    place.after = null;
    place.isIdle = false;
    this.#setCount(this.count - 1);
  }

  #setCount(count: number): void {
    this.count = count;
    this.#allThreads.setIdle(count, this.first?.sinceMs ?? 0);
  }
}

// How many connections all threads have. Each thread counts in its own part of shared memory, so that the connections of a
// thread that has ended can be subtracted.

export interface ConnectionCount extends IdleCount {
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
}

interface IdleCount {
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
