// The bound on upstream connections: never exceeded, given to whoever waited longest, and given back whatever happens.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { scaled } from "../support/runs.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();
const policies = [slidingPolicy({ limit: 10_000, windowMs: 60_000 })];
const target = (data: Buffer): string => /^\S+ (\S+)/.exec(data.toString("latin1"))?.[1] ?? "";

test("no more connections are opened than allowed, and all requests within the queue are served", async () => {
  let open = 0;
  let most = 0;
  const { connect } = await stageRaw(
    cleanup,
    (socket) => {
      open += 1;
      most = Math.max(most, open);
      setImmediate(() => {
        open -= 1;
        socket.write(response("ok"));
      });
    },
    {
      upstream: { maxConnections: 8, connectTimeoutMs: 30_000 },
      clientAddress: { trustedProxies: ["127.0.0.1"] },
      policies,
    },
  );
  const clients = Array.from({ length: 16 }, () => connect());
  for (let round = 0; round < 10; round += 1) {
    // Each of a client of its own: one alone would get half of the connections.
    for (const [i, client] of clients.entries()) {
      client.write(request("/v2/x", { fields: `X-Forwarded-For: 192.0.2.${i}\r\n` }));
    }
    for (const client of clients) expect((await client.read()).status).toBe(200);
  }
  expect(most).toBe(8);
});

test("requests that wait are served in the order they came", async () => {
  const held: (() => void)[] = [];
  const order: string[] = [];
  const { connect, gateway } = await stageRaw(
    cleanup,
    (socket, data) => {
      order.push(target(data));
      held.push(() => socket.write(response("ok")));
    },
    // Of which one client gets four.
    { upstream: { maxConnections: 8, connectTimeoutMs: 30_000 }, policies },
  );
  const clients = [];
  for (let i = 0; i < 8; i += 1) {
    const client = connect();
    clients.push(client);
    client.write(request(`/v2/${i}`));
    const places = i < 4 ? { active: i + 1, waiting: 0 } : { active: 4, waiting: i - 3 };
    await eventually(`${i} has its place`, async () => {
      const { active, waiting } = await upstreamConnections(gateway);
      return active === places.active && waiting === places.waiting;
    });
  }
  for (let i = 0; i < 8; i += 1) {
    await eventually("one is held", () => held.length > 0);
    held.shift()?.();
  }
  for (const client of clients) expect((await client.read()).status).toBe(200);
  expect(order.slice(4)).toEqual(["/v2/4", "/v2/5", "/v2/6", "/v2/7"]);
});

test("a client that leaves while it waits loses its place and is never forwarded", async () => {
  const sockets: Socket[] = [];
  const { connect, gateway, upstream } = await stageRaw(cleanup, (socket) => void sockets.push(socket), {
    upstream: { maxConnections: 1, connectTimeoutMs: 30_000 },
  });
  const [first, second, third] = [connect(), connect(), connect()];
  first.write(request("/v2/first"));
  await eventually("the first is at the upstream", () => sockets.length === 1);
  second.write(request("/v2/second"));
  await eventually("the second waits", async () => (await upstreamConnections(gateway)).waiting === 1);
  second.destroy();
  await eventually("nobody waits", async () => (await upstreamConnections(gateway)).waiting === 0);
  third.write(request("/v2/third"));
  await eventually("the third waits", async () => (await upstreamConnections(gateway)).waiting === 1);
  sockets[0]?.write(response("ok"));
  expect((await first.read()).status).toBe(200);
  await eventually("the third is at the upstream", () => sockets.length === 2);
  sockets[1]?.write(response("ok"));
  expect((await third.read()).status).toBe(200);
  expect(upstream.bytes()).not.toContain("/v2/second");
});

test("a request that waits longer than the connect timeout is a 503", async () => {
  const { connect } = await stageRaw(cleanup, () => {}, { upstream: { maxConnections: 1, connectTimeoutMs: 300 } });
  const [first, second] = [connect(), connect()];
  first.write(request("/v2/first"));
  second.write(request("/v2/second"));
  const answer = await within("an answer", Promise.race([first.read(), second.read()]), 2_000);
  expect(answer.status).toBe(503);
});

/** At least two: a connection that was lost once is missed by the next one. */
const mishapsEach = scaled(10, 5);
const body = { method: "POST", fields: "Content-Length: 4\r\n" };
interface Mishap {
  readonly name: string;
  readonly upstream?: (socket: Socket) => void;
  readonly send?: string;
  /** Sent when the upstream has seen the request. */
  readonly afterwards?: string;
  readonly leaves?: boolean;
}
const half = (socket: Socket): void => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
const mishaps: readonly Mishap[] = [
  { name: "resets", upstream: (socket) => void socket.resetAndDestroy() },
  { name: "closes early", upstream: (socket) => void socket.end() },
  { name: "answers nonsense", upstream: (socket) => void socket.write("nonsense\r\n\r\n") },
  { name: "breaks off", upstream: (socket) => void socket.end(response("whole").slice(0, -1)) },
  { name: "sends too much", upstream: (socket) => void socket.write(`${response("ok")}more`) },
  {
    name: "answers before the body",
    upstream: (socket) => void socket.write(response("early")),
    send: request("/v2/x", { ...body, body: "ha" }),
  },
  { name: "does not answer a client that leaves", leaves: true },
  {
    name: "does not answer a client that leaves in its body",
    send: request("/v2/x", { ...body, body: "ha" }),
    leaves: true,
  },
  { name: "is answering a client that leaves", upstream: half, leaves: true },
  {
    name: "is sent a broken chunk",
    send: request("/v2/x", { method: "POST", fields: "Transfer-Encoding: chunked\r\n", body: "2\r\nhi\r\n" }),
    afterwards: "zz\r\n",
  },
];

test.each(mishaps)(
  "no connection is lost when the upstream $name",
  async ({ upstream: misbehave, send, afterwards, leaves }) => {
    let isWell = false;
    const { connect, gateway, upstream } = await stageRaw(
      cleanup,
      (socket) => (isWell ? void socket.write(response("ok")) : misbehave?.(socket)),
      { upstream: { maxConnections: 4 }, policies },
    );
    for (let i = 0; i < mishapsEach; i += 1) {
      const client = connect();
      const before = upstream.bytes().length;
      client.write(send ?? request("/v2/x"));
      await eventually("it is at the upstream", () => upstream.bytes().length > before);
      client.write(afterwards ?? "");
      if (leaves) client.destroy();
      else await client.read().catch(() => {});
      client.destroy();
      await eventually("its slot is free", async () => (await upstreamConnections(gateway)).active === 0);
    }
    isWell = true;
    const clients = Array.from({ length: 4 }, () => connect());
    for (const client of clients) client.write(request("/v2/x"));
    for (const client of clients) expect((await client.read()).status).toBe(200);
  },
);
