// Bounds the HTTP/2 frames that carry little or nothing: PING, SETTINGS, PRIORITY, RST_STREAM, WINDOW_UPDATE, DATA of a
// few bytes, frames of unknown types, and requests that are refused or malformed. Each frame costs points. Time, bytes
// in either direction and accepted requests give points back. Each connection has a budget, and all connections of one
// peer share another one. When the shared budget is used up, only connections that have spent much themselves are
// closed.
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";

/**
 * A client spends a few points when it connects, less than four on a request, and a few in a second while it is idle.
 * A frame costs the gateway 2 to 15 µs of CPU time.
 */
const connectionRate: TokenRate = { burst: 3_000, perSecond: 100 };
const peerRate: TokenRate = { burst: 10_000, perSecond: 1_000 };

/** A connection that has spent at most this much stays open when the budget of its peer is used up. */
const sparedPoints = 200;

/** How many peers without a connection are remembered until their budget is full again. */
const maxRemembered = 1_000;

export class FrameBudgets {
  readonly #nowMs: () => number;
  readonly #peers = new Map<string, PeerBudget>();
  /** The peers without a connection, in the order in which they left. */
  readonly #remembered = new Set<string>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Opens the budget of a connection. Null: the peer, a trusted proxy, has no budget of its own. */
  open(peerKey: string | null): FrameBudget {
    return new FrameBudget(this.#nowMs, peerKey === null ? null : this.#join(peerKey));
  }

  #join(key: string): PeerBudget {
    const known = this.#peers.get(key);
    const peer = known ?? new PeerBudget(this.#nowMs(), () => this.#remember(key));
    if (known === undefined) this.#peers.set(key, peer);
    this.#remembered.delete(key);
    peer.connections += 1;
    return peer;
  }

  /** A peer must not get a new budget by closing its connections. */
  #remember(key: string): void {
    this.#remembered.add(key);
    const nowMs = this.#nowMs();
    for (const old of this.#remembered) {
      const bucket = this.#peers.get(old)?.bucket;
      bucket?.refill(nowMs);
      const isFull = (bucket?.spent ?? 0) === 0;
      if (!isFull && this.#remembered.size <= maxRemembered) break;
      this.#remembered.delete(old);
      this.#peers.delete(old);
    }
  }
}

/** The budget of one connection. */
export class FrameBudget {
  readonly #nowMs: () => number;
  readonly #own: TokenBucket;
  #peer: PeerBudget | null;

  constructor(nowMs: () => number, peer: PeerBudget | null) {
    this.#nowMs = nowMs;
    this.#own = new TokenBucket(connectionRate, nowMs());
    this.#peer = peer;
  }

  /** Gives points back. */
  earn(points: number): void {
    this.#own.take(-points);
    this.#peer?.bucket.take(-points);
  }

  /** Takes points. False: the connection has to be closed. */
  spend(points: number): boolean {
    this.#own.take(points);
    this.#peer?.bucket.take(points);
    const ofPeer = this.#peer?.bucket ?? null;
    if (this.#own.left >= 0 && (ofPeer === null || ofPeer.left >= 0)) return true;
    const nowMs = this.#nowMs();
    this.#own.refill(nowMs);
    ofPeer?.refill(nowMs);
    if (this.#own.left < 0) return false;
    return ofPeer === null || ofPeer.left >= 0 || this.#own.spent <= sparedPoints;
  }

  /** The connection is closed. */
  close(): void {
    this.#peer?.leave();
    this.#peer = null;
  }
}

class PeerBudget {
  readonly bucket: TokenBucket;
  connections = 0;
  readonly #onEmpty: () => void;

  constructor(nowMs: number, onEmpty: () => void) {
    this.bucket = new TokenBucket(peerRate, nowMs);
    this.#onEmpty = onEmpty;
  }

  leave(): void {
    this.connections -= 1;
    if (this.connections === 0) this.#onEmpty();
  }
}
