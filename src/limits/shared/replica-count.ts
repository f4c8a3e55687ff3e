// How many gateways share the store: the largest number that was seen lately. After an absence of the store its list is
// empty, until the gateways have come back one after the other.

/** By then every gateway has found back. Time without an answer does not count. */
export const memoryMs = 10_000;

export class ReplicaCount {
  readonly #fixed: number | null;
  #endsMs = 0;
  #before = 1;
  #largest = 1;

  /** `fixed`: null if they are counted. */
  constructor(fixed: number | null) {
    this.#fixed = fixed;
  }

  get value(): number {
    return this.#fixed ?? Math.max(this.#before, this.#largest);
  }

  seen(gateways: number, nowMs: number): void {
    if (nowMs >= this.#endsMs) {
      // Two intervals, so that a number is remembered for at least one.
      this.#before = this.#endsMs === 0 ? gateways : this.#largest;
      this.#largest = 1;
      this.#endsMs = nowMs + memoryMs;
    }
    this.#largest = Math.max(this.#largest, gateways);
  }
}
