// The table of networks beside a list that is searched as a whole: many networks of few lengths, added and removed.
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { addressKey } from "../../src/core/counter-key.ts";
import { type Cidr, type IpAddress, isIpv4, isWithin } from "../../src/core/ip-address.ts";
import { withFirstAddress } from "../../src/core/network-set.ts";
import { NetworkTable } from "../../src/core/network-table.ts";
import { runs } from "../support/runs.ts";

/** Addresses of which many share their places in a small table. */
const group = fc.constantFrom(0, 1, 2, 3, 7, 8, 15, 16, 255, 256, 0xff00);
const ipv4 = fc.tuple(group, group).map(([a, b]): IpAddress => [0, 0, 0, 0, 0, 0xffff, a, b]);
const ipv6 = fc.tuple(group, group, group).map(([a, b, c]): IpAddress => [0x2001, a, b, c, 0, 0, 0, 1]);
const networks = fc
  .tuple(fc.oneof(ipv4, ipv6), fc.constantFrom(0, 8, 13, 14, 15, 24, 32))
  .map(([network, bits]): Cidr => withFirstAddress({ network, prefixBits: isIpv4(network) ? 96 + bits : 2 * bits }));

const keyOf = ({ network, prefixBits }: Cidr): string => `${network.join(":")}/${prefixBits}`;

test("finds what a search of all networks finds, the smallest first, after any changes", () => {
  const change = fc.record({ cidr: networks, removes: fc.boolean() });
  fc.assert(
    fc.property(
      fc.array(change, { minLength: 100, maxLength: 400 }),
      fc.array(fc.oneof(ipv4, ipv6)),
      (changes, asked) => {
        const table = new NetworkTable<string>();
        const known = new Map<string, Cidr>();
        for (const { cidr, removes } of changes) {
          const key = keyOf(cidr);
          if (removes && known.delete(key)) table.delete(cidr);
          else {
            known.set(key, cidr);
            table.set(cidr, key);
          }
        }
        expect(table.isEmpty).toBe(known.size === 0);
        for (const [key, cidr] of known) expect(table.get(cidr)).toBe(key);
        const all = [...known.values()].sort((a, b) => b.prefixBits - a.prefixBits);
        for (const address of [...asked, ...changes.map(({ cidr }) => cidr.network)]) {
          const expected = all.filter((cidr) => isWithin(address, cidr)).map(keyOf);
          expect(table.find(addressKey(address, 128)) ?? []).toEqual(expected);
        }
      },
    ),
    runs(1_000, 40),
  );
});

test("more lengths of prefixes than have flags of their own are all found", () => {
  const table = new NetworkTable<number>();
  const address: IpAddress = [0x2001, 0xdb8, 1, 2, 3, 4, 5, 6];
  const lengths = Array.from({ length: 129 }, (_, i) => 128 - i);
  for (const bits of lengths) table.set({ network: address, prefixBits: bits }, bits);
  expect(table.find(addressKey(address, 128))).toEqual(lengths);
  for (const bits of lengths) if (bits % 2 === 0) table.delete({ network: address, prefixBits: bits });
  expect(table.find(addressKey(address, 128))).toEqual(lengths.filter((bits) => bits % 2 === 1));
});
