// Watches the store's clock, which is a wall clock, by the monotonic clock of this thread. Each answer says that the
// store's clock had a reading at some instant between sending and receiving.
import type { Clock } from "../../core/clock.ts";
import type { Timers } from "../../core/store-link.ts";

/** No clock is supposed to run faster or slower than this. */
export const drift = 0.01;
/** Returns an age in microseconds that is certain: a clock that runs fast makes it look older than it is. */
export function certainAgeUs(ageMs: number): number {
  return Math.max(0, Math.floor((ageMs * 1000) / (1 + drift)));
}

/** Steps of the clock below this cannot be told from delays in this process. */
const toleranceMs = 20;

export class ClockWatch {
  // The store's clock minus ours: at `#atMs` it was within these bounds.
  #leastMs = Number.NEGATIVE_INFINITY;
  #mostMs = Number.POSITIVE_INFINITY;
  #atMs = 0;

  /**
   * Compares an answer with those before. `forward`: the clock was set forward, so that something has expired too early.
   * `back`: it was set back.
   */
  observe(sentMs: number, receivedMs: number, timeUs: number): "steady" | "forward" | "back" {
    const timeMs = timeUs / 1000;
    const leastMs = timeMs - receivedMs;
    const mostMs = timeMs - sentMs;
    const age = drift * Math.max(0, receivedMs - this.#atMs);
    const widerMs = age + toleranceMs;
    const step = leastMs > this.#mostMs + widerMs ? "forward" : mostMs < this.#leastMs - widerMs ? "back" : "steady";
    // Bounds that were known before narrow those of an answer that took long.
    this.#leastMs = step === "steady" ? Math.max(leastMs, Math.min(this.#leastMs - age, mostMs)) : leastMs;
    this.#mostMs = step === "steady" ? Math.min(mostMs, Math.max(this.#mostMs + age, leastMs)) : mostMs;
    this.#atMs = receivedMs;
    return step;
  }

  /** Returns the earliest that the store's clock may show, in milliseconds since 1970; null if it has not been seen. */
  wallMs(nowMs: number): number | null {
    return Number.isFinite(this.#leastMs) ? nowMs + this.#leastMs : null;
  }

  /** Forgets the clock, because another server has another one. */
  forget(): void {
    this.#leastMs = Number.NEGATIVE_INFINITY;
    this.#mostMs = Number.POSITIVE_INFINITY;
  }
}

// Waits for the store, and not for this thread. Time in which the thread stood still (a garbage collection, a long turn, a busy
// machine) is not counted against the store, which may have stood still with it.

/** A wait has so many steps; a step in which this thread stood still counts as if it had ended in time. */
const steps = 4;
/** A timer of a thread that does not stand still is late by less. */
export const lateMs = 2;
/** The resolution of timers. */
const leastMs = 1;

/** The clock and the timers of a thread. */
export interface Timing {
  readonly clock: Clock;
  readonly timers: Timers;
}

/** Calls `over` when the store has had `ms`, and this thread has read what arrived by then. */
export function afterStoreTime({ clock, timers }: Timing, ms: number, over: () => void): { cancel(): void } {
  const stepMs = ms / steps;
  let leftMs = ms;
  let isCancelled = false;
  const step = (): { cancel(): void } => {
    const startMs = clock.monotonicMs();
    const stepEndMs = Math.min(stepMs, leftMs);
    return timers.after(stepEndMs, () => {
      const passedMs = clock.monotonicMs() - startMs;
      // A timer may also be early by the time that its turn had lasted when it was set.
      leftMs -= passedMs > stepEndMs + lateMs ? stepEndMs : passedMs;
      if (leftMs >= leastMs) timer = step();
      else timers.endOfTurn(() => !isCancelled && over());
    });
  };
  let timer = step();
  return {
    cancel() {
      isCancelled = true;
      timer.cancel();
    },
  };
}

/** Resolves after a time. */
export function elapsed(timers: Timers, ms: number): Promise<void> {
  return new Promise((resolve) => void timers.after(ms, resolve));
}

/** A number of this interval and of the previous one, so that what is counted is remembered for at least an interval. */
export class TwoIntervals {
  current = 0;
  before = 0;
  readonly #lengthMs: number;
  readonly #forgetsInSilence: boolean;
  #endsMs = 0;

  /** `forgetsInSilence`: whether an interval without a look is one too. */
  constructor(lengthMs: number, forgetsInSilence: boolean) {
    this.#lengthMs = lengthMs;
    this.#forgetsInSilence = forgetsInSilence;
  }

  /** Begins the next interval if it is time to. */
  turn(nowMs: number): void {
    if (nowMs < this.#endsMs) return;
    const isLongOver = this.#forgetsInSilence && nowMs >= this.#endsMs + this.#lengthMs;
    this.before = isLongOver ? 0 : this.current;
    this.current = 0;
    this.#endsMs = nowMs + this.#lengthMs;
  }
}
