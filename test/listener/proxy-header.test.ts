import { isIPv4, isIPv6 } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseIpAddress } from "../../src/core/ip-address.ts";
import { type ProxyHeader, readProxyHeader } from "../../src/listener/proxy-header.ts";
import { binaryHeader, ipv4Block, ipv6Block, signature } from "../support/proxy-headers.ts";
import { runs, scaled } from "../support/runs.ts";

const bytesOf = (text: string): Buffer => Buffer.from(text, "latin1");
const complete = (bytes: Uint8Array, source: string | null): ProxyHeader => ({
  kind: "complete",
  byteCount: bytes.length,
  source,
});

/** What the first answer is when the bytes come one at a time. */
function dripped(bytes: Uint8Array): ProxyHeader {
  for (let length = 0; length <= bytes.length; length += 1) {
    const header = readProxyHeader(bytes.subarray(0, length));
    if (header.kind !== "incomplete") return header;
  }
  return { kind: "incomplete" };
}

const longest6 = `PROXY TCP6 ${"ffff:".repeat(7)}ffff ${"ffff:".repeat(7)}ffff 65535 65535\r\n`;

const accepted: [claim: string, bytes: Buffer, source: string | null][] = [
  ["TCP4", bytesOf("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"), "192.0.2.1"],
  ["TCP4 at its longest", bytesOf("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"), "255.255.255.255"],
  ["TCP4 at its shortest", bytesOf("PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n"), "0.0.0.0"],
  ["TCP6", bytesOf("PROXY TCP6 2001:DB8::1 ::1 1 2\r\n"), "2001:DB8::1"],
  ["TCP6 at its longest", bytesOf(longest6), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
  ["TCP6, mapped", bytesOf("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n"), "::ffff:192.0.2.1"],
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
  [
    "v2 of the largest size",
    binaryHeader(0x21, 0x11, Buffer.concat([ipv4Block([1, 2, 3, 4]), Buffer.alloc(4084)])),
    "1.2.3.4",
  ],
  ["v2 over a UNIX stream", binaryHeader(0x21, 0x31, Buffer.alloc(216, 0x2f)), null],
  ["v2 unspecified", binaryHeader(0x21, 0x00, Buffer.alloc(0)), null],
  ["v2 unspecified with addresses", binaryHeader(0x21, 0x00, ipv4Block([6, 6, 6, 6])), null],
  ["v2 LOCAL", binaryHeader(0x20, 0x00, Buffer.alloc(0)), null],
  ["v2 LOCAL with addresses", binaryHeader(0x20, 0x11, ipv4Block([6, 6, 6, 6])), null],
  ["v2 LOCAL with a datagram's family", binaryHeader(0x20, 0x12, Buffer.alloc(3)), null],
  ["v2 LOCAL with TLVs", binaryHeader(0x20, 0x00, Buffer.alloc(4096, 1)), null],
];

describe.each(accepted)("%s", (_, bytes, source) => {
  test("is a header, and what stands behind it is not part of it", () => {
    expect(readProxyHeader(bytes)).toEqual(complete(bytes, source));
    for (const behind of ["GET / HTTP/1.1\r\n", "\r\n", "\0", "PROXY UNKNOWN\r\n"]) {
      expect(readProxyHeader(Buffer.concat([bytes, bytesOf(behind)]))).toEqual(complete(bytes, source));
    }
  });

  test("is incomplete at every byte before its end", () => {
    for (let length = 0; length < bytes.length; length += 1) {
      expect(readProxyHeader(bytes.subarray(0, length)), `${length}`).toEqual({ kind: "incomplete" });
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
    "PROXY TCP4 1.2.3.4 ::1 1 2\r\n",
    "PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
    "PROXY TCP6 ::1 1.2.3.4 1 2\r\n",
    "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
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
  ["v2 above the largest size", binaryHeader(0x21, 0x11, Buffer.alloc(4097))],
  ["LOCAL above the largest size", binaryHeader(0x20, 0x00, Buffer.alloc(65535))],
];

test.each(refused)("%s is refused", (_, bytes) => {
  expect(readProxyHeader(bytes)).toEqual({ kind: "invalid" });
  expect(dripped(bytes)).toEqual({ kind: "invalid" });
});

test("what can be no header is refused at once, without waiting for its end", () => {
  for (const text of [
    "G",
    "PROXX",
    "\r\n\r\n\0\r\nQUIX",
    `${signature}\x31`,
    `${signature}\x21\x12`,
    `${signature}\x21\x11\x20`,
  ]) {
    expect(readProxyHeader(bytesOf(text)), JSON.stringify(text)).toEqual({ kind: "invalid" });
  }
});

/**
 * The specification read another way: on the whole, with node:net's idea of an address. Null where it is refused or
 * unfinished.
 */
function reference(bytes: Buffer): { byteCount: number; source: string | null } | null {
  const text = bytes.toString("latin1");
  if (text.startsWith(signature) && bytes.length >= 16) {
    const [length, local] = [bytes.readUInt16BE(14), bytes[12] === 0x20];
    if (length > 4096 || bytes.length < 16 + length || (bytes[12] !== 0x21 && !local)) return null;
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
    return { byteCount: 16 + length, source: sources.get(need) ?? null };
  }
  const line = text.split("\n", 1)[0] ?? "";
  const words = line.slice(0, -1).split(" ");
  if (!line.endsWith("\r") || line.slice(0, -1).includes("\r") || line.length === text.length || line.length > 106)
    return null;
  const [proxy, kind, source = "", destination = "", ...ports] = words;
  if (proxy !== "PROXY") return null;
  if (kind === "UNKNOWN") return { byteCount: line.length + 1, source: null };
  const isAddress = new Map([
    ["TCP4", isIPv4],
    ["TCP6", isIPv6],
  ]).get(kind ?? "");
  if (isAddress === undefined || ports.length !== 2 || line.includes("%")) return null;
  const isPort = (port: string) => /^(0|[1-9]\d*)$/.test(port) && Number(port) < 65536;
  return isAddress(source) && isAddress(destination) && ports.every(isPort)
    ? { byteCount: line.length + 1, source }
    : null;
}

/** Headers with some bytes changed, taken out, doubled or cut off, and bytes that were never one. */
const nearly = fc.oneof(
  fc
    .record({
      bytes: fc.constantFrom(...accepted.map(([, bytes]) => bytes)),
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
    fc.property(nearly, (bytes) => {
      const header = readProxyHeader(bytes);
      const expected = reference(bytes);
      if (header.kind !== "complete") {
        expect(expected).toBeNull();
      } else {
        acceptedCount += 1;
        expect(header.byteCount).toBe(expected?.byteCount);
        expect(header.source && parseIpAddress(header.source)).toEqual(
          expected?.source && parseIpAddress(expected.source),
        );
      }
      expect(dripped(bytes)).toEqual(header);
    }),
    runs(5_000),
  );
  expect(acceptedCount).toBeGreaterThan(scaled(500));
});
