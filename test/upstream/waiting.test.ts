// Whose time it is when a request waits for a free connection to the upstream: nobody's own.
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

test("a request that waits five seconds for a connection adds nothing to the gateway's share or the upstream's", async () => {
  const held: ServerResponse[] = [];
  const upstream = await startUpstream((_req, res) => void held.push(res));
  cleanup(() => upstream.close());
  const clock = new FakeClock();
  const overrides = { upstream: { maxConnections: 1 } };
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, clock, overrides });
  cleanup(() => gateway.close());
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
