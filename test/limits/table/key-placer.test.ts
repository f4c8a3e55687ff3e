import fc from "fast-check";
import { expect, test } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import { KeyPlacer } from "../../../src/limits/table/sip-hash.ts";
import { hexOfWords, naiveSipHash } from "./naive-sip-hash.ts";

type Words = readonly [a: number, b: number, c: number, d: number];

const counting = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => i);

function placed(secret: Uint8Array, words: Words, isAddress: boolean): CounterKey {
  const key = new CounterKey(...words, isAddress);
  expect(key.isPlaced).toBe(false);
  new KeyPlacer(secret).place(key);
  expect(key.isPlaced).toBe(true);
  return key;
}

const hashOf = (secret: Uint8Array, words: Words): string => {
  const { place, tag } = placed(secret, words, true);
  return hexOfWords(place, tag);
};

/** Of the reference implementation: key 00 01 … 0f, and as input the bytes 00, 01, … of length 0 to 16. */
const vectors = `
  310e0edd47db6f72 fd67dc93c539f874 5a4fa9d909806c0d 2d7efbd796666785 b7877127e09427cf 8da699cd64557618
  cee3fe586e46c9cb 37d1018bf50002ab 6224939a79f5f593 b0e4a90bdf82009e f3b9dd94c5bb5d7a a7ad6b22462fb3f4
  fbe50e86bc8f1e75 903d84c02756ea14 eef27a8e90ca23f7 e545be4961ca29a1 db9bc2577fcc2a3f
`
  .trim()
  .split(/\s+/);

test("the definition that this test compares with equals the official vectors", () => {
  expect(vectors.map((_, length) => naiveSipHash(counting(16), counting(length), 8))).toEqual(vectors);
});

test("the place of an address equals the official vector for an input of 16 bytes", () => {
  expect(hashOf(counting(16), [0x03020100, 0x07060504, 0x0b0a0908, 0x0f0e0d0c])).toBe(vectors[16]);
});

test("the place of any address under any secret equals the definition", () => {
  const word = fc.oneof(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), fc.constantFrom(0, -1, 0xffff));
  const secrets = fc.oneof(fc.uint8Array({ minLength: 16, maxLength: 16 }), fc.constant(new Uint8Array(16).fill(255)));
  fc.assert(
    fc.property(secrets, fc.tuple(word, word, word, word), (secret, words) => {
      expect(hashOf(secret, words)).toBe(naiveSipHash(secret, Buffer.from(hexOfWords(...words), "hex"), 8));
    }),
    { numRuns: 300 },
  );
});

test("a key that is a hash goes where its first two words say", () => {
  expect(placed(counting(16), [1, -2, 3, 4], false)).toMatchObject({ place: 1, tag: -2 });
});

test("a secret of another length is refused", () => {
  for (const length of [0, 15, 17]) expect(() => new KeyPlacer(counting(length))).toThrow(`has ${length} bytes`);
});
