// What the traffic of a thread shows: the upstream's state, and the share of the busiest client. Those of several
// threads can be joined.
import type { UpstreamErrorReason, UpstreamHealth } from "../core/upstream.ts";

/** `atMs`: the instant of the last attempt, by the monotonic clock that all threads share; -Infinity before the first. */
export interface SeenHealth extends UpstreamHealth {
  readonly atMs: number;
}

const up: UpstreamHealth = { state: "up", reason: null };
const unknown: UpstreamHealth = { state: "unknown", reason: null };
export const neverSeen: SeenHealth = { ...unknown, atMs: Number.NEGATIVE_INFINITY };

export class SeenUpstream {
  health = unknown;
  #atMs = neverSeen.atMs;

  get seen(): SeenHealth {
    return { ...this.health, atMs: this.#atMs };
  }

  answered(nowMs: number): void {
    this.health = up;
    this.#atMs = nowMs;
  }

  failed(reason: UpstreamErrorReason, nowMs: number): void {
    // Running out of connections says nothing about whether the upstream can be reached.
    if (reason === "overloaded") return;
    this.health = { state: "down", reason };
    this.#atMs = nowMs;
  }

  /** A reload has replaced the upstream. */
  replaced(): void {
    this.health = unknown;
    this.#atMs = neverSeen.atMs;
  }
}

const intervalMs = 60_000;

/** With fewer requests, a share says nothing. */
const minRequests = 100;

/** What a client sent of the requests of the last complete minute. */
export interface ClientShare {
  /** The winner of the vote; empty before there was one. */
  readonly client: string;
  readonly ofClient: number;
  readonly ofAll: number;
}

/**
 * Returns the share that one client has of all requests; 0 if none has more than half, or there were few. Each of `shares`
 * is of one thread. A client is counted only in threads where it won the vote, so the result is never too high.
 */
export function ratioOf(shares: readonly ClientShare[]): number {
  const ofAll = shares.reduce((sum, share) => sum + share.ofAll, 0);
  const byClient = new Map<string, number>();
  for (const { client, ofClient } of shares) byClient.set(client, (byClient.get(client) ?? 0) + ofClient);
  const ratio = ofAll < minRequests ? 0 : Math.max(...byClient.values()) / ofAll;
  return ratio > 0.5 ? ratio : 0;
}

const noShare: ClientShare = { client: "", ofClient: 0, ofAll: 0 };

/**
 * The share of the requests that the busiest client sends. If nearly all come from one client, it is probably a proxy
 * that is not trusted, whose clients share one quota. Keeps two clients, however many there are: a vote (Boyer and
 * Moore) finds the client with more than half of the requests of an interval, and its requests of the next interval are
 * counted.
 */
export class BusiestClient {
  #candidate = "";
  #votes = 0;
  /** The winner of the vote in the interval before. */
  #counted = "";
  #ofCounted = 0;
  #requests = 0;
  #endsMs = Number.NEGATIVE_INFINITY;
  #share = noShare;

  /** `nowMs` is an instant of the monotonic clock. */
  count(client: string, nowMs: number): void {
    if (nowMs >= this.#endsMs) this.#endInterval(nowMs);
    this.#requests += 1;
    if (client === this.#counted) this.#ofCounted += 1;
    if (client === this.#candidate) this.#votes += 1;
    else if (this.#votes > 0) this.#votes -= 1;
    else {
      this.#candidate = client;
      this.#votes = 1;
    }
  }

  /** Returns the share in the last complete minute; 0 if nobody sent more than half of the requests, or few were sent. */
  ratio(nowMs: number): number {
    return ratioOf([this.share(nowMs)]);
  }

  share(nowMs: number): ClientShare {
    if (nowMs >= this.#endsMs) this.#endInterval(nowMs);
    return this.#share;
  }

  #endInterval(nowMs: number): void {
    // An interval without a request may have passed since.
    const isLast = nowMs < this.#endsMs + intervalMs;
    this.#share = isLast ? { client: this.#counted, ofClient: this.#ofCounted, ofAll: this.#requests } : noShare;
    this.#counted = this.#candidate;
    this.#candidate = "";
    this.#votes = 0;
    this.#ofCounted = 0;
    this.#requests = 0;
    this.#endsMs = nowMs + intervalMs;
  }
}
