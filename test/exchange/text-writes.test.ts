// Texts that are written to the handle of a socket, beside the writes of its stream.
import { createServer, type NetConnectOpts, connect as openTcp, type ServerOpts, Socket } from "node:net";
import { expect, test } from "vitest";
import { type Net, openSharedReads } from "../../src/exchange/prove-sockets.ts";
import { TextWrites } from "../../src/exchange/socket-writes.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { once, openPair } from "./pair.ts";

const cleanup = useCleanup();

interface Handle {
  readStop(): void;
  writeLatin1String(request: unknown, text: string): unknown;
}

const handleOf = (socket: Socket): Handle => Reflect.get(socket, "_handle");

/** How this Node writes, as the gateway finds out at its start. */
async function provenWrites(): Promise<TextWrites> {
  const proven = await openSharedReads();
  if (proven.reads === null) throw new Error(proven.reason);
  const writes = new TextWrites();
  writes.useHandles(proven.textHandles);
  return writes;
}

/** `bypassed`: the texts that the stream has not seen. */
async function stage() {
  const { client, accepted } = await openPair(cleanup, "TCP");
  const writes = await provenWrites();
  const streamed: string[] = [];
  const write = accepted._write;
  accepted._write = (data: Buffer | string, ...rest) => {
    streamed.push(data.toString());
    return write.call(accepted, data, ...rest);
  };
  let received = "";
  client.setEncoding("latin1").on("data", (piece: string) => {
    received += piece;
  });
  return { client, accepted, writes, streamed, received: () => received };
}

/** Writes texts to a client that does not read, until the system takes no more. Returns all of them together. */
function fill(accepted: Socket, writes: TextWrites): string {
  let all = "";
  for (let i = 0; i < 10_000; i += 1) {
    const text = `${i},`.repeat(2_000);
    all += text;
    if (!writes.write(accepted, text)) return all;
  }
  throw new Error("the system takes everything");
}

test("this Node's streams are bypassed, and texts and the stream's writes arrive in order", async () => {
  const { accepted, writes, streamed, received } = await stage();
  expect(writes.write(accepted, "one,\xff,")).toBe(true);
  accepted.write("two,");
  expect(writes.write(accepted, "three,")).toBe(true);
  accepted.end("four");
  await eventually("all has arrived", () => received() === "one,\xff,two,three,four");
  expect(streamed).toEqual(["two,", "four"]);
  expect(accepted.bytesWritten).toBe(received().length);
});

test("what the stream has not written yet comes first", async () => {
  const { accepted, writes, received } = await stage();
  accepted.cork();
  accepted.write("one,");
  expect(writes.write(accepted, "two")).toBe(false);
  accepted.uncork();
  await eventually("both have arrived", () => received() === "one,two");
});

test("an empty write reports when the system has taken a text that a slow client left over", async () => {
  const { client, accepted, writes, received } = await stage();
  client.pause();
  const sent = fill(accepted, writes);
  let isTaken = false;
  accepted.write("", "latin1", () => {
    isTaken = true;
  });
  for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
  expect(isTaken).toBe(false);
  expect(writes.write(accepted, "more,")).toBe(false);
  accepted.end("end");
  client.resume();
  await eventually("all has arrived", () => received().length === sent.length + "more,end".length);
  expect(received() === `${sent}more,end`).toBe(true);
  expect(isTaken).toBe(true);
});

test("a client that leaves while it is written to closes the socket with an error like the stream's", async () => {
  const { client, accepted, writes } = await stage();
  client.pause();
  fill(accepted, writes);
  // Otherwise a read reports it first.
  handleOf(accepted).readStop();
  const failed = within("the error", once(accepted, "error"));
  const closed = within("the close", once(accepted, "close"));
  client.resetAndDestroy();
  expect(await failed).toMatchObject({ syscall: "write", code: expect.stringMatching(/^(ECONNRESET|EPIPE)$/) });
  await closed;
  expect(writes.write(accepted, "late")).toBe(false);
});

test("an error of the first attempt closes the socket too", async () => {
  const { accepted, writes } = await stage();
  const handle = handleOf(accepted);
  // EPIPE: the client has left, and nobody has read that yet.
  handle.writeLatin1String = () => -32;
  const failed = within("the error", once(accepted, "error"));
  expect(writes.write(accepted, "text")).toBe(false);
  expect(accepted.destroyed).toBe(true);
  expect(await failed).toMatchObject({ message: "write EPIPE", code: "EPIPE", errno: -32, syscall: "write" });
});

test("a socket whose handle is of another kind is written to by its stream", async () => {
  const { client, accepted } = await openPair(cleanup, "TLS");
  const writes = await provenWrites();
  let received = "";
  client.on("data", (piece: Buffer) => {
    received += piece.toString("latin1");
  });
  writes.write(accepted, "text\xff");
  await eventually("it has arrived", () => received === "text\xff");
  const unproven = new TextWrites();
  const plain = await stage();
  expect(unproven.write(plain.accepted, "text")).toBe(true);
  expect(plain.streamed).toEqual(["text"]);
});

/** A Node whose streams write to their handles as `write` does. */
function netWhere(write: (handle: Handle, original: Handle["writeLatin1String"]) => Handle["writeLatin1String"]): Net {
  return {
    connect: (options: NetConnectOpts) => openTcp(options),
    createServer: (options: ServerOpts) =>
      createServer(options).on("connection", (socket: Socket) => {
        const handle = handleOf(socket);
        handle.writeLatin1String = write(handle, handle.writeLatin1String);
      }),
  };
}

test("a Node that gives an object with each text is never given a text alone", async () => {
  const given: unknown[] = [];
  // As Node did before: `write` would end the process without the object.
  const { createServer: makeServer, connect } = netWhere((handle, original) => (request, text) => {
    given.push(request);
    return Reflect.apply(original, handle, [null, text]);
  });
  const withObjects = Socket.prototype._write;
  const proven = await openSharedReads({
    connect,
    createServer: (options) =>
      makeServer(options).on("connection", (socket: Socket) => {
        socket._write = (data, encoding, done) => {
          if (encoding !== "latin1") return withObjects.call(socket, data, encoding, done);
          handleOf(socket).writeLatin1String({}, String(data));
          done();
        };
      }),
  });
  expect(proven).toMatchObject({ reason: null, textHandles: null });
  expect(given.length).toBeGreaterThan(0);
  expect(given).not.toContain(null);
});

test("a Node whose handles do not take a text at once is not proven to", async () => {
  const net = netWhere((handle, original) => (request, text) => {
    Reflect.apply(original, handle, [request, text]);
    return {};
  });
  expect(await openSharedReads(net)).toMatchObject({ textHandles: null });
});
