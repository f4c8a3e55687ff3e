// Searches for inputs on which a function takes long, or for which its time grows faster than their size.
import { Random } from "../../../test/conformance/fuzz/random.ts";
import type { ReadingFunction } from "./functions.ts";
import { type Input, render } from "./input.ts";
import { type Dictionary, mutate } from "./mutate.ts";

export interface FunctionFinding {
  readonly input: Input;
  readonly bytes: number;
  readonly us: number;
  /** The cost of the input with each part repeated twice as often, divided by its own. 2 is linear, 4 quadratic. */
  readonly growth: number;
}

export const maxTextBytes = 16 * 1024;
/** Shorter times are too inexact to show how they grow. */
const minGrowthUs = 200;
const recordFactor = 1.05;

export class FunctionSearch {
  readonly function: ReadingFunction;
  readonly #random: Random;
  readonly #dictionary: Dictionary;
  readonly #dearest = new Map<number, FunctionFinding>();
  inputs = 0;

  constructor(of: ReadingFunction, seed: number) {
    this.function = of;
    this.#random = new Random(seed);
    this.#dictionary = { outer: of.tokens, inner: of.tokens };
    for (const parts of of.seeds) this.#try({ parts, pieceBytes: 0 });
  }

  runUntil(endMs: number): void {
    while (performance.now() < endMs) {
      const all = this.findings;
      const pick = (): Input =>
        (all[Math.min(this.#random.int(all.length), this.#random.int(all.length))] as FunctionFinding).input;
      this.#try(mutate(this.#random, pick(), this.#dictionary, pick()));
    }
  }

  /** The most expensive first. */
  get findings(): readonly FunctionFinding[] {
    return [...this.#dearest.values()].sort((a, b) => b.us - a.us);
  }

  verify({ input }: FunctionFinding): FunctionFinding {
    return this.#finding(input, 30);
  }

  #try(input: Input): void {
    this.inputs += 1;
    const { bytes } = render(input, maxTextBytes);
    const key = Math.ceil(Math.log2(Math.max(16, bytes.length)));
    const record = this.#dearest.get(key);
    const limitUs = recordFactor * (record?.us ?? 0);
    if (this.#leastUs(bytes, 1, limitUs) <= limitUs || this.#leastUs(bytes, 10, limitUs) <= limitUs) return;
    this.#dearest.set(key, this.#finding(input, 10));
  }

  #finding(input: Input, times: number): FunctionFinding {
    const { bytes } = render(input, maxTextBytes);
    const us = this.#leastUs(bytes, times, 0);
    return { input, bytes: bytes.length, us, growth: us < minGrowthUs ? 2 : this.#growth(input, us, times) };
  }

  #growth(input: Input, us: number, times: number): number {
    const twice: Input = { ...input, parts: input.parts.map((part) => ({ ...part, times: part.times * 2 })) };
    const single = render(input, maxTextBytes).bytes;
    const double = render(twice, 2 * maxTextBytes).bytes;
    // Parts that do not fit twice say nothing.
    return double.length < 1.8 * single.length ? 2 : this.#leastUs(double, times, 0) / us;
  }

  /** Stops at the first time that is not above `limitUs`. */
  #leastUs(bytes: Buffer, times: number, limitUs: number): number {
    const given = bytes.toString("latin1");
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < times && least > limitUs; i += 1) {
      const beganMs = performance.now();
      try {
        this.function.read(given);
      } catch {
        // Refusing costs time as well.
      }
      least = Math.min(least, (performance.now() - beganMs) * 1000);
    }
    return least;
  }
}
