// Bounds the keys that one gateway makes in the store, because a store without memory serves nobody.

export class NewKeys {
  readonly #most: number;
  readonly #windowMs: number;
  #endsMs = 0;
  #made = 0;
  #before = 0;

  /** `windowMs`: how long a key stays in the store at most. */
  constructor(most: number, windowMs: number) {
    this.#most = most;
    this.#windowMs = windowMs;
  }

  add(nowMs: number): void {
    this.#turn(nowMs);
    this.#made += 1;
  }

  /** Whether another one may be made. Two intervals count, so none is forgotten before its window. */
  hasRoom(nowMs: number): boolean {
    this.#turn(nowMs);
    return this.#made + this.#before < this.#most;
  }

  #turn(nowMs: number): void {
    if (nowMs < this.#endsMs) return;
    this.#before = nowMs < this.#endsMs + this.#windowMs ? this.#made : 0;
    this.#made = 0;
    this.#endsMs = nowMs + this.#windowMs;
  }
}
