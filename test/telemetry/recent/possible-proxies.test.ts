// Which peers are named as possible proxies: those that name 20 addresses within ten seconds, at most four in ten minutes.
import fc from "fast-check";
import { expect, test } from "vitest";
import { readPeer } from "../../../src/core/client-address.ts";
import { formatIpAddress, type IpAddress } from "../../../src/core/ip-address.ts";
import { NetworkSet } from "../../../src/core/network-set.ts";
import { PossibleProxies } from "../../../src/telemetry/recent/possible-proxies.ts";

const rules = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;
const peerAt = (text: string) => readPeer(text, rules);
const client = (i: number): IpAddress => [0, 0, 0, 0, 0, 0xffff, 0xc633, i];
const peer = peerAt("10.0.0.7");

/** Returns whether the peer is named at one of the addresses `from` to `to`. */
function name(proxies: PossibleProxies, of = peer, atMs = 0, count = 20): boolean {
  return Array.from({ length: count }, (_, i) => proxies.note(of, client(i), atMs)).includes(true);
}

test("the 20th address within ten seconds names the peer, once in ten minutes", () => {
  const proxies = new PossibleProxies();
  const named = Array.from({ length: 60 }, (_, i) => proxies.note(peer, client(i), i * 500));
  expect(named.map((isNamed, i) => (isNamed ? i : -1)).filter((i) => i >= 0)).toEqual([19]);
  expect(proxies.named(30_000).map(formatIpAddress)).toEqual(["10.0.0.7"]);
  expect(name(proxies, peer, 609_499)).toBe(false);
  expect(name(proxies, peer, 609_500)).toBe(true);
  expect(proxies.named(1_209_500)).toEqual([]);
});

test("equals a naive log of the addresses", () => {
  const requests = fc.array(fc.tuple(fc.nat({ max: 30 }), fc.nat({ max: 900 })), { maxLength: 80 });
  fc.assert(
    fc.property(requests, (all) => {
      const proxies = new PossibleProxies();
      const log: { i: number; atMs: number }[] = [];
      let nowMs = 0;
      for (const [i, gapMs] of all) {
        nowMs += gapMs;
        log.push({ i, atMs: nowMs });
        const young = log.filter(({ atMs }) => nowMs - atMs < 10_000);
        const isNamed = proxies.note(peer, client(i), nowMs);
        expect(isNamed).toBe(new Set(young.map(({ i }) => i)).size >= 20);
        if (isNamed) return;
      }
    }),
  );
});

test("at most four are named in ten minutes, and the next one after them", () => {
  const proxies = new PossibleProxies();
  const peers = Array.from({ length: 6 }, (_, i) => peerAt(`10.0.0.${i}`));
  expect(peers.map((of, i) => name(proxies, of, i * 1000))).toEqual([true, true, true, true, false, false]);
  expect(name(proxies, peers[5], 600_000)).toBe(true);
  expect(proxies.named(600_000)).toHaveLength(4);
});

test("an IPv6 peer that changes its own address within its network is one, and is named by its whole address", () => {
  const proxies = new PossibleProxies();
  const peers = Array.from({ length: 40 }, (_, i) => peerAt(`fd00:1:2:3::${i.toString(16)}`));
  expect(peers.map((of) => name(proxies, of)).filter(Boolean)).toHaveLength(1);
  expect(proxies.named(0).map(formatIpAddress)).toEqual(["fd00:1:2:3::"]);
});

test("threads count together", () => {
  const memory = new SharedArrayBuffer(PossibleProxies.bytes + 64);
  const threads = Array.from({ length: 3 }, () => new PossibleProxies(memory));
  const named = Array.from({ length: 30 }, (_, i) => (threads[i % 3] as PossibleProxies).note(peer, client(i), 0));
  expect(named.indexOf(true)).toBe(19);
  expect(threads.map((each) => each.named(0).length)).toEqual([1, 1, 1]);
  expect(named.filter(Boolean)).toHaveLength(1);
});

test("many peers take little room, and the named ones keep theirs", () => {
  const proxies = new PossibleProxies();
  name(proxies);
  for (let i = 0; i < 10_000; i += 1) proxies.note(peerAt(`10.1.${i >> 8}.${i & 255}`), client(1), 1);
  expect([name(proxies, peer, 2), proxies.named(2).map(formatIpAddress)]).toEqual([false, ["10.0.0.7"]]);
  expect(name(proxies, peerAt("10.2.0.1"), 2)).toBe(true);
  expect(PossibleProxies.bytes).toBeLessThan(32_768);
});

test("a proxy among many peers that name one address each is named", () => {
  const proxies = new PossibleProxies();
  const others = Array.from({ length: 200 }, (_, i) => peerAt(`10.1.0.${i}`));
  const named = Array.from({ length: 20 }, (_, i) => {
    const isNamed = proxies.note(peer, client(i), i);
    for (const [j, other] of others.slice(0, i === 0 ? 40 : 200).entries()) proxies.note(other, client(j), i);
    return isNamed;
  });
  expect(named.indexOf(true)).toBe(19);
});
