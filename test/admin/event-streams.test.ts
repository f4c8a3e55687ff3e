// Streams of events: what they say, how many there are, and how they end.
import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { expect, test, vi } from "vitest";
import { answerTimeoutMs } from "../../src/admin/connections.ts";
import { keptAliveEveryMs, maxStreams, maxUnreadBytes } from "../../src/admin/event-streams.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { holdIntervals } from "../support/timers.ts";
import { type ApiStage, readToken, stageApi } from "./api-stage.ts";
import { fakePlane, status } from "./fake-plane.ts";

const cleanup = useCleanup();
const at = "2026-11-24T12:00:00.000Z";
const { setTimeout: realTimeout } = globalThis;

interface Stream {
  readonly response: IncomingMessage;
  readonly outgoing: ClientRequest;
  readonly text: () => string;
  readonly ended: Promise<unknown>;
}

async function open({ port }: ApiStage, { reads = true, localAddress = "127.0.0.1" } = {}): Promise<Stream> {
  const headers = { authorization: `Bearer ${readToken}`, host: "localhost" };
  const outgoing = request({ host: "127.0.0.1", port, localAddress, path: "/api/events", headers, agent: false });
  cleanup(() => outgoing.destroy());
  outgoing.end();
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  let text = "";
  response.on("error", () => {});
  if (reads) {
    response.on("data", (data) => {
      text += data;
    });
  }
  return {
    response,
    outgoing,
    text: () => text,
    ended: new Promise((resolve) => void response.once("close", resolve)),
  };
}

test("each event is sent to each stream, by its name, with a rising id", async () => {
  const plane = fakePlane();
  const stage = await stageApi(cleanup, plane);
  const streams = [await open(stage), await open(stage)];
  for (const { response } of streams) {
    expect(response.statusCode).toBe(200);
    expect(response.headers["content-type"]).toBe("text/event-stream");
    expect(response.headers["cache-control"]).toBe("no-store");
  }
  plane.publish({ type: "upstream", at, upstream: status.upstream });
  plane.publish({ type: "rule", at, set: [], removed: ["a"] });
  const expected = [
    ": connected",
    `id: 1\nevent: upstream\ndata: ${JSON.stringify({ type: "upstream", at, upstream: status.upstream })}`,
    `id: 2\nevent: rule\ndata: ${JSON.stringify({ type: "rule", at, set: [], removed: ["a"] })}`,
    "",
  ];
  for (const { text } of streams) await eventually("both have come", () => text() === expected.join("\n\n"));
  expect(plane.subscribers()).toBe(1);
});

test("there are 16 streams, one more is 503, and one that ends makes room", async () => {
  const plane = fakePlane();
  const stage = await stageApi(cleanup, plane);
  const streams: Stream[] = [];
  for (let i = 0; i < maxStreams; i += 1) streams.push(await open(stage, { localAddress: `127.0.1.${i}` }));
  expect(streams.map(({ response }) => response.statusCode)).toEqual(new Array(maxStreams).fill(200));
  const refused = await open(stage);
  expect([refused.response.statusCode, refused.response.headers["retry-after"]]).toEqual([503, "10"]);
  expect((await stage.call("GET", "/api/status")).status).toBe(200);
  streams[0]?.outgoing.destroy();
  await eventually("there is room", async () => (await open(stage)).response.statusCode === 200);
  for (const { outgoing } of streams) outgoing.destroy();
});

test("one address gets at most half of the streams, so that others get some", async () => {
  const stage = await stageApi(cleanup, fakePlane());
  const statuses: (number | undefined)[] = [];
  for (let i = 0; i < maxStreams; i += 1) statuses.push((await open(stage)).response.statusCode);
  expect(statuses).toEqual([...new Array(maxStreams / 2).fill(200), ...new Array(maxStreams / 2).fill(503)]);
  expect((await open(stage, { localAddress: "127.0.0.2" })).response.statusCode).toBe(200);
});

test("a drain is the last event, and ends all streams at once", async () => {
  const plane = fakePlane();
  const stage = await stageApi(cleanup, plane);
  const streams = [await open(stage), await open(stage)];
  plane.publish({ type: "drain", at });
  for (const { ended, text } of streams) {
    await within("it ends", ended);
    expect(text()).toContain("event: drain");
  }
  await eventually("nobody listens any more", () => plane.subscribers() === 0);
});

test("a reader that leaves more than 64 KiB unread loses its stream, and the others go on", async () => {
  const plane = fakePlane();
  const stage = await stageApi(cleanup, plane);
  const [slow, good] = [await open(stage, { reads: false }), await open(stage)];
  slow.response.pause();
  const errors = ["x".repeat(maxUnreadBytes / 4)];
  const event = {
    type: "reload",
    at,
    by: "call",
    caller: "ops",
    outcome: "failed",
    errors,
    refused: [],
    changed: [],
  } as const;
  let isLost = false;
  slow.outgoing.on("close", () => {
    isLost = true;
  });
  for (let i = 0; !isLost && i < 5_000; i += 1) {
    plane.publish({ ...event, errors: [...event.errors], refused: [], changed: [] });
    await new Promise((resolve) => void setImmediate(resolve));
    if (i % 100 === 99) slow.response.read(1);
  }
  await eventually("one is left", async () => {
    slow.response.resume();
    return isLost;
  });
  const before = good.text().length;
  plane.publish({ type: "rule", at, set: [], removed: ["last"] });
  await eventually("the other one gets the next event", () => good.text().slice(before).includes("last"));
});

test("a stream has no timeout, and is kept alive by a comment", async ({ onTestFinished }) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const stage = await stageApi(cleanup, fakePlane());
  const { text, response } = await open(stage);
  vi.advanceTimersByTime(keptAliveEveryMs);
  for (let i = 0; !text().includes(": kept alive"); i += 1) {
    await new Promise((resolve) => realTimeout(resolve, 5));
    if (i > 500) throw new Error("no comment came");
  }
  vi.advanceTimersByTime(2 * answerTimeoutMs);
  vi.useRealTimers();
  await new Promise((resolve) => void setImmediate(resolve));
  expect(response.destroyed).toBe(false);
});

test("when the last stream has ended, nothing is sent any more", async () => {
  holdIntervals(cleanup);
  const plane = fakePlane();
  const stage = await stageApi(cleanup, plane);
  const before = vi.getTimerCount();
  const { outgoing } = await open(stage);
  expect(vi.getTimerCount()).toBe(before + 1);
  outgoing.destroy();
  await eventually("nobody listens", () => plane.subscribers() === 0);
  expect(vi.getTimerCount()).toBe(before);
});
