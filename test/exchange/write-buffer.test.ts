// Messages whose head and body are written together, in a buffer that all of them share.
import type { Socket } from "node:net";
import { beforeEach, describe, expect, test } from "vitest";
import { maxCopiedBytes, WriteBuffer } from "../../src/exchange/socket-writes.ts";

let written: (Buffer | string)[] = [];
beforeEach(() => {
  written = [];
});

/** Keeps what is written; `isSlow`: the system does not take it at once. */
function socketOf({ isSlow = false, waiting = 0 } = {}): Socket {
  const socket = {
    writableLength: waiting,
    get writableNeedDrain(): boolean {
      return socket.writableLength > 0;
    },
    write(data: Buffer | string): boolean {
      written.push(data);
      if (isSlow) socket.writableLength += data.length;
      return !isSlow;
    },
    cork: () => void written.push("cork"),
    uncork: () => void written.push("uncork"),
  };
  return socket as unknown as Socket;
}

const texts = (): string[] =>
  written.map((data) => (typeof data === "string" ? `text ${data}` : data.toString("latin1")));

test("what the system has not taken is not overwritten by the next message", () => {
  const buffer = new WriteBuffer();
  buffer.writeMessage(socketOf({ isSlow: true }), "a\xff", Buffer.from("b"), true);
  buffer.writeMessage(socketOf(), "c", Buffer.from("dd"), true);
  expect(texts()).toEqual(["a\xffb", "cdd"]);
  buffer.writeMessage(socketOf(), "e", Buffer.from("ff"), true);
  const memories = written.map((data) => (data as Buffer).buffer);
  expect(memories[2]).toBe(memories[1]);
  expect(memories[0]).not.toBe(memories[1]);
});

test.each([
  ["comes behind something else", socketOf({ waiting: 1 }), "a", true],
  ["has a very long head", socketOf(), "a".repeat(32 * 1024), true],
  ["is sent over TLS, which keeps what it is given", socketOf(), "a", false],
] as const)("a short message that %s is written as a text of its own", (_, socket, head, isPlain) => {
  new WriteBuffer().writeMessage(socket, head, Buffer.from("\xff", "latin1"), isPlain);
  expect(texts()).toEqual([`text ${head}\xff`]);
});

test("a long body is not copied", () => {
  const body = Buffer.alloc(maxCopiedBytes + 1);
  new WriteBuffer().writeMessage(socketOf(), "a", body, true);
  expect(written).toEqual(["cork", "a", body, "uncork"]);
  expect(written[2]).toBe(body);
});

describe("a part of a message", () => {
  test.each([
    ["that the system takes at once", socketOf, true],
    ["that the system does not take", () => socketOf({ isSlow: true }), true],
    ["behind something else", () => socketOf({ waiting: 1 }), true],
    ["over TLS", socketOf, false],
  ] as const)("%s is one write, of a copy", (_, open, isPlain) => {
    const buffer = new WriteBuffer();
    const socket = open();
    const bytes = Buffer.from("body");
    const mayGoOn = buffer.writePart(socket, "a\xff", bytes, "c", isPlain);
    bytes.fill("x");
    expect(texts()).toEqual(["a\xffbodyc"]);
    expect(mayGoOn).toBe(socket.writableLength === 0);
    // The next one may only overwrite what the system has taken.
    if (mayGoOn) return;
    buffer.writePart(socketOf(), "", Buffer.from("other"), "", true);
    expect(texts()).toEqual(["a\xffbodyc", "other"]);
  });

  test("takes the same memory again once the system has taken what was in it", () => {
    const buffer = new WriteBuffer();
    for (let i = 0; i < 2; i += 1) buffer.writePart(socketOf(), "", Buffer.from("a"), "", true);
    const [first, second] = written as Buffer[];
    expect(first?.buffer).toBe(second?.buffer);
  });

  test("is not copied if it is longer than what anybody overwrites", () => {
    const bytes = Buffer.alloc(128 * 1024);
    new WriteBuffer().writePart(socketOf(), "a", bytes, "", true);
    expect(written).toEqual(["cork", "a", bytes, "uncork"]);
    expect(written[2]).toBe(bytes);
  });
});
