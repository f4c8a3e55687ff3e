// The slots that the exchanges under way hold, by key. A key without any takes no memory.
import type { Counters } from "./counters.ts";
import type { TableStats } from "./window-table.ts";

/** Nobody knows when an exchange ends, so a refused client is told to ask again after this time. */
const retryAfterMs = 1000;

export class ConcurrencyCounters implements Counters {
  remaining = 0;
  resetMs = 0;
  /** Shared with the counters of the policy before a reload. */
  readonly #slots: Map<string, number>;
  readonly #capacity: number;
  #key = "";
  #taken = 0;

  constructor(capacity: number, previous: ConcurrencyCounters | null = null) {
    this.#capacity = capacity;
    this.#slots = previous === null ? new Map() : previous.#slots;
  }

  ask(key: string, limit: number, units: number, nowMs: number): boolean {
    const taken = (this.#slots.get(key) ?? 0) + units;
    const fits = taken <= limit;
    this.#key = key;
    this.#taken = taken;
    this.remaining = Math.max(0, limit - (fits ? taken : taken - units));
    this.resetMs = this.unspentResetMs(nowMs);
    return fits;
  }

  take(key: string, limit: number, units: number, nowMs: number): boolean {
    const fits = this.ask(key, limit, units, nowMs);
    if (fits) this.charge();
    return fits;
  }

  charge(): number {
    this.#slots.set(this.#key, this.#taken);
    return 0;
  }

  peek(key: string, limit: number, nowMs: number): void {
    this.remaining = Math.max(0, limit - (this.#slots.get(key) ?? 0));
    this.resetMs = this.unspentResetMs(nowMs);
  }

  giveBack(key: string, _limit: number, units: number): void {
    const taken = (this.#slots.get(key) ?? 0) - units;
    if (taken > 0) this.#slots.set(key, taken);
    else this.#slots.delete(key);
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + retryAfterMs;
  }

  /** Evicts nothing: there are at most as many keys as exchanges. */
  stats(): TableStats {
    return { clients: this.#slots.size, capacity: this.#capacity, evictedExpired: 0, evictedLive: 0 };
  }
}
