// What an HTTP/2 client can send and no library does, frame by frame: it is refused or reset, never forwarded otherwise
// than it was meant, and costs the gateway no more than it costs the client.
import type { Socket } from "node:net";
import { beforeAll, describe, expect, test } from "vitest";
import { type Cleanup, useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import {
  code,
  endHeaders,
  type Fields,
  FrameClient,
  type FrameClientOptions,
  frame,
  frameTypes,
  get,
  literals,
  post,
} from "../support/http2-frames.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { response, stageHttp, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const protocolError = 1;
const refusedStream = 7;
const cancel = 8;
const enhanceYourCalm = 11;

/** `closing`: what closes the gateway. What a client opened is closed after each test. */
async function start(options: Overrides = {}, closing: Cleanup = cleanup) {
  const { ca, overrides } = withTls({ timeouts: { headMs: 5_000 }, ...options });
  const staged = await stageHttp(closing, undefined, overrides);
  const client = (extra?: FrameClientOptions) => new FrameClient(staged.gateway.traffic.port, { ca }, cleanup, extra);
  /** Statuses of the access log, which is written when a request is over. */
  const statuses = () => staged.gateway.logLines.filter(({ msg }) => msg === "request").map(({ status }) => status);
  return { ...staged, client, statuses };
}

async function startRaw(onData: (socket: Socket) => void, options: Overrides = {}, clock?: FakeClock) {
  const { ca, overrides } = withTls(options);
  const staged = await stageRaw(cleanup, onData, overrides, clock);
  const client = (extra?: FrameClientOptions) => new FrameClient(staged.gateway.traffic.port, { ca }, cleanup, extra);
  return { ...staged, client };
}

const pick = (fields: Fields, ...without: string[]): Fields => fields.filter(([name]) => !without.includes(name));

describe("heads that are no request of HTTP/2 never reach the upstream", () => {
  // Each malformed head is in http2/rules.ts, and what is refused with a status in conformance/messages/rules.ts. One gateway
  // serves all of these: each has a connection of its own, and what comes late from another one is found as well.
  const sharedCleanup = useSharedCleanup();
  let staged: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    const policies = [slidingPolicy({ limit: 10_000, windowMs: 60_000 })];
    staged = await start({ policies }, sharedCleanup);
  });

  test.each<[claim: string, fields: Fields, status: number | "reset"]>([
    ["connection that names a field", get("/v2/x", ["connection", "x-forwarded-for"]), "reset"],
    ["a name in upper case", get("/v2/x", ["X-Upper", "1"]), "reset"],
    ["two paths", [[":path", "/v2/y"], ...get()], "reset"],
    ["the same under another scheme", [[":scheme", "foo"], ...pick(get("http://other/v2/x"), ":scheme")], 400],
    ["a length without a body", get("/v2/x", ["content-length", "5"]), "reset"],
    ["two Hosts", [...pick(get(), ":authority"), ["host", "a"], ["host", "b"]], 400],
    ["a value with a blank at its end", get("/v2/x", ["x-odd", "a "]), 400],
    ["a value with a tab before it", get("/v2/x", ["x-odd", "\ta"]), 400],
    ["a value that is a blank", get("/v2/x", ["x-odd", " "]), 400],
    ["a second cookie with a blank at its end", get("/v2/x", ["cookie", "a=1"], ["cookie", "b=2 "]), 400],
    ["a first cookie with a blank at its end", get("/v2/x", ["cookie", "a=1 "], ["cookie", "b=2"]), 400],
    ["a token with a blank at its end", [...pick(get(), "authorization"), ["authorization", "Bearer t "]], 400],
    ["a length with a blank at its end", post(["content-length", "0 "]), "reset"],
    ["a token with a NUL", [...pick(get(), "authorization"), ["authorization", "Bearer t\0"]], "reset"],
    ["a value with a line break", get("/v2/x", ["x-odd", "a\r\nx-smuggled: 1"]), "reset"],
    ["a path with a line break", get("/v2/x\r\nx-smuggled: 1"), "reset"],
  ])("%s", async (_, fields, expected) => {
    const { client, upstream, statuses } = staged;
    const [hitsBefore, statusesBefore] = [upstream.received.length, statuses().length];
    const one = client();
    one.headers(1, fields);
    const end = await one.ended(1);
    if (expected === "reset") expect(end).toBe(protocolError);
    else {
      expect(end).toBe("whole");
      expect(one.headOf(1).slice(0, 2)).toEqual([":status", `${expected}`]);
    }
    // The connection goes on.
    one.headers(3, get("/v2/next"));
    expect(await one.ended(3)).toBe("whole");
    expect(upstream.received.slice(hitsBefore).map(({ target }) => target)).toEqual(["/v2/next"]);
    const passed = () =>
      statuses()
        .slice(statusesBefore)
        .filter((status) => status === 200);
    await eventually("the one that passes is logged", () => passed().length === 1);
  });
});

test("crumbs of a cookie arrive as one, bytes over 127 and `te: trailers` do no harm", async () => {
  const { client, upstream } = await start();
  const one = client();
  one.headers(
    1,
    get("/v2/x", ["cookie", "a=1"], ["x-a", "\xe9"], ["cookie", "b=2"], ["te", "trailers"], ["cookie", "c=3"]),
  );
  expect(await one.ended(1)).toBe("whole");
  const { rawHeaders } = upstream.received[0] ?? { rawHeaders: [] };
  expect(valuesOf(rawHeaders, "Cookie")).toEqual(["a=1; b=2; c=3"]);
  expect(valuesOf(rawHeaders, "x-a")).toEqual(["\xe9"]);
  expect(valuesOf(rawHeaders, "te")).toEqual([]);
  expect(valuesOf(rawHeaders, "Host")).toEqual(["api.test"]);
  expect(rawHeaders.slice(0, 2)).toEqual(
    ["host", "api.test"].map((text, i) => (i === 0 ? expect.stringMatching(/^host$/i) : text)),
  );
});

describe("bodies", () => {
  test.each([
    ["without an error", 0],
    ["as cancelled", cancel],
  ])("one that is reset half-way, %s, breaks off for the upstream too", async (_, reason) => {
    const { client, upstream, statuses } = await start();
    const one = client();
    one.headers(1, post(), endHeaders);
    one.send(frameTypes.data, 0, 1, "half");
    await eventually("its head is at the upstream", () => upstream.hits() === 1);
    one.send(frameTypes.rstStream, 0, 1, code(reason));
    await eventually("it is over", () => statuses().length === 1);
    expect(statuses()).toEqual([0]);
    one.headers(3, get("/v2/next"));
    expect(await one.ended(3)).toBe("whole");
    expect(upstream.received.map(({ target }) => target)).toEqual(["/v2/next"]);
  });

  test("a response that breaks in the middle resets the stream, and never ends it", async () => {
    const { client } = await startRaw((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
      setImmediate(() => socket.destroy());
    });
    const one = client();
    one.headers(1, get());
    expect(await one.ended(1)).toBe(2);
    expect(one.of(frameTypes.headers, 1)).toHaveLength(1);
  });

  test.each<[claim: string, fields: Fields]>([
    ["HEAD without a token", [[":method", "HEAD"], ...pick(get(), ":method", "authorization")]],
    ["HEAD under no route", [[":method", "HEAD"], ...pick(get("/none"), ":method")]],
    ["OPTIONS *", [[":method", "OPTIONS"], ...pick(get("*"), ":method")]],
  ])("%s is answered while its body is still to come, and the body is refused", async (_, fields) => {
    const { client } = await start({ timeouts: { lingerMs: 1 } });
    const one = client();
    one.headers(1, fields, endHeaders);
    expect(await one.ended(1)).toBe("whole");
    await eventually("the rest is refused", () => one.of(frameTypes.rstStream, 1).length === 1);
    expect(one.frames.filter(({ stream }) => stream === 1).map(({ type }) => type)).toEqual([
      frameTypes.headers,
      frameTypes.rstStream,
    ]);
  });

  test("a stream that is reset takes its request back from the upstream", async () => {
    const { client, upstream } = await startRaw(() => {});
    const one = client();
    one.headers(1, get());
    await eventually("it is at the upstream", () => upstream.bytes().includes("/v2/x"));
    one.send(frameTypes.rstStream, 0, 1, code(cancel));
    await eventually("the upstream's connection is closed", () => upstream.sockets.size === 0);
  });
});

describe("connections", () => {
  test("one that is idle makes room for a new one of another peer, as one of HTTP/1.1 does", async () => {
    const { client } = await start({ listen: { maxConnections: 1, maxConnectionsPerPeer: 1 } });
    const one = client();
    one.headers(1, get());
    expect(await one.ended(1)).toBe("whole");
    const refused = client();
    await eventually("one too many of a peer is closed", () => refused.isClosed);
    expect(one.isClosed).toBe(false);
    const next = client({ localAddress: "127.0.0.2" });
    next.headers(1, get());
    expect(await next.ended(1)).toBe("whole");
    await eventually("the idle one is gone", () => one.isClosed);
  });
});

describe("bounds", () => {
  test("of streams at once, even if the client never agreed to it: the rest is refused, and not charged", async () => {
    const { client } = await startRaw(() => {}, { upstream: { maxConnections: 500 } });
    const one = client({ acknowledges: false });
    for (let i = 0; i < 120; i += 1) one.headers(2 * i + 1, get());
    await eventually("some are refused", () => one.of(frameTypes.rstStream).length === 20);
    expect(new Set(one.of(frameTypes.rstStream).map(({ payload }) => payload.readUInt32BE(0)))).toEqual(
      new Set([refusedStream]),
    );
  });

  test("of time: an error of the connection behind a GOAWAY ends its requests and its socket", async () => {
    const upstream = { connectTimeoutMs: 100, responseTimeoutMs: 100, bodyTimeoutMs: 100 };
    const waits = { upstream, timeouts: { bodyMs: 100 } };
    const { client, gateway, statuses } = await start(waits);
    const one = client();
    const noWindow = Buffer.from([0, 4, 0, 0, 0, 0]);
    one.send(frameTypes.settings, 0, 0, noWindow);
    one.headers(1, get());
    await eventually("the response waits for the window", () => one.of(frameTypes.headers, 1).length === 1);
    one.send(frameTypes.goaway, 0, 0, Buffer.alloc(8));
    one.send(frameTypes.ping, 0, 1, Buffer.alloc(8));
    await eventually("the error is told", () => one.goaways.includes(protocolError));
    one.socket.destroy();
    await eventually("the request is over", () => statuses().length === 1, 15_000);
    await eventually(
      "its connection is gone",
      async () => (await metric(gateway, "headgate_client_connections")) === 0,
    );
  }, 20_000);

  test("of resets: a client that takes back what it asks for is told to calm down, and has paid for each", async () => {
    const policies = [slidingPolicy({ limit: 1000, windowMs: 60_000 })];
    const { client, gateway } = await startRaw((socket) => socket.write(response("ok")), { policies }, new FakeClock());
    const one = client();
    // 200 at once are allowed. By a fake clock none come back.
    for (let i = 0; i < 300 && !one.isClosed; i += 1) {
      const id = 2 * i + 1;
      one.socket.write(
        Buffer.concat([
          frame(frameTypes.headers, endHeaders | 1, id, literals(get())),
          frame(frameTypes.rstStream, 0, id, code(cancel)),
        ]),
      );
    }
    await eventually("the connection ends", () => one.isClosed);
    expect(one.goaways).toContain(enhanceYourCalm);
    const other = client();
    other.headers(1, get());
    expect(await other.ended(1)).toBe("whole");
    await eventually("it is logged", () => gateway.logLines.some(({ status }) => status === 200));
    const left = gateway.logLines.find(({ status }) => status === 200)?.["remaining"];
    expect(left).toBeLessThanOrEqual(799);
  });
});
