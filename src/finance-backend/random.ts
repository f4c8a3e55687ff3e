// A small seeded generator (mulberry32) on 32-bit integers: the same seed gives the same numbers on every machine and engine
// version, which Math.random does not guarantee. For sample data, never for secrets.

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** An integer from `low` to `high`, both included. The bias of the remainder is below one in a million here. */
  integer(low: number, high: number): number {
    return low + (this.#next() % (high - low + 1));
  }

  /** True with a chance of `perMille` in a thousand. */
  chance(perMille: number): boolean {
    return this.integer(0, 999) < perMille;
  }

  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[this.integer(0, choices.length - 1)] ?? choices[0];
  }

  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }
}
