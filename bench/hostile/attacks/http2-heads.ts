// Request heads over HTTP/2 that cost more than their bytes: HPACK, CONTINUATION, and what a head says.
import { type Attack, text } from "../attack.ts";
import { again, type StreamOptions, stream } from "../stream.ts";
import { oddTarget } from "./heads.ts";
import {
  block,
  flags,
  frame,
  hasGoaway,
  headers,
  newestEntry,
  preface,
  streamOf,
  tableEntry,
  types,
  withStream,
} from "./http2-bytes.ts";

const getBlock = block("GET", "/v1/ok");

export function http2(name: string, what: string, options: StreamOptions): Attack {
  return {
    name,
    carrier: "http2",
    what,
    send: stream({ alpn: ["h2"], prelude: preface(), leavesOn: hasGoaway, ...options }),
  };
}

/** A head in each stream, always the same. */
export function heads2(name: string, what: string, fields: Buffer, more: Partial<StreamOptions> = {}): Attack {
  const frames = headers(1, fields);
  return http2(name, what, { connections: 4, next: (i) => withStream(frames, streamOf(i)), requests: 1, ...more });
}

/** An entry is put into the table by the first head and then referenced by all others. */
function references(
  name: string,
  what: string,
  value: string,
  count: number,
  more: Partial<StreamOptions> = {},
): Attack {
  const first = headers(1, Buffer.concat([getBlock, tableEntry("x", value)]));
  const later = headers(3, Buffer.concat([getBlock, Buffer.alloc(count, newestEntry)]));
  const next = (i: number): Buffer => (i === 0 ? first : withStream(later, streamOf(i)));
  return http2(name, what, { next, requests: 1, bytesPerSecond: 110_000, ...more });
}

const goodEntry = "x".repeat(4000);
const badEntry = `${"x".repeat(3999)}\x01`;

const continued = frame(types.headers, flags.endStream, 1, getBlock);

export const http2Heads: readonly Attack[] = [
  references("hpack-references-bad", "16,000 references to a 4,000 byte entry with a bad byte", badEntry, 16_000),
  references("hpack-references-bad-110k", "110,000 references to it", badEntry, 110_000, { bytesPerSecond: 220_000 }),
  references("hpack-references-bad-200", "200 references to it, short heads", badEntry, 200, {
    bytesPerSecond: 500_000,
  }),
  references("hpack-references", "16,000 references to an entry of 4,000 good bytes", goodEntry, 16_000),
  references("hpack-references-few", "7 references to it, which a head may have", goodEntry, 7, {
    bytesPerSecond: 300_000,
  }),
  heads2(
    "hpack-table-size",
    "16,000 updates of the table's size",
    Buffer.concat([Buffer.alloc(16_000, 0x20), getBlock]),
  ),
  heads2(
    "hpack-table-filled",
    "new entries that replace each other",
    Buffer.concat([getBlock, ...Array.from({ length: 180 }, (_, i) => tableEntry(`x${i}`, "y".repeat(60)))]),
  ),
  heads2(
    "hpack-static-fields",
    "15,000 empty cookies by their index",
    Buffer.concat([getBlock, Buffer.alloc(15_000, 0xa0)]),
  ),
  heads2(
    "hpack-huffman",
    "a value of 15 KB in Huffman code",
    Buffer.concat([getBlock, Buffer.from([0, 1, 0x78, 0xff, 0x99, 0x74]), Buffer.alloc(15_000, 0x18)]),
  ),
  heads2(
    "hpack-integer-long",
    "an integer that does not end",
    Buffer.concat([getBlock, Buffer.from([0xff]), Buffer.alloc(1000, 0x80)]),
  ),
  http2("continuation-endless", "CONTINUATION with a byte each, without end", {
    prelude: Buffer.concat([preface(), continued]),
    preludeRequests: 1,
    next: again(Buffer.concat(Array.from({ length: 140 }, () => frame(types.continuation, 0, 1, "\0")))),
  }),
  http2("continuation-empty", "empty CONTINUATION, without end", {
    prelude: Buffer.concat([preface(), continued]),
    preludeRequests: 1,
    next: again(Buffer.concat(Array.from({ length: 150 }, () => frame(types.continuation, 0, 1)))),
  }),
  http2("continuation-full", "CONTINUATION of 16 KiB with one field, without end", {
    prelude: Buffer.concat([preface(), continued]),
    preludeRequests: 1,
    next: again(
      frame(
        types.continuation,
        0,
        1,
        Buffer.concat([Buffer.from([0, 1, 0x78, 0x7f, 0xf5, 0x7e]), Buffer.alloc(16_372, "x")]),
      ),
    ),
  }),
  heads2(
    "http2-fields-shortest",
    "5,000 of the shortest fields",
    Buffer.concat([getBlock, ...Array.from({ length: 5000 }, () => Buffer.from([0, 1, 0x78, 0]))]),
  ),
  heads2(
    "http2-fields-190",
    "190 different fields",
    Buffer.concat([getBlock, ...Array.from({ length: 190 }, (_, i) => fieldOf(`x-${i}`, "y".repeat(60)))]),
  ),
  heads2("http2-field-15-kb", "one field of 15 KB", Buffer.concat([getBlock, fieldOf("x-long", "x".repeat(15_000))])),
  heads2("http2-target-odd", "8 KB targets of odd characters", block("GET", oddTarget)),
  heads2("http2-names-upper", "names in upper case", Buffer.concat([getBlock, fieldOf("X-Upper", "x")]), {
    bytesPerSecond: 300_000,
  }),
  heads2("http2-not-found", "404", block("GET", "/none"), { bytesPerSecond: 300_000 }),
  heads2("http2-throttled", "429", getBlock, { bytesPerSecond: 300_000 }),
  heads2("http2-connect", "CONNECT", block("CONNECT", "/"), { bytesPerSecond: 300_000 }),
  heads2("http2-no-path", "heads without a path", text("\0\x07:method\x03GET"), { bytesPerSecond: 300_000 }),
  heads2("http2-trailers", "trailers after an empty body, 15 KB", getBlock, {
    next: (i) => {
      const stream = streamOf(i);
      return Buffer.concat([
        headers(stream, block("POST", "/v1/ok"), flags.none),
        headers(stream, fieldOf("x-long", "x".repeat(15_000))),
      ]);
    },
  }),
  http2("http2-head-1-byte-records", "heads in TLS records of one byte", {
    connections: 8,
    next: (i) => headers(streamOf(i), getBlock),
    requests: 1,
    packetBytes: 1,
  }),
];

function fieldOf(name: string, value: string): Buffer {
  const literal = tableEntry(name, value);
  literal[0] = 0;
  return literal;
}
