// The gRPC server by itself, with a method of the tests' own: frames, bounds, deadlines and the end of connections.
import { once } from "node:events";
import type { ClientHttp2Session } from "node:http2";
import { connect, type Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { TextWrites } from "../../../src/exchange/socket-writes.ts";
import type { GrpcCall, GrpcMethod } from "../../../src/ext-auth/grpc/call.ts";
import type { GrpcConnections, GrpcServerOptions, GrpcTimes } from "../../../src/ext-auth/grpc/connection.ts";
import { GrpcServer } from "../../../src/ext-auth/grpc/start.ts";
import { type Cleanup, useCleanup } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { code, endHeaders, endStream, frameTypes, frame as http2Frame, literals } from "../../support/http2-frames.ts";
import { holdTimers } from "../../support/timers.ts";
import { call, callRaw, frame, openClient, openSession } from "./client.ts";
import { healthCheck } from "./protocol.ts";

const cleanup = useCleanup();
const path = "/grpc.health.v1.Health/Check";
const maxMessageBytes = 1_000;
/** A HealthCheckResponse: SERVING. */
const serving = "\x08\x01";

const unbounded: GrpcConnections = {
  admit: () => true,
  setBusy: () => {},
  peerKey: ({ remoteAddress = "" }) => remoteAddress,
  isTrusted: () => true,
};

async function startServer(
  cleanup: Cleanup,
  handle: GrpcMethod["handle"] = (_message, call) => call.reply(serving),
  { headTimeoutMs = 5_000, keepAliveTimeoutMs = 60_000, ...options }: Partial<GrpcServerOptions & GrpcTimes> = {},
): Promise<{ server: GrpcServer; port: number; failures: unknown[] }> {
  const failures: unknown[] = [];
  const server = new GrpcServer({
    methods: new Map([[path, { maxMessageBytes, admits: () => null, handle }]]),
    connections: unbounded,
    nowMs: systemClock.monotonicMs,
    reads: null,
    textWrites: new TextWrites(),
    settings: { current: { headBounds: { maxBytes: 16_384 }, headTimeoutMs, keepAliveTimeoutMs } },
    closeMs: 250,
    maxUnverifiedCalls: 100,
    onHttp2Closed: () => {},
    onHttp2Reset: () => {},
    onCallFailed: () => {},
    onFailure: (error) => failures.push(error),
    ...options,
  });
  const { port } = await server.listen("127.0.0.1", 0);
  cleanup(() => server.drain(0));
  return { server, port, failures };
}

test("a message in many pieces is one message", async () => {
  const messages: Buffer[] = [];
  const { port } = await startServer(cleanup, (message, call) => {
    messages.push(message);
    call.reply(serving);
  });
  const session = await openSession(cleanup, port);
  const bytes = frame(Buffer.from("\x0a\x05hello"));
  const reply = await callRaw(
    session,
    path,
    [...bytes].map((byte) => Buffer.from([byte])),
  );
  expect(messages.map(String)).toEqual(["\x0a\x05hello"]);
  expect(reply).toMatchObject({ httpStatus: 200, grpcStatus: "0", body: frame(Buffer.from(serving)), resetCode: 0 });
  expect(reply.fields).toMatchObject({ "content-type": "application/grpc" });
});

const empty = Buffer.alloc(0);
test.for<[string, Buffer[], { fields?: Record<string, string>; ends?: boolean }, Partial<Record<string, unknown>>]>([
  ["a larger message than allowed", [frame(empty, 0, 1_001)], { ends: false }, { grpcStatus: "8" }],
  ["a message of four gigabytes", [frame(empty, 0, 0xffff_ffff)], { ends: false }, { grpcStatus: "8" }],
  ["a compressed message", [frame(empty, 1)], { ends: false }, { grpcStatus: "12" }],
  ["a frame of an unknown kind", [frame(empty, 2)], { ends: false }, { grpcStatus: "3" }],
  ["no message at all", [], {}, { grpcStatus: "3" }],
  ["half a prefix", [Buffer.from([0, 0, 0])], {}, { grpcStatus: "3" }],
  ["half a message", [frame(empty, 0, 5)], {}, { grpcStatus: "3" }],
  ["two messages", [frame(empty), frame(empty)], { ends: false }, { grpcStatus: "3" }],
  ["a timeout that is none", [], { fields: { "grpc-timeout": "1 day" } }, { grpcStatus: "3" }],
  ["a timeout of no time", [], { fields: { "grpc-timeout": "0n" }, ends: false }, { grpcStatus: "4" }],
  ["another method", [], { fields: { ":path": "/grpc.health.v1.Health/List" } }, { grpcStatus: "12" }],
  ["a GET", [], { fields: { ":method": "GET" } }, { httpStatus: 415, grpcStatus: undefined }],
  ["JSON", [], { fields: { "content-type": "application/json" } }, { httpStatus: 415, grpcStatus: undefined }],
  ["gRPC for browsers", [], { fields: { "content-type": "application/grpc-web" } }, { httpStatus: 415 }],
])("%s is refused, and the connection goes on", async ([, pieces, options, expected]) => {
  const { port, failures } = await startServer(cleanup);
  const session = await openSession(cleanup, port);
  expect(await within("the refusal", callRaw(session, path, pieces, options))).toMatchObject(expected);
  expect(await callRaw(session, path, [frame(empty)])).toMatchObject({ grpcStatus: "0" });
  expect(failures).toEqual([]);
});

test("a caller that is refused is told before its message is read", async () => {
  const refusal = { code: 7, message: "50% of callers, é" };
  const method = { maxMessageBytes, admits: () => refusal, handle: () => expect.fail() };
  const { port } = await startServer(cleanup, undefined, { methods: new Map([[path, method]]) });
  const session = await openSession(cleanup, port);
  const reply = await within("the refusal", callRaw(session, path, [], { ends: false }));
  expect(reply).toMatchObject({ grpcStatus: "7", grpcMessage: "50%25 of callers, %C3%A9" });
  expect(await call(openClient(cleanup, port), healthCheck, {})).toMatchObject({
    status: "PERMISSION_DENIED",
    details: refusal.message,
  });
});

test("what all calls hold is bounded, for one caller by what is free, and given back with each of them", async () => {
  // One caller may hold 8 MiB of 16.
  const most = frame(Buffer.alloc(5 * 1024 * 1024));
  const handle = (_message: Buffer, call: GrpcCall): void => call.reply(serving);
  const large = { maxMessageBytes: most.length, admits: () => null, handle };
  // The megabytes may take longer than messages have by default.
  const { port } = await startServer(cleanup, undefined, { methods: new Map([[path, large]]), headTimeoutMs: 60_000 });
  const ask = async (session: ClientHttp2Session) => (await callRaw(session, path, [most])).grpcStatus;
  const next = await openSession(cleanup, port);
  const other = await openSession(cleanup, port, "127.0.0.2");
  for (let i = 0; i < 2; i += 1) {
    const session = await openSession(cleanup, port);
    expect(await ask(session)).toBe("0");
    const incomplete = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
    incomplete.on("error", () => {});
    await new Promise((resolve) => incomplete.write(most.subarray(0, -1), resolve));
    // The answer comes when what was sent before it has been read.
    await new Promise((resolve) => session.ping(resolve));
    expect([await ask(next), await ask(other)]).toEqual(["8", "0"]);
    session.destroy();
    await eventually("it is given back", async () => (await ask(next)) === "0");
  }
});

test("callers of one network hold no more than one of them", async () => {
  const most = frame(Buffer.alloc(5 * 1024 * 1024));
  const large: GrpcMethod = {
    maxMessageBytes: most.length,
    admits: () => null,
    handle: (_message, call) => call.reply(serving),
  };
  const peerKey = ({ remoteAddress }: Socket): string => (remoteAddress === "127.0.0.3" ? "another" : "network");
  const { port } = await startServer(cleanup, undefined, {
    methods: new Map([[path, large]]),
    connections: { ...unbounded, peerKey },
    headTimeoutMs: 60_000,
  });
  const holder = await openSession(cleanup, port, "127.0.0.1");
  const incomplete = holder.request({ ":method": "POST", ":path": path, "content-type": "application/grpc" });
  incomplete.on("error", () => {});
  await new Promise((resolve) => incomplete.write(most.subarray(0, -1), resolve));
  await new Promise((resolve) => holder.ping(resolve));
  const ask = async (localAddress: string) =>
    (await callRaw(await openSession(cleanup, port, localAddress), path, [most])).grpcStatus;
  expect([await ask("127.0.0.2"), await ask("127.0.0.3")]).toEqual(["8", "0"]);
});

test("a call beyond the bound of its connection is refused, and those before it go on", async () => {
  const calls: GrpcCall[] = [];
  const bounds = { connections: { ...unbounded, isTrusted: () => false }, maxUnverifiedCalls: 2 };
  const { port } = await startServer(cleanup, (_message, call) => void calls.push(call), bounds);
  const session = await openSession(cleanup, port);
  const open = [1, 2].map(() => callRaw(session, path, [frame(empty)]));
  await eventually("two calls arrive", () => calls.length === 2);
  expect(await callRaw(session, path, [frame(empty)])).toMatchObject({ grpcStatus: "8" });
  for (const one of calls) one.reply(serving);
  expect(await Promise.all(open)).toMatchObject([{ grpcStatus: "0" }, { grpcStatus: "0" }]);
  const next = callRaw(session, path, [frame(empty)]);
  await eventually("the next one arrives", () => calls.length === 3);
  calls[2]?.reply(serving);
  expect(await next).toMatchObject({ grpcStatus: "0" });
});

test("the bounds are told whether a connection has calls", async () => {
  const told: boolean[] = [];
  const connections = { ...unbounded, setBusy: (_socket: Socket, isBusy: boolean) => void told.push(isBusy) };
  const { port } = await startServer(cleanup, undefined, { connections });
  const session = await openSession(cleanup, port);
  await callRaw(session, path, [frame(empty)]);
  await eventually("the call is over", () => told.length === 2);
  expect(told).toEqual([true, false]);
});

test("an error of ours ends the call, not the server", async () => {
  const { port, failures } = await startServer(cleanup, () => {
    throw new Error("secret");
  });
  const reply = await call(openClient(cleanup, port), healthCheck, {});
  expect(reply).toMatchObject({ status: "INTERNAL", details: "the gateway failed to handle the call" });
  expect(String(failures)).toContain("secret");
});

/** What becomes of a call when time passes, some of it at each look. */
async function later(reply: ReturnType<typeof callRaw>): ReturnType<typeof callRaw> {
  let isOver = false;
  void reply.finally(() => {
    isOver = true;
  });
  await eventually("the reply", () => {
    vi.advanceTimersByTime(1_000);
    return isOver;
  });
  return reply;
}

test("an answer that comes too late is none", async () => {
  holdTimers(cleanup);
  const calls: GrpcCall[] = [];
  const { port } = await startServer(cleanup, (_message, call) => void calls.push(call));
  const session = await openSession(cleanup, port);
  const reply = callRaw(session, path, [frame(empty)], { fields: { "grpc-timeout": "4S" } });
  await eventually("the call arrives", () => calls.length === 1);
  expect(await later(reply)).toMatchObject({ grpcStatus: "4", resetCode: 0 });
  expect(calls[0]?.isOver).toBe(true);
  calls[0]?.reply(serving);
});

test("a message that takes too long to arrive is given up, and an answer may take longer", async () => {
  holdTimers(cleanup);
  const calls: GrpcCall[] = [];
  const { port } = await startServer(cleanup, (_message, call) => void calls.push(call));
  const session = await openSession(cleanup, port);
  const reply = callRaw(session, path, [frame(empty)]);
  await eventually("the call arrives", () => calls.length === 1);
  // It began later, and so it tells that the time of the first one is over.
  const late = callRaw(session, path, [frame(empty, 0, 9)], { ends: false });
  expect(await later(late)).toMatchObject({ grpcStatus: "4" });
  calls[0]?.reply(serving);
  expect(await reply).toMatchObject({ grpcStatus: "0" });
});

test("a caller that keeps its side open behind the end of its connection is closed", async () => {
  const { port } = await startServer(cleanup, undefined, { keepAliveTimeoutMs: 30, closeMs: 30 });
  const socket = await halfOpen(cleanup, port);
  await once(socket, "end");
  await eventually("it cannot be written to any more", () => {
    socket.write("x");
    return socket.destroyed;
  });
});

test("at the end calls under way are answered, new ones are not taken, and the connection closes", async () => {
  const calls: GrpcCall[] = [];
  const { server, port } = await startServer(cleanup, (_message, call) => void calls.push(call));
  const session = await openSession(cleanup, port);
  const goaway = once(session, "goaway");
  const reply = callRaw(session, path, [frame(empty)]);
  await eventually("the call arrives", () => calls.length === 1);
  const drained = server.drain(5_000);
  expect((await within("GOAWAY", goaway))[0]).toBe(0);
  calls[0]?.reply(serving);
  expect(await reply).toMatchObject({ grpcStatus: "0" });
  expect(await within("the end", drained)).toBe(0);
});

test("a call that never ends is broken off at the end", async () => {
  const calls: GrpcCall[] = [];
  const { server, port } = await startServer(cleanup, (_message, call) => void calls.push(call));
  const session = await openSession(cleanup, port);
  const reply = callRaw(session, path, [frame(empty)]);
  await eventually("the call arrives", () => calls.length === 1);
  expect(await within("the end", server.drain(20))).toBe(1);
  expect(await reply).toMatchObject({ httpStatus: 0 });
});

test.for([
  ["headTimeoutMs", false],
  ["keepAliveTimeoutMs", false],
  ["keepAliveTimeoutMs", true],
] as const)("a connection without a call ends after %s, if it has called: %s", async ([bound, hasCalled]) => {
  // A trusted caller may keep it among its idle ones before its first call.
  const connections = { ...unbounded, isTrusted: () => bound === "keepAliveTimeoutMs" };
  const { port } = await startServer(cleanup, undefined, { [bound]: 30, connections });
  const session = await openSession(cleanup, port);
  const goaway = once(session, "goaway");
  const closed = once(session, "close");
  if (hasCalled) await callRaw(session, path, [frame(empty)]);
  expect((await within("GOAWAY", goaway))[0]).toBe(0);
  await within("the end", closed);
});

/** It does not end its side when the server does. */
async function halfOpen(cleanup: Cleanup, port: number): Promise<Socket> {
  const socket = cleanup(connect({ port, host: "127.0.0.1", allowHalfOpen: true }));
  socket.on("error", () => {});
  socket.resume();
  await once(socket, "connect");
  return socket;
}

test.for([
  ["says nothing", ""],
  ["speaks HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"],
])("a caller that %s and keeps its side open does not keep the server from ending", async ([, bytes = ""]) => {
  const { server, port } = await startServer(cleanup);
  const socket = await halfOpen(cleanup, port);
  socket.write(bytes);
  if (bytes !== "") await once(socket, "data");
  await within("the end", server.drain(50));
});

test("a connection has 100 calls at once, and the next one waits for the end of one", async () => {
  const calls: GrpcCall[] = [];
  const { port } = await startServer(cleanup, (_message, call) => void calls.push(call));
  const session = await openSession(cleanup, port);
  const replies = Array.from({ length: 101 }, () => callRaw(session, path, [frame(empty)]));
  await eventually("100 calls arrive", () => calls.length === 100);
  expect(session.remoteSettings.maxConcurrentStreams).toBe(100);
  for (const call of calls.splice(0)) call.reply(serving);
  await eventually("the last call arrives", () => calls.length === 1);
  calls[0]?.reply(serving);
  expect((await Promise.all(replies)).map(({ grpcStatus }) => grpcStatus)).toEqual(replies.map(() => "0"));
});

test("bytes that are no HTTP/2 end their connection alone", async () => {
  const { port, failures } = await startServer(cleanup);
  const { Socket } = await import("node:net");
  const socket = cleanup(new Socket().connect(port, "127.0.0.1"));
  socket.on("error", () => {});
  socket.resume();
  const closed = once(socket, "close");
  socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await within("the end", closed);
  expect(await call(openClient(cleanup, port), healthCheck, {})).toMatchObject({ status: "OK" });
  expect(failures).toEqual([]);
});

test("a connection with an error behind its GOAWAY is closed, even if its call waits for the window", async () => {
  const sockets: Socket[] = [];
  const connections = { ...unbounded, admit: (socket: Socket) => sockets.push(socket) > 0 };
  const { port } = await startServer(cleanup, undefined, { keepAliveTimeoutMs: 200, connections });
  const client = cleanup(connect(port, "127.0.0.1").on("error", () => {}));
  const received: Buffer[] = [];
  client.on("data", (bytes: Buffer) => received.push(bytes));
  const fields = [
    [":method", "POST"],
    [":scheme", "http"],
    [":authority", "headgate"],
    [":path", path],
    ["content-type", "application/grpc"],
  ] as const;
  client.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  client.write(http2Frame(frameTypes.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 0])));
  client.write(http2Frame(frameTypes.headers, endHeaders, 1, literals(fields)));
  client.write(http2Frame(frameTypes.data, endStream, 1, frame(empty)));
  const got = (bytes: Buffer): boolean => Buffer.concat(received).includes(bytes);
  const replyHead = Buffer.from([frameTypes.headers, endHeaders, 0, 0, 0, 1]);
  await eventually("the message of the reply waits", () => got(replyHead));
  client.write(http2Frame(frameTypes.goaway, 0, 0, Buffer.alloc(8)));
  // Its stream has ended already.
  client.write(http2Frame(frameTypes.data, 0, 1, "more"));
  await eventually("the error is told", () => got(Buffer.concat([code(1), code(5)])));
  client.destroy();
  await eventually("the connection is closed", () => sockets[0]?.destroyed === true, 10_000);
}, 15_000);
