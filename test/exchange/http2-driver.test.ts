// What one turn of the event loop reads of an HTTP/2 connection, however its bytes come.
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { Http2Driver } from "../../src/exchange/http2-driver.ts";
import { FrameBudgets } from "../../src/http2/frame-reader.ts";
import { Http2Session } from "../../src/http2/session.ts";
import { begin, whole } from "../http2/conversation.ts";
import { FakeClock } from "../support/clock.ts";

class FakeSocket extends EventEmitter {
  destroyed = false;
  writableEnded = false;
  write(_text: string, _encoding: string, onFlushed: () => void): void {
    setImmediate(onFlushed);
  }
  cork(): void {}
  uncork(): void {}
  pause(): void {}
  resume(): void {}
}

test("the records of one TLS read share the bound on a turn", async () => {
  const socket = new FakeSocket();
  const { monotonicMs: nowMs } = new FakeClock();
  const session = new Http2Session<null>({ budget: new FrameBudgets(nowMs).open(null), nowMs, maxStreams: 1_000 });
  let requests = 0;
  const ignore = (): void => {};
  const driver = new Http2Driver(
    socket as unknown as Socket,
    session,
    {
      onRead: ignore,
      onEvent: () => {
        requests += 1;
      },
      onStreamClosed: ignore,
      onStreamDrained: ignore,
      onSettling: ignore,
      onSettled: ignore,
    },
    100_000,
    null,
    null,
  );
  driver.settle();
  socket.emit("data", begin);
  await nextTurn();
  // None of them is enough for a turn.
  const records = Array.from({ length: 30 }, (_, n) =>
    Buffer.concat(Array.from({ length: 20 }, (_, i) => whole(2 * (20 * n + i) + 1))),
  );
  for (const record of records) socket.emit("data", record);
  expect(requests).toBeGreaterThan(25);
  expect(requests).toBeLessThanOrEqual(32);
  for (let turns = 0; requests < 600 && turns < 30; turns += 1) {
    const before = requests;
    await nextTurn();
    expect(requests - before).toBeLessThanOrEqual(64);
  }
  expect(requests).toBe(600);
});
