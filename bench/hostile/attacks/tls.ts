// Attacks on TLS: handshakes, records, and bytes that are not TLS.
import type { Attack, Sender } from "../attack.ts";
import { again, anything, type StreamOptions, stream } from "../stream.ts";
import { clientHello, helloWith } from "./client-hello.ts";
import { oddTarget } from "./heads.ts";
import { chunkedPost, get, repeated } from "./requests.ts";

const alpn = ["http/1.1"];
/** One piece on each connection. */
const once = (bytes: Buffer) => (i: number) => (i === 0 ? bytes : null);
const silent = (): null => null;

function tls(name: string, what: string, options: StreamOptions): Attack {
  return { name, carrier: "tls", what, send: stream(options) };
}

/** Sends a recorded ClientHello: cheap for the client, a key exchange and a signature for the server. */
function hellos(name: string, what: string, more: Partial<StreamOptions> = {}): Attack {
  const send = async (sender: Sender): Promise<void> => {
    const hello = await clientHello();
    await stream({ connections: 50, next: once(hello), leavesOn: anything, bytesPerSecond: 150_000, ...more })(sender);
  };
  return { name, carrier: "tls", what, send };
}

export const tlsAttacks: readonly Attack[] = [
  tls("handshakes", "handshakes that are completed", {
    alpn,
    connections: 20,
    next: once(get("/none")),
    requests: 1,
    leavesOn: anything,
    bytesPerSecond: 150_000,
  }),
  hellos("hellos-replayed", "a recorded ClientHello on each connection"),
  hellos("hellos-1-byte-packets", "a ClientHello in packets of one byte", {
    connections: 10,
    packetBytes: 1,
    bytesPerSecond: 1_000_000,
  }),
  hellos("hellos-held", "900 connections that stop after the ClientHello", {
    connections: 900,
    leavesOn: () => false,
  }),
  {
    name: "hellos-large",
    carrier: "tls",
    what: "a ClientHello of 16 KB",
    send: async (sender) => {
      const hello = helloWith(await clientHello(), 15_000);
      await stream({ connections: 20, next: once(hello), leavesOn: anything })(sender);
    },
  },
  tls("handshakes-aborted", "connections closed after a few bytes of TLS", {
    connections: 50,
    next: again(Buffer.from([0x16, 3, 1])),
    closesAfter: 1,
    bytesPerSecond: 200_000,
  }),
  tls("tls-garbage", "random bytes instead of TLS", {
    connections: 20,
    next: once(Buffer.alloc(1400, 0x80)),
    bytesPerSecond: 300_000,
  }),
  tls("http-on-tls", "plain HTTP on the TLS port", {
    connections: 20,
    next: once(get()),
    bytesPerSecond: 300_000,
  }),
  tls("records-1-byte", "requests in TLS records of one byte", {
    alpn,
    connections: 8,
    next: again(get()),
    requests: 1,
    packetBytes: 1,
  }),
  tls("tls-chunks-1-byte", "an upload in chunks of one byte", {
    alpn,
    prelude: chunkedPost(),
    preludeRequests: 1,
    next: again(repeated("1\r\nx\r\n", 340)),
  }),
  tls("tls-target-odd", "8 KB targets of odd characters", {
    alpn,
    connections: 8,
    next: again(get(oddTarget)),
    requests: 1,
  }),
  tls("tls-not-found", "404", {
    alpn,
    connections: 8,
    next: again(get("/none")),
    requests: 1,
    bytesPerSecond: 300_000,
  }),
  tls("tls-responses-unread", "90 responses of 8 MiB that nobody reads", {
    alpn,
    connections: 90,
    reads: false,
    prelude: get("/v1/large/8388608"),
    preludeRequests: 1,
    next: silent,
  }),
];
