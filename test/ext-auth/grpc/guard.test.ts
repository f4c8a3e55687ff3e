// What the frames of one caller may cost on the gRPC port, where anyone may ask for the health.
import { expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { TextWrites } from "../../../src/exchange/socket-writes.ts";
import type { GrpcConnections } from "../../../src/ext-auth/grpc/connection.ts";
import { GrpcServer } from "../../../src/ext-auth/grpc/start.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import {
  code,
  endHeaders,
  type Fields,
  FrameClient,
  frame,
  frameTypes,
  integer,
  literals,
  text,
} from "../../support/http2-frames.ts";

const cleanup = useCleanup();
const path = "/grpc.health.v1.Health/Check";
const enhanceYourCalm = 11;
const head: Fields = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", path],
  [":authority", "a"],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
];
const message = Buffer.alloc(5);

async function start() {
  const closed: string[] = [];
  const connections: GrpcConnections = {
    admit: () => true,
    setBusy: () => {},
    peerKey: () => "a",
    isTrusted: () => false,
  };
  const server = new GrpcServer({
    methods: new Map([[path, { maxMessageBytes: 100, admits: () => null, handle: (_, call) => call.reply("") }]]),
    connections,
    nowMs: systemClock.monotonicMs,
    reads: null,
    textWrites: new TextWrites(),
    settings: { current: { headBounds: { maxBytes: 16_384 }, headTimeoutMs: 5_000, keepAliveTimeoutMs: 60_000 } },
    closeMs: 250,
    maxUnverifiedCalls: 100,
    onHttp2Closed: (reason) => void closed.push(reason),
    onHttp2Reset: () => {},
    onCallFailed: () => {},
    onFailure: () => {},
  });
  const { port } = await server.listen("127.0.0.1", 0);
  cleanup(() => server.drain(0));
  return { closed, client: () => new FrameClient(port, null, cleanup) };
}

function ask(client: FrameClient, stream: number): void {
  client.headers(stream, head, endHeaders);
  client.send(frameTypes.data, 1, stream, message);
}

test("a head that decodes to megabytes is never decoded, and the next caller is served", async () => {
  const { client, closed } = await start();
  const attacker = client();
  const entry = Buffer.concat([Buffer.of(0x40), text("x"), text("\0".repeat(4_000))]);
  const block = Buffer.concat([literals(head), entry, Buffer.alloc(5_000, integer(62, 7, 0x80))]);
  attacker.send(frameTypes.headers, endHeaders, 1, block);
  await eventually("the connection ends", () => attacker.isClosed);
  expect(attacker.goaways).toEqual([enhanceYourCalm]);
  expect(closed).toEqual(["head_too_large"]);
  const next = client();
  ask(next, 1);
  expect(await next.ended(1)).toBe("whole");
});

test("a flood of PING ends the connection, and is told of", async () => {
  const { client, closed } = await start();
  const one = client();
  for (let i = 0; i < 100 && one.goaways.length === 0; i += 1) {
    one.socket.write(Buffer.concat(Array(100).fill(frame(frameTypes.ping, 0, 0, Buffer.alloc(8)))));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await eventually("the connection ends", () => one.isClosed);
  expect(one.goaways).toContain(enhanceYourCalm);
  expect(closed).toEqual(["frames"]);
});

test("3,000 calls one after the other, each with the frames that gRPC clients send with it, are all answered", async () => {
  const { client, closed } = await start();
  const one = client();
  for (let stream = 1; stream < 6_000; stream += 2) {
    one.send(frameTypes.ping, 0, 0, Buffer.alloc(8));
    one.send(frameTypes.windowUpdate, 0, 0, code(7));
    ask(one, stream);
    if (stream % 50 === 49) expect(await one.ended(stream)).toBe("whole");
    if (stream % 1_000 === 999) one.frames.length = 0;
  }
  expect([one.goaways, closed]).toEqual([[], []]);
});
