// Several addresses of an upstream while as many connections are open as are allowed.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { request } from "../support/stage.ts";
import { stage, startHeld } from "./several-backends.ts";

const cleanup = useCleanup();

test("an address that works again gets its part of the requests although all connections are in use", async () => {
  const clock = new FakeClock();
  const back = await startHeld(cleanup, "127.0.0.1");
  const alive = await startHeld(cleanup, "127.0.0.2");
  await back.stop();
  const { gateway, connect, events } = await stage(cleanup, {
    addresses: [back.address, alive.address],
    upstream: { maxConnections: 4, connectTimeoutMs: 30_000 },
    clock,
  });
  for (let i = 1; i <= 4; i += 1) {
    connect().write(request("/v2/x"));
    await eventually("it is with the other address", () => alive.held.length === i);
  }
  expect(events()).toMatchObject([{ address: back.address, reason: "refused" }]);
  const letWait = async (requests: number): Promise<void> => {
    for (let i = 0; i < requests; i += 1) connect().write(request("/v2/x"));
    await eventually("they wait", async () => (await upstreamConnections(gateway)).waiting === requests);
  };
  await letWait(3);
  await back.start();
  clock.advance(1_000);
  alive.release();
  await eventually("the one that waited longest probes the address", () => back.held.length === 1);
  back.release();
  await eventually("the probe's connection is used again", () => back.held.length === 1 && back.hits === 2);
  expect(events().at(-1)).toMatchObject({ address: back.address, msg: "upstream address restored" });
  alive.release();
  await eventually("half of the requests are there", () => back.held.length === 2);
  // From now on each address keeps its connections.
  const sockets = [...back.sockets, ...alive.sockets];
  expect(sockets).toHaveLength(4);
  for (const [backend, other] of [
    [alive, back],
    [alive, back],
    [back, alive],
  ] as const) {
    await letWait(1);
    const { hits } = backend;
    backend.release();
    await eventually("the next one goes to the same address", () => backend.hits === hits + 1);
    expect(other.held).toHaveLength(2);
  }
  expect([...back.sockets, ...alive.sockets]).toEqual(sockets);
});
