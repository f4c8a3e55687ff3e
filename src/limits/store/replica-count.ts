// Counts the gateways that share the store.
import { TwoIntervals } from "./store-clock.ts";

/** By then every gateway has found back. Time without an answer does not count. */
export const memoryMs = 10_000;

/**
 * How many gateways share the store: the largest number that was seen lately. After an absence of the store its list is
 * empty, until the gateways have come back one after the other.
 */
export class ReplicaCount {
  readonly #fixed: number | null;
  readonly #largest = new TwoIntervals(memoryMs, false);

  /** `fixed`: null if they are counted. */
  constructor(fixed: number | null) {
    this.#fixed = fixed;
  }

  get value(): number {
    return this.#fixed ?? Math.max(1, this.#largest.before, this.#largest.current);
  }

  seen(gateways: number, nowMs: number): void {
    this.#largest.turn(nowMs);
    this.#largest.current = Math.max(this.#largest.current, gateways);
  }
}
