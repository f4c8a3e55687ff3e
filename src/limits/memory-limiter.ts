// Exact sliding windows in the memory of this process, for at most `maxClients` clients. When the table is full, it
// evicts expired windows first, then the client that has been idle longest, and only if all are exhausted the one that
// is released next: a flood of new addresses does not restore the quota of an exhausted client. Each call does the work
// for a few clients only, however many are released or expire at once.
import { LRUCache } from "lru-cache";
import type { PolicyStats } from "../core/limiter.ts";
import { fullQuota, SlidingWindow, type WindowDecision, type WindowPolicy } from "../core/sliding-window.ts";
import { type TimedWindow, TimedWindows } from "./timed-windows.ts";

/**
 * The most clients that a call moves out of `#exhausted`. A call adds at most one, so later calls move the rest; until
 * then, these are treated as released.
 */
const releasesPerCall = 8;

/** An entry that stays in `#open`: deleting the last entry of an LRUCache would clear arrays of its maximum size. */
const keeper = Symbol("keeper");

export type { WindowDecision } from "../core/sliding-window.ts";

export class MemoryLimiter {
  readonly policy: WindowPolicy;
  // Clients with quota left. Only an admission changes the order, so the least recently used entry is the first to
  // expire.
  readonly #open: LRUCache<string | typeof keeper, SlidingWindow>;
  // Clients without quota, by the instant of their release. Some may have been released and not been moved yet.
  readonly #exhausted = new TimedWindows();
  // Clients that have quota again and have not used it, by the instant of their expiry. The LRU order of `#open` would
  // keep them longer than clients whose requests still count.
  readonly #released = new TimedWindows();
  #evictedExpired = 0;
  #evictedLive = 0;

  constructor(policy: WindowPolicy) {
    this.policy = policy;
    this.#open = new LRUCache({ max: policy.maxClients + 1 });
    this.#open.set(keeper, new SlidingWindow(policy));
  }

  acquire(client: string, nowMs: number): WindowDecision {
    this.#releaseSome(nowMs);
    const exhausted = this.#exhausted.get(client);
    if (exhausted !== undefined && isExhausted(exhausted, nowMs)) return exhausted.take(nowMs);
    const window = this.#open.get(client) ?? this.#reopen(client) ?? this.#remember(client, nowMs);
    const decision = window.take(nowMs);
    if (decision.remaining === 0) this.#moveToExhausted(client, window);
    return decision;
  }

  peek(client: string, nowMs: number): WindowDecision {
    this.#releaseSome(nowMs);
    const window = this.#exhausted.get(client) ?? this.#released.get(client) ?? this.#open.peek(client);
    return window?.peek(nowMs) ?? fullQuota(this.policy, nowMs);
  }

  stats(): Omit<PolicyStats, "policy" | "outcomes"> {
    return {
      clients: this.#clients,
      capacity: this.policy.maxClients,
      evictedExpired: this.#evictedExpired,
      evictedLive: this.#evictedLive,
    };
  }

  get #clients(): number {
    return this.#open.size - 1 + this.#released.size + this.#exhausted.size;
  }

  #reopen(client: string): SlidingWindow | undefined {
    const window = this.#released.get(client) ?? this.#exhausted.get(client);
    if (window === undefined) return undefined;
    this.#released.delete(client) || this.#exhausted.delete(client);
    this.#open.set(client, window);
    return window;
  }

  #remember(client: string, nowMs: number): SlidingWindow {
    // Forgets up to two for each new one, so that the table shrinks after a burst of clients without a timer.
    if (this.#evictExpired(nowMs)) this.#evictExpired(nowMs);
    if (this.#clients >= this.policy.maxClients) this.#evictLive(nowMs);
    const window = new SlidingWindow(this.policy);
    this.#open.set(client, window);
    return window;
  }

  /** False if no window has expired. */
  #evictExpired(nowMs: number): boolean {
    const first = this.#firstToExpire(nowMs);
    if (first === undefined || first.atMs > nowMs) return false;
    this.#evict(first.client);
    this.#evictedExpired += 1;
    return true;
  }

  #evictLive(nowMs: number): void {
    const next = this.#firstToExpire(nowMs) ?? this.#exhausted.first();
    if (next === undefined) return;
    this.#evict(next.client);
    this.#evictedLive += 1;
  }

  #evict(client: string): void {
    this.#open.delete(client) || this.#released.delete(client) || this.#exhausted.delete(client);
  }

  /** Returns the client with quota left that expires first. Looks at only one of those that have not been moved yet. */
  #firstToExpire(nowMs: number): TimedWindow | undefined {
    const waiting = this.#exhausted.first();
    const isReleased = waiting !== undefined && waiting.atMs <= nowMs;
    const released = isReleased ? { ...waiting, atMs: waiting.window.expiresAtMs() } : undefined;
    return earlier(earlier(this.#leastRecent(), this.#released.first()), released);
  }

  #leastRecent(): TimedWindow | undefined {
    for (const client of this.#open.rkeys()) {
      const window = client === keeper ? undefined : this.#open.peek(client);
      if (client !== keeper && window !== undefined) return { client, window, atMs: window.expiresAtMs() };
    }
    return undefined;
  }

  #moveToExhausted(client: string, window: SlidingWindow): void {
    const atMs = window.exhaustedUntilMs();
    if (atMs === undefined) return;
    this.#open.delete(client);
    this.#exhausted.add({ client, window, atMs });
  }

  /** Moves some of the clients that have quota again. */
  #releaseSome(nowMs: number): void {
    for (let i = 0; i < releasesPerCall; i += 1) {
      const next = this.#exhausted.first();
      if (next === undefined || next.atMs > nowMs) return;
      const { client, window } = next;
      this.#exhausted.delete(client);
      this.#released.add({ client, window, atMs: window.expiresAtMs() });
    }
  }
}

function isExhausted(window: SlidingWindow, nowMs: number): boolean {
  const untilMs = window.exhaustedUntilMs();
  return untilMs !== undefined && untilMs > nowMs;
}

function earlier(a: TimedWindow | undefined, b: TimedWindow | undefined): TimedWindow | undefined {
  return a === undefined || (b !== undefined && b.atMs < a.atMs) ? b : a;
}
