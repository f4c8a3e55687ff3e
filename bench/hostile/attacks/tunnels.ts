// Tunnels: WebSockets that are held, opened and closed, or filled while nobody reads.
import { type Attack, text } from "../attack.ts";
import { again, type StreamOptions, stream } from "../stream.ts";
import { requestHead, unlimited } from "./requests.ts";

const fields =
  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const upgrade = (path: string, more = ""): Buffer => requestHead("GET", path, `${fields}${more}`);
const silent = (): null => null;

function tunnel(name: string, what: string, options: StreamOptions, keys: Attack["keys"] = {}): Attack {
  return { name, carrier: "tunnel", what, keys, others: "upgrade", send: stream({ preludeRequests: 1, ...options }) };
}

/** Masked WebSocket frames of one byte. */
const frames = Buffer.from(Array.from({ length: 200 }, () => [0x81, 0x81, 0, 0, 0, 0, 0x78]).flat());

export const tunnelAttacks: readonly Attack[] = [
  tunnel(
    "tunnels-held",
    "100 WebSockets, with 100 tunnels in all, held",
    { connections: 100, prelude: upgrade("/v1/tunnel/echo"), next: silent },
    { upgrade: { maxTunnels: 100 } },
  ),
  tunnel("tunnel-frames-1-byte", "WebSocket frames of one byte, echoed", {
    prelude: upgrade("/v1/tunnel/echo"),
    next: again(frames),
  }),
  tunnel("tunnel-1-byte-packets", "packets of one byte, echoed", {
    prelude: upgrade("/v1/tunnel/echo"),
    next: again(frames),
    packetBytes: 1,
  }),
  tunnel("tunnel-unread-by-upstream", "bytes that the upstream does not read, 50 tunnels", {
    connections: 50,
    prelude: upgrade("/v1/tunnel/hold"),
    next: again(Buffer.alloc(16_000)),
    bytesPerSecond: 50_000_000,
  }),
  tunnel("tunnel-unread-by-client", "32 MiB from the upstream that the client does not read, 20 tunnels", {
    connections: 20,
    reads: false,
    prelude: upgrade("/v1/tunnel/pour"),
    next: silent,
  }),
  {
    ...tunnel(
      "tunnels-streaming",
      "100 WebSockets that get 20 messages of 1 KB a second each",
      { connections: 100, prelude: upgrade("/v1/tunnel/stream"), next: silent },
      unlimited,
    ),
    others: "kept",
  },
  tunnel(
    "tunnels-opened",
    "tunnels opened and closed",
    {
      connections: 10,
      prelude: upgrade("/v1/tunnel/echo"),
      next: again(text("x")),
      closesAfter: 1,
      bytesPerSecond: 150_000,
    },
    unlimited,
  ),
  tunnel("upgrade-early-bytes", "an Upgrade with 16 KB of bytes behind it", {
    connections: 10,
    prelude: Buffer.concat([upgrade("/v1/tunnel/echo"), Buffer.alloc(16_000, "x")]),
    next: silent,
    closesAfter: 0,
  }),
  tunnel("upgrade-other-protocols", "an Upgrade to 1,000 other protocols", {
    connections: 4,
    next: again(requestHead("GET", "/v1/ok", `Connection: Upgrade\r\nUpgrade: ${"a/1,".repeat(1000)}b\r\n`)),
    requests: 1,
    preludeRequests: 0,
  }),
  tunnel("upgrade-with-body", "an Upgrade of a POST with a body in small chunks", {
    prelude: requestHead("POST", "/v1/ok", `${fields}Transfer-Encoding: chunked\r\n`),
    next: again(text("1\r\nx\r\n".repeat(200))),
  }),
];
