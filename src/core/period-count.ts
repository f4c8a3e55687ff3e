// The counter of a calendar quota: the units of one period. Its time is the number of the period and its window is 1,
// so all units expire at once when the next period begins.
import type { Counter } from "./counter.ts";

export class PeriodCount implements Counter {
  #units = 0;
  #period = Number.NEGATIVE_INFINITY;

  count(period: number, window: number): number {
    if (this.#period + window <= period) this.#units = 0;
    return this.#units;
  }

  record(units: number, period: number): number {
    this.#period = Math.max(this.#period, period);
    this.#units += units;
    return this.#period;
  }

  remove(units: number, period: number): number {
    if (period === this.#period) this.#units = Math.max(0, this.#units - units);
    return this.#units;
  }

  instantAt(): number {
    return this.#period;
  }

  newestMs(): number {
    return this.#period;
  }
}
