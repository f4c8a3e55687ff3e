// Counters by key in the memory of this process, for at most `maxKeys` keys. When the table is full, it evicts expired
// ones first, then the key that has been idle longest, and only if all are exhausted the one that is released next: a
// flood of new keys does not restore the quota of an exhausted one. Each call does the work for a few keys only, however
// many are released or expire at once. Limit and window are arguments, so a reload can change both and loses no unit.
import { LRUCache } from "lru-cache";
import type { Counter } from "../core/counter.ts";
import { type TimedWindow, TimedWindows } from "./timed-windows.ts";

/**
 * The most keys that a call moves out of `#exhausted`. A call adds at most one, so later calls move the rest; until
 * then, these are treated as released. Also the most that a call finds exhausted because their limit was lowered.
 */
const movesPerCall = 8;

/** An entry that stays in `#open`: deleting the last entry of an LRUCache would clear arrays of its maximum size. */
const keeper = Symbol("keeper");

export interface TableStats {
  readonly clients: number;
  readonly capacity: number;
  readonly evictedExpired: number;
  readonly evictedLive: number;
}

export class WindowTable<C extends Counter> {
  /** The answer of the last `ask` or `peek`, in fields, because an object for each decision would cost more. */
  remaining = 0;
  /** If refused, the instant at which the units fit; otherwise the earliest at which more becomes available. */
  resetMs = 0;
  readonly #create: () => C;
  readonly #maxKeys: number;
  // Keys with quota left. Only an admission changes the order, so the least recently used entry is the first to expire.
  readonly #open: LRUCache<string | typeof keeper, C>;
  // Keys without quota, by the instant of the unit whose expiry releases them. Some may have been released and not been
  // moved yet.
  readonly #exhausted = new TimedWindows<C>();
  // Keys that have quota again and have not used it, by the instant of their newest unit. The LRU order of `#open`
  // would keep them longer than keys whose units still count.
  readonly #released = new TimedWindows<C>();
  #evictedExpired = 0;
  #evictedLive = 0;
  // What was asked last.
  #key = "";
  #counter: C | undefined = undefined;
  #counted = 0;
  #limit = 0;
  #units = 0;
  #windowMs = 0;
  #nowMs = 0;

  constructor(maxKeys: number, create: () => C) {
    this.#create = create;
    this.#maxKeys = maxKeys;
    this.#open = new LRUCache({ max: maxKeys + 1 });
    this.#open.set(keeper, create());
  }

  /** Returns whether `units` fit, and sets `remaining` and `resetMs` to what they are then. Charges nothing. */
  ask(key: string, limit: number, units: number, windowMs: number, nowMs: number): boolean {
    this.#releaseSome(windowMs, nowMs);
    const exhausted = this.#exhausted.get(key);
    const counter = exhausted?.counter ?? this.#open.peek(key) ?? this.#released.get(key)?.counter;
    const counted = counter === undefined ? 0 : counter.count(nowMs, windowMs);
    this.#key = key;
    this.#counter = counter;
    this.#counted = counted;
    this.#limit = limit;
    this.#units = units;
    this.#windowMs = windowMs;
    this.#nowMs = nowMs;
    if (counted + units <= limit) {
      this.remaining = limit - counted - units;
      this.resetMs = (counted === 0 || counter === undefined ? nowMs : counter.instantAt(0)) + windowMs;
      return true;
    }
    this.remaining = Math.max(0, limit - counted);
    const excess = counted + units - limit;
    // With none or too few that could expire, a higher limit has to be configured first.
    if (counter === undefined || excess > counted) {
      this.resetMs = nowMs + windowMs;
      return false;
    }
    const releaseMs = counter.instantAt(excess - 1);
    this.resetMs = releaseMs + windowMs;
    if (exhausted?.atMs !== releaseMs) this.#exhaust(key, counter, releaseMs);
    return false;
  }

  /** Charges what `ask` has admitted; nothing may come in between. Returns the instant, for `giveBack`. */
  charge(): number {
    const key = this.#key;
    const counter = this.#counter === undefined ? this.#remember(key) : this.#use(key, this.#counter);
    const units = this.#units;
    const limit = this.#limit;
    const counted = this.#counted + units;
    const atMs = counter.record(units, this.#nowMs, limit);
    if (counted + units > limit) {
      this.#open.delete(key);
      this.#exhausted.add(key, counter, counter.instantAt(counted + units - limit - 1));
    }
    return atMs;
  }

  /** Asks and charges at once. The usual case is short: a key that is stored, and still has quota left afterwards. */
  take(key: string, limit: number, units: number, windowMs: number, nowMs: number): boolean {
    const counter = this.#exhausted.get(key) === undefined ? this.#open.get(key) : undefined;
    const counted = counter === undefined ? 0 : counter.count(nowMs, windowMs);
    if (counter === undefined || counted + 2 * units > limit) {
      const isAdmitted = this.ask(key, limit, units, windowMs, nowMs);
      if (isAdmitted) this.charge();
      return isAdmitted;
    }
    counter.record(units, nowMs, limit);
    this.remaining = limit - counted - units;
    this.resetMs = counter.instantAt(0) + windowMs;
    return true;
  }

  /** Sets `remaining` and `resetMs` without asking for `units`. */
  peek(key: string, limit: number, windowMs: number, nowMs: number, units = 1): void {
    this.#releaseSome(windowMs, nowMs);
    const counter = this.#exhausted.get(key)?.counter ?? this.#released.get(key)?.counter ?? this.#open.peek(key);
    const counted = counter === undefined ? 0 : counter.count(nowMs, windowMs);
    this.remaining = Math.max(0, limit - counted);
    // After the limit was lowered, several have to expire before a request fits.
    const first = Math.max(0, counted + units - limit - 1);
    this.resetMs = (counter === undefined || counted === 0 ? nowMs : counter.instantAt(first)) + windowMs;
  }

  /** Removes units that were charged at an instant, if they are still there. */
  giveBack(key: string, limit: number, units: number, atMs: number): void {
    const exhausted = this.#exhausted.get(key)?.counter;
    const released = this.#released.get(key)?.counter;
    const counter = exhausted ?? released ?? this.#open.peek(key);
    if (counter === undefined) return;
    const left = counter.remove(units, atMs);
    const excess = left + units - limit;
    if (left === 0) this.#forget(key);
    else if (exhausted !== undefined && excess > 0) this.#exhaust(key, counter, counter.instantAt(excess - 1));
    else if (exhausted !== undefined || released !== undefined) {
      this.#forget(key);
      this.#released.add(key, counter, counter.newestMs());
    }
  }

  stats(): TableStats {
    return {
      clients: this.#keys,
      capacity: this.#maxKeys,
      evictedExpired: this.#evictedExpired,
      evictedLive: this.#evictedLive,
    };
  }

  get #keys(): number {
    return this.#open.size - 1 + this.#released.size + this.#exhausted.size;
  }

  /** Makes a key with quota left the most recently used. */
  #use(key: string, counter: C): C {
    if (this.#open.get(key) !== undefined) return counter;
    this.#released.delete(key) || this.#exhausted.delete(key);
    this.#open.set(key, counter);
    return counter;
  }

  #remember(key: string): C {
    // Forgets up to two for each new one, so that the table shrinks after a burst of keys without a timer.
    if (this.#evictExpired()) this.#evictExpired();
    if (this.#keys >= this.#maxKeys) this.#evictLive();
    const counter = this.#create();
    this.#open.set(key, counter);
    return counter;
  }

  /** False if no counter has expired. */
  #evictExpired(): boolean {
    const first = this.#firstToExpire();
    if (first === undefined || first.atMs + this.#windowMs > this.#nowMs) return false;
    this.#forget(first.key);
    this.#evictedExpired += 1;
    return true;
  }

  #evictLive(): void {
    for (let i = 0; i < movesPerCall && this.#exhaustFirst(); i += 1);
    const next = this.#firstToExpire() ?? this.#exhausted.first();
    if (next === undefined) return;
    this.#forget(next.key);
    this.#evictedLive += 1;
  }

  /** Moves the key that would be evicted to the exhausted ones if the limit was lowered below what it has used. */
  #exhaustFirst(): boolean {
    const first = this.#firstToExpire();
    if (first === undefined) return false;
    const { key, counter } = first;
    const counted = counter.count(this.#nowMs, this.#windowMs);
    const excess = counted + this.#units - this.#limit;
    if (excess <= 0 || excess > counted) return false;
    this.#exhaust(key, counter, counter.instantAt(excess - 1));
    return true;
  }

  #forget(key: string): void {
    this.#open.delete(key) || this.#released.delete(key) || this.#exhausted.delete(key);
  }

  /** Returns the key with quota left that expires first. Looks at only one of those that have not been moved yet. */
  #firstToExpire(): TimedWindow<C> | undefined {
    let first: TimedWindow<C> | undefined = this.#released.first();
    const waiting = this.#exhausted.first();
    if (waiting !== undefined && waiting.atMs + this.#windowMs <= this.#nowMs) {
      first = earlier(first, { ...waiting, atMs: waiting.counter.newestMs() });
    }
    return earlier(this.#leastRecent(), first);
  }

  #leastRecent(): TimedWindow<C> | undefined {
    for (const key of this.#open.rkeys()) {
      const counter = key === keeper ? undefined : this.#open.peek(key);
      if (key !== keeper && counter !== undefined) return { key, counter, atMs: counter.newestMs() };
    }
    return undefined;
  }

  #exhaust(key: string, counter: C, releaseMs: number): void {
    this.#forget(key);
    this.#exhausted.add(key, counter, releaseMs);
  }

  /** Moves some of the keys that have quota again. */
  #releaseSome(windowMs: number, nowMs: number): void {
    for (let i = 0; i < movesPerCall; i += 1) {
      const next = this.#exhausted.first();
      if (next === undefined || next.atMs + windowMs > nowMs) return;
      const { key, counter } = next;
      this.#exhausted.delete(key);
      this.#released.add(key, counter, counter.newestMs());
    }
  }
}

function earlier<C extends Counter>(
  a: TimedWindow<C> | undefined,
  b: TimedWindow<C> | undefined,
): TimedWindow<C> | undefined {
  return a === undefined || (b !== undefined && b.atMs < a.atMs) ? b : a;
}
