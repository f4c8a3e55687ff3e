// Several addresses of one upstream: the requests go where the fewest are, to one that can be reached, and never twice
// to where they may have been read; names are looked up again.

import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { request, response } from "../support/stage.ts";
import { stage, startBackend } from "./several-backends.ts";

const cleanup = useCleanup();

test("requests take turns between addresses that are equally free, and the Host stays the client's", async () => {
  const [one, two] = [await startBackend(cleanup, "127.0.0.1"), await startBackend(cleanup, "127.0.0.2")];
  const { ask, metric } = await stage(cleanup, { addresses: [one.address, two.address] });
  for (let i = 0; i < 20; i += 1) await ask();
  expect([one.hits, two.hits]).toEqual([10, 10]);
  expect(await metric('headgate_upstream_addresses{state="available"}')).toBe(2);
});

test("requests go where the fewest are", async () => {
  const slow = await startBackend(cleanup, "127.0.0.1", () => {});
  const quick = await startBackend(cleanup, "127.0.0.2");
  const { connect, ask } = await stage(cleanup, { addresses: [slow.address, quick.address] });
  const clients = Array.from({ length: 6 }, connect);
  for (const client of clients) client.write(request("/v2/held"));
  await eventually("all are with a backend", () => slow.hits + quick.hits === 6);
  const held = slow.hits;
  expect(held).toBeGreaterThan(0);
  for (let i = 0; i < 20; i += 1) expect(await ask()).toBe("127.0.0.2");
  expect(slow.hits).toBe(held);
});

test("maxConnections bounds the connections to all addresses together, and who waits is served by any", async () => {
  const held: (() => void)[] = [];
  const hold = (socket: Socket): void => void held.push(() => socket.write(response("ok")));
  const [one, two] = [await startBackend(cleanup, "127.0.0.1", hold), await startBackend(cleanup, "127.0.0.2", hold)];
  const { connect, gateway } = await stage(cleanup, {
    addresses: [one.address, two.address],
    upstream: { maxConnections: 3, connectTimeoutMs: 30_000 },
  });
  const clients = Array.from({ length: 6 }, (_, i) => connect(`127.0.0.${i + 1}`));
  for (const client of clients) client.write(request("/v2/x"));
  await eventually("three wait", async () => (await upstreamConnections(gateway)).waiting === 3);
  expect(one.sockets.size + two.sockets.size).toBe(3);
  for (let i = 0; i < 6; i += 1) {
    await eventually("one is held", () => held.length > 0);
    held.shift()?.();
  }
  for (const client of clients) expect((await client.read()).status).toBe(200);
  expect(one.sockets.size + two.sockets.size).toBe(3);
});

test("an address that refuses costs no request, not even one with a body; it is ejected, asked once a while, and restored", async () => {
  const clock = new FakeClock();
  const [dead, alive] = [await startBackend(cleanup, "127.0.0.1"), await startBackend(cleanup, "127.0.0.2")];
  await dead.stop();
  const { ask, metric, told, events, gateway } = await stage(cleanup, {
    addresses: [dead.address, alive.address],
    clock,
  });
  const failovers = (): Promise<number> => metric('headgate_upstream_failovers_total{reason="refused"}');
  for (let i = 0; i < 10; i += 1) expect(await ask(i % 2 === 0 ? "POST" : "GET")).toBe("127.0.0.2");
  expect(await failovers()).toBe(3);
  const firstFailure = { level: "warn", address: dead.address, reason: "refused", code: "ECONNREFUSED" };
  expect(told("upstream address not reached")).toMatchObject([firstFailure]);
  expect(events()).toMatchObject([{ address: dead.address, reason: "refused", backoffMs: 1000 }]);
  expect(await metric('headgate_upstream_addresses{state="ejected"}')).toBe(1);
  expect(await metric("headgate_upstream_ejections_total")).toBe(1);
  expect(await metric('headgate_upstream_errors_total{reason="refused"}')).toBe(0);
  expect(await (await fetch(`${gateway.adminUrl}/readyz`)).json()).toMatchObject({ upstream: { state: "up" } });
  clock.advance(1_000);
  for (let i = 0; i < 10; i += 1) expect(await ask()).toBe("127.0.0.2");
  expect(await metric("headgate_upstream_ejections_total")).toBe(2);
  expect(await failovers()).toBe(4);
  await dead.start();
  for (let i = 0; i < 5; i += 1) expect(await ask()).toBe("127.0.0.2");
  clock.advance(2_000);
  const answers = [await ask(), await ask(), await ask(), await ask()];
  expect(answers.filter((answer) => answer === "127.0.0.1")).toHaveLength(2);
  expect(events().at(-1)).toMatchObject({ address: dead.address, msg: "upstream address restored" });
  // Once it has answered, what happens to it is news again.
  await dead.stop();
  for (let i = 0; i < 4; i += 1) await ask();
  expect(told("upstream address not reached")).toHaveLength(2);
});

test("an address that resets what it has read is ejected after three, and no such request is sent to another one", async () => {
  const broken = await startBackend(cleanup, "127.0.0.1", (socket) => void socket.resetAndDestroy());
  const good = await startBackend(cleanup, "127.0.0.2");
  const { ask, told, events } = await stage(cleanup, {
    addresses: [broken.address, good.address],
    clock: new FakeClock(),
  });
  const answers: string[] = [];
  for (let i = 0; i < 20; i += 1) answers.push(await ask("POST"));
  expect(answers.filter((answer) => answer === "502")).toHaveLength(3);
  expect([broken.hits, good.hits]).toEqual([3, 17]);
  expect(events()).toMatchObject([{ address: broken.address, reason: "reset" }]);
  expect(told("upstream failed")).toMatchObject(Array(3).fill({ address: broken.address, reason: "reset" }));
});

test("a client whose requests make the upstream reset ejects no address that answers others", async () => {
  const answer = (socket: Socket, data: Buffer): void => {
    if (data.includes("POST ")) socket.resetAndDestroy();
    else socket.write(response("served"));
  };
  const [one, two] = [
    await startBackend(cleanup, "127.0.0.1", answer),
    await startBackend(cleanup, "127.0.0.2", answer),
  ];
  const clock = new FakeClock();
  const { ask, events } = await stage(cleanup, { addresses: [one.address, two.address], clock });
  for (let round = 0; round < 3; round += 1) {
    for (let i = 0; i < 4; i += 1) expect(await ask()).toBe("served");
    clock.advance(4_000);
    for (let i = 0; i < 20; i += 1) expect(await ask("POST")).toBe("502");
  }
  expect(events()).toEqual([]);
});

test("when all are ejected they are tried all the same, and the first that is back serves", async () => {
  const [one, two] = [await startBackend(cleanup, "127.0.0.1"), await startBackend(cleanup, "127.0.0.2")];
  await one.stop();
  await two.stop();
  const { ask, told, events } = await stage(cleanup, { addresses: [one.address, two.address], clock: new FakeClock() });
  for (let i = 0; i < 12; i += 1) expect(await ask()).toBe("502");
  expect(events()).toHaveLength(2);
  const failed = told("upstream failed") as { readonly address: string }[];
  // Of a request that two addresses failed, the first is told where the second is tried.
  const [first] = told("upstream address not reached") as typeof failed;
  expect([first?.address, failed[0]?.address].toSorted()).toEqual([one.address, two.address].toSorted());
  await one.start();
  await two.start();
  expect(await ask()).toMatch(/^127/);
});

test("a name's addresses are all used, and followed when they change: idle connections to what is gone are closed", async () => {
  const keptLong = (socket: Socket): void => void socket.write(response("127.0.0.1", "Keep-Alive: timeout=60\r\n"));
  const one = await startBackend(cleanup, "127.0.0.1", keptLong);
  const two = await startBackend(cleanup, "127.0.0.2", undefined, one.port);
  let found: readonly string[] | Error = ["127.0.0.1"];
  let lookups = 0;
  const resolve = async (name: string): Promise<readonly string[]> => {
    expect(name).toBe("backend.test");
    lookups += 1;
    if (found instanceof Error) throw found;
    return found;
  };
  const names = { resolve, everyMs: 20 };
  const { ask, told, metric } = await stage(cleanup, { url: `http://backend.test:${one.port}`, names });
  expect(await ask()).toBe("127.0.0.1");
  found = ["127.0.0.2"];
  // Long before it would have closed for being idle.
  await eventually("the idle connection is closed", () => one.sockets.size === 0);
  expect(await ask()).toBe("127.0.0.2");
  found = ["127.0.0.2", "127.0.0.1"];
  await eventually(
    "both are known",
    async () => (await metric('headgate_upstream_addresses{state="available"}')) === 2,
  );
  expect(new Set([await ask(), await ask()])).toEqual(new Set(["127.0.0.1", "127.0.0.2"]));

  found = Object.assign(new Error("no"), { code: "EAI_AGAIN" });
  const before = lookups;
  await eventually("some have failed", () => lookups > before + 3);
  expect(await ask()).toMatch(/^127/);
  expect(await metric("headgate_upstream_names_current")).toBe(0);
  expect(await metric("headgate_upstream_lookups_failed_total")).toBeGreaterThan(1);
  const msg = "upstream name not looked up, the addresses from before stay in use";
  expect(told("upstream name not")).toMatchObject([{ name: "backend.test", code: "EAI_AGAIN", msg }]);
  expect(two.hits).toBeGreaterThan(0);
});

test("a name that has no address yet is a 502, and serves as soon as it has one", async () => {
  const backend = await startBackend(cleanup, "127.0.0.1");
  let found: readonly string[] = [];
  const names = { resolve: async () => found, everyMs: 20 };
  const { ask, told } = await stage(cleanup, { url: `http://backend.test:${backend.port}`, names });
  expect(await ask()).toBe("502");
  const msg = "upstream name not looked up, no address of it is known";
  expect(told("upstream name")).toMatchObject([{ name: "backend.test", msg }]);
  found = ["127.0.0.1"];
  await eventually("it serves", async () => (await ask()) === "127.0.0.1");
});

test("a tunnel goes to an address that can be reached", async () => {
  const dead = await startBackend(cleanup, "127.0.0.1");
  await dead.stop();
  const alive = await startBackend(cleanup, "127.0.0.2", (socket, data) => {
    const isHead = data.includes("HTTP/1.1\r\n");
    socket.write(
      isHead ? "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" : data,
    );
  });
  const { connect } = await stage(cleanup, { addresses: [dead.address, alive.address] });
  for (let i = 0; i < 4; i += 1) {
    const client = connect().write(request("/v2/x", { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" }));
    expect((await client.readHead()).status).toBe(101);
  }
});
