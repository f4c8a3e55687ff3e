// Event streams (server-sent events) with heartbeats as servers send them by default, on a held clock: the stream lives as long
// as no gap is longer than upstream.bodyTimeout. The head of the response has a timeout of its own.
import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { request, stageRaw } from "../support/stage.ts";
import { holdIntervals } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const tls = useTls();

const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const heartbeat = ": ping\n\n";

/** All that waits for an upstream or a client is checked by intervals, which move with the clock. */
async function stage(
  overrides: Overrides = {},
  answer: (socket: Socket) => void = (socket) => void socket.write(head),
) {
  holdIntervals(cleanup);
  const clock = new FakeClock();
  const staged = await stageRaw(cleanup, answer, overrides, clock);
  return {
    ...staged,
    async pass(seconds: number) {
      for (let i = 0; i < seconds; i += 1) {
        clock.advance(1_000);
        vi.advanceTimersByTime(1_000);
        await turn();
      }
    },
    reasons: () => staged.gateway.logLines.filter(({ msg }) => msg === "upstream failed").map(({ reason }) => reason),
  };
}

/** What has come of the body, and whether it has ended. */
interface Stream {
  text(): string;
  isOver(): boolean;
}

type Open = (staged: Awaited<ReturnType<typeof stage>>, ca: string) => Stream;

const carriers: Readonly<Record<string, Open>> = {
  "HTTP/1.1": ({ connect }) => {
    const client = connect().write(request("/v2/events"));
    return { text: () => client.rest, isOver: () => client.ending !== null };
  },
  "HTTP/2": ({ gateway }, ca) => {
    const stream = new Http2Client(gateway.traffic.port, ca, cleanup).open({ path: "/v2/events" });
    let text = "";
    stream.on("data", (chunk: Buffer) => {
      text += chunk;
    });
    return { text: () => text, isOver: () => stream.destroyed };
  },
};

describe.each(Object.entries(carriers))("over %s", (name, open) => {
  test("heartbeats after 15, 30, 31, 60 and 118 s keep a stream open, and a silence of two minutes ends it", async () => {
    const { ca, overrides } = tls();
    const staged = await stage(name === "HTTP/2" ? overrides : {});
    const stream = open(staged, ca);
    await eventually("the stream has begun", () => staged.upstream.bytes() !== "");
    let sent = 0;
    for (const seconds of [118, 15, 30, 31, 60, 60]) {
      await staged.pass(seconds);
      expect([seconds, stream.isOver(), staged.reasons()]).toEqual([seconds, false, []]);
      for (const socket of staged.upstream.sockets) socket.write(`8\r\n${heartbeat}\r\n`);
      sent += 1;
      await eventually("the client has it", () => stream.text().split(heartbeat).length === sent + 1);
    }
    await staged.pass(122);
    await eventually("the client is told", () => stream.isOver());
    expect(staged.reasons()).toEqual(["body_timeout"]);
  });
});

test("an upstream that does not begin has responseTimeout alone, whatever its interim responses", async () => {
  const staged = await stage({}, (socket) => void socket.write("HTTP/1.1 103 Early Hints\r\n\r\n"));
  const client = staged.connect().write(request("/v2/x"));
  await eventually("it is at the upstream", () => client.rest.includes("103"));
  await staged.pass(29);
  expect(staged.reasons()).toEqual([]);
  await staged.pass(2);
  await eventually("the client is told", () => client.rest.includes("HTTP/1.1 504 "));
  expect(staged.reasons()).toEqual(["response_timeout"]);
});

test("the two are independent: bodyTimeout may be the shorter one", async () => {
  const staged = await stage({ upstream: { bodyTimeoutMs: 5_000 } });
  const client = staged.connect().write(request("/v2/events"));
  await eventually("the stream has begun", () => client.rest.startsWith("HTTP/1.1 200"));
  await staged.pass(6);
  await eventually("the client is told", () => client.ending !== null);
  expect(staged.reasons()).toEqual(["body_timeout"]);
});
