// The open HTTP/2 streams of each peer and of all peers.
import { expect, test } from "vitest";
import { type Peer, readPeer } from "../../src/core/client-address.ts";
import { cidrOf } from "../../src/core/ip-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { OpenStreams } from "../../src/transport/http2/http2-connection.ts";

const trustedProxies = new NetworkSet([cidrOf("203.0.113.0/24")]);
const rules = { header: "x-forwarded-for", trustedProxies, ipv6Prefix: 64 } as const;
const peer = (last: number): Peer => readPeer(`192.0.2.${last}`, rules);
const proxy = readPeer("203.0.113.1", rules);

const open = (max: number, maxPerPeer = max) => new OpenStreams({ current: { streams: { max, maxPerPeer } } });

/** Adds streams until one is refused. Returns how many were added, and why the last one was not. */
function fill(streams: OpenStreams, ofPeer: Peer): [number, string] {
  for (let added = 0; ; added += 1) {
    const refused = streams.add(ofPeer);
    if (refused !== null) return [added, refused];
  }
}

test("a peer gets no more streams than are free, the last quarter is for peers without one, and what is removed is free", () => {
  const streams = open(8);
  expect([1, 2, 3, 4, 5].map((last) => fill(streams, peer(last)))).toEqual([
    [4, "per_peer"],
    [2, "per_peer"],
    [1, "per_peer"],
    [1, "total"],
    [0, "total"],
  ]);
  for (let i = 0; i < 4; i += 1) streams.remove(peer(1));
  expect(fill(streams, peer(5))).toEqual([2, "per_peer"]);
});

test("a peer also has a bound of its own, and a trusted proxy has neither", () => {
  expect(fill(open(8, 3), peer(1))).toEqual([3, "per_peer"]);
  expect(fill(open(8, 3), proxy)).toEqual([8, "total"]);
});

test("a peer is half full when it has more than half of what it may have at that moment", () => {
  /** With so many of 30 streams. */
  const isHalfFull = (count: number, ofPeer: Peer, maxPerPeer?: number): boolean => {
    const streams = open(30, maxPerPeer);
    for (let i = 0; i < count; i += 1) streams.add(ofPeer);
    return streams.isHalfFull(ofPeer);
  };
  expect([isHalfFull(10, peer(1)), isHalfFull(11, peer(1))]).toEqual([false, true]);
  expect([isHalfFull(2, peer(1), 4), isHalfFull(3, peer(1), 4)]).toEqual([false, true]);
  expect(isHalfFull(30, proxy)).toBe(false);
});
