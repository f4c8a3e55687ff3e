// Bytes from the upstream that no request asked for, such as a 408 that an idle connection is ended with: they never
// answer a request that was written after they had come.
import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, within } from "../support/eventually.ts";
import { startTestGateway, testSettings } from "../support/gateway.ts";
import { listen } from "../support/loopback-server.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { scaled } from "../support/runs.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { startTlsUpstream } from "../support/tls-upstream.ts";

const cleanup = useCleanup();

const late = response("late", "", "408 Request Timeout");
const target = (data: Buffer): string => /^\S+ (\S+)/.exec(data.toString("latin1"))?.[1] ?? "";
const isOpen = (socket: Socket): boolean => !socket.destroyed && socket.readyState === "open";

/** Every request is answered with its own target. */
const answerTarget = (socket: Socket, data: Buffer): void => void socket.write(response(target(data)));

test.each(["GET", "POST"])("a connection carries no request after a 408 that answered a %s", async (method) => {
  const used: Socket[] = [];
  const { connect } = await stageRaw(cleanup, (socket, data) => {
    used.push(socket);
    socket.write(used.length === 1 ? late : response(target(data)));
  });
  const client = connect();
  expect(await client.ask(request("/v2/1", { method }))).toMatchObject({ status: 408, body: "late" });
  expect(await client.ask(request("/v2/2", { method }))).toMatchObject({ status: 200, body: "/v2/2" });
  expect(new Set(used).size).toBe(2);
  await eventually("the first is closed", () => used[0]?.destroyed === true);
});

test.each([
  ["a spare response", response("spare")],
  ["a 408", late],
  ["nonsense", "nonsense"],
  ["half a response", "HTTP/1.1 200 OK\r\nContent-Le"],
  ["one byte", "\n"],
])("%s on an idle connection closes it at once", async (_, bytes) => {
  const { connect, gateway, upstream } = await stageRaw(cleanup, answerTarget);
  const client = connect();
  expect((await client.ask(request("/v2/1"))).body).toBe("/v2/1");
  const [idle] = upstream.sockets;
  idle?.write(bytes);
  await eventually("it is closed", () => idle?.destroyed === true);
  expect(await upstreamConnections(gateway)).toEqual({ active: 0, idle: 0, waiting: 0 });
  expect(await client.ask(request("/v2/2"))).toMatchObject({ status: 200, body: "/v2/2" });
});

/**
 * The event loop stands until the system has delivered what is written, or on a busy machine it may come in two batches and
 * cross.
 */
function awaitDelivery(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
}

/** Everything is written in one turn of the loop: the gateway finds all of it when it looks next. */
const inOneTurn = [
  ["behind", (client: RawConnection, bytes: string, idle: Socket) => [client.write(bytes), idle.write(late)]],
  ["before", (client: RawConnection, bytes: string, idle: Socket) => [idle.write(late), client.write(bytes)]],
] as const;

test.each(inOneTurn)(
  "a 408 that arrives just %s the next GET, in one turn of the loop, never answers it",
  async (_, write) => {
    const { connect, upstream, gateway } = await stageRaw(cleanup, answerTarget);
    const client = connect();
    for (let i = 1; i <= 5; i += 1) {
      expect((await client.ask(request("/v2/warm"))).body).toBe("/v2/warm");
      const idle = [...upstream.sockets].find(isOpen) as Socket;
      write(client, request(`/v2/${i}`), idle);
      awaitDelivery();
      expect(await client.read()).toMatchObject({ status: 200, body: `/v2/${i}` });
      await eventually("it is closed", () => idle.destroyed);
    }
    expect(gateway.logLines.filter(({ msg }) => msg === "upstream failed")).toEqual([]);
  },
);

test.each([
  ["POST", "Content-Length: 2\r\n", "hi"],
  ["POST", "", ""],
  ["DELETE", "", ""],
])(
  "a %s with %j that is already under way when a 408 is found is a 502, never sent again",
  async (method, fields, body) => {
    const seen: string[] = [];
    const onData = (socket: Socket, data: Buffer): void => {
      seen.push(target(data));
      answerTarget(socket, data);
    };
    // No such request is sent on a connection that has been idle for a second.
    const { connect, upstream, gateway } = await stageRaw(cleanup, onData, {}, new FakeClock());
    const client = connect();
    expect((await client.ask(request("/v2/1"))).body).toBe("/v2/1");
    client.write(request("/v2/2", { method, fields, body }));
    for (const idle of upstream.sockets) idle.write(late);
    awaitDelivery();
    expect((await client.read()).status).toBe(502);
    expect(seen.filter((each) => each === "/v2/2").length).toBeLessThanOrEqual(1);
    const failures = gateway.logLines.filter(({ msg }) => msg === "upstream failed");
    expect(failures).toMatchObject([{ reason: "closed_early", code: "UPSTREAM_UNSOLICITED_RESPONSE" }]);
  },
);

test("a GET is retried once only, whatever its second connection does", async () => {
  let requests = 0;
  const { connect, upstream } = await stageRaw(cleanup, (socket, data) => {
    requests += 1;
    if (requests === 1) answerTarget(socket, data);
    else socket.end();
  });
  const client = connect();
  expect((await client.ask(request("/v2/1"))).body).toBe("/v2/1");
  client.write(request("/v2/2"));
  for (const idle of upstream.sockets) idle.write(late);
  awaitDelivery();
  expect((await client.read()).status).toBe(502);
});

test("a response behind one that ends where the read buffer ends does not answer the request that waits", async () => {
  const bufferBytes = 64 * 1024;
  const head = (length: number): string => `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`;
  const length = bufferBytes - head(bufferBytes).length;
  let respond: (() => void) | undefined;
  const { connect, gateway } = await stageRaw(
    cleanup,
    (socket, data) => {
      if (target(data) === "/v2/first") respond = () => void socket.write(head(length) + "a".repeat(length) + late);
      else answerTarget(socket, data);
    },
    { upstream: { maxConnections: 1, connectTimeoutMs: 30_000 } },
  );
  const [first, second] = [connect(), connect()];
  first.write(request("/v2/first"));
  await eventually("the first is at the upstream", () => respond !== undefined);
  second.write(request("/v2/second"));
  await eventually("the second waits", async () => (await upstreamConnections(gateway)).waiting === 1);
  respond?.();
  awaitDelivery();
  expect((await first.read()).body).toHaveLength(length);
  expect(await second.read()).toMatchObject({ status: 200, body: "/v2/second" });
});

/** Passes bytes on in both directions; what is held of the upstream's is written by `release`, at once. */
async function startRelay(to: number) {
  const held: Buffer[] = [];
  let isHolding = false;
  let release = (): void => {};
  const relay = createServer((gateway) => {
    const upstream = connect(to, "127.0.0.1");
    release = () => {
      isHolding = false;
      gateway.write(Buffer.concat(held.splice(0)));
    };
    upstream.on("data", (data: Buffer) => (isHolding ? held.push(data) : gateway.write(data)));
    gateway.on("data", (data) => upstream.write(data));
    for (const socket of [upstream, gateway]) {
      cleanup(() => socket.destroy());
      socket.on("error", () => {});
    }
  });
  const port = await listen(cleanup(relay));
  const hold = (): void => {
    isHolding = true;
  };
  return {
    port,
    hold,
    heldBytes: () => Buffer.concat(held).length,
    release: () => release(),
  };
}

test("over TLS, too, a 408 that arrives just behind the next GET never answers it", async () => {
  const authority = new Authority(cleanup);
  const upstream = await startTlsUpstream(cleanup, authority.issue(), answerTarget);
  const relay = await startRelay(upstream.port);
  const url = `https://localhost:${relay.port}`;
  const { tls } = testSettings(url).upstream;
  const overrides = { drain: { timeoutMs: 0 }, upstream: { tls: { ...tls, ca: authority.certFile } } };
  const gateway = cleanup(await startTestGateway({ upstreamUrl: url, overrides }));
  const client = cleanup(new RawConnection(gateway.traffic.port));
  expect((await client.ask(request("/v2/1"))).body).toBe("/v2/1");
  relay.hold();
  upstream.sockets[0]?.write(late);
  // Encrypted it is longer. A piece of it that came later would cross the request.
  await eventually("the 408 is on its way, whole", () => relay.heldBytes() > late.length);
  client.write(request("/v2/2"));
  relay.release();
  awaitDelivery();
  expect(await client.read()).toMatchObject({ status: 200, body: "/v2/2" });
});

test("answers that come as fast as the upstream can write them are all taken", async () => {
  const { connect, upstream } = await stageRaw(cleanup, answerTarget, {
    policies: [slidingPolicy({ limit: 100_000, windowMs: 60_000 })],
  });
  const requestsEach = scaled(50, 5);
  const clients = Array.from({ length: 32 }, () => connect());
  const ask = async (client: RawConnection, index: number): Promise<void> => {
    for (let i = 0; i < requestsEach; i += 1) {
      client.write(request(`/v2/${index}/${i}`, { method: "POST" }));
      expect(await client.read()).toMatchObject({ status: 200, body: `/v2/${index}/${i}` });
    }
  };
  await within("all are answered", Promise.all(clients.map(ask)), 20_000);
  expect(upstream.bytes().match(/POST/g)).toHaveLength(32 * requestsEach);
});
