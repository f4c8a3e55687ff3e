// What is under way when a client leaves, for each kind of carrier.
import type { Carrier } from "./carrier.ts";
import { scrape, upgrade } from "./http1.ts";
import { watch } from "./http2.ts";
import type { Peer } from "./peer.ts";
import type { Stage } from "./stage.ts";

export type Table<Value> = Readonly<Record<string, Value>>;
/** Resolves when it has come so far. */
export type Moment = (peer: Peer, carrier: Carrier, stage: Stage) => Promise<void> | void;

/** A client that does not read for so long is closed before. */
const unreadMs = 5_000;

export const nothing = { "before a byte": () => {} } satisfies Table<Moment>;
export const heads = { "in a head": (peer, { partOfHead }) => peer.send(partOfHead) } satisfies Table<Moment>;
export const answered = {
  "after an answer": async (peer, { request }) => {
    peer.send(request("/v2/ok"));
    await peer.gets("ok!");
  },
} satisfies Table<Moment>;
export const forwarded = {
  "in a body": async (peer, { upload }, { upstream }) => {
    const { target, arrived } = upstream.target("/v2/never");
    peer.send(upload(target));
    await arrived;
  },
  "while the upstream is silent": async (peer, { request }, { upstream }) => {
    const { target, arrived } = upstream.target("/v2/never");
    peer.send(request(target));
    await arrived;
  },
  "in a response": async (peer, { request }) => {
    peer.send(request("/v2/part"));
    await peer.gets("part!");
  },
  "in a response that is not read": async (peer, { request }) => {
    peer.send(request("/v2/large"));
    await readNoMore(peer, "xxx");
  },
  ...answered,
} satisfies Table<Moment>;
export const asked = { "with a request": (peer, { request }) => peer.send(request("/v2/ok")) } satisfies Table<Moment>;
export const pipelined = {
  "with requests behind one": async (peer, { request }, { upstream }) => {
    const { target, arrived } = upstream.target("/v2/never");
    peer.send(`${request(target)}${`${request("/v2/ok")}`.repeat(50)}`);
    await arrived;
  },
} satisfies Table<Moment>;
export const checked = {
  "in a body": (peer, { upload }) => peer.send(upload("/v2/ok")),
  "after an answer": async (peer, { request }) => {
    peer.send(request("/v2/ok"));
    await peer.gets("HTTP/1.1 200");
  },
} satisfies Table<Moment>;
export const called = {
  "in a message": (peer, { upload }) => peer.send(upload("")),
  "after an answer": async (peer, { request }) => {
    peer.send(request(""));
    await peer.gets("ratelimit-reset");
  },
} satisfies Table<Moment>;
export const watched = {
  "in a Watch": async (peer) => {
    peer.send(watch);
    // Its state, or that there are too many.
    await peer.answer((received) => received.includes("\0\0\0\0\x02\x08") || received.includes("\x01\x05\0\0\0\x01"));
  },
} satisfies Table<Moment>;
export const tunnelled = {
  "while a tunnel opens": async (peer, _, { upstream }) => {
    const { target, arrived } = upstream.target("/v2/never");
    peer.send(upgrade(target));
    await arrived;
  },
  "in a tunnel": async (peer) => {
    peer.send(upgrade("/v2/tunnel"));
    await peer.gets("open!");
  },
  "in a tunnel that it does not read": async (peer) => {
    peer.send(upgrade("/v2/tunnel-large"));
    await readNoMore(peer, "xxx");
  },
  "in a tunnel that the upstream does not read": async (peer) => {
    peer.send(upgrade("/v2/tunnel-unread"));
    await peer.gets("open!");
    peer.send(Buffer.alloc(2_000_000));
  },
} satisfies Table<Moment>;
export const scraped = {
  "in scrapes that are not read": async (peer) => {
    peer.send(scrape.repeat(2));
    await readNoMore(peer, "headgate");
  },
  "after an answer": async (peer) => {
    peer.send(scrape);
    await peer.gets("# HELP");
  },
} satisfies Table<Moment>;

async function readNoMore(peer: Peer, begun: string): Promise<void> {
  await peer.gets(begun);
  peer.socket.pause();
  setTimeout(() => peer.socket.resume(), unreadMs);
}
