// Exact sliding windows in the memory of this process, for at most `maxClients` clients. When the table is full, it
// evicts expired windows first, then the client that has been idle longest, and only if all are exhausted the one that
// is released next: a flood of new addresses does not restore the quota of an exhausted client.
import { LRUCache } from "lru-cache";
import type { Limiter, LimiterStats } from "../core/limiter.ts";
import type { Decision, Policy } from "../core/policy.ts";
import { fullQuota, SlidingWindow } from "../core/sliding-window.ts";
import { type TimedWindow, TimedWindows } from "./timed-windows.ts";

export class MemoryLimiter implements Limiter {
  readonly policy: Policy;
  // Clients with quota left. Only an admission changes the order, so the least recently used entry is the first to
  // expire.
  readonly #open: LRUCache<string, SlidingWindow>;
  // Clients without quota, by the instant of their release. Only time removes them.
  readonly #exhausted = new TimedWindows();
  // Clients that have quota again and have not used it, by the instant of their expiry. The LRU order of `#open` would
  // keep them longer than clients whose requests still count.
  readonly #released = new TimedWindows();
  #evictedExpired = 0;
  #evictedLive = 0;

  constructor(policy: Policy) {
    this.policy = policy;
    this.#open = new LRUCache({ max: policy.maxClients });
  }

  acquire(client: string, nowMs: number): Decision {
    this.#releaseUntil(nowMs);
    const exhausted = this.#exhausted.get(client);
    if (exhausted !== undefined) return exhausted.take(nowMs);
    const window = this.#open.get(client) ?? this.#reopen(client) ?? this.#remember(client, nowMs);
    const decision = window.take(nowMs);
    if (decision.remaining === 0) this.#moveToExhausted(client, window);
    return decision;
  }

  peek(client: string, nowMs: number): Decision {
    this.#releaseUntil(nowMs);
    const window = this.#exhausted.get(client) ?? this.#released.get(client) ?? this.#open.peek(client);
    return window?.peek(nowMs) ?? fullQuota(this.policy, nowMs);
  }

  stats(): LimiterStats {
    return {
      clients: this.#clients,
      capacity: this.policy.maxClients,
      evictedExpired: this.#evictedExpired,
      evictedLive: this.#evictedLive,
    };
  }

  get #clients(): number {
    return this.#open.size + this.#released.size + this.#exhausted.size;
  }

  #reopen(client: string): SlidingWindow | undefined {
    const window = this.#released.get(client);
    if (window === undefined) return undefined;
    this.#released.delete(client);
    this.#open.set(client, window);
    return window;
  }

  #remember(client: string, nowMs: number): SlidingWindow {
    // Forgets up to two for each new one, so that the table shrinks after a burst of clients without a timer.
    if (this.#evictExpired(nowMs)) this.#evictExpired(nowMs);
    if (this.#clients >= this.policy.maxClients) this.#evictLive();
    const window = new SlidingWindow(this.policy);
    this.#open.set(client, window);
    return window;
  }

  /** False if no window has expired. */
  #evictExpired(nowMs: number): boolean {
    const first = this.#firstToExpire();
    if (first === undefined || first.atMs > nowMs) return false;
    this.#evict(first.client);
    this.#evictedExpired += 1;
    return true;
  }

  #evictLive(): void {
    const next = this.#firstToExpire() ?? this.#exhausted.first();
    if (next === undefined) return;
    this.#evict(next.client);
    this.#evictedLive += 1;
  }

  #evict(client: string): void {
    this.#open.delete(client) || this.#released.delete(client) || this.#exhausted.delete(client);
  }

  /** The client with quota left that expires first. */
  #firstToExpire(): TimedWindow | undefined {
    const released = this.#released.first();
    const client = this.#open.rkeys().next().value;
    const window = client === undefined ? undefined : this.#open.peek(client);
    if (client === undefined || window === undefined) return released;
    const atMs = window.expiresAtMs();
    return released !== undefined && released.atMs < atMs ? released : { client, window, atMs };
  }

  #moveToExhausted(client: string, window: SlidingWindow): void {
    const atMs = window.exhaustedUntilMs();
    if (atMs === undefined) return;
    this.#open.delete(client);
    this.#exhausted.add({ client, window, atMs });
  }

  /** Moves clients that have quota again, so that `#exhausted` holds exactly the exhausted ones. */
  #releaseUntil(nowMs: number): void {
    for (let next = this.#exhausted.first(); next !== undefined && next.atMs <= nowMs; next = this.#exhausted.first()) {
      const { client, window } = next;
      this.#exhausted.delete(client);
      this.#released.add({ client, window, atMs: window.expiresAtMs() });
    }
  }
}
