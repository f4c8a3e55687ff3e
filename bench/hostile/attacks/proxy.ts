// PROXY protocol: headers that are wrong, long, slow or absent.
import { binaryHeader, ipv4Block } from "../../../test/support/proxy-headers.ts";
import { type Attack, text } from "../attack.ts";
import { type StreamOptions, stream } from "../stream.ts";
import { get } from "./requests.ts";

const close = "Connection: close\r\n";
const source = ipv4Block([192, 0, 2, 7]);
const version2 = (more: Buffer = Buffer.alloc(0)): Buffer => binaryHeader(0x21, 0x11, Buffer.concat([source, more]));
/** Empty TLVs of three bytes, as many as fit. */
const tlvs = (bytes: number): Buffer => Buffer.alloc(bytes - (bytes % 3), Buffer.from([0xe0, 0, 0]));

/** Short connections that begin with these bytes. */
function proxied(name: string, what: string, bytes: Buffer, more: Partial<StreamOptions> = {}): Attack {
  const send = stream({ connections: 20, next: (i) => (i === 0 ? bytes : null), bytesPerSecond: 200_000, ...more });
  return { name, carrier: "proxy", what, send };
}

export const proxyAttacks: readonly Attack[] = [
  proxied("proxy-v1-garbage", "a line of version 1 with wrong addresses", text("PROXY TCP4 x y z w\r\n")),
  proxied("proxy-v1-endless", "a line of version 1 that does not end", text(`PROXY TCP4 ${"1".repeat(1400)}`)),
  proxied(
    "proxy-v1-1-byte-packets",
    "a line of version 1 in packets of one byte",
    Buffer.concat([text("PROXY TCP4 192.0.2.7 198.51.100.1 56324 443\r\n"), get("/v1/ok", close)]),
    {
      packetBytes: 1,
      bytesPerSecond: 1_000_000,
    },
  ),
  proxied("proxy-v2-garbage", "a header of version 2 with a wrong version", binaryHeader(0xff, 0xff, source)),
  proxied("proxy-v2-tlvs", "64 KB of empty TLVs", version2(tlvs(65_000)), { bytesPerSecond: 2_000_000 }),
  proxied(
    "proxy-v2-tlvs-1-kb",
    "1 KB of empty TLVs before a request",
    Buffer.concat([version2(tlvs(1000)), get("/v1/ok", close)]),
    {
      requests: 1,
    },
  ),
  proxied(
    "proxy-v2-1-byte-packets",
    "a header of version 2 with 500 bytes of TLVs, in packets of one byte",
    Buffer.concat([version2(tlvs(500)), get("/v1/ok", close)]),
    {
      packetBytes: 1,
      bytesPerSecond: 1_000_000,
    },
  ),
  proxied(
    "proxy-v2-local",
    "headers of version 2 without a peer",
    Buffer.concat([binaryHeader(0x20, 0, Buffer.alloc(0)), get("/none", close)]),
    { requests: 1 },
  ),
  proxied("proxy-absent", "requests without a header", get()),
  proxied("proxy-held", "900 headers that stay incomplete", version2().subarray(0, 20), {
    connections: 900,
    next: (i) => (i === 0 ? version2().subarray(0, 20) : null),
    closesAfter: 2,
  }),
  {
    name: "proxy-many-clients",
    carrier: "proxy",
    what: "each connection names another client, which exhausts its limit of 1",
    others: "probe",
    keys: { policies: [{ name: "bench", limit: 1, window: "1s" }] },
    send: (sender) => {
      const next = (i: number): Buffer | null => {
        if (i > 0) return null;
        const client = sender.counters.requests;
        const address = ipv4Block([198, 18 + ((client >> 16) & 1), (client >> 8) & 255, client & 255]);
        return Buffer.concat([binaryHeader(0x21, 0x11, address), get("/v1/ok", close)]);
      };
      return stream({ connections: 20, next, requests: 1, bytesPerSecond: 300_000 })(sender);
    },
  },
];
