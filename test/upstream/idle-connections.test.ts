// Which idle connections to the upstream are used again, and for how long they are kept: a request that cannot be repeated
// is not sent on one that the upstream may be closing.
import type { Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { freshMsOf, idleMsOf } from "../../src/upstream/upstream-socket.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { stage as stageAddresses, startBackend } from "./several-backends.ts";

const cleanup = useCleanup();
const two = { fields: "Content-Length: 2\r\n", body: "hi" };
type Request = Parameters<typeof request>[1];

/** `connections`: of each request, in order, the number of its connection. */
async function stage(upstream: Overrides["upstream"] = {}, fields = "") {
  const clock = new FakeClock();
  const numbers = new Map<Socket, number>();
  const connections: (number | undefined)[] = [];
  const onData = (socket: Socket, data: Buffer): void => {
    if (!numbers.has(socket)) numbers.set(socket, numbers.size + 1);
    if (!/^[A-Z]+ \//.test(data.toString("latin1"))) return;
    connections.push(numbers.get(socket));
    socket.write(response("ok", fields));
  };
  const staged = await stageRaw(cleanup, onData, { upstream }, clock);
  const client = staged.connect();
  const ask = async (options: Request = {}): Promise<void> => {
    client.write(request("/v2/x", options));
    const { method } = { method: "GET", ...options };
    expect((await client.read({ method })).status).toBe(200);
  };
  return { ...staged, ask, clock, connections };
}

const lasting: readonly Request[] = [{}, { method: "HEAD" }, { method: "QUERY" }];

test("a GET, HEAD or QUERY without a body is sent on a connection that has been idle for longer than a second", async () => {
  const { ask, clock, connections } = await stage();
  for (const options of lasting) {
    await ask();
    clock.advance(3_000);
    await ask(options);
    expect([options, connections.at(-1)]).toEqual([options, connections.at(-2)]);
  }
});

const once: readonly Request[] = [
  { method: "POST", ...two },
  { method: "POST" },
  { method: "PUT", ...two },
  { method: "DELETE" },
  { method: "OPTIONS" },
  { method: "QUERY", ...two },
  { method: "GET", ...two },
];

test("any other request is sent on a connection that has been idle for less than a second, else on a new one", async () => {
  const { ask, clock, connections, upstream } = await stage();
  for (const options of once) {
    await ask();
    clock.advance(999);
    await ask(options);
    expect([options, connections.at(-1)]).toEqual([options, connections.at(-2)]);
    // A body on a method that has none by custom has ended its connection.
    await ask();
    clock.advance(1_000);
    await ask(options);
    expect([options, connections.at(-1)]).toEqual([options, (connections.at(-2) ?? 0) + 1]);
    await eventually("the new one has taken the place of the old one", () => upstream.sockets.size <= 1);
  }
});

test("ten POSTs a second share one connection", async () => {
  const { ask, clock, connections } = await stage();
  for (let i = 0; i < 30; i += 1) {
    await ask({ method: "POST", ...two });
    clock.advance(100);
  }
  expect(new Set(connections)).toEqual(new Set([1]));
});

test("a POST takes the connection that was used last, though others have been idle for long", async () => {
  const { connect, gateway, clock, ask, connections } = await stage();
  const clients = Array.from({ length: 3 }, () => connect());
  for (const client of clients) client.write(request("/v2/x"));
  for (const client of clients) await client.read();
  clock.advance(2_000);
  await ask();
  await ask({ method: "POST", ...two });
  expect(connections.at(-1)).toBe(connections.at(-2));
  expect((await upstreamConnections(gateway)).idle).toBe(new Set(connections).size);
});

test("after a response that its client read slowly, the upstream may have waited since the client stopped reading", async () => {
  const clock = new FakeClock();
  const sockets: Socket[] = [];
  const long = "x".repeat(12_000_000);
  const onData = (socket: Socket, data: Buffer): void => {
    if (!sockets.includes(socket)) sockets.push(socket);
    socket.write(response(data.includes("/v2/long") ? long : `${sockets.indexOf(socket)}`));
  };
  const { connect } = await stageRaw(cleanup, onData, {}, clock);
  const other = connect();
  const used: string[] = [];
  for (const stoppedMs of [500, 1_000]) {
    // A new one, because the system gives a connection that has read much a larger buffer.
    const slow = connect();
    slow.socket.pause();
    slow.write(request("/v2/long"));
    let [unsent, polls] = [-1, 0];
    await eventually("the gateway has stopped reading", () => {
      const left = sockets[0]?.writableLength ?? -1;
      polls = left === unsent && left >= 0 ? polls + 1 : 0;
      unsent = left;
      return polls === 10;
    });
    clock.advance(stoppedMs);
    slow.socket.resume();
    await eventually("the response is whole", () => slow.receivedBytes > long.length);
    used.push((await other.ask(request("/v2/x", { method: "POST", ...two }))).body);
  }
  expect(used).toEqual(["0", "1"]);
});

test("where all connections are taken, one that has been idle for long is closed for a POST", async () => {
  const { ask, clock, connections, gateway, upstream } = await stage({ maxConnections: 1 });
  await ask();
  clock.advance(1_000);
  await ask({ method: "POST", ...two });
  expect(connections).toEqual([1, 2]);
  expect(await upstreamConnections(gateway)).toEqual({ active: 0, idle: 1, waiting: 0 });
  await eventually("the upstream has one connection", () => upstream.sockets.size === 1);
});

test("a POST that waits for a place gets the connection that becomes free", async () => {
  const held: Socket[] = [];
  const { connect, gateway, upstream } = await stageRaw(cleanup, (socket) => void held.push(socket), {
    upstream: { maxConnections: 1, connectTimeoutMs: 30_000 },
  });
  const [first, second] = [connect(), connect()];
  for (const [i, client] of [first, second].entries()) {
    client.write(request("/v2/x", { method: "POST", ...two }));
    await eventually("it is there", async () => {
      const { active, waiting } = await upstreamConnections(gateway);
      return active === 1 && waiting === i && held.length === 1;
    });
  }
  held[0]?.write(response("ok"));
  await eventually("the second is at the upstream", () => held.length === 2);
  held[1]?.write(response("ok"));
  expect((await second.read()).status).toBe(200);
  expect(held[1]).toBe(held[0]);
  expect(upstream.sockets.size).toBe(1);
});

test("where all connections are taken, one of another address is closed for a POST, if it has been idle for long", async () => {
  const clock = new FakeClock();
  const backends = [await startBackend(cleanup, "127.0.0.1"), await startBackend(cleanup, "127.0.0.2")];
  const addresses = backends.map(({ address }) => address);
  const { ask } = await stageAddresses(cleanup, { addresses, clock, upstream: { maxConnections: 1 } });
  const sockets = (): Socket[] => backends.flatMap((backend) => [...backend.sockets]);
  const used = new Set<string>();
  for (let i = 0; i < 8; i += 1) {
    const at = await ask("POST");
    used.add(at);
    const before = sockets();
    expect(await ask("POST")).toBe(at);
    expect(sockets()).toEqual(before);
    clock.advance(1_000);
    // So that not every second turn is the same address.
    if (i % 3 === 2) await ask("POST");
    await eventually("one connection is open", () => sockets().length === 1);
  }
  expect(used).toEqual(new Set(["127.0.0.1", "127.0.0.2"]));
});

test.each([
  // keepAlive, what the upstream says in seconds, idle, and for a request that cannot be repeated
  ["auto", null, 4_000, 1_000],
  ["auto", 5, 4_000, 1_000],
  ["auto", 75, 60_000, 1_000],
  ["auto", 2, 1_000, 1_000],
  ["auto", 1, 0, 1_000],
  ["auto", 0, 0, 1_000],
  [90_000, null, 90_000, 1_000],
  [90_000, 75, 74_000, 1_000],
  [90_000, 600, 90_000, 1_000],
  [2_000, 75, 2_000, 1_000],
  [4_000, 75, 4_000, 1_000],
  [300, null, 300, 300],
  [0, null, 0, 0],
  [0, 75, 0, 0],
] as const)(
  "with keepAlive %s and an upstream that says %s, a connection is kept for %d ms",
  (keepAlive, said, idle, fresh) => {
    expect([idleMsOf(keepAlive, said), freshMsOf(keepAlive)]).toEqual([idle, fresh]);
  },
);

test("keepAlive is the most, whatever the upstream says", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  cleanup(() => void vi.useRealTimers());
  const { ask, gateway, upstream } = await stage({ keepAliveMs: 100 }, "Keep-Alive: timeout=75\r\n");
  await ask();
  expect((await upstreamConnections(gateway)).idle).toBe(1);
  vi.advanceTimersByTime(300);
  await eventually("it is closed", () => upstream.sockets.size === 0);
});

test("with keepAlive 0 each request has a connection of its own, and the upstream is told so", async () => {
  const { ask, connections, upstream } = await stage({ keepAliveMs: 0 });
  for (const method of ["GET", "POST", "GET"]) await ask(method === "POST" ? { method, ...two } : { method });
  expect(connections).toEqual([1, 2, 3]);
  expect(upstream.bytes().match(/^Connection: .*$/gm)).toEqual(Array(3).fill("Connection: close"));
});

test("a connection is not used again if the upstream says that it keeps it for a second or less", async () => {
  const { ask, connections } = await stage({}, "Keep-Alive: timeout=1\r\n");
  for (let i = 0; i < 3; i += 1) await ask();
  expect(connections).toEqual([1, 2, 3]);
});

test("a failure on a connection that was used before says so, and how long it was idle", async () => {
  const clock = new FakeClock();
  let requests = 0;
  const onData = (socket: Socket): void => {
    requests += 1;
    if (requests % 2 === 1) socket.write(response("ok"));
    else socket.end();
  };
  const { connect, gateway } = await stageRaw(cleanup, onData, {}, clock);
  const client = connect();
  const ask = async (options: Request): Promise<number> => {
    return (await client.ask(request("/v2/x", options))).status;
  };
  const post = { method: "POST", ...two };
  expect(await ask({})).toBe(200);
  clock.advance(700);
  expect(await ask(post)).toBe(502);
  requests = 1;
  expect(await ask(post)).toBe(502);
  const [reused, fresh] = gateway.logLines.filter(({ msg }) => msg === "upstream failed");
  expect(reused).toMatchObject({ reason: "closed_early", reused: true, idleMs: 700 });
  expect(Object.keys(fresh ?? {})).not.toContain("reused");
  expect(Object.keys(fresh ?? {})).not.toContain("idleMs");
});
