import { isIP, isIPv4, isIPv6 } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseIpAddress } from "../../src/core/ip-address.ts";
import type { Scheme } from "../../src/core/settings.ts";
import { type ProxyHeader, ProxyHeaderReader } from "../../src/listener/proxy-header.ts";
import { binaryHeader, ipv4Block, ipv6Block, signature, tlsTlv, tlv } from "../support/proxy-headers.ts";
import { runs, scaled } from "../support/runs.ts";

const bytesOf = (text: string): Buffer => Buffer.from(text, "latin1");
const readProxyHeader = (bytes: Uint8Array): ProxyHeader => new ProxyHeaderReader().read(bytes);
const complete = (bytes: Uint8Array, source: string | null, scheme: Scheme | null = null): ProxyHeader => ({
  kind: "complete",
  taken: bytes.length,
  source,
  scheme,
});

/** The addresses of an unfinished header, and the head of a TLV. */
const mostUnread = 16 + 216 + 3;

/** What the first answer is when the bytes come in pieces; `taken` counts all. No more than `mostUnread` bytes are kept. */
function inPieces(bytes: Uint8Array, sizes: readonly number[]): ProxyHeader {
  const reader = new ProxyHeaderReader();
  let taken = 0;
  let kept = 0;
  for (let end = 0, i = 0; end < bytes.length; i += 1) {
    end += sizes[i % sizes.length] ?? 1;
    const header = reader.read(bytes.subarray(taken, end));
    if (header.kind === "invalid") return header;
    taken += header.taken;
    if (header.kind === "complete") {
      expect(kept).toBeLessThanOrEqual(mostUnread);
      return { ...header, taken };
    }
    kept = Math.max(kept, Math.min(end, bytes.length) - taken);
  }
  return { kind: "incomplete", taken };
}

const dripped = (bytes: Uint8Array): ProxyHeader => inPieces(bytes, [1]);

const longest6 = `PROXY TCP6 ${"ffff:".repeat(7)}ffff ${"ffff:".repeat(7)}ffff 65535 65535\r\n`;

const with4 = (...tlvs: Buffer[]): Buffer =>
  binaryHeader(0x21, 0x11, Buffer.concat([ipv4Block([1, 2, 3, 4]), ...tlvs]));
const largest = 65_535;

const accepted: [claim: string, bytes: Buffer, source: string | null, scheme?: Scheme][] = [
  ["TCP4", bytesOf("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"), "192.0.2.1"],
  ["TCP4 at its longest", bytesOf("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"), "255.255.255.255"],
  ["TCP4 at its shortest", bytesOf("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n"), "0.0.0.0"],
  ["TCP6", bytesOf("PROXY TCP6 2001:DB8::1 ::1 1 2\r\n"), "2001:DB8::1"],
  ["TCP6 at its longest", bytesOf(longest6), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["TCP6, mapped", bytesOf("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n"), "::ffff:192.0.2.1"],
  [
    "TCP6 to an IPv4 destination, as nginx writes it",
    bytesOf("PROXY TCP6 2001:db8::1 192.0.2.1 51512 443\r\n"),
    "2001:db8::1",
  ],
  ["TCP4 to an IPv6 destination", bytesOf("PROXY TCP4 198.51.100.7 2001:db8::2 1 2\r\n"), "198.51.100.7"],
  [
    "TCP6 with zones, as stunnel and hitch write them",
    bytesOf("PROXY TCP6 fe80::fc:ff:fe00:1%eth0 fe80::1%br-lan.100 1 2\r\n"),
    "fe80::fc:ff:fe00:1%eth0",
  ],
  ["TCP6 to a mapped destination", bytesOf("PROXY TCP6 2001:db8::1 ::ffff:192.0.2.1 1 2\r\n"), "2001:db8::1"],
  ["UNKNOWN alone", bytesOf("PROXY UNKNOWN\r\n"), null],
  ["UNKNOWN with addresses", bytesOf("PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n"), null],
  ["UNKNOWN with anything", bytesOf("PROXY UNKNOWN \0\x01\xff PROXY TCP4 6.6.6.6\r\n"), null],
  ["UNKNOWN of 107 bytes", bytesOf(`PROXY UNKNOWN ${"x".repeat(91)}\r\n`), null],
  ["v2 over IPv4", binaryHeader(0x21, 0x11, ipv4Block([192, 0, 2, 1])), "192.0.2.1"],
  ["v2 over IPv6", binaryHeader(0x21, 0x21, ipv6Block("20010db8000000000000000000000001")), "2001:db8::1"],
  ["v2 over IPv6, mapped", binaryHeader(0x21, 0x21, ipv6Block("00000000000000000000ffffc0000201")), "192.0.2.1"],
  [
    "v2 with TLVs",
    binaryHeader(0x21, 0x11, Buffer.concat([ipv4Block([1, 2, 3, 4]), Buffer.alloc(84, 0xea)])),
    "1.2.3.4",
  ],
  ["v2 of the largest size", with4(Buffer.alloc(largest - 12)), "1.2.3.4"],
  ["v2 with the largest TLV", with4(tlv(0xe0, new Array(largest - 12 - 3).fill(0x20))), "1.2.3.4"],
  ["v2 of a client that came by TLS", with4(tlsTlv(0x01)), "1.2.3.4", "https"],
  ["v2 of a client with a certificate", with4(tlsTlv(0x07)), "1.2.3.4", "https"],
  ["v2 that says: not by TLS", with4(tlsTlv(0x00)), "1.2.3.4", "http"],
  ["v2 with a certificate of a session, and no TLS", with4(tlsTlv(0x04)), "1.2.3.4", "http"],
  [
    "v2 with TLS behind others",
    with4(tlv(0x01, [0x68, 0x32]), tlv(4, []), tlv(5, [0x20, 0, 5, 1]), tlsTlv(1)),
    "1.2.3.4",
    "https",
  ],
  ["v2 with TLS before others", with4(tlsTlv(1), tlv(0xee, [1, 2, 3])), "1.2.3.4", "https"],
  ["v2 with TLS behind 60 KB", with4(tlv(0xee, new Array(60_000).fill(0)), tlsTlv(1)), "1.2.3.4", "https"],
  ["v2 with two TLS TLVs that differ", with4(tlsTlv(1), tlsTlv(0)), "1.2.3.4", "http"],
  ["v2 with two TLS TLVs that differ, the other way", with4(tlsTlv(0), tlsTlv(1)), "1.2.3.4", "http"],
  ["v2 with TLS and the head of a TLV", with4(tlsTlv(1), Buffer.from([4, 0])), "1.2.3.4", "https"],
  ["v2 with TLS and a TLV that is too long for the header", with4(tlsTlv(1), tlv(0xee, [1], 5)), "1.2.3.4", "https"],
  ["v2 whose TLS TLV is too long for the header", with4(tlv(0x20, [1, 0, 0, 0, 0], 6)), "1.2.3.4"],
  ["v2 whose TLS TLV has no verification", with4(tlv(0x20, [1, 0, 0, 0])), "1.2.3.4"],
  ["v2 whose TLS TLV is within another one", with4(tlv(0xe0, [...tlsTlv(1)])), "1.2.3.4"],
  [
    "v2 over IPv6 by TLS",
    binaryHeader(0x21, 0x21, Buffer.concat([ipv6Block("20010db8000000000000000000000001"), tlsTlv(1)])),
    "2001:db8::1",
    "https",
  ],
  [
    "v2 over a UNIX stream by TLS",
    binaryHeader(0x21, 0x31, Buffer.concat([Buffer.alloc(216, 0x2f), tlsTlv(1)])),
    null,
    "https",
  ],
  ["v2 unspecified with TLVs, whose place is unknown", binaryHeader(0x21, 0x00, tlsTlv(1)), null],
  ["v2 LOCAL with a TLS TLV", binaryHeader(0x20, 0x11, Buffer.concat([ipv4Block([6, 6, 6, 6]), tlsTlv(1)])), null],
  ["v2 over a UNIX stream", binaryHeader(0x21, 0x31, Buffer.alloc(216, 0x2f)), null],
  ["v2 unspecified", binaryHeader(0x21, 0x00, Buffer.alloc(0)), null],
  ["v2 unspecified with addresses", binaryHeader(0x21, 0x00, ipv4Block([6, 6, 6, 6])), null],
  ["v2 LOCAL", binaryHeader(0x20, 0x00, Buffer.alloc(0)), null],
  ["v2 LOCAL with addresses", binaryHeader(0x20, 0x11, ipv4Block([6, 6, 6, 6])), null],
  ["v2 LOCAL with a datagram's family", binaryHeader(0x20, 0x12, Buffer.alloc(3)), null],
  ["v2 LOCAL with TLVs", binaryHeader(0x20, 0x00, Buffer.alloc(4096, 1)), null],
  ["v2 LOCAL of the largest size", binaryHeader(0x20, 0x00, Buffer.alloc(largest, 0x20)), null],
];

describe.each(accepted)("%s", (_, bytes, source, scheme) => {
  const whole = complete(bytes, source, scheme);

  test("is a header, and what stands behind it is not part of it", () => {
    expect(readProxyHeader(bytes)).toEqual(whole);
    for (const behind of ["GET / HTTP/1.1\r\n", "\r\n", "\0", "PROXY UNKNOWN\r\n", tlsTlv(1).toString("latin1")]) {
      expect(readProxyHeader(Buffer.concat([bytes, bytesOf(behind)]))).toEqual(whole);
    }
  });

  test("is incomplete at every byte before its end", () => {
    // Of the large ones, the first bytes and the last.
    const lengths = Array.from(bytes, (_, length) => length).filter((at) => at < 400 || at > bytes.length - 100);
    for (const length of lengths) {
      expect(readProxyHeader(bytes.subarray(0, length)), `${length}`).toMatchObject({ kind: "incomplete" });
    }
  });

  test("is the same in pieces of any size, and its TLVs are not kept", () => {
    for (const sizes of [[1], [2], [3], [4], [5, 1, 1], [16], [17, 3], [300], [bytes.length - 1, 1]]) {
      expect(inPieces(bytes, sizes), `${sizes}`).toEqual(whole);
    }
  });
});

const refused: [claim: string, bytes: Buffer][] = [
  ...[
    "GET / HTTP/1.1\r\n",
    "proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
    " PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY\r\n",
    "PROXY \r\n",
    "PROXY  UNKNOWN\r\n",
    "PROXY unknown\r\n",
    "PROXY UNKNOWNX\r\n",
    "PROXY UNKNOWN\n",
    "PROXY UNKNOWN \r \r\n",
    "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4\r\n",
    "PROXY TCP4 1.2.3.4\r\n",
    "PROXY TCP4\r\n",
    "PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY TCP4\t1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3 1 2\r\n",
    "PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n",
    "PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY TCP4 ::1 ::1 1 2\r\n",
    "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY TCP4 ::ffff:1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY TCP6 1.2.3.4 ::1 1 2\r\n",
    "PROXY TCP6 ::1 1.2.3 1 2\r\n",
    "PROXY TCP6 ::1 ::1:: 1 2\r\n",
    "PROXY TCP6 ::1 unknown 1 2\r\n",
    "PROXY TCP6 fe80::1% ::1 1 2\r\n",
    "PROXY TCP6 fe80::1%eth0%eth1 ::1 1 2\r\n",
    "PROXY TCP6 fe80::1%eth\xff ::1 1 2\r\n",
    "PROXY TCP6 %eth0 ::1 1 2\r\n",
    "PROXY TCP4 1.2.3.4%eth0 1.2.3.4 1 2\r\n",
    "PROXY TCP6 [::1] ::1 1 2\r\n",
    "PROXY TCP6 ::1::2 ::1 1 2\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n",
    "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
    "PROXY TCP4 unknown 1.2.3.4 1 2\r\n",
    "PROXY TCP4 1.2.3.4,6.6.6.6 1.2.3.4 1 2\r\n",
    `PROXY UNKNOWN ${"x".repeat(92)}\r\n`,
    `PROXY TCP4 ${"1".repeat(200)}`,
  ].map((line): [string, Buffer] => [JSON.stringify(line).slice(0, 60), bytesOf(line)]),
  ["the signature's first bytes and no more of it", bytesOf("\r\n\r\nGET / HTTP/1.1\r\n")],
  ["a last byte of the signature that is another", bytesOf(`${signature.slice(0, 11)}\r\x21\x11\0\x0c`)],
  ...[0x00, 0x01, 0x10, 0x11, 0x22, 0x2f, 0x31, 0x12, 0xff].map((version): [string, Buffer] => [
    `version and command ${version}`,
    binaryHeader(version, 0x11, ipv4Block([1, 2, 3, 4])),
  ]),
  ...[0x01, 0x02, 0x10, 0x12, 0x13, 0x20, 0x22, 0x30, 0x32, 0x41, 0xff].map((protocol): [string, Buffer] => [
    `protocol ${protocol}`,
    binaryHeader(0x21, protocol, Buffer.alloc(216, 1)),
  ]),
  ["IPv4 addresses that are cut short", binaryHeader(0x21, 0x11, Buffer.alloc(11))],
  ["IPv6 addresses that are cut short", binaryHeader(0x21, 0x21, Buffer.alloc(35))],
  ["UNIX addresses that are cut short", binaryHeader(0x21, 0x31, Buffer.alloc(215))],
];

test.each(refused)("%s is refused", (_, bytes) => {
  expect(readProxyHeader(bytes)).toEqual({ kind: "invalid" });
  expect(dripped(bytes)).toEqual({ kind: "invalid" });
});

test("what can be no header is refused at once, without waiting for its end", () => {
  for (const text of ["G", "PROXX", "\r\n\r\n\0\r\nQUIX", `${signature}\x31`, `${signature}\x21\x12`]) {
    expect(readProxyHeader(bytesOf(text)), JSON.stringify(text)).toEqual({ kind: "invalid" });
  }
});

/**
 * The specification read another way: on the whole, with node:net's idea of an address. Null where it is refused or
 * unfinished.
 */
function reference(bytes: Buffer): { taken: number; source: string | null; scheme: Scheme | null } | null {
  const text = bytes.toString("latin1");
  if (text.startsWith(signature) && bytes.length >= 16) {
    const [length, local] = [bytes.readUInt16BE(14), bytes[12] === 0x20];
    if (bytes.length < 16 + length || (bytes[12] !== 0x21 && !local)) return null;
    const need = new Map([
      [0x00, 0],
      [0x11, 12],
      [0x21, 36],
      [0x31, 216],
    ]).get(local ? 0 : (bytes[13] ?? 0));
    if (need === undefined || need > length) return null;
    const hex = bytes.toString("hex", 16, 32).replace(/(.{4})(?=.)/g, "$1:");
    const sources = new Map([
      [12, [...bytes.subarray(16, 20)].join(".")],
      [36, hex],
    ]);
    const scheme = need === 0 ? null : schemeIn(bytes.subarray(16 + need, 16 + length));
    return { taken: 16 + length, source: sources.get(need) ?? null, scheme };
  }
  const line = text.split("\n", 1)[0] ?? "";
  const words = line.slice(0, -1).split(" ");
  if (!line.endsWith("\r") || line.slice(0, -1).includes("\r") || line.length === text.length || line.length > 106)
    return null;
  const [proxy, kind, source = "", destination = "", ...ports] = words;
  if (proxy !== "PROXY") return null;
  if (kind === "UNKNOWN") return { taken: line.length + 1, source: null, scheme: null };
  const isAddress = new Map([
    ["TCP4", isIPv4],
    ["TCP6", isIPv6],
  ]).get(kind ?? "");
  if (isAddress === undefined || ports.length !== 2) return null;
  const isPort = (port: string) => /^(0|[1-9]\d*)$/.test(port) && Number(port) < 65536;
  // node:net knows no zone of all these characters.
  const zoned = [source, destination].map((text) => /^(.*:.*)%[\w.-]+$/.exec(text)?.[1] ?? text);
  const [from = "", to = ""] = zoned;
  if (zoned.some((text) => text.includes("%"))) return null;
  return isAddress(from) && isIP(to) !== 0 && ports.every(isPort)
    ? { taken: line.length + 1, source, scheme: null }
    : null;
}

/** The TLVs as a list, up to the first that is cut off. */
function schemeIn(bytes: Buffer): Scheme | null {
  const said: boolean[] = [];
  let rest = bytes;
  while (rest.length >= 3 && rest.length >= 3 + rest.readUInt16BE(1)) {
    const value = rest.subarray(3, 3 + rest.readUInt16BE(1));
    if (rest[0] === 0x20 && value.length >= 5) said.push(((value[0] ?? 0) & 1) === 1);
    rest = rest.subarray(3 + value.length);
  }
  if (said.length === 0) return null;
  return said.every((isTls) => isTls) ? "https" : "http";
}

/** TLVs of few types, some of which say another length than they have. */
const tlvs = fc
  .array(
    fc.record({
      type: fc.constantFrom(0x20, 0x20, 0x04, 0xee),
      value: fc.array(fc.constantFrom(0, 1, 0x20, 5), { maxLength: 9 }),
      more: fc.constantFrom(0, 0, 0, 0, 1, -1, 300),
    }),
    { maxLength: 5 },
  )
  .map((list) =>
    Buffer.concat(list.map(({ type, value, more }) => tlv(type, value, Math.max(0, value.length + more)))),
  );

/** Headers with some bytes changed, taken out, doubled or cut off, and bytes that were never one. */
const nearly = fc.oneof(
  fc.tuple(fc.constantFrom(0x20, 0x21), fc.constantFrom(0x00, 0x11), tlvs).map(([version, protocol, list]) => {
    return binaryHeader(version, protocol, Buffer.concat([ipv4Block([1, 2, 3, 4]), list]));
  }),
  fc
    .record({
      bytes: fc.constantFrom(...accepted.map(([, bytes]) => bytes).filter(({ length }) => length < 400)),
      edits: fc.array(
        fc.record({
          at: fc.nat({ max: 120 }),
          to: fc.oneof(fc.nat({ max: 255 }), fc.constantFrom(10, 13, 32, 48, 58, 0x11, 0x21)),
          kind: fc.nat({ max: 3 }),
        }),
        { maxLength: 3 },
      ),
      behind: fc.uint8Array({ maxLength: 8 }),
    })
    .map(({ bytes, edits, behind }) => {
      let edited = Buffer.concat([bytes, behind]);
      for (const { at, to, kind } of edits) {
        const rest = [edited.subarray(kind === 0 ? at : at + 1), edited.subarray(at)][kind === 2 ? 1 : 0] ?? edited;
        edited = kind === 3 ? edited.subarray(0, at) : Buffer.concat([edited.subarray(0, at), Buffer.from([to]), rest]);
      }
      return edited;
    }),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.concat([bytesOf(signature), bytes])),
  fc.string().map((text) => Buffer.from(`PROXY ${text}\r\n`, "latin1")),
);

test("accepts what another reading of the specification accepts, and nothing else, however it is split", () => {
  let acceptedCount = 0;
  fc.assert(
    fc.property(nearly, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 4 }), (bytes, sizes) => {
      const header = readProxyHeader(bytes);
      const expected = reference(bytes);
      if (header.kind !== "complete") {
        expect(expected).toBeNull();
      } else {
        acceptedCount += 1;
        expect([header.taken, header.scheme]).toEqual([expected?.taken, expected?.scheme]);
        expect(header.source && parseIpAddress(header.source)).toEqual(
          expected?.source && parseIpAddress(expected.source),
        );
      }
      for (const pieces of [dripped(bytes), inPieces(bytes, sizes)]) {
        // Of an unfinished header, nobody needs to know how much is taken.
        if (header.kind === "incomplete") expect(pieces.kind).toBe(header.kind);
        else expect(pieces).toEqual(header);
      }
    }),
    runs(5_000),
  );
  expect(acceptedCount).toBeGreaterThan(scaled(500));
});
