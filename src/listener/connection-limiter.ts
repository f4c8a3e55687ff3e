// Bounds the connections of clients. Each counts from the moment it is accepted, before a byte is parsed. A connection
// over a bound gets a 503 and is closed; if many are getting one already, it is closed without a response, so that
// refusals use bounded memory.
import type { Socket } from "node:net";
import { type Peer, type PeerConnections, readPeer } from "../core/client-address.ts";
import { FairPlaces } from "../core/client-share.ts";
import type { ConnectionShedReason } from "../core/connection-ends.ts";
import type { Replaceable, TrafficSettings } from "../core/settings.ts";
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";
import { inPortions } from "../exchange/connection.ts";
import type { ConnectionCount, ConnectionTable } from "./connection-table.ts";

export interface ConnectionLimits {
  readonly settings: Replaceable<TrafficSettings>;
  /** Of all threads. */
  readonly count: ConnectionCount;
  readonly peers: PeerConnections;
  /** `peer` is the address whose own limit was reached; null if it was another limit. */
  readonly onConnectionShed: (reason: ConnectionShedReason, peer: string | null) => void;
  readonly nowMs: () => number;
}

interface ConnectionLimiterOptions extends ConnectionLimits {
  readonly connections: ConnectionTable;
  /** Sends a 503. Null: refused connections get no response, because none can precede the TLS handshake. */
  readonly answerOverloaded: ((socket: Socket, peer: Peer) => void) | null;
}

/** Refused connections that are still open so that the client reads the 503 (RFC 9112, 9.6). */
const maxRefused = 64;

/**
 * How many connections all threads may accept beyond the total while idle ones can be closed for them: connections whose
 * peer is not known yet, and those for which another thread closes an idle one.
 */
const maxOver = 64;

/** A thread closes its own idle connection unless another thread's has been idle for longer by this much. */
const clearlyMs = 1_000;

/**
 * Connections whose PROXY header or TLS handshake is not complete. A core does 1,000 handshakes a second, so legitimate
 * clients need several times fewer. Each takes up to 60 KB.
 */
const maxWaiting = 2048;

export class ConnectionLimiter {
  readonly #options: ConnectionLimiterOptions;
  /** Admitted connections with their peer, null until it is known. */
  readonly #admitted = new Map<Socket, Peer | null>();
  #newConnections: { readonly rate: TokenRate; readonly buckets: TokenBuckets };
  readonly #waiting = new FairPlaces<Socket>(maxWaiting);
  readonly #refused = new FairPlaces<Socket>(maxRefused);
  #isMakingRoom = false;
  /** One function for all sockets. */
  readonly #onClose: (this: Socket) => void;

  constructor(options: ConnectionLimiterOptions) {
    this.#options = options;
    const { newConnections: rate } = options.settings.current;
    this.#newConnections = { rate, buckets: new TokenBuckets(rate) };
    const forget = (socket: Socket): void => this.#forget(socket);
    this.#onClose = function () {
      forget(this);
    };
  }

  /** Open connections of this thread, including those whose peer is not known yet. */
  get count(): number {
    return this.#admitted.size;
  }

  /** Counts a connection whose peer may be unknown. Returns false if it is refused and closed. */
  accept(socket: Socket): boolean {
    const { settings, connections, count } = this.#options;
    const { bounds, clientAddress } = settings.current;
    this.#admitted.set(socket, null);
    count.enter();
    if (count.total > bounds.maxConnections) {
      void this.makeRoomForOthers();
      const over = count.total - bounds.maxConnections;
      const mayBeOver = Math.min(connections.idleCount + count.idleElsewhere, maxOver);
      if (over > mayBeOver && !this.#makeRoom(this.#waiting.evict()) && !this.#closeLongestIdle()) {
        this.#refuse(socket, readPeer(socket.remoteAddress, clientAddress), "total");
        return false;
      }
    }
    socket.on("close", this.#onClose);
    return true;
  }

  /** Admits a connection whose peer is known. A peer over its own bound evicts nobody but itself. */
  admit(socket: Socket, peer: Peer): boolean {
    const { settings, count, peers, onConnectionShed } = this.#options;
    const { bounds } = settings.current;
    // Checked before anything that costs more than closing: a TLS handshake takes a millisecond of CPU.
    if (!peer.isTrusted && !this.#takeNewConnection(peer)) {
      onConnectionShed("rate", peer.key);
      this.#forget(socket);
      socket.destroy();
      return false;
    }
    // It may be closed already.
    if (this.#admitted.has(socket)) {
      // A trusted proxy has connections for many clients. Others may keep theirs idle for long, behind one NAT too.
      const enter = (): boolean => peers.enter(peer, bounds.maxConnectionsPerPeer);
      if (!peer.isTrusted && !enter() && !(this.#closeLongestIdle(peer) && enter())) {
        this.#refuse(socket, peer, "per_peer");
        return false;
      }
      this.#admitted.set(socket, peer);
      count.admit();
    }
    const over = count.total - bounds.maxConnections;
    if (over > 0 && !this.#makeRoomFor(over)) {
      this.#refuse(socket, peer, "total");
      return false;
    }
    return true;
  }

  /**
   * Closes, in portions, idle connections for those over the total that other threads have admitted, or because a reload has
   * lowered it. Called regularly.
   */
  async makeRoomForOthers(): Promise<void> {
    if (this.#isMakingRoom) return;
    this.#isMakingRoom = true;
    await inPortions(this.#whileOver(), () => this.#closeLongestIdle());
    this.#isMakingRoom = false;
  }

  /**
   * Counts an accepted connection among those whose PROXY header or handshake is not complete. If there are too many,
   * closes the oldest one of the peer with the most. Behind a proxy, `key` is that of the proxy until its header is
   * read.
   */
  wait(socket: Socket, key: string): void {
    this.#waiting.leave(socket);
    this.#makeRoom(this.#waiting.take(socket, key));
  }

  /** The PROXY header or the handshake is complete. */
  waited(socket: Socket): void {
    this.#waiting.leave(socket);
  }

  /** Returns the connections whose PROXY header or handshake is not complete. */
  waiting(): IterableIterator<Socket> {
    return this.#waiting.connections();
  }

  destroyRefused(): void {
    for (const socket of this.#refused.connections()) socket.destroy();
  }

  #takeNewConnection(peer: Peer): boolean {
    const { settings, nowMs } = this.#options;
    const { newConnections: rate } = settings.current;
    const known = this.#newConnections.rate;
    if (rate.burst !== known.burst || rate.perSecond !== known.perSecond) {
      this.#newConnections = { rate, buckets: new TokenBuckets(rate) };
    }
    return this.#newConnections.buckets.take(peer.key, nowMs());
  }

  /** Idle connections must not keep new clients out: closes the one that has been idle longest, or leaves that to its thread. */
  #makeRoomFor(over: number): boolean {
    if (this.#hasOlderElsewhere && over <= this.#options.count.idleElsewhere) return true;
    return this.#closeLongestIdle() || this.#makeRoom(this.#waiting.evict());
  }

  /**
   * Whether a connection of another thread has clearly been idle for longer than all of this one, which may be new and about
   * to get their first request.
   */
  get #hasOlderElsewhere(): boolean {
    const { connections, count } = this.#options;
    return count.idleElsewhereSinceMs < connections.idleSinceMs - clearlyMs;
  }

  /**
   * Yields once for each connection to close, but not the connection: it might get a request between two portions. While other
   * threads have idle connections too, a new one stays until it has clearly been idle.
   */
  *#whileOver(): Generator<null> {
    const { settings, connections, count, nowMs } = this.#options;
    const isOver = (): boolean => count.admitted > settings.current.bounds.maxConnections;
    const isNew = (): boolean => count.idleElsewhere > 0 && nowMs() - connections.idleSinceMs < clearlyMs;
    while (isOver() && connections.idleCount > 0 && !this.#hasOlderElsewhere && !isNew()) yield null;
  }

  /** Of one peer: the longest idle one that is not expected to be used again soon. */
  #closeLongestIdle(peer?: Peer): boolean {
    const longest = this.#options.connections.takeIdle(peer);
    if (longest === undefined) return false;
    this.#makeRoom(longest.tcp);
    longest.socket.destroy();
    return true;
  }

  /** Closes the evicted connection. Returns false if there is none. */
  #makeRoom(evicted: Socket | null): boolean {
    if (evicted === null) return false;
    this.#options.onConnectionShed("idle", null);
    this.#forget(evicted);
    evicted.destroy();
    return true;
  }

  #forget(socket: Socket): void {
    const peer = this.#admitted.get(socket);
    if (peer === undefined) return;
    this.#admitted.delete(socket);
    this.#options.count.leave(peer !== null);
    this.#waiting.leave(socket);
    if (peer !== null && !peer.isTrusted) this.#options.peers.leave(peer);
  }

  #refuse(socket: Socket, peer: Peer, reason: ConnectionShedReason): void {
    this.#options.onConnectionShed(reason, reason === "per_peer" ? peer.key : null);
    this.#forget(socket);
    const { answerOverloaded } = this.#options;
    const isAnswered =
      answerOverloaded !== null && this.#refused.takeFromOthers(socket, peer.key, (other) => other.destroy());
    if (!isAnswered) {
      socket.destroy();
      return;
    }
    socket.once("close", () => this.#refused.leave(socket));
    answerOverloaded(socket, peer);
  }
}

/** Bounds the memory. With more keys, those whose last use is longest ago are forgotten before they are full. */
const maxKeysPerGeneration = 50_000;

/**
 * A token bucket for each key: `burst` at once, and `perSecond` after that. Takes constant time. A bucket that is full
 * again is forgotten, so memory holds only the keys of the last few seconds.
 */
export class TokenBuckets {
  readonly #rate: TokenRate;
  /** After this time without a use, a bucket is full. */
  readonly #fillMs: number;
  /** The buckets used since `#beganMs`, and those used only in the generation before. */
  #current = new Map<string, TokenBucket>();
  #previous = new Map<string, TokenBucket>();
  #beganMs = Number.NEGATIVE_INFINITY;

  constructor(rate: TokenRate) {
    this.#rate = rate;
    this.#fillMs = (rate.burst / rate.perSecond) * 1000;
  }

  get size(): number {
    return this.#current.size + this.#previous.size;
  }

  /** Takes a token; false if there is none. `nowMs` never goes back. */
  take(key: string, nowMs: number): boolean {
    this.#forgetFull(nowMs);
    const bucket = this.#bucketOf(key, nowMs);
    bucket.refill(nowMs);
    if (bucket.left < 1) return false;
    bucket.take(1);
    return true;
  }

  #bucketOf(key: string, nowMs: number): TokenBucket {
    const current = this.#current.get(key);
    if (current !== undefined) return current;
    const previous = this.#previous.get(key);
    this.#previous.delete(key);
    const bucket = previous ?? new TokenBucket(this.#rate, nowMs);
    this.#current.set(key, bucket);
    return bucket;
  }

  /** A bucket that was not used in the current generation, which has lasted for `#fillMs`, is full. */
  #forgetFull(nowMs: number): void {
    if (nowMs - this.#beganMs < this.#fillMs && this.#current.size < maxKeysPerGeneration) return;
    this.#previous = this.#current;
    this.#current = new Map();
    this.#beganMs = nowMs;
  }
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
