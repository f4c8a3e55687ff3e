// Timers that a test runs, by the clock that it moves.
import type { Timers } from "../../../src/core/store-link.ts";
import { FakeClock } from "../../support/clock.ts";

interface Timer {
  readonly atMs: number;
  readonly run: () => void;
}

export class ManualTimers implements Timers {
  readonly clock = new FakeClock();
  readonly #waiting = new Set<Timer>();
  #turn: (() => void)[] = [];

  /** Timers that have neither run nor been cancelled. */
  get waiting(): number {
    return this.#waiting.size;
  }

  after(ms: number, run: () => void): { cancel(): void } {
    const timer = { atMs: this.clock.nowMs + ms, run };
    this.#waiting.add(timer);
    return { cancel: () => void this.#waiting.delete(timer) };
  }

  endOfTurn(run: () => void): void {
    this.#turn.push(run);
  }

  /** Returns whether there was anything to run. */
  endTurn(): boolean {
    const due = this.#turn;
    this.#turn = [];
    for (const run of due) run();
    return due.length > 0;
  }

  /** Moves the clock, and runs what becomes due, each at its instant. */
  advance(ms: number): void {
    const endMs = this.clock.nowMs + ms;
    for (;;) {
      const [next] = [...this.#waiting].filter(({ atMs }) => atMs <= endMs).sort((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#waiting.delete(next);
      // One that is due already runs late.
      this.clock.nowMs = Math.max(this.clock.nowMs, next.atMs);
      next.run();
    }
    this.clock.nowMs = endMs;
  }
}
