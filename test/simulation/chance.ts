// What a run draws from its seed. Each part of a run has its own numbers, so that a run without some of its clients or
// failures, as the search for a smaller failing run tries, draws the same for the others.
import { seededRandom } from "../support/random.ts";

export class Chance {
  readonly #next: () => number;

  constructor(seed: number, part = 0) {
    this.#next = seededRandom(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(part + 1, 0x85ebca6b));
    // The first numbers of neighbouring seeds resemble each other.
    this.#next();
  }

  /** From 0 to 1. */
  unit(): number {
    return this.#next();
  }

  between(least: number, most: number): number {
    return least + (most - least) * this.#next();
  }

  /** A whole number; both ends are possible. */
  whole(least: number, most: number): number {
    return least + Math.floor((most - least + 1) * this.#next());
  }

  happens(probability: number): boolean {
    return this.#next() < probability;
  }

  /** Many small numbers, few large ones. */
  skewed(least: number, most: number): number {
    return least * (most / least) ** this.#next();
  }

  one<T>(list: readonly T[]): T {
    const chosen = list[Math.floor(list.length * this.#next())];
    if (chosen === undefined) throw new Error("nothing to choose from");
    return chosen;
  }
}
