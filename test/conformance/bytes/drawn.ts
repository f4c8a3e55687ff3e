// What the properties of this folder have in common: chance from a seed, bytes of which no part equals another, and a
// reader that knows what it should get.
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect } from "vitest";
import { seededRandom } from "../../support/random.ts";
import { runs } from "../../support/runs.ts";

/** `find` draws from a seed what happens, and returns what was wrong. */
export async function expectNoFault(find: (draw: Draw) => Promise<string | null>, full: number): Promise<void> {
  const seeds = fc.noShrink(fc.integer({ min: 0, max: 2 ** 32 - 1 }));
  await fc.assert(
    fc.asyncProperty(seeds, async (seed) => {
      expect(await find(new Draw(seed))).toBe(null);
    }),
    runs(full, 10),
  );
}

export class Draw {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  /** From 0 to `max`, which is one of the numbers. */
  upTo(max: number): number {
    return Math.floor(this.#random() * (max + 1));
  }

  isOneIn(count: number): boolean {
    return this.upTo(count - 1) === 0;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.upTo(list.length - 1)] as T;
  }

  /** A length of which small and large ones are as frequent: from 1 to `max`. */
  length(max: number): number {
    return Math.max(1, Math.round(max ** this.#random()));
  }
}

const pool = createHash("shake128", { outputLength: 4 * 1024 * 1024 })
  .update("bytes")
  .digest();

/** The bytes must not be changed. */
export function drawContent(draw: Draw, maxBytes: number): Buffer {
  const from = draw.upTo(pool.length - maxBytes);
  return pool.subarray(from, from + draw.upTo(maxBytes));
}

/** In chunks of random lengths, with extensions and trailers. */
export function inChunks(draw: Draw, content: Buffer): Buffer {
  const parts: (Buffer | string)[] = [];
  for (let at = 0; at < content.length; ) {
    const chunk = content.subarray(at, at + draw.length(40_000));
    at += chunk.length;
    parts.push(`${chunk.length.toString(16)}${draw.pick(["", "", ";a=b"])}\r\n`, chunk, "\r\n");
  }
  parts.push(`0\r\n${draw.pick(["", "", "Digest: a\r\n"])}\r\n`);
  return Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : part)));
}

/** Compares what a reader gets with what was sent, and remembers the first thing that is wrong. */
export class Receipt {
  bytes = 0;
  isEnded = false;
  fault: string | null = null;
  readonly #content: Buffer;

  constructor(content: Buffer) {
    this.#content = content;
  }

  take(bytes: Buffer): void {
    const expected = this.#content.subarray(this.bytes, this.bytes + bytes.length);
    if (this.isEnded) this.fault ??= `${bytes.length} bytes came behind the end`;
    if (!bytes.equals(expected)) this.fault ??= `other bytes than were sent behind byte ${this.bytes}`;
    this.bytes += bytes.length;
  }

  end(): void {
    if (this.isEnded) this.fault ??= "the end came twice";
    if (this.bytes !== this.#content.length) this.fault ??= `the end came behind byte ${this.bytes}`;
    this.isEnded = true;
  }
}
