import fc from "fast-check";
import { expect, test } from "vitest";
import { type Cidr, type IpAddress, isWithin, parseCidr, parseIpAddress } from "../../src/core/ip-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { runs, scaled } from "../support/runs.ts";

const parsed = (text: string): Cidr => parseCidr(text) ?? expect.fail(`the test wrote ${text}`);
const address = (text: string): IpAddress => parseIpAddress(text) ?? expect.fail(`the test wrote ${text}`);

test("has an address exactly when one of its networks contains it", () => {
  // Few different groups, so that networks contain each other and addresses are at their borders.
  const groups = fc.array(fc.constantFrom(0, 1, 0x7fff, 0x8000, 0xffff), { minLength: 8, maxLength: 8 });
  const networks = fc.array(fc.record({ network: groups, prefixBits: fc.integer({ min: 0, max: 128 }) }), {
    maxLength: 20,
  });
  let found = 0;
  fc.assert(
    fc.property(networks, fc.array(groups, { maxLength: 10 }), (cidrs, addresses) => {
      const set = new NetworkSet(cidrs);
      for (const each of [...addresses, ...cidrs.map(({ network }) => network)]) {
        const expected = cidrs.some((cidr) => isWithin(each, cidr));
        if (expected) found += 1;
        expect(set.has(each)).toBe(expected);
      }
    }),
    runs(5000),
  );
  expect(found).toBeGreaterThan(scaled(5000));
});

test("an empty set has no address", () => {
  expect(new NetworkSet([]).has(address("::"))).toBe(false);
});

test("in 1,024 networks, an address is found in at most 12 comparisons", () => {
  const set = new NetworkSet(Array.from({ length: 1024 }, (_, i) => parsed(`10.${i >> 3}.${(i % 8) * 32}.0/24`)));
  const groups = address("10.127.224.9");
  let comparisons = 0;
  const counted = new Proxy([...groups], {
    get(target, key) {
      if (key === "0") comparisons += 1;
      return Reflect.get(target, key);
    },
  });
  expect(set.has(counted)).toBe(true);
  expect(comparisons).toBeGreaterThan(0);
  expect(comparisons).toBeLessThanOrEqual(12);
});

test.each<[region: string, networks: string[], share: number]>([
  ["0.0.0.0/0", [], 0],
  ["0.0.0.0/0", ["0.0.0.0/0"], 1],
  ["0.0.0.0/0", ["::/0"], 1],
  ["0.0.0.0/0", ["::ffff:0:0/96"], 1],
  ["0.0.0.0/0", ["2001:db8::/32"], 0],
  ["0.0.0.0/0", ["0.0.0.0/1"], 0.5],
  ["0.0.0.0/0", ["128.0.0.0/1", "0.0.0.0/1"], 1],
  ["0.0.0.0/0", ["10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8", "11.0.0.0/8"], 2 / 256],
  ["0.0.0.0/0", Array.from({ length: 256 }, (_, i) => `${i}.0.0.0/8`), 1],
  ["2000::/3", ["::/0"], 1],
  ["2000::/3", ["2000::/4"], 0.5],
  ["2000::/3", ["fc00::/7", "10.0.0.0/8"], 0],
])("the share of %s that is in %j is %s", (region, networks, share) => {
  expect(new NetworkSet(networks.map(parsed)).shareOf(parsed(region))).toBe(share);
});
