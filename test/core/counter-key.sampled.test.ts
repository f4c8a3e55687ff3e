import fc from "fast-check";
import { expect, test } from "vitest";
import { addressKey, CounterKey } from "../../src/core/counter-key.ts";
import { clientKey, parseIpAddress } from "../../src/core/ip-address.ts";
import { runs } from "../support/runs.ts";

const wordsOf = ({ a, b, c, d }: CounterKey): string => `${[a, b, c, d]}`;

test.each<[text: string, prefix: number, words: [number, number, number, number]]>([
  ["1.2.3.4", 64, [0, 0, 0xffff, 0x01020304]],
  ["::ffff:1.2.3.4", 1, [0, 0, 0xffff, 0x01020304]],
  ["255.255.255.255", 128, [0, 0, 0xffff, -1]],
  ["2001:db8:1:2:3:4:5:6", 64, [0x20010db8, 0x00010002, 0, 0]],
  ["2001:db8:1:1ff:3:4:5:6", 56, [0x20010db8, 0x00010100, 0, 0]],
  ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 128, [-1, -1, -1, -1]],
  ["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 127, [-1, -1, -1, -2]],
  ["ffff::", 1, [-0x80000000, 0, 0, 0]],
  ["::1", 64, [0, 0, 0, 0]],
])("the key of %s by %d bits is its address, masked", (text, prefix, words) => {
  const address = parseIpAddress(text);
  expect(address && addressKey(address, prefix)).toEqual(new CounterKey(...words, true));
});

test("two addresses have equal keys exactly where their texts as clients are equal", () => {
  const groups = fc.array(fc.constantFrom(0, 1, 0x7fff, 0x8000, 0xffff), { minLength: 8, maxLength: 8 });
  const mapped = groups.map((address) => [0, 0, 0, 0, 0, 0xffff, ...address.slice(6)]);
  // Beside the mapped addresses, where a mask could turn one address into another.
  const nearMapped = groups.map((address) => [0, 0, 0, 0, ...address.slice(4)]);
  const addresses = fc.oneof(groups, mapped, nearMapped);
  const seen = { equal: 0, different: 0 };
  fc.assert(
    fc.property(
      addresses,
      addresses,
      fc.integer({ min: 1, max: 128 }),
      fc.nat({ max: 8 }),
      (one, tail, prefix, kept) => {
        const other = [...one.slice(0, kept), ...tail.slice(kept)];
        const isEqual = wordsOf(addressKey(one, prefix)) === wordsOf(addressKey(other, prefix));
        seen[isEqual ? "equal" : "different"] += 1;
        expect(isEqual).toBe(clientKey(one, prefix) === clientKey(other, prefix));
      },
    ),
    runs(10_000),
  );
  expect(Math.min(seen.equal, seen.different)).toBeGreaterThan(100);
});
