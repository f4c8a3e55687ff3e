// How many requests of one peer are decided in one iteration of the event loop, over all its connections, beside the requests
// of another peer. Counted, not timed: the clients are in this process, so what they have written is there for the next
// iteration.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { localReplies } from "../../src/core/local-reply.ts";
import type { Exchange } from "../../src/exchange/exchange.ts";
import { preface, settings, whole } from "../http2/conversation.ts";
import { useCleanup } from "../support/cleanup.ts";
import { beforeReads, eventually, turns } from "../support/eventually.ts";
import { countInIterations } from "../support/iterations.ts";
import { listen } from "../support/loopback-server.ts";
import { admitted, createTestTraffic, type TestTraffic } from "../support/traffic.ts";

const cleanup = useCleanup();

/** Of a peer: 128 requests, and what the last of them cost more than was left. */
const most = 132;
const connections = 20;
const each = 80;

const carriers = {
  http1: {
    begin: "",
    request: (i: number, name: string) => Buffer.from(`GET /v2/${name}/${i} HTTP/1.1\r\nHost: a\r\n\r\n`),
  },
  http2: {
    begin: Buffer.concat([preface, settings()]),
    request: (i: number, name: string) => whole(2 * i + 1, `/v2/${name}/${i}`),
  },
} as const;

interface Options {
  readonly carrier?: keyof typeof carriers;
  readonly trustedProxies?: readonly string[];
  /** Of those that are forwarded, which nobody answers; others are refused at once. */
  readonly isForwarded?: (target: string) => boolean;
  /** Connections of the busy peer. */
  readonly count?: number;
}

async function stage(options: Options = {}) {
  const { carrier = "http1", trustedProxies = [], isForwarded = () => false, count = connections } = options;
  let busy = countInIterations(cleanup);
  /** Targets, in the order in which they were decided. */
  const decided: string[] = [];
  const held: Exchange[] = [];
  const traffic = createTestTraffic(
    {
      decide: ({ target, peer }, nowMs) => {
        decided.push(target);
        if (peer.text === "127.0.0.2") busy.count();
        const verdict = admitted(nowMs);
        return isForwarded(target) ? verdict : { ...verdict, localReply: localReplies.throttled };
      },
      forward: (exchange) => void held.push(exchange),
      // Asked before each reply to bytes that are no request.
      mayReject: () => {
        busy.count();
        return true;
      },
    },
    { maxRequestsPerConnection: 100_000, trustedProxies },
  );
  const port = carrier === "http1" ? await listenHttp1(traffic) : await listenHttp2(traffic);
  const dial = async (localAddress: string): Promise<Socket> => {
    const socket = cleanup(connect({ port, host: "127.0.0.1", localAddress }));
    socket.on("error", () => {}).resume();
    await once(socket, "connect");
    socket.write(carriers[carrier].begin);
    return socket;
  };
  const clients = await Promise.all(Array.from({ length: count }, () => dial("127.0.0.2")));
  const other = await dial("127.0.0.3");
  const pipelined = (name: string, from = 1, count = each): Buffer =>
    Buffer.concat(Array.from({ length: count }, (_, i) => carriers[carrier].request(from + i, name)));
  // The system has the connections before they are accepted.
  for (const client of [...clients, other]) client.write(pipelined("first", 0, 1));
  await eventually("all are accepted", () => decided.length === count + 1);
  decided.length = 0;
  busy = countInIterations(cleanup);
  return { traffic, clients, other, busy, decided, held, pipelined };
}

async function listenHttp1({ listener }: TestTraffic): Promise<number> {
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  cleanup(() => listener.drain(0));
  return port;
}

async function listenHttp2({ openHttp2 }: TestTraffic): Promise<number> {
  return listen(cleanup(createServer(openHttp2)));
}

describe.each(["http1", "http2"] as const)("over %s", (carrier) => {
  test("a peer has a bound over all its connections, which continue in turn, in order", async () => {
    const { clients, busy, decided, pipelined } = await stage({ carrier });
    for (const [n, client] of clients.entries()) client.write(pipelined(`${n}`));
    await eventually("all are decided", () => busy.total === connections * each);
    expect(Math.max(...busy.counts)).toBeLessThanOrEqual(most);
    const next = new Map<string, number>();
    let behind = 0;
    for (const target of decided) {
      const [, , name = "", i] = target.split("/");
      expect(Number(i)).toBe(next.get(name) ?? 1);
      next.set(name, Number(i) + 1);
      if (Number(i) === 0.75 * each && behind === 0) behind = next.size;
    }
    // Before one of them has had most of its requests decided, all have begun.
    expect(behind).toBe(connections);
  });

  test("a request of another peer is decided in the next iteration", async () => {
    const { clients, other, busy, decided, pipelined } = await stage({ carrier });
    for (const [n, client] of clients.entries()) client.write(pipelined(`${n}`));
    for (let i = 1; i <= 5; i += 1) {
      other.write(pipelined("other", i, 1));
      const before = busy.total;
      while (!decided.includes(`/v2/other/${i}`)) await turns(1);
      expect(busy.total).toBeLessThan(connections * each);
      expect(decided.indexOf(`/v2/other/${i}`)).toBeLessThanOrEqual(before + i + 2 * most);
    }
  });

  test("of a trusted proxy, each connection has a bound of its own", async () => {
    const { clients, busy, decided, pipelined } = await stage({ carrier, trustedProxies: ["127.0.0.2/32"] });
    for (const [n, client] of clients.entries()) client.write(pipelined(`${n}`));
    await eventually("all are decided", () => busy.total === connections * each);
    expect(Math.max(...busy.counts)).toBeGreaterThan(2 * most);
    const [first] = busy.counts;
    const ofConnection = decided.slice(0, first).filter((target) => target.startsWith("/v2/0/"));
    expect(ofConnection.length).toBeGreaterThan(20);
    expect(ofConnection.length).toBeLessThanOrEqual(33);
  });
});

test("what is pipelined behind responses that end together has the same bound", async () => {
  const isForwarded = (target: string): boolean => target.endsWith("/1");
  const { clients, busy, held, pipelined } = await stage({ isForwarded });
  for (const [n, client] of clients.entries()) client.write(pipelined(`${n}`));
  await eventually("the first of each are forwarded", () => held.length === connections);
  const before = busy.counts.length;
  // An iteration is counted from where the event loop runs timers.
  await beforeReads(() => {
    for (const exchange of held) exchange.localReply(localReplies.internal);
  });
  await eventually("all are decided", () => busy.total === connections * each);
  expect(Math.max(...busy.counts.slice(before))).toBeLessThanOrEqual(most);
});

test("refusals of bytes that are no request take more of the bound", async () => {
  const { clients, busy } = await stage({ count: 90 });
  const head = Buffer.from(`GET /v2/many HTTP/1.1\r\nHost: a\r\n${"a:\r\n".repeat(3_900)}\r\n`);
  for (const client of clients) client.write(head);
  await eventually("all are refused", () => busy.total === clients.length);
  expect(Math.max(...busy.counts)).toBeLessThanOrEqual(16);
});

test.each([
  ["ends", (client: Socket) => void client.end()],
  ["resets", (client: Socket) => void client.resetAndDestroy()],
])("connections that a peer %s at once have the same bound", async (_, close) => {
  const { traffic, clients } = await stage({ count: 90 });
  const { listener } = traffic;
  for (const client of clients) close(client);
  let most = 0;
  for (let before = listener.connectionCount; before > 1; ) {
    await turns(1);
    most = Math.max(most, before - listener.connectionCount);
    before = listener.connectionCount;
  }
  expect(most).toBeLessThanOrEqual(32);
});

test("requests with long heads take more of the bound", async () => {
  const { clients, busy } = await stage();
  const one = Buffer.from(`GET /v2/long HTTP/1.1\r\nHost: a\r\nX-Long: ${"a".repeat(8_000)}\r\n\r\n`);
  for (const client of clients) client.write(Buffer.concat(Array.from({ length: 10 }, () => one)));
  await eventually("all are decided", () => busy.total === connections * 10);
  expect(Math.max(...busy.counts)).toBeLessThanOrEqual(60);
});

describe("while requests wait for their turn", () => {
  /** Calls `act` when few of them have been decided. */
  async function amid(act: (scene: Awaited<ReturnType<typeof stage>>) => void) {
    const scene = await stage();
    for (const [n, client] of scene.clients.entries()) client.write(scene.pipelined(`${n}`));
    while (scene.busy.total === 0) await turns(1);
    act(scene);
    return scene;
  }

  test("a client that leaves has no more of them decided, and others go on", async () => {
    const { clients, busy, decided } = await amid(({ clients }) => {
      for (const client of clients.slice(1)) client.resetAndDestroy();
    });
    await eventually("those of the first are decided", () => decided.includes(`/v2/0/${each}`));
    expect(busy.total).toBeLessThan((connections * each) / 2);
    expect(clients[0]?.destroyed).toBe(false);
  });

  test("a drain ends each connection with its next response", async () => {
    const { clients, busy } = await amid(({ traffic }) => void traffic.listener.drain(5_000));
    await eventually("all are closed", () => clients.every(({ closed }) => closed));
    expect(busy.total).toBeLessThan((connections * each) / 2);
  });
});
