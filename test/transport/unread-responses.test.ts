import type { ServerHttp2Stream } from "node:http2";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { UnreadResponses } from "../../src/transport/http2/unread-responses.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function start({ isInHurry = false } = {}) {
  const open = new Map<ServerHttp2Stream, unknown>();
  const resets: string[] = [];
  const connection = { sentBytes: 0 };
  const unread = new UnreadResponses(
    open,
    () => isInHurry,
    () => connection.sentBytes,
    (reason) => void resets.push(reason),
  );
  const add = (writableEnded: boolean) => {
    const stream = { writableEnded, writableLength: 100, close: vi.fn() };
    open.set(stream as unknown as ServerHttp2Stream, null);
    unread.watch();
    return stream;
  };
  return { add, resets, connection };
}

test("a complete response that does not leave is reset after ten seconds and not before", () => {
  const { add, resets } = start();
  const [stuck, waiting] = [add(true), add(false)];
  vi.advanceTimersByTime(11_900);
  expect(stuck.close).not.toHaveBeenCalled();
  vi.advanceTimersByTime(200);
  expect(stuck.close).toHaveBeenCalledWith(8);
  expect(resets).toEqual(["unread"]);
  expect(waiting.close).not.toHaveBeenCalled();
});

test("a response that leaves slowly is not reset", () => {
  const { add } = start();
  const slow = add(true);
  for (let i = 0; i < 20; i += 1) {
    vi.advanceTimersByTime(8_000);
    slow.writableLength -= 1;
  }
  expect(slow.close).not.toHaveBeenCalled();
});

test("when the peer has many streams, two to four seconds are enough", () => {
  const { add } = start({ isInHurry: true });
  const stuck = add(true);
  vi.advanceTimersByTime(2_100);
  expect(stuck.close).not.toHaveBeenCalled();
  vi.advanceTimersByTime(2_000);
  expect(stuck.close).toHaveBeenCalled();
});

describe("a response that waits for others on its connection", () => {
  test.each([false, true])("is not reset while 4 KiB of them leave in a second (many streams: %s)", (isInHurry) => {
    const { add, connection } = start({ isInHurry });
    const waiting = add(true);
    for (let i = 0; i < 30; i += 1) {
      connection.sentBytes += 8 * 1024;
      vi.advanceTimersByTime(2_000);
    }
    expect(waiting.close).not.toHaveBeenCalled();
  });

  test("is reset when less leaves", () => {
    const { add, connection } = start();
    const waiting = add(true);
    for (let i = 0; i < 7; i += 1) {
      connection.sentBytes += 8 * 1024 - 1;
      vi.advanceTimersByTime(2_000);
    }
    expect(waiting.close).toHaveBeenCalled();
  });
});
