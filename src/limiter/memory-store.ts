// Exact sliding windows in this process's memory, at most `maxClients` of them. When it is full, what is forgotten first
// is what no longer counts, then the client that has been idle longest, and only when every client is
// exhausted the one that is released next: a flood of new addresses does not give an exhausted client its quota back.
import { LRUCache } from "lru-cache";
import type { CounterStore, CounterStoreStats } from "../core/counter-store.ts";
import type { Decision, Policy } from "../core/policy.ts";
import { SlidingWindow, untouched } from "../core/sliding-window.ts";
import { ReleaseQueue } from "./release-queue.ts";

export class MemoryStore implements CounterStore {
  readonly policy: Policy;
  // Clients that have quota left. Only an admission touches the order, so the least recently used entry is also the
  // first to expire.
  readonly #open: LRUCache<string, SlidingWindow>;
  // Clients that have none. They leave by time alone, in the order of the queue.
  readonly #exhausted = new Map<string, SlidingWindow>();
  readonly #releases = new ReleaseQueue();
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
    const window = this.#open.get(client) ?? this.#remember(client, nowMs);
    const decision = window.take(nowMs);
    if (decision.remaining === 0) this.#setApart(client, window);
    return decision;
  }

  peek(client: string, nowMs: number): Decision {
    this.#releaseUntil(nowMs);
    const window = this.#exhausted.get(client) ?? this.#open.peek(client);
    return window?.peek(nowMs) ?? untouched(this.policy, nowMs);
  }

  stats(): CounterStoreStats {
    return {
      clients: this.#open.size + this.#exhausted.size,
      capacity: this.policy.maxClients,
      evictedExpired: this.#evictedExpired,
      evictedLive: this.#evictedLive,
    };
  }

  #remember(client: string, nowMs: number): SlidingWindow {
    // Two for one, so that what a burst of clients left behind goes away again without a timer.
    this.#forgetExpired(nowMs);
    this.#forgetExpired(nowMs);
    if (this.#open.size + this.#exhausted.size >= this.policy.maxClients) this.#forgetLive();
    const window = new SlidingWindow(this.policy);
    this.#open.set(client, window);
    return window;
  }

  #forgetExpired(nowMs: number): void {
    const leastRecent = this.#open.rvalues().next().value;
    if (leastRecent?.isExpired(nowMs) !== true) return;
    this.#open.pop();
    this.#evictedExpired += 1;
  }

  #forgetLive(): void {
    if (this.#open.pop() === undefined) {
      const next = this.#releases.pop();
      if (next !== undefined) this.#exhausted.delete(next.client);
    }
    this.#evictedLive += 1;
  }

  #setApart(client: string, window: SlidingWindow): void {
    const atMs = window.exhaustedUntilMs();
    if (atMs === undefined) return;
    this.#open.delete(client);
    this.#exhausted.set(client, window);
    this.#releases.push({ client, atMs });
  }

  /** Whoever has quota again goes back among the others, so that `#exhausted` holds exactly the exhausted. */
  #releaseUntil(nowMs: number): void {
    for (let next = this.#releases.peek(); next !== undefined && next.atMs <= nowMs; next = this.#releases.peek()) {
      this.#releases.pop();
      const window = this.#exhausted.get(next.client);
      this.#exhausted.delete(next.client);
      if (window !== undefined) this.#open.set(next.client, window);
    }
  }
}
