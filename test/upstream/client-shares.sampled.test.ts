// What one client can take from the others: connections to the upstream, and the queue for them. The clients are those
// of a trusted proxy, so each test has as many as it needs.
import type { Socket } from "node:net";
import { expect, test, vi } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import type { Overrides, TestGateway } from "../support/gateway.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { scaled } from "../support/runs.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";

const cleanup = useCleanup();
const policies = [slidingPolicy({ limit: 10_000, windowMs: 60_000 })];
const clientAddress = { trustedProxies: ["127.0.0.1"] };
const of = (client: string): string => `X-Forwarded-For: ${client}\r\n`;
const [a, b, c, d, e] = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5"];
const connectTimeoutMs = 5_000;
/** How often a request that waits looks for a connection that another client could give up. */
const reclaimEveryMs = 100;
const bodyBytes = 1_000_000;
/** More than is read before a request gets a connection. */
const begun = "x".repeat(70_000);
const target = (data: Buffer): string => /^\S+ (\S+)/.exec(data.toString("latin1"))?.[1] ?? "";

function slowUpload(client: string, path = "/v2/upload"): string {
  return request(path, { method: "POST", fields: `${of(client)}Content-Length: ${bodyBytes}\r\n`, body: begun });
}

async function stage(overrides: Overrides, respond: (socket: Socket, data: Buffer) => void, clock?: Clock) {
  const staged = await stageRaw(cleanup, respond, { policies, clientAddress, ...overrides }, clock);
  const { gateway, connect } = staged;
  return {
    ...staged,
    /** Sends each on a connection of its own, and waits until it has a connection to the upstream. */
    async sendAll(messages: readonly string[]): Promise<RawConnection[]> {
      const clients: RawConnection[] = [];
      let before = (await upstreamConnections(gateway)).active;
      for (const message of messages) {
        const client = connect().write(message);
        clients.push(client);
        let active = before;
        await eventually("it has a connection", async () => {
          ({ active } = await upstreamConnections(gateway));
          return active > before;
        });
        before = active;
      }
      return clients;
    },
  };
}

const answersGets = (socket: Socket, data: Buffer): void => {
  if (data.toString("latin1").startsWith("GET")) socket.write(response("ok"));
};
const exceeded = (gateway: TestGateway, resource: string): Promise<number> =>
  metric(gateway, `headgate_client_share_exceeded_total{resource="${resource}"}`);
const isWaiting = (gateway: TestGateway, count: number) =>
  eventually(`${count} wait`, async () => (await upstreamConnections(gateway)).waiting === count);
const errMsg = ({ body }: { body: string }): string => JSON.parse(body).errors[0].errMsg;

test("a freed connection goes to the client that holds the fewest, and a full queue makes room for it", async () => {
  const held: (() => void)[] = [];
  const order: string[] = [];
  const { connect, gateway, sendAll } = await stage(
    { upstream: { maxConnections: 4, connectTimeoutMs: 30_000 } },
    (socket, data) => {
      order.push(target(data));
      held.push(() => void socket.write(response("ok")));
    },
  );
  const greedy = await sendAll([1, 2].map((i) => request(`/v2/a${i}`, { fields: of(a) })));
  await sendAll([request("/v2/c", { fields: of(c) }), request("/v2/d", { fields: of(d) })]);
  const wait = async (i: number, waiting: number): Promise<void> => {
    const client = connect();
    greedy.push(client);
    client.write(request(`/v2/a${i}`, { fields: of(a) }));
    await isWaiting(gateway, waiting);
  };
  for (let i = 3; i <= 5; i += 1) await wait(i, i - 2);
  for (let i = 0; i < 96; i += 1) connect().write(request("/v2/more", { fields: of(a) }));
  await isWaiting(gateway, 99);
  await wait(6, 100);
  const other = connect().write(request("/v2/b1", { fields: of(b) }));
  const refused = await greedy[5]?.read();
  expect(refused?.status, "the newest of the client with the most").toBe(503);
  expect(errMsg(refused as { body: string })).toBe("This client has used up its share of the waiting requests.");
  expect(await exceeded(gateway, "queue")).toBe(1);
  expect(gateway.logLines).toContainEqual(
    expect.objectContaining({ msg: "client over its share", resource: "queue", client: a }),
  );
  const full = await connect().ask(request("/v2/a7", { fields: of(a) }));
  expect([full.status, errMsg(full)], "has the share of the queue itself").toEqual([
    503,
    "This client has used up its share of the waiting requests.",
  ]);
  const answerAll = (): void => {
    for (const answer of held.splice(0)) answer();
  };
  expect(order).toHaveLength(4);
  held.splice(2, 1)[0]?.();
  await eventually("the client without one is next", () => order.length === 5);
  while (order.length < 8) {
    answerAll();
    await eventually("the next ones are at the upstream", () => held.length > 0);
  }
  answerAll();
  expect(order.slice(4, 8)).toEqual(["/v2/b1", "/v2/a3", "/v2/a4", "/v2/a5"]);
  expect((await other.read()).status).toBe(200);
  for (const client of greedy.slice(0, 5)) expect((await client.read()).status).toBe(200);
});

test("a client alone has a half, its other requests wait for that half and are then refused, and the next client is served", async () => {
  holdTimers(cleanup);
  const { connect, gateway, upstream, sendAll } = await stage(
    { upstream: { maxConnections: 4, connectTimeoutMs } },
    (socket, data) => void (target(data) === "/v2/b" && socket.write(response("ok"))),
  );
  await sendAll([1, 2].map((i) => request(`/v2/${i}`, { fields: of(a) })));
  const third = connect().write(request("/v2/3", { fields: of(a) }));
  await isWaiting(gateway, 1);
  expect((await connect().ask(request("/v2/b", { fields: of(b) }))).status, "does not wait").toBe(200);
  vi.advanceTimersByTime(connectTimeoutMs);
  const answer = await third.read();
  expect([answer.status, errMsg(answer)]).toEqual([
    503,
    "This client has used up its share of the connections to the upstream.",
  ]);
  expect(valuesOf(answer.rawHeaders, "RateLimit-Remaining"), "it is charged, as all that are admitted").toEqual([
    "9997",
  ]);
  expect(upstream.bytes()).not.toContain("/v2/3");
  expect(await exceeded(gateway, "connections")).toBe(1);
  expect(gateway.logLines.find(({ problem }) => problem === "client_share")).toMatchObject({ status: 503, client: a });
});

test("a request that waits while every client has one connection is refused as overloaded, and no share is exceeded", async () => {
  holdTimers(cleanup);
  const { connect, gateway, sendAll } = await stage({ upstream: { maxConnections: 2, connectTimeoutMs } }, () => {});
  await sendAll([request("/v2/1", { fields: of(a) }), request("/v2/2", { fields: of(b) })]);
  const third = connect().write(request("/v2/3", { fields: of(c) }));
  await isWaiting(gateway, 1);
  vi.advanceTimersByTime(connectTimeoutMs);
  const answer = await third.read();
  expect([answer.status, errMsg(answer)]).toEqual([503, "The service is overloaded, please try again later."]);
  expect([await exceeded(gateway, "queue"), await exceeded(gateway, "connections")]).toEqual([0, 0]);
});

test("a queue that one client alone has filled refuses it as overloaded while nothing is free", async () => {
  const { connect, gateway, sendAll } = await stage(
    { upstream: { maxConnections: 1, connectTimeoutMs: 30_000 } },
    () => {},
  );
  await sendAll([request("/v2/1", { fields: of(a) })]);
  for (let i = 0; i < 100; i += 1) connect().write(request("/v2/2", { fields: of(a) }));
  await isWaiting(gateway, 100);
  const answer = await connect().ask(request("/v2/3", { fields: of(a) }));
  expect([answer.status, errMsg(answer)]).toEqual([503, "The service is overloaded, please try again later."]);
  expect(await exceeded(gateway, "queue")).toBe(0);
});

test("the slowest upload of the client with the most loses its connection after half a second", async () => {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const overrides = { upstream: { maxConnections: 8, connectTimeoutMs: 30_000 } };
  const { connect, gateway, sendAll, upstream } = await stage(overrides, answersGets, clock);
  const [first, ...others] = await sendAll([a, a, a, a, b, b, c, d].map((client, i) => slowUpload(client, `/v2/${i}`)));
  clock.advance(300);
  // A quarter of a second is given back to each of the others.
  for (const client of others) {
    const before = upstream.bytes().length;
    client.write("x".repeat(64 * 1024));
    await eventually("it has arrived", () => upstream.bytes().length >= before + 64 * 1024);
  }
  const waiting = connect().write(request("/v2/e", { fields: of(e) }));
  await isWaiting(gateway, 1);
  clock.advance(199);
  vi.advanceTimersByTime(reclaimEveryMs);
  expect(await exceeded(gateway, "connections")).toBe(0);
  clock.advance(1);
  vi.advanceTimersByTime(reclaimEveryMs);
  expect((await waiting.read()).status).toBe(200);
  const answer = (await first?.read()) as { status: number; body: string };
  expect([answer.status, errMsg(answer)]).toEqual([
    503,
    "This transfer is slow, and other clients wait for a connection.",
  ]);
  expect(await exceeded(gateway, "connections")).toBe(1);
  expect(others.map(({ receivedBytes, ending }) => [receivedBytes, ending])).toEqual(others.map(() => [0, null]));
  const refused = gateway.logLines.find(({ problem }) => problem === "client_share");
  expect(refused).toMatchObject({ status: 503, client: a });
});

test("a client loses what would be left to it if all shared equally only to a request that is urgent, and nothing to one that holds a connection", async () => {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const overrides = { upstream: { maxConnections: 4, connectTimeoutMs } };
  const { connect, gateway, sendAll } = await stage(overrides, () => {}, clock);
  const uploads = await sendAll([a, a, b, c].map((client) => slowUpload(client)));
  clock.advance(10_000);
  const ofOne = connect().write(request("/v2/b", { fields: of(b) }));
  await isWaiting(gateway, 1);
  vi.advanceTimersByTime(connectTimeoutMs);
  expect((await ofOne.read()).status, "it holds one").toBe(503);
  expect(uploads.map(({ receivedBytes }) => receivedBytes)).toEqual([0, 0, 0, 0]);
  // None of these is answered, so each needs a connection of its own.
  const others = [d, e].map((client) => {
    const waiting = connect().write(request("/v2/x", { fields: of(client) }));
    return waiting;
  });
  await eventually("one has its connection", async () => (await exceeded(gateway, "connections")) === 1);
  await isWaiting(gateway, 1);
  expect(uploads.map(({ receivedBytes }) => receivedBytes > 0)).toEqual([true, false, false, false]);
  // Less than a quarter of the wait, as far as the timers go on by themselves.
  vi.advanceTimersByTime(connectTimeoutMs / 8);
  await isWaiting(gateway, 1);
  vi.advanceTimersByTime(connectTimeoutMs / 8 + reclaimEveryMs);
  await isWaiting(gateway, 0);
  expect(uploads.filter(({ receivedBytes }) => receivedBytes > 0)).toHaveLength(2);
  expect(
    others.map(({ receivedBytes }) => receivedBytes),
    "both are at the upstream",
  ).toEqual([0, 0]);
  expect(await exceeded(gateway, "connections")).toBe(2);
});

test("the clients of a proxy that is not trusted are one client", async () => {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const overrides = {
    upstream: { maxConnections: 4, connectTimeoutMs },
    clientAddress: { trustedProxies: [] },
  };
  const { connect, gateway, sendAll } = await stage(overrides, answersGets, clock);
  const uploads = await sendAll([a, b].map((client) => slowUpload(client)));
  clock.advance(10_000);
  const waiting = connect().write(request("/v2/c", { fields: of(c) }));
  await isWaiting(gateway, 1);
  vi.advanceTimersByTime(connectTimeoutMs);
  expect((await waiting.read()).status).toBe(503);
  expect(uploads.map(({ receivedBytes }) => receivedBytes)).toEqual([0, 0]);
  expect(await exceeded(gateway, "connections")).toBe(1);
});

test("a request that waits for the upstream is never given up for others", async () => {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const overrides = { upstream: { maxConnections: 4, connectTimeoutMs } };
  const held: Socket[] = [];
  const { connect, gateway, sendAll } = await stage(overrides, (socket) => void held.push(socket), clock);
  const whole = { method: "POST", fields: `${of(a)}Content-Length: ${begun.length}\r\n`, body: begun };
  const requests = [request("/v2/1", { fields: of(a) }), request("/v2/2", whole)];
  const others = [b, c].map((client) => request("/v2/3", { fields: of(client) }));
  const all = await sendAll([...requests, ...others]);
  clock.advance(10_000);
  const waiting = connect().write(request("/v2/d", { fields: of(d) }));
  await isWaiting(gateway, 1);
  vi.advanceTimersByTime(connectTimeoutMs);
  expect((await waiting.read()).status).toBe(503);
  for (const socket of new Set(held)) socket.write(response("ok"));
  for (const client of all) expect((await client.read()).status).toBe(200);
  expect(await exceeded(gateway, "connections")).toBe(0);
});

test("a response that its client does not read gives its connection up, and breaks off", async () => {
  const clock = new FakeClock();
  const overrides = { upstream: { maxConnections: 3, connectTimeoutMs: 30_000 } };
  const large = 30_000_000;
  const { connect, gateway } = await stage(
    overrides,
    (socket, data) => {
      if (target(data) === "/v2/b") socket.write(response("ok"));
      else socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${large}\r\n\r\n${"r".repeat(large)}`);
    },
    clock,
  );
  const readers: RawConnection[] = [];
  for (const [i, client] of [a, a, c].entries()) {
    const reader = connect();
    readers.push(reader);
    reader.write(request(`/v2/${i}`, { fields: of(client) }));
    await reader.readHead();
    reader.socket.pause();
  }
  const waiting = connect().write(request("/v2/b", { fields: of(b) }));
  await isWaiting(gateway, 1);
  // The kernel's buffers take some of it first; what is behind them is held back.
  await eventually("one gives up", async () => {
    clock.advance(1_000);
    return (await exceeded(gateway, "connections")) === 1;
  });
  expect((await waiting.read()).status).toBe(200);
  for (const reader of readers) reader.socket.resume();
  await Promise.race(readers.map(({ closed }) => closed));
  const received = readers.map(({ receivedBytes }) => receivedBytes);
  expect(Math.min(...received)).toBeLessThan(large);
});

test("a response that goes on for longer than ten seconds, such as an event stream, gives its connection up", async () => {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const overrides = { upstream: { maxConnections: 3, connectTimeoutMs: 30_000 } };
  const { connect, gateway, sendAll } = await stage(
    overrides,
    (socket, data) => {
      if (target(data) === "/v2/b") socket.write(response("ok"));
      else socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n:)\r\n");
    },
    clock,
  );
  const streams = await sendAll([a, a, c].map((client, i) => request(`/v2/${i}`, { fields: of(client) })));
  for (const stream of streams) await stream.readHead();
  const waiting = connect().write(request("/v2/b", { fields: of(b) }));
  await isWaiting(gateway, 1);
  // Two bytes are worth something, too.
  clock.advance(10_500);
  vi.advanceTimersByTime(reclaimEveryMs);
  expect(await exceeded(gateway, "connections")).toBe(0);
  clock.advance(1);
  vi.advanceTimersByTime(reclaimEveryMs);
  expect((await waiting.read()).status).toBe(200);
  await Promise.race(streams.map(({ closed }) => closed));
  expect(streams.filter(({ ending }) => ending === null)).toHaveLength(2);
  expect(await exceeded(gateway, "connections")).toBe(1);
});

test("beside clients that hold every connection by trickling bodies, all other clients get their answers", async () => {
  const total = 24;
  const overrides = { upstream: { maxConnections: total } };
  const { connect, gateway, sendAll } = await stage(overrides, answersGets);
  const single = Array.from({ length: 6 }, (_, i) => `198.51.100.${i + 1}`);
  const trickling = [...Array<string>(12).fill(a), ...Array<string>(6).fill(b), ...single];
  const uploads = await sendAll(trickling.map((client) => slowUpload(client)));
  // 17 KiB a second: more than the minimum rate of a body.
  const trickle = setInterval(() => {
    for (const { socket } of uploads) if (socket.writable) socket.write("x".repeat(1_740));
  }, 100);
  cleanup(() => clearInterval(trickle));
  for (let round = 0; round < scaled(3); round += 1) {
    const others = Array.from({ length: total }, (_, i) => {
      const other = connect();
      other.write(request("/v2/other", { fields: of(`192.0.2.${i + 3}`) }));
      return other;
    });
    for (const other of others) expect((await other.read()).status).toBe(200);
  }
  const kept = uploads.filter(({ receivedBytes }) => receivedBytes === 0);
  expect(kept.length, "each keeps one").toBeGreaterThanOrEqual(2 + single.length);
  expect(kept.length, "not all").toBeLessThan(total);
  expect(await exceeded(gateway, "connections")).toBe(total - kept.length);
});
