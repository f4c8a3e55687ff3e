import { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { ChunkDecoder, LengthDecoder, requestChunks } from "../../src/http1/body-decoder.ts";
import { IncomingBody } from "../../src/transport/http1/incoming-body.ts";
import { useCleanup } from "../support/cleanup.ts";

const cleanup = useCleanup();

function start(bytes: number, received = "") {
  const socket = cleanup(new Socket());
  const body = new IncomingBody(socket, new LengthDecoder(bytes), { cancel: () => {} });
  body.begin(Buffer.from(received));
  const pieces: string[] = [];
  const read = { progressBytes: 0, isEnded: false };
  body.reader = {
    onData: (bytes, progressBytes, isLast) => {
      expect(read.isEnded).toBe(false);
      pieces.push(`${bytes}`);
      read.progressBytes += progressBytes;
      read.isEnded = isLast;
    },
    onEnd: () => {
      read.isEnded = true;
    },
  };
  return { socket, body, pieces, read };
}

test("small pieces that nobody reads are kept as one: each by itself would take a hundred times its size", () => {
  const { body, pieces, read } = start(20_001, "0");
  for (let i = 1; i <= 20_000; i += 1) expect(body.receive(Buffer.from(`${i % 10}`))).toBe(1);
  expect(body.isComplete).toBe(true);
  body.resume();
  expect(pieces.length).toBeLessThanOrEqual(3);
  expect(pieces.join("")).toBe("0123456789".repeat(2_001).slice(0, 20_001));
  // Pieces of one byte are no progress, however they are passed on.
  expect(read).toEqual({ progressBytes: 0, isEnded: true });
});

test("a piece that is read at once is passed on without waiting for more", () => {
  const { body, pieces, read } = start(130);
  body.resume();
  body.receive(Buffer.alloc(124, "a"));
  expect([pieces, read]).toEqual([["a".repeat(124)], { progressBytes: 100, isEnded: false }]);
  body.receive(Buffer.from("de"));
  expect(pieces.at(-1)).toBe("de");
  body.receive(Buffer.from("fghi"));
  expect([pieces.at(-1), read.isEnded]).toEqual(["fghi", true]);
});

test("what came with the head is passed on where it was received, or kept in a copy", () => {
  for (const isKept of [false, true]) {
    const memory = Buffer.from("abc");
    const socket = cleanup(new Socket());
    const body = new IncomingBody(socket, new LengthDecoder(6), { cancel: () => {} });
    body.begin(memory);
    const pieces: string[] = [];
    body.reader = { onData: (bytes) => void pieces.push(`${bytes}`), onEnd: () => {} };
    if (isKept) {
      body.keep();
      memory.fill("x");
    }
    body.receive(Buffer.from("d"));
    body.resume();
    body.receive(Buffer.from("ef"));
    expect(pieces.join("")).toBe("abcdef");
  }
});

test("a reader that pauses gets nothing until it reads on, and the end with the last piece", () => {
  const { body, pieces, read } = start(6, "ab");
  body.resume();
  body.pause();
  body.receive(Buffer.from("cd"));
  body.receive(Buffer.from("efGET"));
  expect([pieces, read.isEnded]).toEqual([["ab"], false]);
  body.resume();
  expect([pieces, read.isEnded]).toEqual([["ab", "cdef"], true]);
});

test("the socket is not read while 64 KiB wait for the reader", () => {
  const { socket, body, pieces } = start(1_000_000);
  const piece = Buffer.alloc(10_000, "a");
  let received = 0;
  while (!socket.isPaused() && received < 1_000_000) received += body.receive(piece);
  expect(received).toBeGreaterThanOrEqual(64 * 1024);
  expect(received).toBeLessThan(100_000);
  body.resume();
  expect(pieces.join("").length).toBe(received);
  expect(socket.isPaused()).toBe(false);
});

test("takes no byte that belongs to the next request", () => {
  const { body } = start(5, "abc");
  expect(body.receive(Buffer.from("deGET"))).toBe(2);
  expect(body.receive(Buffer.from("GET"))).toBe(0);
  expect(body.receivedBytes).toBe(5);
});

describe("in chunks", () => {
  function startChunks(received: string) {
    const socket = cleanup(new Socket());
    const replies: number[] = [];
    const body = new IncomingBody(socket, new ChunkDecoder(requestChunks, () => 0), {
      cancel: ({ status }) => void replies.push(status),
    });
    const taken = body.begin(Buffer.from(received));
    const read: (string | boolean)[] = [];
    body.reader = {
      onData: (bytes, _, isLast) => void read.push(`${bytes}`, isLast),
      onEnd: () => void read.push("end"),
    };
    return { body, taken, replies, read };
  }

  test("all data of a read is one piece, and what follows the body is not its own", () => {
    const { body, taken, read } = startChunks("2\r\nhi\r\n3\r\n yo\r\n");
    expect(taken).toBe(15);
    body.resume();
    expect(body.receive(Buffer.from("1\r\nu\r\n0\r\n\r\nGET"))).toBe(11);
    expect([read, body.isComplete, body.receivedBytes]).toEqual([["hi yo", false, "u", true], true, 6]);
    expect(body.receive(Buffer.from("GET"))).toBe(0);
  });

  test.each([
    ["before it is read", "1\r\na\r\n0\r\n\r\n", [], ["a", true]],
    ["without any data", "0\r\n\r\n", [], ["end"]],
    ["behind all data", "1\r\na\r\n", ["0\r\n", "\r\n"], ["a", false, "end"]],
  ])("the end that comes %s is told once", (_, first, rest, expected) => {
    const { body, read } = startChunks(first);
    body.resume();
    for (const piece of rest) body.receive(Buffer.from(piece));
    expect(read).toEqual(expected);
  });

  test("nothing behind a malformed chunk is believed, and the body is never complete", () => {
    const { body, replies, read } = startChunks("2\r\nhi\r\n");
    body.resume();
    expect(body.receive(Buffer.from("zz\r\nGET"))).toBe(7);
    expect(body.receive(Buffer.from("0\r\n\r\nGET"))).toBe(8);
    expect([replies, read, body.isComplete]).toEqual([[400], ["hi", false], false]);
  });
});
