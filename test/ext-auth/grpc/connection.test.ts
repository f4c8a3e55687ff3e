// One connection of the gRPC port, with its time in the hands of the test: what it writes and when, and what it ends.

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { ClientBytes } from "../../../src/core/client-share.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { PeerTurns } from "../../../src/exchange/peer-turns.ts";
import { TextWrites } from "../../../src/exchange/socket-writes.ts";
import { SocketReads } from "../../../src/exchange/sockets.ts";
import type { GrpcCall } from "../../../src/ext-auth/grpc/call.ts";
import { GrpcConnection, type GrpcServerOptions, type GrpcShares } from "../../../src/ext-auth/grpc/connection.ts";
import { FrameBudgets } from "../../../src/http2/frame-reader.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually, standsStill } from "../../support/eventually.ts";
import { code, endHeaders, type Fields, FrameReader, frame, frameTypes, literals } from "../../support/http2-frames.ts";
import { countInIterations } from "../../support/iterations.ts";
import { listen } from "../../support/loopback-server.ts";

const cleanup = useCleanup();
const path = "/grpc.health.v1.Health/Check";
const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const settings = frame(frameTypes.settings, 0, 0);
const noWindow = frame(frameTypes.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), code(0)]));
const head: Fields = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", path],
  [":authority", "a"],
  ["content-type", "application/grpc"],
];
const headers = (stream: number, more: Fields = []): Buffer =>
  frame(frameTypes.headers, endHeaders, stream, literals([...head, ...more]));
const ask = (stream: number): Buffer =>
  Buffer.concat([headers(stream), frame(frameTypes.data, 1, stream, Buffer.alloc(5))]);

class CountedWrites extends TextWrites {
  texts: string[] = [];

  override write(socket: Socket, text: string): boolean {
    this.texts.push(text);
    return super.write(socket, text);
  }
}

/** A client's socket and the connection at its other end. The client reads only if it is a reader. */
async function stage(
  handle: (message: Buffer, call: GrpcCall) => void = (_, call) => call.reply("ok"),
  { isShared = false, isReader = true } = {},
) {
  const textWrites = new CountedWrites();
  const resets: string[] = [];
  const told = { isClosed: false, closedFor: [] as string[], failures: [] as unknown[] };
  const server = createServer({ noDelay: true });
  await listen(cleanup(server));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const client = connect(port, "127.0.0.1").setNoDelay(true);
  client.on("error", () => {});
  cleanup(() => client.destroy());
  const [socket] = (await once(server, "connection")) as [Socket];
  const reads = isShared ? SocketReads.of(socket) : null;
  const options: GrpcServerOptions = {
    methods: new Map([[path, { maxMessageBytes: 100_000, admits: () => null, handle }]]),
    connections: {
      admit: () => true,
      setBusy: () => {},
      peerKey: () => "a",
      isTrusted: () => true,
    },
    maxUnverifiedCalls: 0,
    onHttp2Closed: (reason) => void told.closedFor.push(reason),
    nowMs: systemClock.monotonicMs,
    reads,
    textWrites,
    settings: { current: { headBounds: { maxBytes: 16_384 }, headTimeoutMs: 10_000, keepAliveTimeoutMs: 60_000 } },
    closeMs: 2_000,
    onHttp2Reset: (reason) => void resets.push(reason),
    onCallFailed: () => {},
    onFailure: (error) => void told.failures.push(error),
  };
  const shares: GrpcShares = {
    options,
    held: new ClientBytes(1_000_000),
    closed: () => {
      told.isClosed = true;
    },
  };
  const budget = new FrameBudgets(options.nowMs).open(null);
  const connection = new GrpcConnection(socket, budget, new PeerTurns().add(socket, null), shares);
  const received: Buffer[] = [];
  if (isReader) client.on("data", (bytes: Buffer) => received.push(bytes));
  const frames = () => new FrameReader().read(Buffer.concat(received));
  const ended = (): number =>
    frames().filter(({ type, flags }) => type === frameTypes.headers && (flags & 1) !== 0).length;
  return { client, socket, connection, reads, textWrites, resets, told, frames, ended };
}

describe.each([false, true])("read by shared memory: %s", (isShared) => {
  test("all frames of a turn leave as one write", async () => {
    const { client, textWrites, ended } = await stage(undefined, { isShared });
    client.write(Buffer.concat([preface, settings, ...Array.from({ length: 20 }, (_, i) => ask(2 * i + 1))]));
    await eventually("all are answered", () => ended() === 20);
    // The first is that of SETTINGS.
    expect(textWrites.texts.length).toBe(2);
  });

  test("more calls than fit in a turn are answered in the next ones, whatever others read meanwhile", async () => {
    const staged = await stage(
      (_, call) => {
        call.reply("ok");
        process.nextTick(() => staged.reads?.memory.fill(0xee));
      },
      { isShared },
    );
    const { client, ended, textWrites, told } = staged;
    client.write(Buffer.concat([preface, settings]));
    client.write(Buffer.concat(Array.from({ length: 500 }, (_, i) => ask(2 * i + 1))));
    await eventually("all are answered", () => ended() === 500 || told.isClosed);
    expect(ended()).toBe(500);
    expect(textWrites.texts.length).toBeGreaterThan(10);
  });

  test.each([
    [8_000, 1],
    [4_000, 2],
  ])(
    "of calls with messages of %i bytes, which may take long to read, %i are answered in a turn",
    async (bytes, most) => {
      const answers = countInIterations(cleanup);
      const { client, ended } = await stage(
        (_, call) => {
          answers.count();
          call.reply("");
        },
        { isShared },
      );
      const message = Buffer.concat([Buffer.of(0), code(bytes), Buffer.alloc(bytes)]);
      const asks = Array.from({ length: 7 }, (_, i) =>
        Buffer.concat([headers(2 * i + 1), frame(frameTypes.data, 1, 2 * i + 1, message)]),
      );
      client.write(Buffer.concat([preface, settings, ...asks]));
      await eventually("all are answered", () => ended() === asks.length);
      expect(Math.max(...answers.counts)).toBe(most);
    },
  );

  test("a message in any pieces is one message, and none is overwritten by the next read", async () => {
    const messages: string[] = [];
    const { client, ended } = await stage(
      (message, call) => {
        messages.push(message.toString());
        call.reply("");
      },
      { isShared },
    );
    client.write(Buffer.concat([preface, settings]));
    const text = "m".repeat(3_000);
    const message = Buffer.concat([Buffer.of(0), code(text.length), Buffer.from(text)]);
    for (const [i, size] of [100, 1_000, 3_005].entries()) {
      client.write(headers(2 * i + 1));
      for (let at = 0; at < message.length; at += size) {
        const isLast = at + size >= message.length;
        client.write(frame(frameTypes.data, isLast ? 1 : 0, 2 * i + 1, message.subarray(at, at + size)));
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    await eventually("all are answered", () => ended() === 3);
    expect(messages).toEqual([text, text, text]);
  });

  test("a caller that does not read its answers is not read from, until it does", async () => {
    let handled = 0;
    const answer = (_: Buffer, call: GrpcCall): void => {
      handled += 1;
      call.reply("r".repeat(60_000));
    };
    const { client } = await stage(answer, { isShared, isReader: false });
    const windows = frame(frameTypes.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), code(2 ** 31 - 1)]));
    const window = frame(frameTypes.windowUpdate, 0, 0, code(2 ** 30));
    client.write(Buffer.concat([preface, windows, window, ...Array.from({ length: 600 }, (_, i) => ask(2 * i + 1))]));
    await eventually("some are handled", () => handled > 0);
    expect(await standsStill("what is handled", () => handled)).toBeLessThan(400);
    client.resume();
    await eventually("all are handled", () => handled === 600);
  });

  test("while the system does not take what was written, the socket is paused", async () => {
    const { client, socket } = await stage((_, call) => call.reply("r".repeat(1_200_000)), {
      isShared,
      isReader: false,
    });
    const windows = frame(frameTypes.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), code(2 ** 31 - 1)]));
    const window = frame(frameTypes.windowUpdate, 0, 0, code(2 ** 30));
    client.write(Buffer.concat([preface, windows, window, ...Array.from({ length: 10 }, (_, i) => ask(2 * i + 1))]));
    await eventually("it is paused", () => socket.isPaused());
    client.resume();
    await eventually("it is read again", () => !socket.isPaused());
  });
});

test("answers that are given later in one turn leave as one write", async () => {
  const calls: GrpcCall[] = [];
  const { client, textWrites, ended } = await stage((_, call) => void calls.push(call));
  client.write(Buffer.concat([preface, settings, ask(1), ask(3), ask(5)]));
  await eventually("the calls arrive", () => calls.length === 3);
  const before = textWrites.texts.length;
  for (const call of calls) call.reply("late");
  await eventually("all are answered", () => ended() === 3);
  expect(textWrites.texts.length).toBe(before + 1);
});

describe("in time", () => {
  test("a head that takes longer than heads may ends its connection, and many heads do not", async () => {
    const { client, socket, connection, frames, ended } = await stage();
    client.write(Buffer.concat([preface, settings]));
    await eventually("it is read", () => frames().length > 1);
    for (let i = 0; i < 30; i += 1) {
      const next = ask(2 * i + 1);
      const before = socket.bytesRead;
      client.write(next.subarray(0, 12));
      await eventually("it is read", () => socket.bytesRead >= before + 12);
      connection.sweep(1_000);
      client.write(next.subarray(12));
      await eventually("it is answered", () => ended() === i + 1);
    }
    client.write(frame(frameTypes.headers, 0, 61, literals(head)));
    await new Promise((resolve) => client.write(frame(frameTypes.continuation, 0, 61), resolve));
    await eventually("the connection is told to calm down", () => {
      connection.sweep(1_000);
      return frames().some(({ type, payload }) => type === frameTypes.goaway && payload.readUInt32BE(4) === 11);
    });
  });

  test("a response that nobody reads is given up after ten seconds, and the connection goes on", async () => {
    const { client, connection, resets, frames } = await stage();
    client.write(Buffer.concat([preface, noWindow, ask(1)]));
    await eventually("the call waits for the window", () => connection.openCalls === 1);
    for (let ms = 0; ms < 10_000; ms += 500) connection.sweep(500);
    expect([resets, connection.openCalls]).toEqual([[], 1]);
    for (let ms = 0; ms < 4_000; ms += 500) connection.sweep(500);
    expect([resets, connection.openCalls]).toEqual([["unread"], 0]);
    await eventually("it is told", () => frames().some(({ type, payload }) => type === 3 && payload[3] === 8));
  });

  test("a connection that was idle is told twice that it ends, and is closed when it says that it has read it", async () => {
    const { client, connection, frames, told } = await stage();
    client.write(Buffer.concat([preface, settings, ask(1)]));
    await eventually("the call is over", () => frames().length > 3);
    for (let ms = 0; ms <= 60_000; ms += 500) connection.sweep(500);
    const goaways = () =>
      frames()
        .filter(({ type }) => type === frameTypes.goaway)
        .map(({ payload }) => payload.readUInt32BE(0));
    await eventually("it is told", () => frames().some(({ type }) => type === frameTypes.ping));
    expect(goaways()).toEqual([2 ** 31 - 1]);
    client.write(Buffer.concat([ask(3), frame(frameTypes.ping, 1, 0, "headgate")]));
    await eventually("the connection is closed", () => told.isClosed);
    expect(goaways()).toEqual([2 ** 31 - 1, 3]);
  });

  test("a connection whose end is not acknowledged is closed all the same", async () => {
    const { client, connection, frames, told } = await stage();
    client.write(Buffer.concat([preface, settings]));
    connection.end();
    await eventually("it is told", () => frames().some(({ type }) => type === frameTypes.ping));
    for (let ms = 0; ms <= 2_000; ms += 500) connection.sweep(500);
    await eventually("the connection is closed", () => told.isClosed);
  });
});

test("a head beyond the bounds of heads is answered with a status, and the next call as ever", async () => {
  const { client, frames, ended } = await stage();
  client.write(Buffer.concat([preface, settings, headers(1, [["x", "y".repeat(16_200)]])]));
  await eventually("it is answered", () => ended() === 1);
  const [answer] = frames().filter(({ type }) => type === frameTypes.headers);
  expect(answer?.payload.toString("latin1")).toContain("431");
  client.write(ask(3));
  await eventually("the next is answered", () => ended() === 2);
});
