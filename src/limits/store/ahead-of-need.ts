// How many units of one key to lease before requests ask for them, judged by what was spent lately.
import type { CounterRules } from "./counter-rules.ts";

export class AheadOfNeed {
  /** Units that are spent a millisecond, and those that were spent since that was found out. */
  #rate = 0;
  #spentSince = 0;
  #rateMs = 0;
  /** When the last unit was spent. */
  #spentMs = 0;
  /** Until then nothing is asked for ahead, because the store had nothing. */
  refusedUntilMs = 0;

  spent(units: number, nowMs: number): void {
    this.#spentSince += units;
    this.#spentMs = nowMs;
  }

  /** How many units to hold for the time of a lease; 0 if few requests would share it. */
  wanted({ spendMs, step }: CounterRules, nowMs: number): number {
    const elapsedMs = nowMs - this.#rateMs;
    // Over less time than a lease, a single request would look like many.
    const rate = this.#spentSince / Math.max(elapsedMs, spendMs);
    if (elapsedMs >= spendMs) {
      this.#rate = Math.max(rate, (this.#rate + rate) / 2);
      this.#spentSince = 0;
      this.#rateMs = nowMs;
    } else if (rate > this.#rate) {
      // A rise is followed at once, because requests would wait.
      this.#rate = rate;
    }
    // A client that has stopped asking must not hold anything.
    if (nowMs - this.#spentMs >= spendMs) this.#rate = 0;
    const wanted = Math.ceil(this.#rate * spendMs);
    // For fewer requests, a lease and its report are more calls than asking.
    return wanted < 3 * step ? 0 : wanted;
  }
}
