// Bounds on connections: in all, of one peer, and on the requests of one; who is refused, who makes room, and that
// nobody stays locked out.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually, within } from "../support/eventually.ts";
import { testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { binaryHeader, ipv6Block } from "../support/proxy-headers.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { scaled } from "../support/runs.ts";
import { request, stageHttp, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();
const bounds = {
  maxConnections: 4,
  maxConnectionsPerPeer: 2,
  newConnectionsPerPeer: 1_000_000,
  maxRequestsPerConnection: 1000,
};
const shed = (gateway: Parameters<typeof metric>[0], reason: string) =>
  metric(gateway, `headgate_connections_shed_total{reason="${reason}"}`);
const open = (gateway: Parameters<typeof metric>[0]) => metric(gateway, "headgate_client_connections");
const isOpen = (client: RawConnection) => new Promise((resolve) => client.socket.once("connect", resolve));

/** An upstream that never answers. No connection has been idle for long unless the test moves the clock. */
const startHeld = (listen: object, clock = new FakeClock()) =>
  stageRaw(cleanup, () => {}, { listen: { ...bounds, ...listen } }, clock);

async function exchange(client: RawConnection, bytes = request("/v2/x")): Promise<number> {
  return (await client.ask(bytes)).status;
}

test("a peer over its bound is answered 503 with all fields before it says anything, and closed; others are served", async () => {
  const { gateway, upstream, connect } = await startHeld({});
  const own = [connect(), connect()];
  await eventually("both are open", async () => (await open(gateway)) === 2);
  const refused = connect();
  const { status, rawHeaders, body } = await refused.read();
  expect(status).toBe(503);
  expectContractFields({ rawHeaders }, { limit: 100, remaining: 100 });
  expect(JSON.parse(body)).toEqual({
    message: "Service Unavailable",
    errors: [{ errMsg: "The service is overloaded, please try again later." }],
  });
  expect(valuesOf(rawHeaders, "Connection")).toEqual(["close"]);
  expect(await within("the refused one ends", refused.closed)).toBe("end");
  expect(await exchange(connect({ localAddress: "127.0.0.2" }), request("/elsewhere"))).toBe(404);
  expect(own.map(({ ending }) => ending)).toEqual([null, null]);
  expect(upstream.bytes()).toBe("");
  expect([await shed(gateway, "per_peer"), await shed(gateway, "total"), await shed(gateway, "idle")]).toEqual([
    1, 0, 0,
  ]);
  expect(gateway.logLines).toContainEqual(
    expect.objectContaining({ status: 503, problem: "overloaded", client: "127.0.0.1" }),
  );
});

test("a connection that a peer has not used for long makes room for its next one, and for nobody else's", async () => {
  const clock = new FakeClock();
  const { gateway, connect } = await startHeld({}, clock);
  const [first, second] = [connect(), connect()];
  for (const client of [first, second]) expect(await exchange(client, request("/elsewhere"))).toBe(404);
  clock.advance(4_000);
  expect(await exchange(second, request("/elsewhere"))).toBe(404);
  expect((await connect().read()).status, "both were used shortly before").toBe(503);
  clock.advance(2_000);
  const other = connect({ localAddress: "127.0.0.2" });
  expect(await exchange(other, request("/elsewhere"))).toBe(404);
  expect([first.ending, await shed(gateway, "idle")]).toEqual([null, 0]);
  const third = connect();
  expect(await exchange(third, request("/elsewhere"))).toBe(404);
  await within("the first ends", first.closed);
  expect([first.rest, second.ending, other.ending]).toEqual(["", null, null]);
  expect((await connect().read()).status, "the others were used shortly before").toBe(503);
  expect([await shed(gateway, "per_peer"), await shed(gateway, "idle")]).toEqual([2, 1]);
});

test("a request that a refused connection sends is never read, and its answer arrives whole", async () => {
  const { gateway, upstream, connect } = await startHeld({ maxConnectionsPerPeer: 1 });
  connect();
  await eventually("the first is open", async () => (await open(gateway)) === 1);
  for (let i = 0; i < 20; i += 1) {
    const refused = connect();
    refused.write(
      request("/v2/x", { method: "POST", fields: "Content-Length: 100000\r\n", body: "x".repeat(100_000) }),
    );
    expect((await refused.read()).status).toBe(503);
    expect(await within("it ends", refused.closed)).toBe("end");
  }
  expect(upstream.bytes()).toBe("");
});

test("a peer's connection that closes is given back to it", async () => {
  const { gateway, connect } = await startHeld({});
  for (const leave of ["end", "destroy", "resetAndDestroy"] as const) {
    const clients = [connect(), connect()];
    await eventually("both are open", async () => (await open(gateway)) === 2);
    for (const client of clients) client.socket[leave]();
    await eventually("none is left", async () => (await open(gateway)) === 0);
  }
  expect(await exchange(connect(), request("/elsewhere"))).toBe(404);
  expect(await shed(gateway, "per_peer")).toBe(0);
});

test("a full house of busy connections refuses a new one; when one of them ends there is room", async () => {
  const { gateway, upstream, connect } = await startHeld({});
  const busy = [2, 3, 4, 5].map((last) => connect({ localAddress: `127.0.0.${last}` }));
  for (const client of busy) client.write(request("/v2/x"));
  await eventually("all are at the upstream", () => upstream.bytes().split("GET ").length === 5);
  expect((await connect().read()).status).toBe(503);
  expect([await shed(gateway, "per_peer"), await shed(gateway, "total"), await shed(gateway, "idle")]).toEqual([
    0, 1, 0,
  ]);
  busy[0]?.destroy();
  await eventually("it is gone", async () => (await open(gateway)) === 3);
  expect(await exchange(connect(), request("/elsewhere"))).toBe(404);
  expect(await shed(gateway, "total")).toBe(1);
});

test("a peer has no more connections with a request than are left for others", async () => {
  const { gateway, upstream, connect } = await startHeld({ maxConnections: 8, maxConnectionsPerPeer: 8 });
  const sent = () => upstream.bytes().split("GET ").length - 1;
  /** How many of eight requests, each on a connection of its own, get to the upstream. */
  const use = async (localAddress: string): Promise<number> => {
    const before = sent();
    for (let i = 0; i < 8; i += 1) {
      const now = sent();
      const client = connect({ localAddress }).write(request("/v2/x"));
      await eventually("it is at the upstream, or refused", () => sent() > now || client.ending !== null);
    }
    return sent() - before;
  };
  const got = [];
  for (const last of [2, 3, 4, 5, 6]) got.push(await use(`127.0.0.${last}`));
  expect(got).toEqual([4, 2, 1, 1, 0]);
  expect([await shed(gateway, "per_peer"), await shed(gateway, "total")], "when all are in use").toEqual([0, 15]);
});

test.each([
  ["simple requests", request("/v2/x")],
  ["requests that Node parses", request("/v2/x", { fields: "Transfer-Encoding: chunked\r\n", body: "0\r\n\r\n" })],
])("however many it has opened while they were idle: %s", async (_, bytes) => {
  const { gateway, upstream, connect } = await startHeld({ maxConnections: 8, maxConnectionsPerPeer: 8 });
  const sent = () => upstream.bytes().split(" /v2/x").length - 1;
  const clients = Array.from({ length: 8 }, () => connect({ localAddress: "127.0.0.2" }));
  await eventually("all are open", async () => (await open(gateway)) === 8);
  const refused = () => gateway.logLines.filter(({ problem }) => problem === "client_share");
  for (const [i, client] of clients.entries()) {
    client.write(bytes);
    await eventually("it is at the upstream, or refused", () => sent() + refused().length === i + 1);
  }
  expect([sent(), refused().length]).toEqual([4, 4]);
  const last = await clients[7]?.read();
  expect(last?.status).toBe(503);
  expect(valuesOf(last?.rawHeaders ?? [], "RateLimit-Remaining"), "the refused ones cost nothing").toEqual(["96"]);
  const other = connect({ localAddress: "127.0.0.3" });
  expect(await exchange(other, request("/elsewhere")), "has a place").toBe(404);
  expect(refused()[0]).toMatchObject({ status: 503, client: "127.0.0.2" });
  const exceeded = 'headgate_client_share_exceeded_total{resource="client_connections"}';
  expect(await metric(gateway, exceeded)).toBe(4);
  const [line] = gateway.logLines.filter(({ msg }) => msg === "client over its share");
  expect(line).toMatchObject({ resource: "client_connections", client: "127.0.0.2" });
});

test("a full house of connections without a request makes room, the one longest without one first", async () => {
  const { gateway, connect } = await stageHttp(cleanup, undefined, { listen: { ...bounds, maxConnectionsPerPeer: 4 } });
  const kept = connect();
  expect(await exchange(kept)).toBe(200);
  const silent = connect();
  await isOpen(silent);
  await eventually("both are open", async () => (await open(gateway)) === 2);
  const slow = connect().write("GET /v2/x HTTP/1.1\r\nX-Slow: ");
  await eventually("three are open", async () => (await open(gateway)) === 3);
  const recent = connect();
  expect(await exchange(recent)).toBe(200);
  expect(await exchange(kept)).toBe(200);
  // Now: silent, slow, recent, kept.
  for (const victim of [silent, slow, recent]) {
    const good = connect({ localAddress: "127.0.0.2" });
    expect(await exchange(good)).toBe(200);
    await within("the victim ends", victim.closed);
    expect(victim.rest).toBe("");
  }
  expect(kept.ending).toBeNull();
  expect([await shed(gateway, "idle"), await shed(gateway, "total")]).toEqual([3, 0]);
  expect(await open(gateway)).toBe(4);
});

test("a reload that lowers the bound by hundreds closes idle connections only, and refuses nobody", async () => {
  const listen = { ...bounds, maxConnections: 200, maxConnectionsPerPeer: 200 };
  const { gateway, upstream, connect } = await stageHttp(cleanup, undefined, { listen });
  const kept = connect();
  for (let i = 0; i < 190; i += 1) await isOpen(connect());
  await eventually("all are open", async () => (await open(gateway)) === 191);
  expect(await exchange(kept)).toBe(200);
  const lowered = testSettings(upstream.url, { listen: { ...listen, maxConnections: 4, maxConnectionsPerPeer: 4 } });
  expect(await gateway.reload(lowered)).toMatchObject({ ok: true });
  expect(await exchange(connect({ localAddress: "127.0.0.2" }))).toBe(200);
  await eventually("no more are open than may be", async () => (await open(gateway)) === 4);
  expect(await exchange(kept)).toBe(200);
  expect(await shed(gateway, "total")).toBe(0);
});

test("a peer that has too many connections takes nobody's place in a full house", async () => {
  const { gateway, connect } = await stageHttp(cleanup, undefined, { listen: bounds });
  const idle = [connect({ localAddress: "127.0.0.2" }), connect({ localAddress: "127.0.0.3" })];
  for (const client of idle) expect(await exchange(client)).toBe(200);
  const greedy = [connect(), connect()];
  await eventually("the house is full", async () => (await open(gateway)) === 4);
  for (let i = 0; i < 20; i += 1) expect((await connect().read()).status).toBe(503);
  expect(await shed(gateway, "per_peer")).toBe(20);
  expect([...idle, ...greedy].map(({ ending }) => ending)).toEqual([null, null, null, null]);
  for (const client of idle) expect(await exchange(client)).toBe(200);
});

test("a connection in the middle of a request, or of a tunnel's making, never makes room", async () => {
  const { gateway, upstream, connect } = await startHeld({ maxConnections: 3 });
  const from = (last: number) => connect({ localAddress: `127.0.0.${last}` });
  const [get, post, upgrade] = [from(3), from(4), from(5)];
  get.write(request("/v2/get"));
  post.write(request("/v2/post", { method: "POST", fields: "Content-Length: 9\r\n", body: "half" }));
  upgrade.write(request("/v2/upgrade", { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" }));
  await eventually("all are at the upstream", () =>
    ["get", "post", "upgrade"].every((name) => upstream.bytes().includes(`/v2/${name}`)),
  );
  for (let i = 0; i < 5; i += 1) expect((await connect({ localAddress: "127.0.0.2" }).read()).status).toBe(503);
  expect([get, post, upgrade].map(({ ending }) => ending)).toEqual([null, null, null]);
  expect(await shed(gateway, "idle")).toBe(0);
});

test("a flood from many addresses does not lock a good client out", async () => {
  const { gateway, connect } = await stageHttp(cleanup, undefined, {
    listen: { ...bounds, maxConnections: 40, maxConnectionsPerPeer: 10 },
  });
  const attackers = scaled(200, 2);
  for (let i = 0; i < attackers; i += 1) {
    connect({ localAddress: `127.0.1.${i % 20}` }).write("GET /v2/x HTTP/1.1\r\nX-Slow: ");
    if (i % 10 === 0) expect(await exchange(connect({ localAddress: "127.0.0.2" }))).toBe(200);
  }
  await eventually("no more than may are open", async () => (await open(gateway)) <= 40);
  expect(await shed(gateway, "total")).toBe(0);
  expect(await shed(gateway, "idle")).toBeGreaterThan(attackers / 2);
});

test.each([
  { peers: 1, atLeast: 32, atMost: 32 },
  { peers: 12, atLeast: 48, atMost: 64 },
])(
  "a flood of refused connections of $peers peers is answered or closed, and leaves nothing behind",
  async ({ peers, atLeast, atMost }) => {
    const { gateway, connect } = await startHeld({ maxConnections: 100, maxConnectionsPerPeer: 1 });
    const from = (peer: number) => ({ localAddress: `127.0.0.${1 + (peer % peers)}` });
    const first = Array.from({ length: peers }, (_, peer) => connect(from(peer)));
    await eventually("they are open", async () => (await open(gateway)) === peers);
    const beganMs = performance.now();
    const count = scaled(300, 3);
    const flood = Array.from({ length: count }, (_, i) => connect({ allowHalfOpen: true, ...from(i) }));
    // They do not close their side, so each answered one stays for as long as it is lingered for.
    await eventually("all are refused", async () => (await shed(gateway, "per_peer")) === count);
    const tookMs = performance.now() - beganMs;
    await eventually("the rest is closed", () => flood.filter(({ ending }) => ending !== null).length >= count);
    const answered = flood.filter(({ rest }) => rest.startsWith("HTTP/1.1 503 "));
    // So many at once, each for two seconds: on a slow machine the first ones are closed before the last ones come.
    const rounds = 1 + Math.floor(tookMs / 2_000);
    expect(answered.length).toBeGreaterThanOrEqual(atLeast);
    expect(answered.length).toBeLessThanOrEqual(atMost * rounds);
    expect(await open(gateway)).toBe(peers);
    for (const client of first) client.destroy();
    await eventually("they are gone", async () => (await open(gateway)) === 0);
    expect(await exchange(connect(), request("/elsewhere"))).toBe(404);
  },
);

test("a trusted proxy may have as many connections as there are", async () => {
  const { gateway, connect } = await stageHttp(cleanup, undefined, {
    listen: bounds,
    clientAddress: { trustedProxies: ["127.0.0.1"] },
  });
  const clients = Array.from({ length: 4 }, () => connect());
  for (const client of clients) expect(await exchange(client)).toBe(200);
  expect(await shed(gateway, "per_peer")).toBe(0);
});

test("behind a PROXY header the bound is on whom it names, by prefix for IPv6, and the total counts from the start", async () => {
  const { gateway, connect } = await stageHttp(cleanup, undefined, {
    listen: { ...bounds, maxConnections: 5, proxyProtocol: true },
    clientAddress: { trustedProxies: ["192.0.2.0/24"] },
  });
  const named = (last: string): string =>
    binaryHeader(0x21, 0x21, ipv6Block(`20010db8000000010000000000${last}`)).toString("latin1");
  const [first, second] = [connect(), connect()];
  expect(await exchange(first, named("000001") + request("/v2/x"))).toBe(200);
  expect(await exchange(second, named("000002") + request("/v2/x"))).toBe(200);
  const third = connect();
  expect((await third.ask(named("000003") + request("/v2/x"))).status).toBe(503);
  expect(await within("it ends", third.closed)).toBe("end");
  expect(await exchange(connect(), `PROXY TCP4 192.0.2.1 1.1.1.1 1 2\r\n${request("/v2/x")}`)).toBe(200);
  expect(await shed(gateway, "per_peer")).toBe(1);
  await eventually("three are left", async () => (await open(gateway)) === 3);
  // Two that say nothing: they are counted, and the idle ones make room for what comes then.
  await Promise.all([isOpen(connect()), isOpen(connect())]);
  await eventually("five are open", async () => (await open(gateway)) === 5);
  expect(await exchange(connect(), `PROXY TCP4 203.0.113.1 1.1.1.1 1 2\r\n${request("/v2/x")}`)).toBe(200);
  await within("the first made room", first.closed);
  expect(await shed(gateway, "idle")).toBe(1);
});

test("a peer that opens too many connections in a short time has them closed unread; others and a trusted proxy do not", async () => {
  const clock = new FakeClock();
  const { gateway, connect } = await stageRaw(
    cleanup,
    () => {},
    {
      listen: { ...bounds, newConnectionsPerPeer: 3 },
      clientAddress: { trustedProxies: ["127.0.0.3"] },
    },
    clock,
  );
  const from = (localAddress: string) => connect({ localAddress });
  /** How many of so many connections after each other get an answer. */
  const answered = async (localAddress: string, count: number): Promise<number> => {
    let served = 0;
    for (let i = 0; i < count; i += 1) {
      const client = from(localAddress);
      client.write(request("/elsewhere", { fields: "Connection: close\r\n" }));
      await client.closed;
      if (client.rest !== "") served += 1;
      else expect(client.receivedBytes).toBe(0);
    }
    return served;
  };
  expect(await answered("127.0.0.1", 5)).toBe(5);
  expect(await shed(gateway, "rate")).toBe(0);
  expect(await answered("127.0.0.1", 3)).toBe(0);
  expect(await shed(gateway, "rate")).toBe(3);
  const lines = gateway.logLines.filter(({ msg }) => msg === "connection refused: too many of its peer");
  expect(lines).toHaveLength(3);
  expect(lines[0]).toMatchObject({ level: "warn", reason: "rate", peer: "127.0.0.1" });
  expect([await answered("127.0.0.2", 5), await answered("127.0.0.3", 8)]).toEqual([5, 8]);
  clock.advance(1_000);
  expect(await answered("127.0.0.1", 5)).toBe(3);
  await eventually("none is left", async () => (await open(gateway)) === 0);
});

test("more silent connections than there may be, before their PROXY header, keep out none that sends its header", async () => {
  const { gateway, connect } = await stageHttp(cleanup, undefined, { listen: { ...bounds, proxyProtocol: true } });
  for (let i = 0; i < 100; i += 1) await isOpen(connect({ localAddress: "127.0.0.2" }));
  const named = connect();
  expect(await exchange(named, `PROXY TCP4 192.0.2.1 1.1.1.1 1 2\r\n${request("/v2/x")}`)).toBe(200);
  expect(await shed(gateway, "total")).toBe(0);
  expect(await shed(gateway, "idle")).toBeGreaterThan(90);
  expect(await exchange(named)).toBe(200);
});

test("a peer with many refused connections does not keep other refused peers from their 503", async () => {
  const { gateway, connect } = await startHeld({ maxConnections: 100, maxConnectionsPerPeer: 1 });
  for (const localAddress of ["127.0.0.1", "127.0.0.2"]) {
    connect({ localAddress });
    await eventually("it is open", async () => (await open(gateway)) === (localAddress === "127.0.0.1" ? 1 : 2));
  }
  for (let i = 0; i < 70; i += 1) connect({ allowHalfOpen: true });
  await eventually("all are refused", async () => (await shed(gateway, "per_peer")) === 70);
  expect((await connect({ localAddress: "127.0.0.2" }).read()).status).toBe(503);
});

test("the last request of a connection is answered with a gentle close, and the next connection begins anew", async () => {
  const { connect, upstream } = await stageHttp(cleanup, undefined, {
    listen: { ...bounds, maxRequestsPerConnection: 3 },
  });
  for (let round = 0; round < 2; round += 1) {
    const client = connect();
    // All at once: the ones behind the last are never taken for requests.
    client.write(request("/v2/x").repeat(5));
    for (const expected of ["keep-alive", "keep-alive", "close"]) {
      const { status, rawHeaders } = await client.read();
      expect([status, valuesOf(rawHeaders, "Connection")]).toEqual([200, [expected]]);
    }
    expect(await within("it ends", client.closed)).toBe("end");
    expect(client.rest).toBe("");
  }
  expect(upstream.hits()).toBe(6);
});

test("the last request may have a body, a refusal may be the last answer, and a refusal counts as one", async () => {
  const { connect } = await stageHttp(cleanup, undefined, { listen: { ...bounds, maxRequestsPerConnection: 2 } });
  const client = connect();
  expect(valuesOf((await client.ask(request("/elsewhere"))).rawHeaders, "Connection")).toEqual(["keep-alive"]);
  client.write(request("/v2/x", { method: "POST", fields: "Content-Length: 70000\r\n", body: "x".repeat(70_000) }));
  const { status, rawHeaders } = await client.read();
  expect([status, valuesOf(rawHeaders, "Connection")]).toEqual([200, ["close"]]);
  expect(await within("it ends", client.closed)).toBe("end");
});
