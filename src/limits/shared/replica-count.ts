// How many gateways share the store: the largest number that was seen lately, because one that has just gone may have
// admitted requests that still count.

export class ReplicaCount {
  readonly #fixed: number | null;
  readonly #memoryMs: number;
  #endsMs = 0;
  #before = 1;
  #largest = 1;

  /** `fixed`: null if they are counted. `memoryMs`: the longest window of a policy. */
  constructor(fixed: number | null, memoryMs: number) {
    this.#fixed = fixed;
    this.#memoryMs = memoryMs;
  }

  get value(): number {
    return this.#fixed ?? Math.max(this.#before, this.#largest);
  }

  seen(gateways: number, nowMs: number): void {
    if (nowMs >= this.#endsMs) {
      // Two intervals, so that a number is remembered for at least one.
      this.#before = this.#endsMs === 0 ? gateways : this.#largest;
      this.#largest = 1;
      this.#endsMs = nowMs + this.#memoryMs;
    }
    this.#largest = Math.max(this.#largest, gateways);
  }
}
