// HPACK by the examples of RFC 7541, and against nghttp2 in both directions.
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { createServer } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { linesOf } from "../../src/core/headers.ts";
import {
  codeLengths,
  decodeHuffman,
  encodeFields,
  encodeHead,
  HpackDecoder,
  noDynamicTable,
  staticTable,
} from "../../src/http2/hpack.ts";
import { useCleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";
import {
  base,
  type Field,
  NaiveEncoder,
  plain,
  pseudo,
  resizes,
  sizeOf,
  startDecoder,
  startEncoder,
} from "../support/hpack-peers.ts";
import { FrameReader, frame, frameTypes, integer, literals, text } from "../support/http2-frames.ts";
import { listen } from "../support/loopback-server.ts";

const cleanup = useCleanup();
const cases = { numRuns: 60 };

const decode = (decoder: HpackDecoder, block: Buffer) => decoder.decode(block, 0, block.length);
const hex = (text: string): Buffer => Buffer.from(text.replaceAll(" ", ""), "hex");
const request = (scheme: string, path: string, ...more: string[]): string[] => [
  ...[":method", "GET", ":scheme", scheme, ":path", path, ":authority", "www.example.com"],
  ...more,
];
const response = (status: string, seconds: string, ...more: string[]): string[] => [
  ...[":status", status, "cache-control", "private", "date", `Mon, 21 Oct 2013 20:13:${seconds} GMT`],
  ...["location", "https://www.example.com", ...more],
];
const cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
const table256 = "3fe101";

/** Each line: the blocks of one connection, and what they decode to. */
const examples: readonly (readonly [name: string, blocks: readonly string[], fields: readonly string[][]])[] = [
  ["C.2.1", ["400a637573746f6d2d6b65790d637573746f6d2d686561646572"], [["custom-key", "custom-header"]]],
  ["C.2.2", ["040c2f73616d706c652f70617468"], [[":path", "/sample/path"]]],
  ["C.2.3", ["100870617373776f726406736563726574"], [["password", "secret"]]],
  ["C.2.4", ["82"], [[":method", "GET"]]],
  [
    "C.3",
    [
      "828684410f7777772e6578616d706c652e636f6d",
      "828684be58086e6f2d6361636865",
      "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ],
    [
      request("http", "/"),
      request("http", "/", "cache-control", "no-cache"),
      request("https", "/index.html", "custom-key", "custom-value"),
    ],
  ],
  [
    "C.4",
    [
      "828684418cf1e3c2e5f23a6ba0ab90f4ff",
      "828684be5886a8eb10649cbf",
      "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ],
    [
      request("http", "/"),
      request("http", "/", "cache-control", "no-cache"),
      request("https", "/index.html", "custom-key", "custom-value"),
    ],
  ],
  [
    "C.5",
    [
      `${table256}4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54
       6e1768747470733a2f2f7777772e6578616d706c652e636f6d`.replace(/\s/g, ""),
      "4803333037c1c0bf",
      `88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d415344
       4a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31`.replace(
        /\s/g,
        "",
      ),
    ],
    [
      response("302", "21"),
      response("307", "21"),
      response("200", "22", "content-encoding", "gzip", "set-cookie", cookie),
    ],
  ],
  [
    "C.6",
    [
      `${table256}488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3`,
      "4883640effc1c0bf",
      `88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b
       3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007`.replace(/\s/g, ""),
    ],
    [
      response("302", "21"),
      response("307", "21"),
      response("200", "22", "content-encoding", "gzip", "set-cookie", cookie),
    ],
  ],
];

test.each(examples)("the example of RFC 7541, %s", (_name, blocks, fields) => {
  const decoder = new HpackDecoder();
  expect(blocks.map((block) => decode(decoder, hex(block)))).toEqual(fields);
});

test("the static table has the 61 entries of appendix A", () => {
  const decoder = new HpackDecoder();
  const all = Buffer.concat(Array.from({ length: 61 }, (_, i) => integer(i + 1, 7, 0x80)));
  expect(decode(decoder, all)).toEqual(staticTable);
  expect(staticTable.length).toBe(122);
  expect(decode(new HpackDecoder(), integer(62, 7, 0x80))).toBe("malformed");
});

test("the Huffman code is complete: its lengths use up all codes", () => {
  expect(codeLengths.length).toBe(257);
  expect(codeLengths.reduce((sum, length) => sum + 2 ** -length, 0)).toBe(1);
});

describe("what nghttp2 encodes", () => {
  test.each([4096, 300, 0])("is decoded, with a table of %d bytes", async (tableBytes) => {
    const { encode } = await startEncoder(cleanup, tableBytes);
    const decoder = new HpackDecoder();
    const name = fc.constantFrom("x-a", "x-b", "x-long-name", "accept", "user-agent");
    const value = fc.string({ unit: fc.constantFrom("a", "0", "%", "~", "é", "{", "\\"), maxLength: 80 });
    const extra = fc.uniqueArray(fc.tuple(name, value), { selector: ([key]) => key });
    const property = fc.asyncProperty(extra, async (more) => {
      const fields = [...base, ...more.map(([key, text]) => [key, text.trim()] as const)];
      expect(decode(decoder, await encode(fields))).toEqual(fields.flat());
      expect(decoder.decodedBytes).toBe(sizeOf(fields));
    });
    await fc.assert(property, cases);
  });

  test("is decoded, with each octet in a Huffman text", async () => {
    const { encode } = await startEncoder(cleanup, 4096);
    const decoder = new HpackDecoder();
    decode(decoder, await encode(base));
    let shortened = 0;
    for (let octet = 1; octet < 256; octet += 1) {
      const fields: Field[] = [...base, ["x-octet", `${"a".repeat(40)}${String.fromCharCode(octet)}${"e".repeat(40)}`]];
      const block = await encode(fields);
      if (block.length < 80) shortened += 1;
      expect(decode(decoder, block)).toEqual(fields.flat());
    }
    expect(shortened).toBe(255);
  });
});

test("blocks that no library makes are decoded as nghttp2 decodes them, whatever happens to the table", async () => {
  const block = fc.tuple(fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, resizes), plain);
  const property = fc.asyncProperty(fc.array(block, { minLength: 1, maxLength: 6 }), async (blocks) => {
    const decodeThere = await startDecoder(cleanup);
    const encoder = new NaiveEncoder();
    const decoder = new HpackDecoder();
    for (const [sizes, steps] of blocks) {
      const { block: bytes, fields } = encoder.encode([...sizes, ...pseudo, ...steps]);
      const isTooLarge = sizeOf(fields) > 32_768 || fields.length > 400;
      if (bytes.length > 16_384) return;
      if (isTooLarge) {
        expect(decode(decoder, bytes)).toBe("head_too_large");
        return;
      }
      expect(decode(decoder, bytes)).toEqual(fields.flat());
      expect(await decodeThere(bytes)).toEqual(fields);
    }
  });
  await fc.assert(property, cases);
});

test("the head of a response is encoded from its lines, each name and value as it is, names in lower case", () => {
  const name = fc.stringMatching(/^[A-Za-z-]{1,20}$/);
  const value = fc.oneof(fc.stringMatching(/^[!-~]{0,20}$/), fc.stringMatching(/^[!-~]{120,300}$/));
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 599 }), fc.array(fc.tuple(name, value)), (status, fields) => {
      const block = encodeHead(status, linesOf(fields.flat()));
      const expected = fields.flatMap(([name, value]) => [name.toLowerCase(), value]);
      const decoded = decode(new HpackDecoder(), Buffer.from(block, "latin1"));
      expect(decoded).toEqual([":status", `${status}`, ...expected]);
    }),
    cases,
  );
});

test("what is encoded is decoded by nghttp2, in HEADERS and CONTINUATION", async () => {
  const blocks: string[] = [];
  const server = createServer({ noDelay: true }, (socket) => {
    const reader = new FrameReader();
    let isFirst = true;
    let preface = 24;
    socket.on("error", () => {});
    socket.write(frame(frameTypes.settings, 0, 0));
    socket.on("data", (bytes: Buffer) => {
      const from = Math.min(preface, bytes.length);
      preface -= from;
      for (const { type, stream } of reader.read(bytes.subarray(from))) {
        if (type !== frameTypes.headers) continue;
        const block = Buffer.from((isFirst ? noDynamicTable : "") + blocks.shift(), "latin1");
        isFirst = false;
        socket.write(frame(frameTypes.headers, 1, stream, block.subarray(0, 9)));
        socket.write(frame(frameTypes.continuation, 4, stream, block.subarray(9)));
      }
    });
  });
  const port = await listen(cleanup(server));
  // Smaller than the default, of which an encoder without a table need not take note.
  const session = cleanup(connectHttp2(`http://127.0.0.1:${port}`, { settings: { headerTableSize: 100 } }));
  const name = fc.constantFrom("x-a", "Content-Type", "server", "set-cookie", "date", "grpc-status");
  const value = fc.string({ unit: fc.constantFrom("a", "0", "%", "~", "é", "\t", "{", "\\"), maxLength: 300 });
  const status = fc.constantFrom("200", "204", "404", "429", "599");
  const property = fc.asyncProperty(status, fc.array(fc.tuple(name, value)), async (code, more) => {
    const fields = [[":status", code], ...more.map(([key, text]) => [key, text.trim()])].flat();
    blocks.push(encodeFields(fields));
    const stream = session.request({ ":path": "/" });
    stream.resume();
    const [, , raw] = (await within("an answer", once(stream, "response"))) as [unknown, unknown, string[]];
    expect(raw).toEqual(fields.map((text, i) => (i % 2 === 0 ? text.toLowerCase() : text)));
  });
  await fc.assert(property, cases);
});

describe("a block that comes again", () => {
  const block = literals([
    ["x", "y"],
    [":path", "/"],
  ]);

  test("gives the same list, as long as it and the table are the same", () => {
    const decoder = new HpackDecoder();
    const first = decode(decoder, block);
    expect(decode(decoder, Buffer.from(block))).toBe(first);
    const other = literals([["x", "z"]]);
    expect(decode(decoder, other)).toEqual(["x", "z"]);
    expect(decode(decoder, block)).not.toBe(first);
    expect(decode(decoder, block)).toEqual(first);
  });

  test("is decoded anew when the table has changed, because its bytes mean something else", () => {
    const decoder = new HpackDecoder();
    const add = (value: string): Buffer => Buffer.concat([Buffer.of(0x40), text("x"), text(value)]);
    const newest = Buffer.of(0x80 + 62);
    decode(decoder, add("a"));
    expect([decode(decoder, newest), decode(decoder, newest)]).toEqual([
      ["x", "a"],
      ["x", "a"],
    ]);
    decode(decoder, add("b"));
    expect(decode(decoder, newest)).toEqual(["x", "b"]);
    decode(decoder, Buffer.of(0x20));
    expect(decode(decoder, newest)).toBe("malformed");
  });

  test("is decoded each time if it adds to the table, because it adds again", () => {
    const decoder = new HpackDecoder();
    const add = Buffer.concat([Buffer.of(0x40), text("x"), text("a")]);
    for (let i = 0; i < 3; i += 1) expect(decode(decoder, add)).toEqual(["x", "a"]);
    expect(decode(decoder, Buffer.of(0x80 + 64))).toEqual(["x", "a"]);
    expect(decode(decoder, Buffer.of(0x80 + 65))).toBe("malformed");
  });

  test("is not compared with the memory that it was read from", () => {
    const decoder = new HpackDecoder();
    const memory = Buffer.from(block);
    decode(decoder, memory);
    memory.set(text("zz"), 1);
    expect(decode(decoder, block)).toEqual(["x", "y", ":path", "/"]);
  });
});

describe("a block over the bounds is not decoded to its end", () => {
  const long = (bytes: number): Buffer => Buffer.concat([Buffer.of(0x40), text("x"), text("\0".repeat(bytes))]);
  const references = (count: number): Buffer => Buffer.alloc(count, 0x80 + 62);

  test.each<[claim: string, block: Buffer, isTooLarge: boolean]>([
    ["eight references to a long entry", Buffer.concat([long(4_000), references(7)]), false],
    ["nine references to a long entry", Buffer.concat([long(4_000), references(8)]), true],
    ["400 fields", Buffer.alloc(400, 0x82), false],
    ["401 fields", Buffer.alloc(401, 0x82), true],
    ["a value of 32,700 bytes", long(32_700), false],
    ["a value of 32,760 bytes", long(32_760), true],
    [
      "a value of a megabyte, of which nothing has come",
      Buffer.concat([Buffer.of(0, 1, 0x78), integer(2 ** 20)]),
      true,
    ],
    ["updates of the table's size without end", Buffer.alloc(32_769, 0x20), true],
  ])("%s", (_, block, isTooLarge) => {
    const decoded = decode(new HpackDecoder(), block);
    if (isTooLarge) expect(decoded).toBe("head_too_large");
    else expect(decoded).toBeInstanceOf(Array);
  });
});

test("a Huffman text has no more octets than there is room for", () => {
  // The shortest codes have five bits: "0" is 00000.
  const into = Buffer.alloc(16);
  expect(decodeHuffman(Buffer.alloc(10), 0, 10, into)).toBe(16);
  expect(into.toString()).toBe("0".repeat(16));
});
