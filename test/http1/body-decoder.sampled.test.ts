// Bodies in chunks beside Node's parser: however they are mutated and cut, the same bytes belong to the body and the same
// bytes follow it, or both refuse it.
import { createServer, IncomingMessage } from "node:http";
import { duplexPair } from "node:stream";
import { describe, expect, test } from "vitest";
import { maxFields } from "../../src/core/http-bounds.ts";
import { ChunkDecoder, requestChunks } from "../../src/http1/body-decoder.ts";
import { problemReply } from "../../src/transport/http1/incoming-body.ts";
import { mutateBytes, mutateLineEnd } from "../conformance/fuzz/byte-mutations.ts";
import { chunksOf } from "../conformance/fuzz/chunk-mutations.ts";
import { Random } from "../conformance/fuzz/random.ts";
import { within } from "../support/eventually.ts";
import { inFull, scaled } from "../support/runs.ts";

const head = "POST /v2/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const after = "GET /after HTTP/1.1\r\nHost: a\r\n\r\n";
const end = "0\r\n\r\n";

/** The targets and bodies of the requests that Node's parser reads completely, whatever follows. */
async function readByNode(bytes: string): Promise<readonly string[]> {
  const seen: string[] = [];
  class Message extends IncomingMessage {
    #body = "";

    override push(piece: Buffer | null): boolean {
      if (piece === null) seen.push(`${this.url} ${this.#body}`);
      else this.#body += piece.toString("latin1");
      return super.push(piece);
    }
  }
  const server = createServer({ IncomingMessage: Message, requireHostHeader: false }, (req, res) => {
    req.on("error", () => {}).resume();
    res.end();
  });
  server.maxHeadersCount = maxFields;
  server.on("clientError", (_error, socket) => socket.destroy());
  const [client, gateway] = duplexPair();
  server.emit("connection", gateway);
  client.resume();
  const closed = new Promise((resolve) => client.once("close", resolve));
  client.on("error", () => {});
  client.end(bytes, "latin1");
  await within("Node is done with it", closed);
  return seen;
}

/** `rest`: what follows the body. Null: refused. */
function readPieces(pieces: readonly string[]) {
  const decoder = new ChunkDecoder(requestChunks, () => 0);
  let data = "";
  for (const [i, piece] of pieces.entries()) {
    const read = decoder.decode(Buffer.from(piece, "latin1"));
    if (read.problem !== null) return { status: problemReply(read.problem).status, data, rest: null };
    data += read.data.toString("latin1");
    if (decoder.isComplete) return { status: 200, data, rest: piece.slice(read.taken) + pieces.slice(i + 1).join("") };
    if (read.taken !== piece.length) expect(read.taken).toBe(piece.length);
  }
  return { status: null, data, rest: null };
}

/** Returns whether the body was complete. */
async function expectSameAsNode(body: string, pieces: readonly string[] = [body]): Promise<boolean> {
  const { rest, data } = readPieces(pieces);
  const expected = rest === null ? [] : [`/v2/x ${data}`, ...(await readByNode(rest))];
  expect(await readByNode(head + body), JSON.stringify(body.slice(0, 300))).toEqual(expected);
  return rest !== null;
}

test("the data of all chunks is one piece, wherever the bytes are cut", () => {
  const bytes = `5\r\nhello\r\n1;a=b\r\n \r\n00a;x="\\"y"\r\n0123456789\r\n0;q\r\nX-T: 1\r\nX-U:2\r\n\r\nGET`;
  for (let at = 0; at <= bytes.length; at += 1) {
    const read = readPieces([bytes.slice(0, at), bytes.slice(at)].filter((piece) => piece !== ""));
    expect(read).toEqual({ status: 200, data: "hello 0123456789", rest: "GET" });
  }
  expect(readPieces([...bytes])).toEqual({ status: 200, data: "hello 0123456789", rest: "GET" });
});

test("what counts as progress is the same however the chunks are cut into reads", () => {
  const decoder = new ChunkDecoder(requestChunks, () => 0);
  const read = decoder.decode(Buffer.from(`${`1\r\nx\r\n`.repeat(100)}7c\r\n${"y".repeat(124)}\r\n`));
  expect(read).toMatchObject({ progressBytes: 100, data: { length: 224 } });
});

describe("each line that llhttp reads in its own way", () => {
  const sizes = [
    "2",
    "02",
    "0000000000000002",
    `${"0".repeat(30)}2`,
    "+2",
    "-2",
    "0x2",
    " 2",
    "2 ",
    "2\t",
    "",
    "g",
    "2_",
  ];
  const values = [
    "",
    "=",
    "=b",
    '="b"',
    '="',
    '="b',
    '="\\"',
    '="\\""',
    '="\\x"',
    '=x"y"',
    '="y"x',
    "=b c",
    "= b",
    '="\tb"',
  ];
  const names = ["a", "", "a b", " a", "a ", "a=b=c", "\xe4", "(", "a\t"];
  const extensions = names.flatMap((name) => values.map((value) => `;${name}${value}`));
  const lists = [
    ";a;b",
    ";a;",
    ";;",
    ";",
    "; ",
    ";a=b;",
    ";a=b;c=d",
    ";a==b",
    ';a="b";',
    ';a="b";c',
    ';a="b" ;c',
    ";a=\xff",
  ];
  // `npm test` has those that parsers treat in a way of their own, and both ends of the others.
  const codes = inFull(Array.from({ length: 256 }, (_, code) => code));
  const bytes =
    codes.length > 0
      ? codes.map((code) => String.fromCharCode(code))
      : [..."\0\x01\b\t\n\v\f\r\x1f !\"#'(),-/09:;<=>@AFGZ[\\]_afgz{}~\x7f\x80\x9f\xa0\xff"];
  const inExtensions = bytes.flatMap((byte) => [`;a${byte}b`, `;a=${byte}`, `;a="${byte}"`, `;a="\\${byte}"`]);
  const trailers = [
    ...["X-T: v", "X-T:", "X-T : v", " X-T: v", "X-T", ": v", "X-T: v\r\n w", "Content-Length: 2", "content-length:0"],
    ...[
      "Transfer-Encoding: chunked",
      "transfer-encoding: x",
      "Host: b",
      "X-T: \xe4",
      "X-\xe4: v",
      "X-T: \0",
      "Trailer: X",
    ],
    ...["Content-Lengthx: 2", "X-Content-Length: 2", "Expect: 100-continue", "Content-Length : 2", "Content-Length"],
    ...bytes.flatMap((byte) => [`X: a${byte}b`, `X${byte}Y: b`]),
  ];

  test.each([
    ["sizes", sizes.map((size) => `${size}\r\nhi\r\n${end}`)],
    ["extensions", [...extensions, ...lists].map((extension) => `2${extension}\r\nhi\r\n${end}`)],
    ["bytes in extensions", inExtensions.map((extension) => `2${extension}\r\nhi\r\n${end}`)],
    ["extensions of the last chunk", lists.map((extension) => `2\r\nhi\r\n0${extension}\r\n\r\n`)],
    ["bytes behind a chunk", bytes.flatMap((byte) => [`2\r\nhi${byte}\r\n${end}`, `2\r\nhi\r${byte}${end}`])],
    ["bytes behind a size", bytes.flatMap((byte) => [`2${byte}\r\nhi\r\n${end}`, `2\r${byte}hi\r\n${end}`])],
    ["trailers", trailers.map((line) => `2\r\nhi\r\n0\r\n${line}\r\n\r\n`)],
  ])("%s", async (_, bodies) => {
    let complete = 0;
    for (const body of bodies) if (await expectSameAsNode(body + after)) complete += 1;
    expect(complete).toBeGreaterThan(0);
  });
});

test("mutated bodies, cut at random places", async () => {
  let complete = 0;
  for (let seed = 0; seed < scaled(7_000); seed += 1) {
    const random = new Random(seed);
    const chunks = chunksOf(random, "some text of a body".repeat(1 + random.int(3)));
    const mutated = random.oneIn(3)
      ? mutateBytes(random, chunks)
      : random.oneIn(4)
        ? mutateLineEnd(random, chunks)
        : chunks;
    const body = mutated + after;
    if (await expectSameAsNode(body, random.pieces(body, random.int(5)))) complete += 1;
  }
  expect(complete).toBeGreaterThan(scaled(900));
});

test.each([
  ["17 KiB of an extension", 400, `2;x=${"e".repeat(17 * 1024)}\r\nhi\r\n${end}`],
  ["17 KiB of trailers", 431, `0\r\nX: ${"y".repeat(17 * 1024)}\r\n\r\n`],
  ["17 KiB of many trailers", 431, `0\r\n${"X-Name: value\r\n".repeat(3_000)}\r\n`],
  ["601 pieces of one byte", 400, `${"1\r\nx\r\n".repeat(700)}${end}`],
])("%s are %d, at once and in pieces", (_, status, body) => {
  expect(readPieces([body])).toMatchObject({ status, rest: null });
  expect(readPieces([...body])).toMatchObject({ status, rest: null });
});

test.each([
  ["200 trailers", "X-Name: value\r\n".repeat(200), true],
  ["201 trailers", "a: b\r\n".repeat(201), false],
  ["names and values of 16,383 bytes", `X:${"y".repeat(16_382)}\r\n`, true],
  ["names and values of 16,384 bytes", `X:${"y".repeat(16_383)}\r\n`, false],
  ["the same with blanks before them", `X: \t ${"y".repeat(16_370)}  \r\nX: ${"y".repeat(8)}\r\n`, true],
  ["one byte more", `X: \t ${"y".repeat(16_370)}  \r\nX: ${"y".repeat(9)}\r\n`, true],
  ["two bytes more", `X: \t ${"y".repeat(16_370)}  \r\nX: ${"y".repeat(10)}\r\n`, false],
])("%s are read as Node's parser reads them, which has the same bounds", async (_, trailers, isComplete) => {
  const body = `2\r\nhi\r\n0\r\n${trailers}\r\n`;
  expect(await expectSameAsNode(body + after)).toBe(isComplete);
  if (!isComplete) expect(readPieces([body])).toMatchObject({ status: 431 });
});

test("what can become no line is refused before its end", () => {
  for (const begun of ["z", "\r", "2\0", "2\rx", "2\r\nhi!", "2\r\nhi\rx", "0\r\n ", "0\r\n:"]) {
    expect(readPieces([begun]), JSON.stringify(begun)).toMatchObject({ status: 400 });
  }
});

test("a hostile line costs no more than its length", () => {
  for (const line of [
    `2${';a="b"'.repeat(2_500)}\0`,
    `2;${"a=".repeat(8_000)}`,
    `${"0".repeat(16_000)}g`,
    `2;a="${"\\x".repeat(8_000)}`,
  ]) {
    for (let i = 0; i < scaled(200); i += 1) expect(readPieces([`${line}\r\n`])).toMatchObject({ status: 400 });
  }
});
