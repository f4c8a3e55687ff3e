// The exact sliding windows of one policy. After a reload, the new policy uses the table of the old one with its own
// window, from its first request on. Requests that the old policy still has then use the new window too: by a shorter one
// they would forget what the new policy counts.
import { SlidingWindow } from "../core/sliding-window.ts";
import type { Counters } from "./counters.ts";
import { type TableStats, WindowTable } from "./window-table.ts";

/** What the policies before and after a reload share. */
interface WindowInForce {
  /** Of the newest policy that has been asked, and the number of reloads before it. */
  windowMs: number;
  generation: number;
}

export class SlidingCounters implements Counters {
  readonly #table: WindowTable<SlidingWindow>;
  readonly #own: Readonly<WindowInForce>;
  readonly #inForce: WindowInForce;

  /** `maxKeys`: not used with `previous`. */
  constructor(windowMs: number, maxKeys: number, previous: SlidingCounters | null = null) {
    this.#own = { windowMs, generation: previous === null ? 0 : previous.#own.generation + 1 };
    this.#inForce = previous === null ? { ...this.#own } : previous.#inForce;
    this.#table = previous === null ? new WindowTable(maxKeys, () => new SlidingWindow()) : previous.#table;
  }

  get remaining(): number {
    return this.#table.remaining;
  }

  get resetMs(): number {
    return this.#table.resetMs;
  }

  ask(key: string, limit: number, units: number, nowMs: number): boolean {
    return this.#table.ask(key, limit, units, this.#comeIntoForce(), nowMs);
  }

  take(key: string, limit: number, units: number, nowMs: number): boolean {
    return this.#table.take(key, limit, units, this.#comeIntoForce(), nowMs);
  }

  charge(): number {
    return this.#table.charge();
  }

  peek(key: string, limit: number, nowMs: number, units?: number): void {
    this.#table.peek(key, limit, this.#comeIntoForce(), nowMs, units);
  }

  giveBack(key: string, limit: number, units: number, atMs: number): void {
    this.#table.giveBack(key, limit, units, atMs);
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + this.#own.windowMs;
  }

  stats(): TableStats {
    return this.#table.stats();
  }

  /** Returns the window to use. With the first request, because a limiter that is never used must change nothing. */
  #comeIntoForce(): number {
    const { windowMs, generation } = this.#own;
    if (generation > this.#inForce.generation) {
      this.#inForce.windowMs = windowMs;
      this.#inForce.generation = generation;
    }
    return this.#inForce.windowMs;
  }
}
