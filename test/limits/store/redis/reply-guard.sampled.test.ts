// What a server may send: the replies that were asked for, whatever pieces they come in, and nothing else.
import { createRequire } from "node:module";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ReplyGuard } from "../../../../src/limits/store/redis/replies.ts";
import { runs, scaled } from "../../../support/runs.ts";

function admits(text: string, expected: number, pieceBytes = text.length): boolean {
  const guard = new ReplyGuard();
  guard.expected = expected;
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    if (guard.fault(bytes.subarray(at, at + pieceBytes)) !== null) return false;
  }
  return guard.expected === 0;
}

const replies = [
  "+OK\r\n",
  "-ERR no\r\n",
  ":-12\r\n",
  "$3\r\na\nb\r\n",
  "$0\r\n\r\n",
  "$-1\r\n",
  "*-1\r\n",
  "*0\r\n",
  "*3\r\n:1\r\n*2\r\n$1\r\n*\r\n$-1\r\n*1\r\n*0\r\n",
];

describe("replies", () => {
  test.each(replies)("%j is one, in pieces of any size", (reply) => {
    for (let pieceBytes = 1; pieceBytes <= reply.length; pieceBytes += 1) {
      expect(admits(reply, 1, pieceBytes)).toBe(true);
      expect(admits(reply + reply, 2, pieceBytes)).toBe(true);
      expect(admits(reply + reply, 1, pieceBytes)).toBe(false);
      expect(admits(reply.slice(0, -1), 1, pieceBytes)).toBe(false);
    }
  });

  test("a text of almost 4 MiB is one, a longer one is not", () => {
    const mebibytes = (count: number): string => "x".repeat(count * 1024 * 1024 - 100);
    const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`;
    expect(admits(bulk(mebibytes(4)), 1, 16_384)).toBe(true);
    expect(admits(bulk(mebibytes(5)), 1, 16_384)).toBe(false);
    expect(admits(`+${mebibytes(5)}\r\n`, 1, 16_384)).toBe(false);
    expect(admits(bulk(mebibytes(3)).repeat(3), 3, 16_384)).toBe(true);
  });
});

describe("what is no reply", () => {
  test.each([
    ["another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n", "type"],
    ["a push of the newer protocol", ">2\r\n+a\r\n+b\r\n", "type"],
    ["a map of the newer protocol", "%1\r\n+a\r\n+b\r\n", "type"],
    ["a list that announces too much", "*4000000\r\n", "feed"],
    ["lists that announce too much together", "*400000\r\n".repeat(2), "feed"],
    ["lists in lists without end", "*1\r\n".repeat(1_000), "feed"],
    ["a number without end", `$${"1".repeat(400)}`, "number"],
    ["a length that is none", "$1e3\r\n", "number"],
    ["a length without digits", "$\r\n", "number"],
    ["a length below that of a null", "$-2\r\n", "feed"],
    ["a null whose length is written otherwise", "$-01", "number"],
    ["a number with two signs", ":--1\r\n", "number"],
    ["a number of letters", ":one\r\n", "number"],
    ["a number of any length", `:${"1".repeat(30)}\r\n`, "number"],
    ["a line that ends without a carriage return", "+OK\n+OK\r\n", "text"],
    ["a line with a carriage return alone", "+O\rK\r\n", "feed"],
    ["a text that is longer than announced", "$1\r\nabc\r\n", "end"],
    ["a text whose end is wrong", "$1\r\na\n\r", "end"],
  ])("%s", (_, text, part) => {
    for (const pieceBytes of [1, text.length]) {
      const guard = new ReplyGuard();
      guard.expected = 1_000;
      const pieces = text.match(new RegExp(`[^]{1,${pieceBytes}}`, "g")) ?? [];
      const faults = pieces.map((piece) => guard.fault(Buffer.from(piece)));
      expect(faults.find((fault) => fault !== null)).toBe(part);
    }
  });
});

test("the library reads as many replies from admitted bytes as the guard counts, whatever they are", () => {
  const require = createRequire(import.meta.url);
  const { Decoder } = require(join(require.resolve("ioredis"), "..", "resp", "decoder.js"));
  const tokens = [
    "+",
    "-",
    ":",
    "$",
    "*",
    "0",
    "1",
    "2",
    "-1",
    "a",
    "\r\n",
    "\r\n",
    "\r\n",
    "\r",
    "\n",
    "+a\r\n",
    ":1\r\n",
    "$-1\r\n",
    "$1\r\na\r\n",
    "*2\r\n",
    "*0\r\n",
  ];
  let complete = 0;
  const check = (parts: readonly string[], pieceBytes: number): void => {
    const bytes = Buffer.from(parts.join(""));
    const guard = new ReplyGuard();
    guard.expected = 100;
    let replies = 0;
    const onReply = (): void => {
      replies += 1;
    };
    const never = (): void => expect.unreachable();
    const decoder = new Decoder({ onReply, onErrorReply: onReply, onPush: never, getTypeMapping: () => ({}) });
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      const piece = bytes.subarray(at, at + pieceBytes);
      if (guard.fault(piece) !== null) return;
      decoder.write(Buffer.from(piece));
      // The library does not wait for the last line feed of a reply.
      expect([0, 1]).toContain(replies - (100 - guard.expected));
    }
    complete += replies;
  };
  const parts = fc.array(fc.constantFrom(...tokens), { maxLength: 12 });
  fc.assert(fc.property(parts, fc.integer({ min: 1, max: 20 }), check), runs(20_000));
  expect(complete).toBeGreaterThan(scaled(1_500));
});
