import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { StallWatch } from "../../src/transport/stall-watch.ts";

/** Closed at these times, if it is asked every 500 ms and `change` says what has happened since. */
function closedAtMs(change: (socket: Figures, nowMs: number) => void): number | null {
  const socket: Figures = { bytesRead: 100, bytesWritten: 0, _handle: { writeQueueSize: 0 } };
  let isClosed = false;
  const destroy = (): void => {
    isClosed = true;
  };
  const watch = new StallWatch(Object.assign(socket, { destroy }) as unknown as Socket, 2_000);
  for (let nowMs = 0; nowMs <= 20_000; nowMs += 500) {
    change(socket, nowMs);
    watch.check(nowMs);
    if (isClosed) return nowMs;
  }
  return null;
}

interface Figures {
  bytesRead: number;
  bytesWritten: number;
  readonly _handle: { writeQueueSize: number };
}

test("a connection without any progress is closed after the timeout", () => {
  expect(closedAtMs(() => {})).toBe(2_000);
});

test("bytes that are received or written are progress", () => {
  const reading = closedAtMs((socket, nowMs) => {
    if (nowMs <= 5_000) socket.bytesRead += 1;
  });
  const writing = closedAtMs((socket, nowMs) => {
    if (nowMs <= 5_000) socket.bytesWritten += 1;
  });
  expect([reading, writing]).toEqual([7_000, 7_000]);
});

test("a long write is in progress as long as the kernel takes some of it, and not because it was asked for", () => {
  const closed = closedAtMs((socket, nowMs) => {
    if (nowMs === 500) Object.assign(socket, { bytesWritten: 1_000_000, _handle: { writeQueueSize: 1_000_000 } });
    else if (nowMs > 500 && nowMs <= 6_000) socket._handle.writeQueueSize -= 1;
  });
  expect(closed).toBe(8_000);
});
