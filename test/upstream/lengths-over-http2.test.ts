// When the body of a request over HTTP/2 goes upstream with a length that its client has not named: when its end is there before
// its head is written. Otherwise in chunks. Nothing is waited for.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { readWhole } from "../conformance/lengths/wire.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import {
  endHeaders,
  endStream,
  type Fields,
  FrameClient,
  frame,
  frameTypes,
  get,
  literals,
  post,
} from "../support/http2-frames.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { response, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const padded = 8;

const head = (fields: Fields = post(), flags: number = endHeaders): Buffer =>
  frame(frameTypes.headers, flags, 1, literals(fields));
const data = (bytes: string, flags = 0): Buffer => frame(frameTypes.data, flags, 1, bytes);
const end = (bytes = ""): Buffer => data(bytes, endStream);
/** Several DATA frames, as large as they may be. */
const many = (bytes: number): Buffer[] => {
  const whole = "b".repeat(bytes);
  const pieces = Array.from({ length: Math.ceil(bytes / 16_384) }, (_, i) => whole.slice(i * 16_384, (i + 1) * 16_384));
  return pieces.map((piece, i) => data(piece, i === pieces.length - 1 ? endStream : 0));
};

/** A gateway whose upstream takes whole requests, and keeps those to /v2/held. */
async function start(overrides: Overrides = {}) {
  const { ca, overrides: all } = withTls(overrides);
  const unread = new Map<Socket, string>();
  const arrived: { framing: string; body: string }[] = [];
  const held: Socket[] = [];
  const onData = (socket: Socket, bytes: Buffer): void => {
    const text = (unread.get(socket) ?? "") + bytes.toString("latin1");
    const whole = readWhole(text);
    unread.set(socket, whole === null ? text : "");
    if (whole === null) return;
    if (text.includes(" /v2/held ")) held.push(socket);
    else {
      arrived.push(whole);
      socket.write(response("ok"));
    }
  };
  const { gateway, upstream } = await stageRaw(cleanup, onData, all);
  const client = (): FrameClient => new FrameClient(gateway.traffic.port, { ca }, cleanup);
  return { gateway, bytes: upstream.bytes, arrived, held, client };
}

/** With two connections to the upstream that are idle: a request is sent as soon as its head is there. */
async function startWarm() {
  const staged = await start();
  const client = staged.client();
  for (const stream of [1, 3]) client.headers(stream, get("/v2/held"));
  await eventually("there are two connections", () => staged.held.length === 2);
  for (const socket of staged.held) socket.write(response("ok"));
  for (const stream of [1, 3]) expect(await client.ended(stream)).toBe("whole");
  return { ...staged, client: staged.client() };
}

test.each<[claim: string, frames: readonly Buffer[], framing: string, body: string]>([
  ["one DATA frame", [head(), end("hello")], "5", "hello"],
  ["several, in one read", [head(), data("he"), data("l"), end("lo")], "5", "hello"],
  ["an empty one behind the content", [head(), data("hello"), end()], "5", "hello"],
  ["an empty one behind the head", [head(), end()], "0", ""],
  ["an empty one behind the head of a GET", [head(get()), end()], "", ""],
  ["an empty one, another, then the content", [head(), data(""), data("hello"), end()], "5", "hello"],
  ["padding", [head(), frame(frameTypes.data, padded | endStream, 1, "\x03hello\0\0\0")], "5", "hello"],
  ["nothing but padding", [head(), frame(frameTypes.data, padded | endStream, 1, "\x03\0\0\0")], "0", ""],
  ["trailers", [head(), data("hello"), head([["x-sum", "1"]], endHeaders | endStream)], "5", "hello"],
  ["trailers and no content", [head(), head([["x-sum", "1"]], endHeaders | endStream)], "0", ""],
  ["60,000 bytes", [head(), ...many(60_000)], "60000", "b".repeat(60_000)],
  ["a length of its own", [head(post(["content-length", "5"])), end("hello")], "5", "hello"],
])("a body of %s that comes with its head has its length", async (_, frames, framing, body) => {
  const { client, arrived } = await startWarm();
  client.socket.write(Buffer.concat(frames));
  expect(await client.ended(1)).toBe("whole");
  expect(arrived).toEqual([{ framing, body }]);
});

test.each([
  ["HEADERS, DATA", [head(), end("hello")]],
  ["HEADERS, DATA, DATA, an empty DATA", [head(), data("hel"), data("lo"), end()]],
])("so has one whose frames come in TLS records of their own: %s", async (_, frames) => {
  const { client, arrived } = await startWarm();
  client.socket.cork();
  for (const each of frames) client.socket.write(each);
  process.nextTick(() => client.socket.uncork());
  expect(await client.ended(1)).toBe("whole");
  expect(arrived).toEqual([{ framing: "5", body: "hello" }]);
});

test("so have two whose frames alternate", async () => {
  const { client, arrived } = await startWarm();
  const ofThree = (bytes: Buffer): Buffer => {
    const copy = Buffer.from(bytes);
    copy.writeUInt32BE(3, 5);
    return copy;
  };
  const frames = [head(), data("first "), ofThree(head()), ofThree(data("second ")), data("of "), ofThree(data("of "))];
  client.socket.write(Buffer.concat([...frames, end("two"), ofThree(end("two"))]));
  expect([await client.ended(1), await client.ended(3)]).toEqual(["whole", "whole"]);
  const bodies = arrived.toSorted((a, b) => a.body.length - b.body.length);
  expect(bodies).toEqual([
    { framing: "12", body: "first of two" },
    { framing: "13", body: "second of two" },
  ]);
});

test.each([
  ["comes behind its head", [head()], [end("hello")], "hello"],
  ["has begun with its head", [head(), data("hel")], [end("lo")], "hello"],
  ["is over behind its content", [head(), data("hello")], [end()], "hello"],
  ["is over behind its head, without content", [head()], [end()], ""],
])("a body that %s goes in chunks", async (_, first, later, body) => {
  const { client, arrived, gateway } = await startWarm();
  client.socket.write(Buffer.concat(first));
  await eventually("the upstream has its head", async () => (await upstreamConnections(gateway)).active === 1);
  client.socket.write(Buffer.concat(later));
  expect(await client.ended(1)).toBe("whole");
  expect(arrived).toEqual([{ framing: "chunks", body }]);
});

test("a body of more than comes with a head goes in chunks", async () => {
  const { client, arrived } = await startWarm();
  client.send(frameTypes.headers, endHeaders, 1, literals(post()));
  client.socket.write(Buffer.concat(many(60_000).map((each) => (each[4] === endStream ? data("b".repeat(10)) : each))));
  await eventually("its window opens", () => client.of(frameTypes.windowUpdate, 1).length > 0);
  client.socket.write(end("c".repeat(10_000)));
  expect(await client.ended(1)).toBe("whole");
  expect(arrived[0]?.framing).toBe("chunks");
  expect(arrived[0]?.body.length).toBe(3 * 16_384 + 10 + 10_000);
});

test("a client that waits for 100 sends its body too late for a length", async () => {
  const { client, arrived } = await startWarm();
  client.headers(1, post(["expect", "100-continue"]), endHeaders);
  await eventually("it is told to continue", () => client.headOf(1)[1] === "100");
  client.socket.write(end("hello"));
  expect(await client.ended(1)).toBe("whole");
  expect(arrived).toEqual([{ framing: "chunks", body: "hello" }]);
});

/** All connections to the upstream are taken: `waits` asks for one, `release` gives it one. */
async function startFull(overrides: Overrides = {}) {
  const staged = await start({ ...overrides, upstream: { maxConnections: 1, connectTimeoutMs: 30_000 } });
  const holding = staged.client();
  holding.headers(1, get("/v2/held"));
  await eventually("the connection is taken", () => staged.held.length === 1);
  return { ...staged, client: staged.client(), release: () => void staged.held[0]?.write(response("ok")) };
}

const waitingBytes = (gateway: Awaited<ReturnType<typeof start>>["gateway"]): Promise<number> =>
  metric(gateway, "headgate_waiting_body_bytes");

test.each([5, 20_000, 40_000, 60_000])(
  "a body of %i bytes that becomes whole while its request waits for a connection has its length",
  async (bytes) => {
    const { client, arrived, gateway, release } = await startFull();
    const frames = many(bytes);
    client.socket.write(Buffer.concat([head(), ...frames.slice(0, -1)]));
    await eventually("it waits", async () => (await waitingBytes(gateway)) > 0 || frames.length === 1);
    client.socket.write(frames.at(-1) ?? "");
    // What the gateway answers behind it: the whole body has been read.
    client.send(frameTypes.ping, 0, 0, "12345678");
    await eventually("it is read", () => client.of(frameTypes.ping).length === 1);
    release();
    expect(await client.ended(1)).toBe("whole");
    expect(arrived).toEqual([{ framing: `${bytes}`, body: "b".repeat(bytes) }]);
    expect(await waitingBytes(gateway)).toBe(0);
  },
);

test("a body that is not whole when its request gets a connection goes in chunks, with all that has come first", async () => {
  const { client, arrived, gateway, release } = await startFull();
  client.socket.write(
    Buffer.concat([head(), data("x".repeat(16_384)), data("y".repeat(16_384)), data("z".repeat(9_000))]),
  );
  await eventually("it waits", async () => (await upstreamConnections(gateway)).waiting === 1);
  release();
  await eventually("its window opens", () => client.of(frameTypes.windowUpdate, 1).length > 0);
  client.socket.write(end("end"));
  expect(await client.ended(1)).toBe("whole");
  const body = `${"x".repeat(16_384)}${"y".repeat(16_384)}${"z".repeat(9_000)}end`;
  expect(arrived).toEqual([{ framing: "chunks", body }]);
});

test("a body that proves too large when its request gets a connection is 413, and the upstream sees none of it", async () => {
  const { client, arrived, gateway, release, bytes } = await startFull({ maxBodyBytes: 40_000 });
  client.socket.write(Buffer.concat([head(), ...many(33_000).slice(0, -1), data("b".repeat(232))]));
  await eventually("it waits", async () => (await upstreamConnections(gateway)).waiting === 1);
  client.socket.write(end("c".repeat(9_000)));
  client.send(frameTypes.ping, 0, 0, "12345678");
  await eventually("it is read", () => client.of(frameTypes.ping).length === 1);
  release();
  expect(await client.ended(1)).toBe("whole");
  expect(client.headOf(1)[1]).toBe("413");
  expect([arrived, bytes().includes("POST")]).toEqual([[], false]);
  client.headers(3, get());
  expect(await client.ended(3)).toBe("whole");
  expect(client.headOf(3)[1]).toBe("200");
});
