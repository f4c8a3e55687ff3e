// What is wrong with one stream of an HTTP/2 connection ends that stream: the others may be those of other clients, behind
// a proxy that shares the connection. What is wrong with the connection ends the connection.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, standsStill } from "../support/eventually.ts";
import {
  code,
  endHeaders,
  endStream,
  FrameClient,
  frame,
  frameTypes,
  get,
  literals,
  post,
} from "../support/http2-frames.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { response, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const protocolError = 1;
const enhanceYourCalm = 11;

/** Stream 1 waits for its answer, which `answer` gives. */
async function startWithStranger() {
  const { ca, overrides } = withTls({
    policies: [slidingPolicy({ limit: 1_000, windowMs: 60_000 })],
  });
  let stranger: Socket | undefined;
  const { gateway, upstream } = await stageRaw(
    cleanup,
    (socket, data) => {
      if (!data.toString("latin1").startsWith("GET /v2/stranger")) socket.write(response("ok"));
      else stranger = socket;
    },
    overrides,
    // Time would give resets back, the more the slower the machine.
    new FakeClock(),
  );
  const client = (): FrameClient => new FrameClient(gateway.traffic.port, { ca }, cleanup);
  const one = client();
  one.headers(1, get("/v2/stranger"));
  await eventually("the stranger's request is at the upstream", () => stranger !== undefined);
  return { one, client, gateway, upstream, answer: () => void stranger?.write(response("ok")) };
}

const data = (bytes: string, flags = endStream) => frame(frameTypes.data, flags, 3, bytes);

test.each([
  ["in one frame", [data("too long")]],
  ["in a frame that is not the last", [data("too long", 0)]],
  ["in its second frame", [data("ok", 0), data("more")]],
  [
    "in its second frame, with trailers behind",
    [data("ok", 0), data("more", 0), frame(1, 5, 3, literals([["x", "y"]]))],
  ],
])("a body longer than its content-length, %s, ends its stream alone", async (_, frames) => {
  for (const isAtOnce of [true, false]) {
    const { one, answer, upstream } = await startWithStranger();
    const head = frame(frameTypes.headers, endHeaders, 3, literals(post(["content-length", "2"])));
    if (isAtOnce) one.socket.write(Buffer.concat([head, ...frames]));
    else for (const each of [head, ...frames]) await new Promise((resolve) => one.socket.write(each, resolve));
    expect(await one.ended(3)).toBe(protocolError);
    answer();
    expect(await one.ended(1)).toBe("whole");
    one.headers(5, get());
    expect(await one.ended(5)).toBe("whole");
    expect([one.goaways, one.isClosed]).toEqual([[], false]);
    expect(upstream.bytes()).not.toContain("more");
    expect(upstream.bytes()).not.toContain("too long");
  }
});

test("so it does while the client reads nothing, and the reset cannot leave", async () => {
  const { ca, overrides } = withTls();
  const body = "b".repeat(15_000_000);
  let sender: Socket | undefined;
  const { gateway } = await stageRaw(
    cleanup,
    (socket) => {
      sender = socket;
      socket.write(response(body));
    },
    overrides,
  );
  const one = new FrameClient(gateway.traffic.port, { ca }, cleanup);
  const huge = 0x7f000000;
  one.send(frameTypes.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), code(huge)]));
  one.send(8, 0, 0, code(huge));
  one.headers(1, get("/v2/large"));
  await eventually("the answer begins", () => one.of(frameTypes.data, 1).length > 0);
  one.socket.pause();
  expect(await standsStill("what the upstream has to send", () => sender?.writableLength ?? 0)).toBeGreaterThan(0);
  one.headers(3, post(["content-length", "2"]), endHeaders);
  one.send(frameTypes.data, endStream, 3, "too long");
  await standsStill("what the client has to send", () => one.socket.writableLength);
  one.socket.resume();
  expect(await one.ended(3)).toBe(protocolError);
  await eventually("the answer ends", () => one.endOf(1) === "whole", 20_000);
  expect(one.of(frameTypes.data, 1).reduce((sum, { payload }) => sum + payload.length, 0)).toBe(body.length);
  expect(one.goaways).toEqual([]);
});

test("a client that sends such bodies again and again is told to calm down", async () => {
  const { one } = await startWithStranger();
  for (let id = 3; id < 700 && !one.isClosed; id += 2) {
    const head = frame(frameTypes.headers, endHeaders, id, literals(post(["content-length", "2"])));
    one.socket.write(Buffer.concat([head, frame(frameTypes.data, endStream, id, "more")]));
    if (id % 20 === 1) await one.ended(id);
  }
  await eventually("the connection ends", () => one.isClosed);
  expect(one.goaways).toContain(enhanceYourCalm);
});

const window = (stream: number): Buffer => frame(8, 0, stream, code(0));
const reset = frame(frameTypes.rstStream, 0, 1, code(protocolError));

test.each([
  ["DATA on stream 0", [frame(frameTypes.data, 0, 0, "x")]],
  ["SETTINGS on a stream", [frame(frameTypes.settings, 0, 1)]],
  ["HEADERS on a stream of the server's", [frame(frameTypes.headers, endHeaders | endStream, 2, literals(get()))]],
  ["a window that grows by 0", [window(0)]],
  ["RST_STREAM of no stream", [frame(frameTypes.rstStream, 0, 99, code(8))]],
  ["a body that is too long, and DATA on stream 0", [data("too long"), frame(frameTypes.data, 0, 0, "x")]],
  ["DATA on stream 0 behind a reset of the client's own", [reset, frame(frameTypes.data, 0, 0, "x")]],
])("%s ends the connection, with a GOAWAY, and the next one is served", async (_, frames) => {
  const { one, client, gateway } = await startWithStranger();
  const head = frame(frameTypes.headers, endHeaders, 3, literals(post(["content-length", "2"])));
  one.socket.write(Buffer.concat([head, ...frames]));
  await eventually("the connection ends", () => one.isClosed);
  await eventually("it is gone", async () => (await metric(gateway, "headgate_client_connections")) === 0);
  expect(one.goaways).toContain(protocolError);
  const other = client();
  other.headers(1, get());
  expect(await other.ended(1)).toBe("whole");
});

// A client need not reset its streams itself: an error of its own makes the server do it, while the request is at the upstream
// (MadeYouReset, CVE-2025-8671). test/http2/bounds.test.ts has each such error, and that it counts.
test("MadeYouReset: the upstream's requests are canceled, never more than its connections are open, and the client is stopped", async () => {
  const most = 80;
  const { ca, overrides } = withTls({
    policies: [slidingPolicy({ limit: 1_000, windowMs: 60_000 })],
    upstream: { maxConnections: most },
  });
  const open = new Set<Socket>();
  let mostOpen = 0;
  const onData = (socket: Socket, bytes: Buffer): void => {
    if (bytes.toString("latin1").startsWith("GET /v2/answer")) return void socket.write(response("ok"));
    open.add(socket.once("close", () => open.delete(socket)));
    mostOpen = Math.max(mostOpen, open.size);
  };
  const { gateway } = await stageRaw(cleanup, onData, overrides, new FakeClock());
  const client = (): FrameClient => new FrameClient(gateway.traffic.port, { ca }, cleanup);
  const one = client();
  const overflow = (id: number): Buffer => frame(8, 0, id, code(0x7fffffff));
  let resets = 0;
  for (let id = 1; !one.isClosed && resets < 300; ) {
    const ids = Array.from({ length: most / 2 }, (_, i) => id + 2 * i);
    for (const each of ids) one.headers(each, get());
    await eventually("they are at the upstream", () => open.size === most / 2 || one.isClosed);
    one.socket.write(Buffer.concat(ids.map(overflow)));
    for (const each of ids) await one.ended(each);
    await eventually("all are canceled", () => open.size === 0);
    resets += ids.length;
    id += 2 * ids.length;
  }
  // The one after 200 ends the connection.
  expect(resets).toBe(240);
  expect(one.goaways).toContain(enhanceYourCalm);
  expect(mostOpen).toBeLessThanOrEqual(most);
  await eventually("nothing is left", () => open.size === 0);
  const other = client();
  other.headers(1, get("/v2/answer"));
  expect(await other.ended(1)).toBe("whole");
});
