// Chance that can be had again: a seed gives the same numbers on every machine (mulberry32), so a case is its seed.

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0, less than `below`. */
  int(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  }

  /** True once in `times`. */
  oneIn(times: number): boolean {
    return this.int(times) === 0;
  }

  pick<T>(list: readonly [T, ...T[]]): T {
    return list[this.int(list.length)] ?? list[0];
  }

  /** One of them, or undefined if there are none. */
  any<T>(list: readonly T[]): T | undefined {
    return list[this.int(Math.max(1, list.length))];
  }

  /** Twelve digits that no flipped byte turns into another case's. */
  marker(): string {
    const half = (): string => this.int(0x1000000).toString(16).padStart(6, "0");
    return half() + half();
  }

  /** Cut at up to `cuts` random places. */
  pieces(bytes: string, cuts: number): string[] {
    const places = Array.from({ length: cuts }, () => this.int(bytes.length + 1)).sort((a, b) => a - b);
    return [0, ...places]
      .map((from, i) => bytes.slice(from, places[i] ?? bytes.length))
      .filter((piece) => piece !== "");
  }
}
