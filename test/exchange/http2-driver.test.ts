// What one turn of the event loop reads of an HTTP/2 connection, however its bytes come.
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { type DrivenConnection, Http2Driver } from "../../src/exchange/http2-driver.ts";
import { PeerTurns } from "../../src/exchange/peer-turns.ts";
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

const ignore = (): void => {};

function drive<Owner>(handlers: Partial<DrivenConnection<Owner>>) {
  const socket = new FakeSocket();
  const { monotonicMs: nowMs } = new FakeClock();
  const turn = new PeerTurns().add(socket as unknown as Socket, "a");
  const budget = new FrameBudgets(nowMs).open(null);
  const session = new Http2Session<Owner>({ budget, turn, nowMs, maxStreams: 1_000, maxHeaderBytes: 16_384 });
  const connection: DrivenConnection<Owner> = {
    onEvent: ignore,
    onStreamClosed: ignore,
    onStreamDrained: ignore,
    onSettling: ignore,
    onSettled: ignore,
    ...handlers,
  };
  const driver = new Http2Driver(socket as unknown as Socket, session, connection, turn, 100_000, null, null);
  driver.settle();
  socket.emit("data", begin);
  return { socket, session, driver };
}

test("the records of one TLS read share the bound on a turn", async () => {
  let requests = 0;
  const { socket } = drive<null>({
    onEvent: () => {
      requests += 1;
    },
  });
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

test("a connection that fails ends its streams over several turns, and is settled after the last", async () => {
  const ended: number[] = [];
  let settledAfter: number | null = null;
  const { socket, session, driver } = drive<number>({
    onEvent: (event) => {
      if (event.kind === "request") event.stream.owner = event.stream.id;
    },
    onStreamClosed: (id) => void ended.push(id),
    onSettled: () => {
      settledAfter = ended.length;
    },
  });
  const ids = Array.from({ length: 50 }, (_, n) => 2 * n + 1);
  for (const id of ids) {
    socket.emit("data", whole(id));
    await nextTurn();
  }
  settledAfter = null;
  session.close();
  driver.settle();
  let most = ended.length;
  for (let turns = 0; settledAfter === null && turns < 20; turns += 1) {
    const before = ended.length;
    await nextTurn();
    most = Math.max(most, ended.length - before);
  }
  expect(ended).toEqual(ids);
  expect(most).toBe(16);
  expect(settledAfter).toBe(50);
});
