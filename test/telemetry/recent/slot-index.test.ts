// The hash of request ids: clients behind a proxy may choose them, and must not make many of them meet.
import { expect, test } from "vitest";
import { hashOfBytes } from "../../../src/telemetry/recent/slot-index.ts";
import { seededRandom } from "../../support/random.ts";

const random = seededRandom(28);
const word = (): number => Math.floor(random() * 2 ** 32) | 0;
const hashOf = (...words: number[]): number => hashOfBytes(Int32Array.from(words), 0, 4 * words.length);

/** With one multiplication for a word, the second difference takes back the first one in every eighth text. */
test.each([
  [0x18000000, 0x18003000],
  [0x28000000, 0x18003000],
  [0x24000000, 0x0c001800],
  [0x44000000, 0x14002800],
])("texts that differ by %i in a word and by %i in the next one do not meet", (first, second) => {
  let met = 0;
  for (let i = 0; i < 2_000; i += 1) {
    const [a, b, c] = [word(), word(), word()];
    if (hashOf(a, b, c) === hashOf(a, b ^ first, c ^ second)) met += 1;
  }
  expect(met).toBeLessThan(10);
});
