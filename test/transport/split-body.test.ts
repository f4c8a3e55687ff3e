import { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { SplitBody } from "../../src/transport/raw/split-body.ts";
import { useCleanup } from "../support/cleanup.ts";

const cleanup = useCleanup();

function start(bytes: number, received = "") {
  const socket = new Socket();
  cleanup(() => socket.destroy());
  const body = new SplitBody(socket, bytes, Buffer.from(received));
  const pieces: string[] = [];
  return { socket, body, pieces, read: () => body.on("data", (piece: Buffer) => void pieces.push(`${piece}`)) };
}

test("small pieces that nobody reads are kept as one: each by itself would take a hundred times its size", async () => {
  const { body, pieces, read } = start(20_001, "0");
  for (let i = 1; i <= 10_000; i += 1) expect(body.receive(Buffer.from(`${i % 10}`))).toBe(1);
  await nextTurn();
  for (let i = 10_001; i <= 20_000; i += 1) body.receive(Buffer.from(`${i % 10}`));
  expect(body.isComplete).toBe(true);
  read();
  await new Promise((resolve) => body.on("end", resolve));
  expect(pieces.length).toBeLessThanOrEqual(3);
  expect(pieces.join("")).toBe("0123456789".repeat(2_001).slice(0, 20_001));
});

test("a piece that is read at once is passed on, in a copy, without waiting for more", async () => {
  const { body, pieces, read } = start(10);
  read();
  await nextTurn();
  const memory = Buffer.from("abc");
  body.receive(memory);
  memory.fill("x");
  expect(pieces).toEqual(["abc"]);
  body.receive(Buffer.from("de"));
  expect(pieces).toEqual(["abc", "de"]);
});

test("the socket is not read while 64 KiB wait for the reader", async () => {
  const { socket, body, pieces, read } = start(1_000_000);
  const piece = Buffer.alloc(10_000, "a");
  let received = 0;
  while (!socket.isPaused() && received < 1_000_000) received += body.receive(piece);
  expect(received).toBeGreaterThanOrEqual(64 * 1024);
  expect(received).toBeLessThan(100_000);
  read();
  await nextTurn();
  expect(pieces.join("").length).toBe(received);
  expect(socket.isPaused()).toBe(false);
});

test("takes no byte that belongs to the next request", () => {
  const { body } = start(5, "abc");
  expect(body.receive(Buffer.from("deGET"))).toBe(2);
  expect(body.receive(Buffer.from("GET"))).toBe(0);
  expect(body.receivedBytes).toBe(5);
});
