// The exact sliding windows of one policy. After a reload, the new policy uses the table of the old one with its own
// window.
import { SlidingWindow } from "../core/sliding-window.ts";
import type { Counters } from "./counters.ts";
import { type TableStats, WindowTable } from "./window-table.ts";

export class SlidingCounters implements Counters {
  readonly #table: WindowTable<SlidingWindow>;
  readonly #windowMs: number;

  /** `maxKeys`: not used with `previous`. */
  constructor(windowMs: number, maxKeys: number, previous: SlidingCounters | null = null) {
    this.#windowMs = windowMs;
    this.#table = previous === null ? new WindowTable(maxKeys, () => new SlidingWindow()) : previous.#table;
  }

  get remaining(): number {
    return this.#table.remaining;
  }

  get resetMs(): number {
    return this.#table.resetMs;
  }

  ask(key: string, limit: number, units: number, nowMs: number): boolean {
    return this.#table.ask(key, limit, units, this.#windowMs, nowMs);
  }

  take(key: string, limit: number, units: number, nowMs: number): boolean {
    return this.#table.take(key, limit, units, this.#windowMs, nowMs);
  }

  charge(): number {
    return this.#table.charge();
  }

  peek(key: string, limit: number, nowMs: number): void {
    this.#table.peek(key, limit, this.#windowMs, nowMs);
  }

  giveBack(key: string, limit: number, units: number, atMs: number): void {
    this.#table.giveBack(key, limit, units, atMs);
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + this.#windowMs;
  }

  stats(): TableStats {
    return this.#table.stats();
  }
}
