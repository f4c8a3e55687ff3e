// Several addresses of an upstream while as many connections are open as are allowed.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { upstreamConnections } from "../support/metrics.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { type Held, type Staged, stage, startHeld } from "./several-backends.ts";

const cleanup = useCleanup();

const isWaiting = ({ gateway }: Staged, requests: number): Promise<void> =>
  eventually(`${requests} wait`, async () => (await upstreamConnections(gateway)).waiting === requests);

let clients = 0;

/** Sends a request of another client than all before: one client alone would get half of the connections. */
function send(staged: Staged): RawConnection {
  clients += 1;
  const client = staged.connect(`127.0.1.${clients}`).write(request("/v2/x"));
  return client;
}

/** Sends requests for which there is no connection. */
async function letWait(staged: Staged, requests: number): Promise<RawConnection[]> {
  const waiting = Array.from({ length: requests }, () => send(staged));
  await isWaiting(staged, requests);
  return waiting;
}

test("an address that works again gets its part of the requests although all connections are in use", async () => {
  const clock = new FakeClock();
  const back = await startHeld(cleanup, "127.0.0.1");
  const alive = await startHeld(cleanup, "127.0.0.2");
  await back.stop();
  const staged = await stage(cleanup, {
    addresses: [back.address, alive.address],
    upstream: { maxConnections: 4, connectTimeoutMs: 30_000 },
    clock,
  });
  const { events } = staged;
  for (let i = 1; i <= 4; i += 1) {
    send(staged);
    await eventually("it is with the other address", () => alive.held.length === i);
  }
  expect(events()).toMatchObject([{ address: back.address, reason: "refused" }]);
  await letWait(staged, 3);
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
    await letWait(staged, 1);
    const { hits } = backend;
    backend.release();
    await eventually("the next one goes to the same address", () => backend.hits === hits + 1);
    expect(other.held).toHaveLength(2);
  }
  expect([...back.sockets, ...alive.sockets]).toEqual(sockets);
});

test("between addresses with equally many requests, no connection is given up", async () => {
  const backends = [await startHeld(cleanup, "127.0.0.1"), await startHeld(cleanup, "127.0.0.2")];
  const staged = await stage(cleanup, {
    addresses: backends.map(({ address }) => address),
    upstream: { maxConnections: 3, connectTimeoutMs: 30_000 },
  });
  for (let i = 0; i < 3; i += 1) send(staged);
  const [one, two] = backends as [Held, Held];
  await eventually("all are served", () => one.held.length + two.held.length === 3);
  const [more, fewer] = one.held.length === 2 ? [one, two] : [two, one];
  const sockets = [...more.sockets, ...fewer.sockets];
  for (let round = 0; round < 6; round += 1) {
    // Each request takes a turn when it comes and when it is served: with one that leaves, the other address comes first.
    const [leaving] = await letWait(staged, 1);
    leaving?.destroy();
    await isWaiting(staged, 0);
    await letWait(staged, 1);
    const { hits } = more;
    // Then each of them has one request, and only this one an idle connection.
    more.release();
    await eventually("the connection is used again", () => more.hits === hits + 1);
  }
  expect([...more.sockets, ...fewer.sockets]).toEqual(sockets);
});
