import { describe, expect, test } from "vitest";
import { PieceBudget } from "../../src/core/http-bounds.ts";
import { JoinedPieces } from "../../src/core/joined-pieces.ts";

describe("pieces that are joined", () => {
  test("keep at most twice their bytes, and nothing of the memory that they came in", () => {
    const joined = new JoinedPieces();
    const read = Buffer.alloc(65_536, "x");
    for (let i = 1; i <= 5_000; i += 1) {
      joined.add(read.subarray(i, i + 1));
      expect(joined.keptBytes).toBeLessThanOrEqual(Math.max(512, 2 * i));
    }
    const bytes = joined.take();
    expect(bytes.toString()).toBe("x".repeat(5_000));
    expect(bytes.buffer).not.toBe(read.buffer);
    expect([joined.length, joined.keptBytes]).toEqual([0, 0]);
  });

  test("stay as they are when others follow the ones that were taken", () => {
    const joined = new JoinedPieces();
    joined.add(Buffer.from("first"));
    const first = joined.take();
    joined.add(Buffer.from("other"));
    expect([String(first), String(joined.take()), joined.take().length]).toEqual(["first", "other", 0]);
  });
});

describe("the budget of small pieces", () => {
  function start() {
    let nowMs = 0;
    const budget = new PieceBudget(() => nowMs);
    /** How many of them pass, at most 100,000. */
    const passing = (bytes: number, everyMs: number): number => {
      for (let count = 0; count < 100_000; count += 1) {
        nowMs += everyMs;
        if (!budget.take(bytes)) return count;
      }
      return 100_000;
    };
    const wait = (ms: number): void => {
      nowMs += ms;
    };
    return { passing, wait };
  }

  test.each([
    ["1 byte at once", 1, 0, 626],
    ["12 bytes at once", 12, 0, 1_200],
    ["24 bytes at once", 24, 0, 100_000],
    ["100 bytes at once", 100, 0, 100_000],
    ["1 byte each 10 ms", 1, 10, 100_000],
    ["1 byte each 5 ms", 1, 5, 1_309],
  ])("%s", (_, bytes, everyMs, count) => {
    expect(start().passing(bytes, everyMs)).toBe(count);
  });

  test("gives back no more than it had, however long nothing comes", () => {
    const { passing, wait } = start();
    wait(3_600_000);
    expect(passing(1, 0)).toBe(627);
    wait(6_000);
    expect(passing(1, 0)).toBeLessThanOrEqual(627);
  });
});
