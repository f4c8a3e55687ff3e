// The ids of requests: UUIDs of version 4, none twice, with all their bits random.
import { expect, test } from "vitest";
import { createRequestIds } from "../../src/upstream/request-fields.ts";

const count = 2_000;

test("each id is a UUID of version 4, and none comes twice, from one source or from several", () => {
  const sources = [createRequestIds(), createRequestIds()];
  const ids = sources.flatMap((next) => Array.from({ length: count }, next));
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(new Set(ids).size).toBe(2 * count);
});

test("each of the 122 random bits is set in about half of the ids, and the other six are fixed", () => {
  const next = createRequestIds();
  const numbers = Array.from({ length: count }, () => BigInt(`0x${next().replaceAll("-", "")}`));
  const setIn = Array.from({ length: 128 }, (_, bit) => numbers.filter((id) => (id >> BigInt(bit)) & 1n).length);
  const fixed = new Map([76, 77, 78, 79, 62, 63].map((bit) => [bit, bit === 78 || bit === 63 ? count : 0]));
  for (const [bit, times] of setIn.entries()) {
    const expected = fixed.get(bit);
    // Seven standard deviations: this fails once in a thousand million runs.
    if (expected === undefined) expect(Math.abs(times - count / 2)).toBeLessThan(157);
    else expect(times).toBe(expected);
  }
});
