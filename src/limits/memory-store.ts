// Exact sliding windows in this process's memory, at most `maxClients` of them. When it is full, what is forgotten
// first is what no longer counts, then the client that has been idle longest, and only when every client is exhausted
// the one that is released next: a flood of new addresses does not give an exhausted client its quota back.
import { LRUCache } from "lru-cache";
import type { Limiter, LimiterStats } from "../core/limiter.ts";
import type { Decision, Policy } from "../core/policy.ts";
import { SlidingWindow, untouched } from "../core/sliding-window.ts";
import { type TimedWindow, TimedWindows } from "./timed-windows.ts";

export class MemoryLimiter implements Limiter {
  readonly policy: Policy;
  // Clients that have quota left. Only an admission touches the order, so the least recently used entry is also the
  // first to expire.
  readonly #open: LRUCache<string, SlidingWindow>;
  // Clients that have none, by the instant of their release. They leave by time alone.
  readonly #exhausted = new TimedWindows();
  // Clients that have quota again and have not used it, by the instant of their expiry: among the open ones they would
  // stand as if they had just been admitted, and outlive clients that still count.
  readonly #released = new TimedWindows();
  #evictedExpired = 0;
  #evictedLive = 0;

  constructor(policy: Policy) {
    this.policy = policy;
    this.#open = new LRUCache({ max: policy.maxClients });
  }

  take(client: string, nowMs: number): Decision {
    this.#releaseUntil(nowMs);
    const exhausted = this.#exhausted.get(client);
    if (exhausted !== undefined) return exhausted.take(nowMs);
    const window = this.#open.get(client) ?? this.#reopen(client) ?? this.#remember(client, nowMs);
    const decision = window.take(nowMs);
    if (decision.remaining === 0) this.#setApart(client, window);
    return decision;
  }

  peek(client: string, nowMs: number): Decision {
    this.#releaseUntil(nowMs);
    const window = this.#exhausted.get(client) ?? this.#released.get(client) ?? this.#open.peek(client);
    return window?.peek(nowMs) ?? untouched(this.policy, nowMs);
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
    // Two for one, so that what a burst of clients left behind goes away again without a timer.
    if (this.#forgetExpired(nowMs)) this.#forgetExpired(nowMs);
    if (this.#clients >= this.policy.maxClients) this.#forgetLive();
    const window = new SlidingWindow(this.policy);
    this.#open.set(client, window);
    return window;
  }

  /** False if nobody has expired. */
  #forgetExpired(nowMs: number): boolean {
    const idlest = this.#idlest();
    if (idlest === undefined || idlest.atMs > nowMs) return false;
    this.#forget(idlest.client);
    this.#evictedExpired += 1;
    return true;
  }

  #forgetLive(): void {
    const next = this.#idlest() ?? this.#exhausted.first();
    if (next === undefined) return;
    this.#forget(next.client);
    this.#evictedLive += 1;
  }

  #forget(client: string): void {
    this.#open.delete(client) || this.#released.delete(client) || this.#exhausted.delete(client);
  }

  /** Of the clients that have quota left, the one that expires first. */
  #idlest(): TimedWindow | undefined {
    const released = this.#released.first();
    const client = this.#open.rkeys().next().value;
    const window = client === undefined ? undefined : this.#open.peek(client);
    if (client === undefined || window === undefined) return released;
    const atMs = window.expiresAtMs();
    return released !== undefined && released.atMs < atMs ? released : { client, window, atMs };
  }

  #setApart(client: string, window: SlidingWindow): void {
    const atMs = window.exhaustedUntilMs();
    if (atMs === undefined) return;
    this.#open.delete(client);
    this.#exhausted.add({ client, window, atMs });
  }

  /** Whoever has quota again goes back among the others, so that `#exhausted` holds exactly the exhausted. */
  #releaseUntil(nowMs: number): void {
    for (let next = this.#exhausted.first(); next !== undefined && next.atMs <= nowMs; next = this.#exhausted.first()) {
      const { client, window } = next;
      this.#exhausted.delete(client);
      this.#released.add({ client, window, atMs: window.expiresAtMs() });
    }
  }
}
