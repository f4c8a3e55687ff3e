// What a message of gRPC in pieces makes the gateway hold.
import { expect, test } from "vitest";
import { ClientBytes } from "../../../src/core/client-share.ts";
import { MessageReader } from "../../../src/ext-auth/grpc/call.ts";
import { frame } from "./client.ts";

const held = (max = 1_000_000) => new ClientBytes(max);
const caller = "192.0.2.1";
const split = (bytes: Buffer, size: number): Buffer[] =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size));

test("a piece is copied: the message has none of the memory that it was read into", () => {
  const message = frame(Buffer.alloc(1_000, "m"));
  const read = Buffer.concat([Buffer.alloc(60_000), message]);
  for (const size of [message.length, 500, 20]) {
    const reader = new MessageReader(1_000, held(), caller);
    for (const piece of split(read.subarray(60_000), size)) expect(reader.push(piece)).toBeNull();
    const whole = reader.whole() as Buffer;
    expect(whole.toString()).toBe("m".repeat(1_000));
    expect(whole.buffer.byteLength).toBe(message.length);
  }
});

test.for([1, 3, 5, 6, 64])("a message in pieces of %i bytes is one message, whatever they cut", (size) => {
  const reader = new MessageReader(100, held(), caller);
  for (const piece of split(frame(Buffer.from("x".repeat(59))), size)) expect(reader.push(piece)).toBeNull();
  expect(String(reader.whole())).toBe("x".repeat(59));
});

test("the memory that is counted is at most twice what arrived, and all of it is given back", () => {
  const counted = held();
  const reader = new MessageReader(500_000, counted, caller);
  const pieces = split(frame(Buffer.alloc(500_000)), 70);
  let arrived = 0;
  for (const piece of pieces.slice(0, -1)) {
    expect(reader.push(piece)).toBeNull();
    arrived += piece.length;
    expect(counted.bytes).toBeGreaterThanOrEqual(arrived);
    expect(counted.bytes).toBeLessThanOrEqual(2 * arrived + 64);
  }
  reader.release();
  expect(counted.bytes).toBe(0);
  reader.release();
  expect(counted.bytes).toBe(0);
});

test("memory beyond the bound of all callers is refused, beyond the share of one only to that one, and up to it is not", () => {
  const counted = held(2_000);
  const of = (each: string): MessageReader => new MessageReader(2_000, counted, each);
  const first = of("a");
  expect(first.push(frame(Buffer.alloc(995)))).toBeNull();
  expect(of("a").push(Buffer.alloc(1)), "holds a half").toMatchObject({ code: 8 });
  expect(of("b").push(frame(Buffer.alloc(937)))).toBeNull();
  expect(of("c").push(Buffer.alloc(1)), "the smallest buffer has 64").toMatchObject({ code: 8 });
  first.release();
  expect(of("c").push(Buffer.alloc(1))).toBeNull();
});

test("tiny pieces are refused beyond 64 of them, larger ones are not", () => {
  const bytes = frame(Buffer.alloc(100_000));
  const firstFlawed = (size: number): number => {
    const reader = new MessageReader(100_000, held(), caller);
    return split(bytes, size).findIndex((piece) => reader.push(piece) !== null);
  };
  expect(firstFlawed(1)).toBe(65);
  expect(firstFlawed(64)).toBe(-1);
});
