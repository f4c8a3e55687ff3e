import { createServer as createHttpServer } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { type Net, openSharedReads } from "../../src/exchange/prove-sockets.ts";
import { TextWrites } from "../../src/exchange/socket-writes.ts";
import { SocketReads } from "../../src/exchange/sockets.ts";
import { chooseReads } from "../../src/gateway/open-listeners.ts";
import { useCleanup } from "../support/cleanup.ts";
import { keptLog } from "../telemetry/lines.ts";
import { collected, once, openPair, openPairs, type Pair, poll, text } from "./pair.ts";

const cleanup = useCleanup();

test("this Node passes the proof", async () => {
  const { reads, reason } = await openSharedReads();
  expect(reason).toBeNull();
  expect(reads).toBeInstanceOf(SocketReads);
});

test("all sockets are read into one memory, and their bytes are counted", async () => {
  const pairs = await openPairs(cleanup, "TCP", 3);
  const [{ reads }] = pairs as [Pair];
  const seen = new Map<Socket, string>();
  for (const { accepted } of pairs) {
    const isTaken = reads.take(accepted, (bytes) => {
      expect(bytes.buffer).toBe(reads.memory.buffer);
      seen.set(accepted, (seen.get(accepted) ?? "") + bytes.toString("latin1"));
    });
    expect(isTaken).toBe(true);
    expect(accepted.listenerCount("data")).toBe(0);
  }
  for (const [i, { client }] of pairs.entries()) client.write(`bytes of ${i}`);
  await poll(() => seen.size).toBe(3);
  for (const [i, { accepted }] of pairs.entries()) {
    expect(seen.get(accepted)).toBe(`bytes of ${i}`);
    expect(accepted.bytesRead).toBe(10);
  }
});

test("a socket is taken once, and neither a closed one nor one of another kind at all", async () => {
  const { accepted, reads } = await openPair(cleanup, "TCP");
  expect(reads.take(accepted, () => {})).toBe(true);
  expect(reads.take(accepted, () => {})).toBe(false);
  accepted.destroy();
  const closed = await openPair(cleanup, "TCP");
  closed.accepted.destroy();
  expect(closed.reads.take(closed.accepted, () => {})).toBe(false);
  const { accepted: other } = await openPair(cleanup, "TCP");
  class OtherHandle {}
  const held = Reflect.get(other, "_handle");
  Reflect.set(other, "_handle", new OtherHandle());
  expect(reads.take(other, () => {})).toBe(false);
  Reflect.set(other, "_handle", held);
});

test("bytes that a stream has buffered come first, also if the client has ended", async () => {
  const { client, accepted, reads } = await openPair(cleanup, "TCP");
  client.end("one");
  // As the reader of a PROXY header does.
  accepted.once("data", (bytes: Buffer) => accepted.pause().unshift(Buffer.concat([Buffer.from("zero,"), bytes])));
  await poll(() => accepted.readableLength).toBeGreaterThan(0);
  const { pieces, onBytes } = collected();
  const ended = once(accepted, "end").then(() => pieces.push("end"));
  expect(reads.take(accepted, onBytes)).toBe(true);
  expect(pieces).toEqual([]);
  await ended;
  expect(pieces).toEqual(["zero,one", "end"]);
});

test("a reset in the middle of a write closes the socket with its error", async () => {
  const { client, accepted, reads } = await openPair(cleanup, "TCP");
  const { onBytes } = collected();
  reads.take(accepted, onBytes);
  client.pause();
  accepted.write(Buffer.alloc(8 * 1024 * 1024));
  expect(accepted.writableLength).toBeGreaterThan(0);
  const failed = once(accepted, "error");
  const closed = once(accepted, "close");
  client.resetAndDestroy();
  expect(await failed).toMatchObject({ code: expect.stringMatching(/ECONNRESET|EPIPE/) });
  await closed;
});

test("a released socket is a stream with the unread bytes before the next ones", async () => {
  const { client, accepted, reads } = await openPair(cleanup, "TCP");
  let streamed = "";
  reads.take(accepted, (bytes) => {
    expect(bytes.toString("latin1")).toBe("taken,unread,");
    reads.release(accepted, bytes.subarray("taken,".length));
    expect(accepted.isPaused()).toBe(true);
    // Read into the same memory.
    client.end("more");
    accepted.on("data", (piece: Buffer) => {
      expect(piece.buffer).not.toBe(reads.memory.buffer);
      streamed += piece.toString("latin1");
    });
    accepted.resume();
  });
  client.write("taken,unread,");
  await once(accepted, "end");
  expect(streamed).toBe("unread,more");
});

test("a socket that is paused when it is released reads on as a stream", async () => {
  const { client, accepted, reads } = await openPair(cleanup, "TCP");
  const { pieces, onBytes } = collected();
  reads.take(accepted, (bytes) => {
    onBytes(bytes);
    accepted.pause();
  });
  client.write("one");
  await poll(() => pieces).toEqual(["one"]);
  client.end("two");
  reads.release(accepted, Buffer.alloc(0));
  expect(await text(accepted)).toBe("two");
});

test("a released socket stops reading when nobody takes its bytes, and goes on when somebody does", async () => {
  const { client, accepted, reads } = await openPair(cleanup, "TCP");
  reads.take(accepted, () => {});
  reads.release(accepted, Buffer.from("first"));
  const sent = 5 + 8 * 1024 * 1024;
  client.end(Buffer.alloc(sent - 5));
  await poll(() => accepted.readableLength).toBeGreaterThan(60_000);
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
  expect(accepted.readableLength).toBeLessThanOrEqual(5 + 2 * 64 * 1024);
  expect((await text(accepted)).length).toBe(sent);
});

test("300 sockets that are released in the middle of a body give it whole to Node's HTTP server", async () => {
  const web = createHttpServer((req, res) => {
    let body = "";
    req.setEncoding("latin1").on("data", (piece: string) => {
      body += piece;
    });
    req.on("end", () => res.end(`[${body}]`));
  });
  const pairs = await openPairs(cleanup, "TCP", 300);
  let rawCount = 0;
  const answers = pairs.map(async ({ client, accepted, reads }, i) => {
    const released = Promise.withResolvers<void>();
    reads.take(accepted, (bytes) => {
      if (bytes.toString("latin1") === "raw") {
        rawCount += 1;
        accepted.write("raw");
        return;
      }
      // Still being written: more than the kernel takes from a client that does not read yet.
      if (i % 100 === 0) accepted.write(Buffer.alloc(4 * 1024 * 1024, "w"));
      reads.release(accepted, bytes);
      web.emit("connection", accepted);
      accepted.resume();
      released.resolve();
    });
    client.write("raw");
    await once(client, "data");
    if (i % 100 === 0) client.pause();
    client.write(`POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\nConnection: close\r\n\r\nab`);
    await released.promise;
    client.write(`c${String(i).padStart(5, "0")}`);
    return text(client);
  });
  for (const [i, answer] of (await Promise.all(answers)).entries()) {
    expect(answer.slice(-10)).toBe(`[abc${String(i).padStart(5, "0")}]`);
  }
  expect(rawCount).toBe(300);
});

/** A Node whose accepted sockets are changed. */
const netOf = (change: (socket: Socket) => void): Net => ({
  connect,
  createServer: ((...options: Parameters<typeof createServer>) =>
    createServer(...options).prependListener("connection", change)) as typeof createServer,
});

const handleOf = (socket: Socket): Record<string, unknown> => Reflect.get(socket, "_handle");

test.each<[string, Net, RegExp]>([
  [
    "has other symbols",
    netOf((socket) => {
      for (const symbol of Object.getOwnPropertySymbols(socket)) {
        if (symbol.description === "kBufferCb") Reflect.deleteProperty(socket, symbol);
      }
    }),
    /other parts/,
  ],
  [
    "has no useUserBuffer",
    netOf((socket) => Object.assign(handleOf(socket), { useUserBuffer: undefined })),
    /other parts/,
  ],
  [
    "takes the buffer and does not use it",
    netOf((socket) => Object.assign(handleOf(socket), { useUserBuffer: () => {} })),
    /other bytes|before an end/,
  ],
  ["never calls back", netOf((socket) => Object.assign(handleOf(socket), { onread: () => {} })), /did not arrive/],
  ["reads on while paused", netOf((socket) => Object.assign(socket, { pause: () => socket })), /paused/],
  [
    "cannot listen on loopback",
    {
      connect,
      createServer: ((options: object) => {
        const server = createServer(options);
        return Object.assign(server, {
          listen() {
            process.nextTick(() => server.emit("error", new Error("no loopback")));
            return server;
          },
        });
      }) as typeof createServer,
    },
    /no loopback/,
  ],
])("a Node that %s fails the proof, and nothing stays open", async (name, net, reason) => {
  // Only what never comes is known by the time that it takes.
  const proven = await openSharedReads(net, name === "never calls back" ? 100 : 10_000);
  expect(proven).toEqual({ reads: null, reason: expect.stringMatching(reason) });
});

test("a Node that fails is logged once, and connections are read as streams", async () => {
  const { log, lines } = keptLog("warn");
  const failed = () =>
    openSharedReads(
      netOf((socket) => Object.assign(handleOf(socket), { onread: () => {} })),
      20,
    );
  expect(await chooseReads(log, new TextWrites(), failed)).toBeNull();
  expect(lines()).toMatchObject([{ msg: "connections are read as streams", reason: expect.stringMatching(/arrive/) }]);
  expect(await chooseReads(log, new TextWrites())).toBeInstanceOf(SocketReads);
  expect(lines()).toHaveLength(1);
});
