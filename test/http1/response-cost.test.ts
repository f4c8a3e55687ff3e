// What a response costs to take apart, however its upstream cuts it: counted in characters that are looked at and
// in pieces that are handed over, not in time.
import { afterEach, describe, expect, test, vi } from "vitest";
import { RememberedHeads, ResponseParser } from "../../src/http1/response-parser.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

function parserOf() {
  const pieces: Buffer[] = [];
  const parser = new ResponseParser(
    {
      onInterim: () => {},
      onHead: () => {},
      onBody: (bytes, from, to) => {
        pieces.push(Buffer.from(bytes.subarray(from, to)));
        return false;
      },
    },
    new RememberedHeads(),
  );
  parser.begin("GET");
  return { parser, pieces };
}

/** Parses the text in pieces of so many bytes, and counts the characters that are read meanwhile. */
function read(text: string, pieceBytes: number) {
  const { parser, pieces } = parserOf();
  const bytes = Buffer.from(text, "latin1");
  let characters = 0;
  const { toString: toText } = Buffer.prototype;
  vi.spyOn(Buffer.prototype, "toString").mockImplementation(function counted(this: Buffer, ...args) {
    const part = toText.apply(this, args);
    characters += part.length;
    return part;
  });
  const { test: isMatch } = RegExp.prototype;
  vi.spyOn(RegExp.prototype, "test").mockImplementation(function counted(this: RegExp, part: string) {
    characters += part.length;
    return isMatch.call(this, part);
  });
  for (let at = 0; at < bytes.length; at += pieceBytes) parser.execute(bytes.subarray(at, at + pieceBytes));
  return { parser, pieces, characters };
}

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

describe("a byte at a time", () => {
  const long = "y".repeat(16_000);

  test.each([
    ["a head", `HTTP/1.1 200 OK\r\nX: ${long}\r\nContent-Length: 0\r\n\r\n`],
    ["an interim head", `HTTP/1.1 103 Early Hints\r\nX: ${long}\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n`],
    ["a chunk's extension", `${chunked}1;x=${long}\r\ny\r\n0\r\n\r\n`],
    ["trailers", `${chunked}0\r\nX: ${long}\r\n\r\n`],
  ])("reading %s of 16 KB takes linear time", (_, text) => {
    const { parser, characters } = read(text, 1);
    expect(parser.isOver).toBe(true);
    expect(characters).toBeLessThan(10 * text.length);
  });
});

describe("small chunks", () => {
  test("of one read are one piece, together with large ones and in order", () => {
    const large = "l".repeat(10_000);
    const chunk = (body: string): string => `${body.length.toString(16)}\r\n${body}\r\n`;
    const text = [chunked, chunk("a").repeat(500), chunk(large), chunk("b").repeat(500), chunk("c"), "0\r\n\r\n"].join(
      "",
    );
    const { parser, pieces } = read(text, text.length);
    expect(parser.isOver).toBe(true);
    expect(pieces.map(String)).toEqual([`${"a".repeat(500)}${large}${"b".repeat(500)}c`]);
  });

  test("480,000 of one byte are as many pieces as reads", () => {
    const { pieces } = read(`${chunked}${"1\r\nx\r\n".repeat(480_000)}0\r\n\r\n`, 65_536);
    expect(pieces).toHaveLength(44);
    expect(Buffer.concat(pieces)).toHaveLength(480_000);
  });

  test("one alone is handed over as it was read, without a copy", () => {
    const bytes = Buffer.from(`${chunked}5\r\nalone\r\n0\r\n\r\n`);
    const memory: ArrayBufferLike[] = [];
    const parser = new ResponseParser(
      {
        onInterim: () => {},
        onHead: () => {},
        onBody: (piece) => {
          memory.push(piece.buffer);
          return false;
        },
      },
      new RememberedHeads(),
    );
    parser.begin("GET");
    parser.execute(bytes);
    expect(memory).toHaveLength(1);
    expect(memory[0]).toBe(bytes.buffer);
  });

  test("before a malformed one are handed over before it fails", () => {
    const { parser, pieces } = parserOf();
    expect(() => parser.execute(Buffer.from(`${chunked}1\r\na\r\n1\r\nb\r\nnonsense\r\n`))).toThrow();
    expect(pieces.map(String)).toEqual(["ab"]);
  });
});
