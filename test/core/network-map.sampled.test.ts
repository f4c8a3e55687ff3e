import fc from "fast-check";
import { expect, test } from "vitest";
import { type Cidr, isWithin, parseCidr } from "../../src/core/ip-address.ts";
import { NetworkMap } from "../../src/core/network-set.ts";
import { runs, scaled } from "../support/runs.ts";

const parsed = (text: string): Cidr => parseCidr(text) ?? expect.fail(`the test wrote ${text}`);

test("finds the smallest network that contains all of another one", () => {
  // Few different groups, so that networks contain each other and begin with the same address.
  const groups = fc.array(fc.constantFrom(0, 1, 0x7fff, 0x8000, 0xffff), { minLength: 8, maxLength: 8 });
  const prefixes = fc.oneof(fc.integer({ min: 0, max: 128 }), fc.constantFrom(0, 16, 17, 127, 128));
  const networks = fc.record({ network: groups, prefixBits: prefixes });
  let found = 0;
  fc.assert(
    fc.property(fc.array(networks, { maxLength: 20 }), fc.array(networks, { maxLength: 8 }), (cidrs, asked) => {
      const map = new NetworkMap(cidrs.map((cidr, i) => [cidr, i] as const));
      for (const each of [...asked, ...cidrs]) {
        const containing = cidrs.filter((cidr) => cidr.prefixBits <= each.prefixBits && isWithin(each.network, cidr));
        const longest = Math.max(...containing.map(({ prefixBits }) => prefixBits));
        // Networks with the same prefix that contain the same address are one network: its first value counts.
        const expected = cidrs.findIndex((cidr) => containing.includes(cidr) && cidr.prefixBits === longest);
        if (expected !== -1) found += 1;
        expect(map.get(each)).toBe(expected === -1 ? undefined : expected);
      }
    }),
    runs(2000),
  );
  expect(found).toBeGreaterThan(scaled(5000));
});

test("one address does not stand for the network around it", () => {
  const map = new NetworkMap([[parsed("2001:db8:1:2::"), "address"] as const]);
  expect(map.get(parsed("2001:db8:1:2::"))).toBe("address");
  expect(map.get(parsed("2001:db8:1:2::/64"))).toBeUndefined();
});

test("of 1,024 networks inside each other and beside each other, few are compared", () => {
  const nested = Array.from({ length: 25 }, (_, i) => parsed(`10.0.0.0/${8 + i}`));
  const others = Array.from({ length: 999 }, (_, i) => parsed(`11.${i >> 3}.${(i % 8) * 32}.0/24`));
  const map = new NetworkMap([...nested, ...others].map((cidr, i) => [cidr, i] as const));
  const { network, prefixBits } = parsed("10.255.0.1");
  let comparisons = 0;
  const counted = new Proxy([...network], {
    get(target, key) {
      if (key === "0") comparisons += 1;
      return Reflect.get(target, key);
    },
  });
  expect(map.get({ network: counted, prefixBits })).toBe(0);
  expect(comparisons).toBeGreaterThan(10);
  expect(comparisons).toBeLessThanOrEqual(12 + nested.length);
});
