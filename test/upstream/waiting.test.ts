// A request that waits for a free connection to the upstream: its time is counted for nobody, and its body stays with the
// client.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, turns } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { sharesReads } from "../support/reads.ts";
import { request, stageHttp } from "../support/stage.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

test("a request that waits five seconds for a connection adds nothing to the gateway's share or the upstream's", async () => {
  const held: ServerResponse[] = [];
  const upstream = cleanup(await startUpstream((_req, res) => void held.push(res)));
  const clock = new FakeClock();
  const overrides = { upstream: { maxConnections: 1, connectTimeoutMs: 30_000 } };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, clock, overrides }));
  const ask = () => fetch(`${gateway.url}/v2/x`, { headers: { Authorization: "Bearer t" } });
  const first = ask();
  await eventually("the first is at the upstream", () => held.length === 1);
  const second = ask();
  const waiting = () => metric(gateway, 'headgate_upstream_connections{state="waiting"}');
  await eventually("the second waits", async () => (await waiting()) === 1);
  clock.advance(5_000);
  held[0]?.end("one");
  await eventually("the second is at the upstream", () => held.length === 2);
  held[1]?.end("two");
  expect([(await first).status, (await second).status]).toEqual([200, 200]);
  const seen = async (name: string): Promise<number> => metric(gateway, name);
  await eventually("both are counted", async () => (await seen("headgate_overhead_seconds_count")) === 2);
  expect(await seen("headgate_overhead_seconds_sum")).toBe(0);
  expect(await seen('headgate_upstream_duration_seconds_sum{route="/v2/"}'), "the first one's").toBe(5);
  expect(await seen('headgate_request_duration_seconds_sum{route="/v2/"}')).toBe(10);
});

const size = 4_000_000;
const readBytes = 64 * 1024;
/** A stream that is paused keeps a read of its own, and one more for the bytes that come behind it. */
const keptReads = sharesReads ? 2 : 4;

test.each([
  ["a length", `Content-Length: ${size}\r\n`, "b".repeat(size)],
  ["chunks", "Transfer-Encoding: chunked\r\n", `${size.toString(16)}\r\n${"b".repeat(size)}\r\n0\r\n\r\n`],
])("of a body with %s that waits for a connection, no more than a few reads are kept", async (_, fields, body) => {
  const accepted: Socket[] = [];
  const note = (message: unknown): void => void accepted.push((message as { socket: Socket }).socket);
  subscribe("net.server.socket", note);
  cleanup(() => void unsubscribe("net.server.socket", note));
  const held: ServerResponse[] = [];
  const { connect, gateway, upstream } = await stageHttp(cleanup, (_req, res) => void held.push(res), {
    upstream: { maxConnections: 1, connectTimeoutMs: 30_000 },
  });
  const [first, second] = [connect(), connect()];
  first.write(request("/v2/1"));
  await eventually("the first is at the upstream", () => held.length === 1);
  second.write(request("/v2/2", { method: "POST", fields, body }));
  await eventually("the second waits", async () => (await upstreamConnections(gateway)).waiting === 1);
  const socket = accepted.find(({ remotePort }) => remotePort === second.socket.localPort);
  await eventually("it has been read from", () => (socket?.bytesRead ?? 0) >= readBytes);
  // Several for each read that a reader that goes on would need for all of it.
  await turns((10 * size) / readBytes);
  expect(socket?.bytesRead).toBeLessThanOrEqual(keptReads * readBytes);
  held[0]?.end("one");
  expect((await first.read()).body).toBe("one");
  await eventually("the second is at the upstream", () => held.length === 2);
  held[1]?.end("two");
  expect((await second.read()).body).toBe("two");
  expect(upstream.received[1]?.body).toHaveLength(size);
});
