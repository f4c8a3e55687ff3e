// How much of what a connection receives Node's parser is given: counted in portions and bytes, not in time.
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { ParserFeed } from "../../src/transport/node/parser-feed.ts";

class FakeSocket extends EventEmitter {
  destroyed = false;
  isPaused = false;

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }
}

/** A socket that receives what it is told to, and a parser that counts one piece for each x. */
function start() {
  const socket = new FakeSocket();
  const portions: string[] = [];
  socket.on("data", (bytes: Buffer) => {
    portions.push(bytes.toString("latin1"));
    owner.parsedCount += bytes.toString("latin1").split("x").length - 1;
  });
  const owner = { isDone: false, parsedCount: 0, leftBytes: 0, may: true, mayParse: () => owner.may };
  const feed = new ParserFeed(socket as unknown as Socket, owner);
  const receive = (text: string): boolean => socket.emit("data", Buffer.from(text, "latin1"));
  return { socket, owner, feed, portions, receive };
}

const chunks = (count: number): string => "1\r\nx\r\n".repeat(count);

describe("a read of 10,900 chunks of one byte", () => {
  test("is parsed in portions of 256, one in each turn", async () => {
    const { portions, receive } = start();
    receive(chunks(10_900));
    const perTurn: number[] = [];
    for (let before = 0; before < portions.length; await turn()) {
      perTurn.push(portions.length - before);
      before = portions.length;
    }
    expect(Math.max(...portions.map((portion) => portion.length))).toBe(256 * 6);
    expect(Math.max(...perTurn)).toBe(1);
    expect(portions.join("")).toBe(chunks(10_900));
  });

  test("is not parsed any more once the connection is done", async () => {
    const { owner, portions, receive } = start();
    receive(chunks(10_900));
    owner.isDone = true;
    for (let i = 0; i < 10; i += 1) await turn();
    receive(chunks(100));
    expect(portions).toHaveLength(1);
  });

  test("waits as long as the owner does not allow it, and the socket is not read meanwhile", async () => {
    const { owner, feed, portions, receive, socket } = start();
    owner.may = false;
    receive(chunks(10_900));
    for (let i = 0; i < 10; i += 1) await turn();
    expect([portions.length, socket.isPaused]).toEqual([0, true]);
    owner.may = true;
    feed.goOn();
    for (let i = 0; i < 100; i += 1) await turn();
    expect([portions.join("").length, socket.isPaused]).toEqual([10_900 * 6, false]);
  });

  test("is handed over when the feed is released in the middle of it", () => {
    const { feed, portions, receive } = start();
    receive(chunks(10_900));
    receive("next");
    expect(portions.join("") + feed.release().toString("latin1")).toBe(`${chunks(10_900)}next`);
    receive("ignored");
    expect(portions).toHaveLength(1);
  });
});

test("a body of known length, however many lines it has, is one portion", () => {
  const { owner, portions, receive } = start();
  owner.leftBytes = 65_000;
  receive("\n".repeat(65_536));
  expect(portions.map((portion) => portion.length)).toEqual([65_000 + 512, 24]);
});

test("bytes with few lines are parsed at 16 KiB a time", () => {
  const { portions, receive } = start();
  receive("y".repeat(65_536));
  expect(portions.map((portion) => portion.length)).toEqual([16_384, 16_384, 16_384, 16_384]);
});

test("one-byte reads that wait are joined in their order", async () => {
  const { owner, feed, portions, receive } = start();
  owner.may = false;
  const text = chunks(1_000);
  for (const byte of text) receive(byte);
  owner.may = true;
  feed.goOn();
  for (let i = 0; i < 20; i += 1) await turn();
  expect(portions.join("")).toBe(text);
  expect(portions.length).toBeLessThan(10);
});
