// WebSocket through the gateway as applications use it, with the ws package on both ends.
import { once } from "node:events";
import { expect, test, vi } from "vitest";
import type { WebSocket } from "ws";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, standsStill, within } from "../support/eventually.ts";
import { slidingPolicy } from "../support/policy.ts";
import { scaled } from "../support/runs.ts";
import { holdTimers } from "../support/timers.ts";
import { stageWebSockets, tunnels } from "../support/web-sockets.ts";

const cleanup = useCleanup();
const echo = (socket: WebSocket): void =>
  void socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));

const messages = scaled(10_000, 5);

test("thousands of messages come back in order, and the request costs one", async () => {
  const { open, gateway, requests } = await stageWebSockets(cleanup, echo);
  const client = await open();
  const received: string[] = [];
  client.on("message", (data) => received.push(String(data)));
  for (let i = 0; i < messages; i += 1) client.send(`message ${i}`);
  await eventually("all are back", () => received.length === messages, 10_000);
  expect(received).toEqual(Array.from({ length: messages }, (_, i) => `message ${i}`));
  expect(requests[0]?.url).toBe("/v2/live?a=1");
  expect(requests[0]?.headers).toMatchObject({
    authorization: "Bearer secret-token",
    "x-forwarded-for": "127.0.0.1",
    via: "1.1 headgate",
    "x-request-id": expect.stringMatching(/./),
  });
  const elsewhere = await fetch(`${gateway.url}/elsewhere`);
  expect(elsewhere.headers.get("RateLimit-Remaining")).toBe("99");
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  // Told of at the 101, so that a tunnel's length is not taken for a request's.
  expect(metrics).toContain('headgate_requests_total{route="/v2/",method="GET",status_class="1xx"} 1\n');
  expect(gateway.logLines.filter(({ status }) => status === 101)).toHaveLength(1);
});

test("frames of megabytes, pings and a negotiated compression pass unchanged", async () => {
  const options = { perMessageDeflate: { threshold: 0 } };
  const { open } = await stageWebSockets(cleanup, echo, {}, options);
  const client = await open(options);
  expect(client.extensions).toContain("permessage-deflate");
  const large = Buffer.alloc(5_000_000, "0123456789abcdef");
  client.send(large);
  const [back] = await within("it comes back", once(client, "message"));
  expect(large.equals(back as Buffer)).toBe(true);
  client.ping("are you there");
  const [pong] = await within("a pong", once(client, "pong"));
  expect(String(pong)).toBe("are you there");
});

test.each(["client", "upstream"] as const)("the close code of the %s reaches the other side", async (closing) => {
  const { open, sockets, gateway } = await stageWebSockets(cleanup, echo);
  const client = await open();
  const upstream = sockets[0] as WebSocket;
  const [from, to] = closing === "client" ? [client, upstream] : [upstream, client];
  const closed = once(to, "close");
  const returned = once(from, "close");
  from.close(4321, "because");
  const [code, reason] = await within("the other side closes", closed);
  expect({ code, reason: String(reason) }).toEqual({ code: 4321, reason: "because" });
  expect((await within("it is acknowledged", returned))[0]).toBe(4321);
  await eventually("nothing is left", async () => (await tunnels(gateway)).open === 0);
});

test.each(["client", "upstream"] as const)(
  "when the %s breaks, the other side is closed and freed",
  async (breaking) => {
    const { open, sockets, gateway } = await stageWebSockets(cleanup, echo);
    const client = await open();
    const upstream = sockets[0] as WebSocket;
    expect(await tunnels(gateway)).toEqual({ opening: 0, open: 1 });
    const [from, to] = breaking === "client" ? [client, upstream] : [upstream, client];
    const closed = once(to, "close");
    from.terminate();
    expect((await within("the other side closes", closed))[0]).toBe(1006);
    await eventually("nothing is left", async () => (await tunnels(gateway)).open === 0);
  },
);

test("a client that does not read holds the upstream back, and gets everything once it does", async () => {
  const { open, sockets } = await stageWebSockets(cleanup, () => {});
  const client = await open();
  const upstream = sockets[0] as WebSocket;
  client.pause();
  const piece = Buffer.alloc(64 * 1024, "x");
  const pieces = 1_000;
  let received = 0;
  client.on("message", () => {
    received += 1;
  });
  for (let i = 0; i < pieces; i += 1) upstream.send(piece);
  const before = await standsStill("the upstream's buffer", () => upstream.bufferedAmount);
  // What is neither there nor received is with the kernel and the gateway.
  expect(pieces * piece.length - before).toBeLessThan(30_000_000);
  client.resume();
  await eventually("all is there", () => received === pieces, 10_000);
});

const rounds = scaled(50);

test(`${10 * rounds} tunnels, one after the other and ten at a time, leave nothing behind`, async () => {
  const policies = [slidingPolicy({ limit: 1_000_000, windowMs: 60_000 })];
  const { open, gateway } = await stageWebSockets(cleanup, echo, {
    policies: [...policies],
    upgrade: { maxTunnels: 20 },
  });
  for (let round = 0; round < rounds; round += 1) {
    const clients = await Promise.all(Array.from({ length: 10 }, () => open()));
    for (const [i, client] of clients.entries()) {
      if (i % 2 === 0) client.terminate();
      else client.close();
    }
    await eventually("they are gone", async () => (await tunnels(gateway)).open === 0);
  }
  await eventually("no connection is left", async () => {
    const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    return /^headgate_client_connections 0$/m.test(text);
  });
});

test("a tunnel is given until the drain's end, and is cut then", async () => {
  holdTimers(cleanup);
  const { open, gateway } = await stageWebSockets(cleanup, echo, { drain: { timeoutMs: 60_000 } });
  const client = await open();
  let isDrained = false;
  const drained = gateway.drain().then(() => {
    isDrained = true;
  });
  client.send("still");
  expect(String((await within("an echo", once(client, "message")))[0])).toBe("still");
  const closed = once(client, "close");
  await eventually("the drain's time is over", () => {
    vi.advanceTimersByTime(30_000);
    return isDrained;
  });
  await drained;
  expect((await within("the tunnel is cut", closed))[0]).toBe(1006);
  expect(gateway.logLines.find(({ requests }) => requests !== undefined)).toMatchObject({ requests: 1 });
});
