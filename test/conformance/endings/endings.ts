// Every way in which a connection, request, tunnel or check can end, as a table for each carrier: what is under way,
// and what ends it.
import type { Carrier } from "./carrier.ts";
import type { Ports } from "./gateway-child.ts";
import { adminRefusals, check, checkRefusals, chunkedCheck, http1, refusals, upgrade } from "./http1.ts";
import { grpc, grpcRefusals, http2, http2Ways, openCall, upload, violations } from "./http2.ts";
import {
  asked,
  called,
  checked,
  forwarded,
  heads,
  type Moment,
  nothing,
  pipelined,
  scraped,
  type Table,
  tunnelled,
  watched,
} from "./moments.ts";
import { Peer, type PeerOptions, type Way, ways } from "./peer.ts";
import type { GatewayStage, Stage } from "./stage.ts";
import { pathOf, responseEndings } from "./upstream.ts";

export interface Ending {
  readonly name: string;
  /** How many clients end in one run; default: one. Then one run follows the other. */
  readonly clients?: number;
  /** Resolves when the client has left. Rejects if the ending was not reached. */
  readonly run: (stage: GatewayStage) => Promise<void>;
}

type Connect = (stage: Stage) => PeerOptions;

/** Each moment with each way in which a client leaves. */
function left(connect: Connect, carrier: Carrier, moments: Table<Moment>, leaving: Table<Way> = ways): Ending[] {
  return Object.entries(moments).flatMap(([when, reach]) =>
    Object.entries(leaving).map(([how, leave]) => ({
      name: `${when}, the client ${how}`,
      run: (stage: Stage) =>
        onPeer(connect(stage), async (peer) => {
          await carrier.prelude(peer);
          await reach(peer, carrier, stage);
          await leave(peer);
        }),
    })),
  );
}

/** After the prelude come these bytes, and the gateway closes the connection. */
function sent(connect: Connect, { prelude }: Carrier, what: string, table: Table<string | Buffer>): Ending[] {
  return Object.entries(table).map(([name, bytes]) => ({
    name: `${what}: ${name}`,
    run: (stage: Stage) =>
      onPeer(connect(stage), async (peer) => {
        await prelude(peer);
        peer.send(bytes);
        await peer.closed();
      }),
  }));
}

/** The upstream ends the response in each of its ways. */
function responded(connect: Connect, { prelude, last, finish }: Carrier, paths: readonly string[]): Ending[] {
  return paths.map((name) => ({
    name: `a response: ${name}`,
    run: (stage: Stage) =>
      onPeer(connect(stage), async (peer) => {
        await prelude(peer);
        peer.send(last(pathOf(name)));
        await finish(peer);
      }),
  }));
}

/** So many clients are at each moment when the gateway does something. */
const clientsAtMoment = 3;

/** What happens to all clients together: they stay, and leave after it. */
function during(
  name: string,
  connect: Connect,
  carrier: Carrier,
  moments: Table<Moment>,
  act: (stage: GatewayStage, reached: (on: Stage) => Promise<void>) => Promise<void>,
): Ending {
  const all = Object.values(moments).flatMap((moment) => Array<Moment>(clientsAtMoment).fill(moment));
  const run = async (stage: GatewayStage): Promise<void> => {
    const peers: Peer[] = [];
    const reachOn = (on: Stage) => async (moment: Moment) => {
      const peer = new Peer(connect(on));
      peers.push(peer);
      await peer.opened();
      await carrier.prelude(peer);
      await moment(peer, carrier, on);
    };
    await act(stage, async (on) => void (await Promise.all(all.map(reachOn(on)))));
    for (const peer of peers) peer.destroy();
  };
  return { name, clients: all.length, run };
}

const reloaded = (connect: Connect, carrier: Carrier, moments: Table<Moment>): Ending =>
  during("a reload makes a new upstream", connect, carrier, moments, async (stage, reached) => {
    await reached(stage);
    await stage.ask("reload");
  });

const drained = (connect: Connect, carrier: Carrier, moments: Table<Moment>): Ending =>
  during("a drain", connect, carrier, moments, async (stage, reached) => {
    const ports = await stage.ask<Ports>("start");
    await reached({ ...stage, ports });
    await stage.ask("drain");
  });

/** Has so many clients at once. Resolves with the number of those that got what they need. */
export async function occupy(stage: Stage, { connect, carrier, moment }: Occupant, count: number): Promise<number> {
  const peers = Array.from({ length: count }, () => new Peer(connect(stage)));
  const reach = async (peer: Peer): Promise<void> => {
    await peer.opened();
    await carrier.prelude(peer);
    await moment(peer, carrier, stage);
  };
  const reached = await Promise.allSettled(peers.map(reach));
  for (const peer of peers) peer.destroy();
  return reached.filter(({ status }) => status === "fulfilled").length;
}

/** What clients of a carrier hold as many of as a bound allows. */
export interface Occupant {
  readonly connect: Connect;
  readonly carrier: Carrier;
  readonly moment: Moment;
}

async function onPeer(options: PeerOptions, act: (peer: Peer) => Promise<void>): Promise<void> {
  const peer = new Peer(options);
  try {
    await peer.opened();
    await act(peer);
  } finally {
    peer.destroy();
  }
}

const port: Connect = ({ ports }) => ({ port: ports.traffic });
const tls: Connect = ({ ports, secureContext }) => ({ port: ports.traffic, tls: { secureContext } });
const h2: Connect = ({ ports, secureContext }) => ({
  port: ports.traffic,
  tls: { secureContext, ALPNProtocols: ["h2"] },
});
const otherProtocol: Connect = ({ ports, secureContext }) => ({
  port: ports.traffic,
  tls: { secureContext, ALPNProtocols: ["tea"] },
});
const proxied: Connect = ({ ports }) => ({ port: ports.traffic, before: "PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n" });
const checks: Connect = ({ ports }) => ({ port: ports.checks });
const calls: Connect = ({ ports }) => ({ port: ports.grpc });
const admin: Connect = ({ ports }) => ({ port: ports.admin });
/** Of one of many addresses. */
const anyone: Connect = (stage) => ({ ...port(stage), localAddress: `127.0.1.${stage.next() % 200}` });
const anyoneByTls: Connect = (stage) => ({ ...tls(stage), localAddress: `127.0.1.${stage.next() % 200}` });

const responses = Object.keys(responseEndings);
const tunnelEnds = ["tunnel-fin", "tunnel-half-closed", "tunnel-reset", "tunnel-refused", ...responses];
const { stays, ...leavesFirst } = ways;
const { stays: _, ...http2WaysOfLeaving } = http2Ways;
const http1Moments = { ...nothing, ...heads, ...forwarded, ...pipelined };
/** Those of one connection; the others belong to the endings of responses. */
const overTls = { ...heads, ...forwarded };
/** Heads of other protocols, and parts of the right one. */
const hellos: Table<string | Buffer> = {
  nothing: "",
  "a byte": "\x16",
  "half a ClientHello": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  HTTP: http1.request("/v2/ok"),
  "what is no protocol": "what?\r\n\r\n",
  "an alert": "\x15\x03\x01\x00\x02\x02\x28",
  "a record too large": `\x16\x03\x01\xff\xff${"x".repeat(1_000)}`,
};
const proxyHeaders: Table<string | Buffer> = {
  nothing: "",
  "a part of it": "PROXY TCP4 127.0",
  "HTTP without it": http1.request("/v2/ok"),
  garbage: "PROXY WHAT\r\n",
  "one too long": `PROXY TCP4 ${"1".repeat(200)}`,
  "a part of a binary one": "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f",
  "one of the proxy itself": "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
};

/** Each way of leaving after these bytes, which come before any carrier. */
const firstBytes = (table: Table<string | Buffer>): Table<Moment> =>
  Object.fromEntries(Object.entries(table).map(([name, bytes]) => [`after ${name}`, (peer: Peer) => peer.send(bytes)]));

export const endings = {
  http1: [
    ...left(port, http1, http1Moments),
    ...sent(port, http1, "refused", refusals),
    ...responded(port, http1, responses),
  ],
  http1OverTls: left(tls, http1, { ...overTls, ...nothing }),
  http2: [
    ...left(h2, { ...http2, prelude: async () => {} }, nothing),
    ...left(h2, http2, { "after its preface": () => {}, ...heads, ...forwarded }, http2Ways),
    ...sent(h2, { ...http2, prelude: async () => {} }, "against the protocol", {
      "no preface": http1.request("/v2/ok"),
    }),
    ...responded(h2, http2, responses),
  ],
  /** By themselves, because they take all streams that a client may have. */
  http2Violations: sent(h2, http2, "against the protocol", violations(upload)),
  tunnels: [...left(port, http1, tunnelled), ...responded(port, { ...http1, last: upgrade }, tunnelEnds)],
  tunnelsOverTls: left(tls, http1, tunnelled),
  checks: [
    ...left(checks, check, { ...nothing, ...heads, ...checked }),
    ...sent(checks, http1, "refused", checkRefusals),
  ],
  chunkedChecks: [
    ...left(checks, chunkedCheck, { ...heads, ...checked }),
    ...sent(checks, chunkedCheck, "refused", checkRefusals),
  ],
  calls: [
    ...left(calls, { ...grpc, prelude: async () => {} }, nothing),
    ...left(calls, grpc, { "after its preface": () => {}, ...heads, ...called }, http2Ways),
    // One whose client stays does not end: a drain ends it.
    ...left(calls, grpc, watched, http2WaysOfLeaving),
    ...sent(calls, grpc, "refused", grpcRefusals),
  ],
  callViolations: sent(calls, grpc, "against the protocol", violations(openCall)),
  admin: [
    ...left(admin, http1, { ...nothing, ...heads, ...scraped }, leavesFirst),
    ...left(admin, http1, heads, { stays }),
    ...sent(admin, http1, "refused", adminRefusals),
  ],
  handshakes: [
    ...left(port, http1, firstBytes(hellos)),
    ...left(otherProtocol, http1, nothing, { "asks for an unknown protocol": stays }),
  ],
  proxyHeaders: [
    ...left(port, http1, firstBytes(proxyHeaders)),
    ...left(proxied, http1, { ...nothing, ...heads, ...forwarded }),
  ],
  bounds: [
    ...left(anyone, http1, { ...nothing, ...heads, ...asked }, { "stays, with more than may be": stays }),
    ...left(port, http1, asked, { "stays, with more than one may have": stays }),
    ...sent(port, http1, "more requests than a connection may carry", {
      "3 at once": `${http1.request("/v2/ok")}`.repeat(3),
    }),
  ],
  boundsOverTls: left(anyoneByTls, http1, { ...nothing, ...heads }, { "stays, with more than may be": stays }),
  upstreamOverTls: [...left(port, http1, forwarded), ...responded(port, http1, responses)],
  unavailable: [
    ...responded(port, http1, ["whole"]),
    ...sent(port, http1, "refused", { "an upload": http1.upload("/v2/ok") }),
  ],
  reloads: [reloaded(port, http1, { ...forwarded, ...tunnelled })],
  drains: [
    drained(port, http1, { ...http1Moments, ...tunnelled }),
    drained(checks, check, checked),
    drained(calls, grpc, { ...called, ...watched }),
  ],
  drainsOverTls: [drained(tls, http1, overTls), drained(h2, http2, { ...heads, ...forwarded })],
} satisfies Readonly<Record<string, readonly Ending[]>>;

const silent = forwarded["while the upstream is silent"];

export const occupants = {
  http1: { connect: port, carrier: http1, moment: silent },
  http1OverTls: { connect: tls, carrier: http1, moment: silent },
  http2: { connect: h2, carrier: http2, moment: silent },
  tunnels: { connect: port, carrier: http1, moment: tunnelled["in a tunnel"] },
  tunnelsOverTls: { connect: tls, carrier: http1, moment: tunnelled["in a tunnel"] },
  checks: { connect: checks, carrier: check, moment: checked["after an answer"] },
  chunkedChecks: { connect: checks, carrier: chunkedCheck, moment: checked["after an answer"] },
  calls: { connect: calls, carrier: grpc, moment: called["after an answer"] },
  proxied: { connect: proxied, carrier: http1, moment: silent },
} satisfies Readonly<Record<string, Occupant>>;
