// What is kept of the clients that ingresses name changes nothing: a client found again is the one that was read.
import fc from "fast-check";
import { expect, test } from "vitest";
import { type ClientAddressRules, parseForwardedAddress, peerAt } from "../../src/core/client-address.ts";
import { parseCidr } from "../../src/core/ip-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { NamedPeers } from "../../src/ext-auth/check.ts";

const rulesOf = (ipv6Prefix: number, ...trusted: string[]): ClientAddressRules => ({
  header: "x-forwarded-for",
  ipv6Prefix,
  trustedProxies: new NetworkSet(trusted.flatMap((text) => parseCidr(text) ?? [])),
});

const allRules = [rulesOf(64), rulesOf(48, "192.0.2.0/24", "2001:db8::/32")];
const texts = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.ipV4().map((address) => `${address}:80`),
  fc.ipV6().map((address) => `[${address}]:80`),
  fc.constantFrom("192.0.2.1", "192.0.2.01", "2001:db8::1", "2001:DB8::1", "::ffff:192.0.2.1", "fe80::1%eth0"),
  fc.constantFrom("", "unix:", "192.0.2", "x".repeat(100), `fe80::1%${"x".repeat(100)}`),
);

test("equals what is read each time, under whatever rules", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(texts, fc.constantFrom(...allRules))), (asked) => {
      const peers = new NamedPeers();
      for (const [text, rules] of [...asked, ...asked]) {
        const address = parseForwardedAddress(text);
        expect(peers.find(text, rules)).toEqual(address === undefined ? null : peerAt(address, rules));
      }
    }),
  );
});

test("a client is read once while it is asked for", () => {
  const peers = new NamedPeers();
  const [rules] = allRules as [ClientAddressRules];
  for (const text of ["192.0.2.1", "2001:db8::1"]) {
    const peer = peers.find(text, rules);
    expect(peers.find(`x${text}`.slice(1), rules)).toBe(peer);
  }
});

test("more clients than there are places are told apart", () => {
  const peers = new NamedPeers();
  const [rules] = allRules as [ClientAddressRules];
  for (let round = 0; round < 2; round += 1) {
    for (let i = 0; i < 20_000; i += 1) {
      const text = `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;
      if (peers.find(text, rules)?.text !== text) throw new Error(`another client in place of ${text}`);
    }
  }
});
