// Connections that begin with a PROXY header: the address in it is the peer, no byte behind it is lost, and without one
// there is no HTTP at all.
import { expect, test, vi } from "vitest";
import { ProxyHeaderReader } from "../../src/listener/proxy-header.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, soonMs, within } from "../support/eventually.ts";
import type { Overrides, TestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { binaryHeader, ipv4Block, ipv6Block, tlsTlv, tlv } from "../support/proxy-headers.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { inFull } from "../support/runs.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";

const cleanup = useCleanup();
const listen = { proxyProtocol: true, maxRequestsPerConnection: 1_000_000 };
const line = (source: string): string => `PROXY TCP4 ${source} 198.51.100.1 56324 443\r\n`;
const binary = (source: string): string =>
  binaryHeader(0x21, 0x11, ipv4Block(source.split(".").map(Number) as [number, number, number, number])).toString(
    "latin1",
  );

/** Far longer than a test waits for a drain, which ends by itself. */
const drain = { timeoutMs: 60_000 };

const start = (overrides: Overrides = {}) => stageHttp(cleanup, undefined, { listen, ...overrides });

async function metric(gateway: TestGateway, series: string): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const found = text.split("\n").find((sample) => sample.startsWith(`${series} `));
  if (found === undefined) throw new Error(`no ${series}`);
  return Number(found.slice(series.length + 1));
}

const refusals = (gateway: TestGateway, reason: string) =>
  metric(gateway, `headgate_proxy_headers_refused_total{reason="${reason}"}`);
const connections = (gateway: TestGateway) => metric(gateway, "headgate_client_connections");

/** What the client was charged as, and how much it has left. */
async function exchange(client: RawConnection, bytes: string): Promise<{ status: number; remaining: number }> {
  const { status, rawHeaders } = await client.ask(bytes);
  return { status, remaining: Number(valuesOf(rawHeaders, "RateLimit-Remaining")[0]) };
}

test.each<[claim: string, header: string, client: string, peer: string]>([
  ["version 1", line("192.0.2.1"), "192.0.2.1", "192.0.2.1"],
  ["version 1, IPv6", "PROXY TCP6 2001:DB8::1 ::1 1 2\r\n", "2001:db8::/64", "2001:db8::1"],
  ["version 1, IPv6 over IPv4", "PROXY TCP6 2001:db8::1 192.0.2.1 51512 443\r\n", "2001:db8::/64", "2001:db8::1"],
  ["version 1, IPv4 over IPv6", "PROXY TCP4 198.51.100.7 2001:db8::2 1 2\r\n", "198.51.100.7", "198.51.100.7"],
  ["version 2", binary("192.0.2.1"), "192.0.2.1", "192.0.2.1"],
  [
    "version 2, IPv6 with TLVs",
    binaryHeader(
      0x21,
      0x21,
      Buffer.concat([ipv6Block("20010db8000000000000000000000001"), Buffer.from([4, 0, 1, 0])]),
    ).toString("latin1"),
    "2001:db8::/64",
    "2001:db8::1",
  ],
  ["UNKNOWN: the socket's own", "PROXY UNKNOWN 6.6.6.6 6.6.6.6 1 2\r\n", "127.0.0.1", "127.0.0.1"],
  [
    "LOCAL: the socket's own",
    binaryHeader(0x20, 0x11, ipv4Block([6, 6, 6, 6])).toString("latin1"),
    "127.0.0.1",
    "127.0.0.1",
  ],
  [
    "a UNIX socket: the socket's own",
    binaryHeader(0x21, 0x31, Buffer.alloc(216, 1)).toString("latin1"),
    "127.0.0.1",
    "127.0.0.1",
  ],
])(
  "%s names who is charged and what the upstream is told, for every request of the connection",
  async (_, header, client, peer) => {
    const { gateway, upstream, connect } = await start();
    const connection = connect();
    expect(await exchange(connection, header + request("/v2/a"))).toEqual({ status: 200, remaining: 99 });
    expect(await exchange(connection, request("/v2/b", { fields: "X-Forwarded-For: 6.6.6.6\r\n" }))).toEqual({
      status: 200,
      remaining: 98,
    });
    expect(upstream.received.map(({ rawHeaders }) => valuesOf(rawHeaders, "X-Forwarded-For"))).toEqual([
      [peer],
      [peer],
    ]);
    await eventually(
      "both are logged",
      () => gateway.logLines.filter((entry) => entry["client"] === client).length === 2,
    );
  },
);

test("clients of one balancer have each their own quota, whatever version it speaks", async () => {
  const { connect } = await start();
  expect(await exchange(connect(), line("192.0.2.1") + request("/v2/x"))).toMatchObject({ remaining: 99 });
  expect(await exchange(connect(), binary("192.0.2.2") + request("/v2/x"))).toMatchObject({ remaining: 99 });
  expect(await exchange(connect(), binary("192.0.2.1") + request("/v2/x"))).toMatchObject({ remaining: 98 });
});

test("the address in the header is the one that is trusted or not, not the balancer's", async () => {
  const { connect, upstream } = await start({
    clientAddress: { trustedProxies: ["10.0.0.0/8", "127.0.0.0/8"] },
  });
  const fields = "X-Forwarded-For: 203.0.113.9\r\n";
  expect(await exchange(connect(), line("10.0.0.5") + request("/v2/x", { fields }))).toMatchObject({ remaining: 99 });
  expect(await exchange(connect(), line("192.0.2.1") + request("/v2/x", { fields }))).toMatchObject({ remaining: 99 });
  expect(await exchange(connect(), line("203.0.113.9") + request("/v2/x"))).toMatchObject({ remaining: 98 });
  expect(upstream.received.map(({ rawHeaders }) => valuesOf(rawHeaders, "X-Forwarded-For")[0])).toEqual([
    "203.0.113.9, 10.0.0.5",
    "192.0.2.1",
    "203.0.113.9",
  ]);
});

test.each([
  ["version 1", line("192.0.2.1")],
  ["version 2", binary("192.0.2.1")],
])("%s split at any byte, in the header or behind it, loses and doubles nothing", async (_, header) => {
  const { gateway, connect, upstream } = await start({ policies: [{ ...(await policyOf(10_000)) }] });
  const bytes = header + request("/v2/x", { method: "POST", fields: "Content-Length: 4\r\n", body: "body" });
  const marker = connect();
  const all = Array.from({ length: bytes.length + 1 }, (_, at) => at);
  // `npm test` tries the end of the header, and every fourth byte.
  const isCommon = (at: number): boolean => at === header.length || at % 4 === 0;
  const splits = [...all.filter(isCommon), ...inFull(all.filter((at) => !isCommon(at)))];
  for (const at of splits) {
    const client = connect();
    if (at > 0) client.write(bytes.slice(0, at));
    // Another connection's whole exchange: what was written before it has arrived.
    await exchange(marker, (at === 0 ? line("192.0.2.9") : "") + request("/elsewhere"));
    expect((await client.ask(bytes.slice(at))).status, `split at ${at}`).toBe(200);
    client.destroy();
  }
  expect(upstream.received).toHaveLength(splits.length);
  for (const { body, target, rawHeaders } of upstream.received) {
    expect(`${target} ${body}`).toBe("/v2/x body");
    expect(valuesOf(rawHeaders, "X-Forwarded-For")).toEqual(["192.0.2.1"]);
  }
  expect(await refusals(gateway, "invalid")).toBe(0);
});

async function policyOf(limit: number) {
  return slidingPolicy({ limit, windowMs: 60_000 });
}

test("pipelined requests and a large body in the header's own packet arrive whole and in order", async () => {
  const { connect, upstream } = await start();
  const client = connect();
  const body = Array.from({ length: 100_000 }, (_, i) => `${i};`).join("");
  const post = request("/v2/b", { method: "POST", fields: `Content-Length: ${body.length}\r\n`, body });
  client.write(binary("192.0.2.1") + request("/v2/a") + post + request("/v2/c"));
  for (let i = 0; i < 3; i += 1) expect((await client.read()).status).toBe(200);
  expect(upstream.received.map(({ target }) => target)).toEqual(["/v2/a", "/v2/b", "/v2/c"]);
  expect(upstream.received[1]?.body.toString("latin1") === body).toBe(true);
});

test.each([
  ["HTTP", request("/v2/x")],
  ["an empty line", `\r\n${request("/v2/x")}`],
  ["a TLS hello", "\x16\x03\x01\x02\x00\x01\x00\x01"],
  ["a datagram's header", binaryHeader(0x21, 0x12, ipv4Block([192, 0, 2, 1])).toString("latin1") + request("/v2/x")],
  [
    "another version's header",
    binaryHeader(0x31, 0x11, ipv4Block([192, 0, 2, 1])).toString("latin1") + request("/v2/x"),
  ],
  ["a line that does not end", `PROXY TCP4 ${"1".repeat(120)}`],
  ["text for a destination", `PROXY TCP6 2001:db8::1 balancer 1 2\r\n${request("/v2/x")}`],
])("a connection that begins with %s is closed without a byte, counted, and never parsed", async (_, bytes) => {
  const { gateway, connect, upstream } = await start();
  const client = connect().write(bytes);
  // Long before the time of a head is over.
  await within("the connection ends", client.closed);
  expect(client.receivedBytes).toBe(0);
  expect(upstream.hits()).toBe(0);
  expect(await refusals(gateway, "invalid")).toBe(1);
  await eventually("it is forgotten", async () => (await connections(gateway)) === 0);
  expect(gateway.logLines.filter((entry) => entry["status"] !== undefined)).toEqual([]);
});

test("a second header is no header but a request line with an unknown method", async () => {
  const { connect, upstream } = await start();
  expect(await exchange(connect(), line("192.0.2.1") + line("6.6.6.6") + request("/v2/x"))).toMatchObject({
    status: 501,
  });
  expect(upstream.hits()).toBe(0);
});

test("an unfinished header has the head's time, however steadily it comes, and good clients do not notice", async () => {
  // The time of a header that is there must not be over because this process stands still before it reads.
  holdTimers(cleanup);
  const { gateway, connect } = await start({ timeouts: { headMs: 300 } });
  const silent = connect();
  const slow = connect().write("PROXY UNKNOWN ");
  const drip = setInterval(() => slow.write("x"), 20);
  cleanup(() => clearInterval(drip));
  const good = connect().write(line("192.0.2.1"));
  while (slow.ending === null) expect((await exchange(good, request("/elsewhere"))).status).toBe(404);
  await within("the silent one ends", silent.closed);
  expect(slow.receivedBytes + silent.receivedBytes).toBe(0);
  expect(await refusals(gateway, "timeout")).toBe(2);
});

test("behind the header the head has its own time: nothing is answered with nothing, half a head with 408", async () => {
  holdTimers(cleanup);
  const { connect, gateway } = await start({ timeouts: { headMs: 200 } });
  const [silent, half] = [connect(), connect()];
  silent.write(line("192.0.2.1"));
  expect((await half.ask(`${binary("192.0.2.1")}GET /v2/`)).status).toBe(408);
  await within("the silent one ends", silent.closed);
  expect(silent.receivedBytes).toBe(0);
  expect(await refusals(gateway, "timeout")).toBe(0);
});

test("a client that closes or resets in or before its header leaves nothing behind", async () => {
  const { gateway, connect } = await start();
  for (const bytes of ["", "PROX", binary("192.0.2.1").slice(0, 20), line("192.0.2.1")]) {
    for (const leave of ["end", "resetAndDestroy"] as const) {
      const client = connect({ allowHalfOpen: true });
      await new Promise((resolve) => client.socket.once("connect", resolve));
      client.write(bytes);
      expect((await exchange(connect(), line("192.0.2.2") + request("/elsewhere"))).status).toBe(404);
      client.socket[leave]();
      await within("the connection ends", client.closed);
    }
  }
  // Those without a byte looked whether the port is open; those with a whole header were heard out.
  await eventually("they are counted", async () => (await refusals(gateway, "incomplete")) === 4);
  expect(await refusals(gateway, "invalid")).toBe(0);
});

test("connections are counted from their first moment", async () => {
  const { gateway, connect } = await start();
  const [silent, introduced] = [connect(), connect()];
  introduced.write(line("192.0.2.1"));
  await eventually("both are counted", async () => (await connections(gateway)) === 2);
  silent.destroy();
  introduced.destroy();
  await eventually("neither is", async () => (await connections(gateway)) === 0);
});

test("a drain ends the silent and the introduced at once, and answers what is in flight", async () => {
  let release = (): void => {};
  const { gateway, connect, upstream } = await stageRaw(
    cleanup,
    (socket) => {
      release = () => void socket.write(response("late"));
    },
    { listen, drain },
  );
  const [silent, introduced, busy] = [connect(), connect(), connect()];
  introduced.write(line("192.0.2.1"));
  busy.write(binary("192.0.2.2") + request("/v2/x"));
  await eventually("the request is at the upstream", () => upstream.bytes() !== "");
  await eventually("all are there", async () => (await connections(gateway)) === 3);
  const drained = gateway.drain();
  await within("the silent one ends", silent.closed, soonMs);
  await within("the introduced one ends", introduced.closed, soonMs);
  expect(busy.ending).toBeNull();
  release();
  const { body, rawHeaders } = await busy.read();
  expect([body, valuesOf(rawHeaders, "Connection")]).toEqual(["late", ["close"]]);
  await within("the drain ends", drained, soonMs);
});

test("a drain hears out a header that has begun, serves its request, and tells it that it is the last", async () => {
  const { gateway, connect } = await start({ drain });
  const client = connect().write("PROXY TCP4 192.0.2.1 ");
  const other = connect();
  await exchange(other, line("192.0.2.2") + request("/elsewhere"));
  const drained = gateway.drain();
  await within("the other ends", other.closed, soonMs);
  const { status, rawHeaders } = await client.ask(`198.51.100.1 1 2\r\n${request("/v2/x")}`);
  expect([status, valuesOf(rawHeaders, "Connection")]).toEqual([200, ["close"]]);
  await within("the drain ends", drained, soonMs);
});

test("a header that is whole only during the drain, with nothing behind it, does not hold up the end", async () => {
  const { gateway, connect } = await start({ drain });
  const client = connect().write("PROXY TCP4 192.0.2.1 ");
  const other = connect();
  await exchange(other, line("192.0.2.2") + request("/elsewhere"));
  const drained = gateway.drain();
  await within("the other ends", other.closed, soonMs);
  expect(client.ending).toBeNull();
  client.write("198.51.100.1 1 2\r\n");
  await within("the drain ends", drained, soonMs);
  expect(await within("the connection ends", client.closed, soonMs)).toBe("end");
});

test("a header that never ends does not outlast the drain", async () => {
  const { gateway, connect } = await start({ drain: { timeoutMs: 200 } });
  const client = connect().write("PROXY ");
  await exchange(connect(), line("192.0.2.2") + request("/elsewhere"));
  await within("the drain ends", gateway.drain());
  await within("the connection ends", client.closed);
});

test("by default a PROXY header is a request line with an unknown method, and names nobody", async () => {
  const { connect, upstream } = await start({ listen: {} });
  expect(await exchange(connect(), line("192.0.2.1") + request("/v2/x"))).toMatchObject({ status: 501 });
  expect(upstream.hits()).toBe(0);
});

/** Version 2, with TLVs. */
const withTlvs = (...tlvs: Buffer[]): string =>
  binaryHeader(0x21, 0x11, Buffer.concat([ipv4Block([192, 0, 2, 1]), ...tlvs])).toString("latin1");

const bulk = tlv(0xe0, new Array(65_535 - 12 - 3).fill(0x20));

test.each<[claim: string, header: string, told: Record<"http" | "https", string>]>([
  ["the header says TLS", withTlvs(tlsTlv(1)), { http: "https", https: "https" }],
  ["the header says no TLS", withTlvs(tlsTlv(0)), { http: "http", https: "http" }],
  ["version 2 without such a TLV", withTlvs(tlv(4, [])), { http: "http", https: "https" }],
  ["version 1", line("192.0.2.1"), { http: "http", https: "https" }],
  ["UNKNOWN", "PROXY UNKNOWN\r\n", { http: "http", https: "https" }],
  ["LOCAL", binaryHeader(0x20, 0, tlsTlv(1)).toString("latin1"), { http: "http", https: "https" }],
])("the upstream is told the client's scheme: %s", async (_, header, told) => {
  for (const proxyScheme of ["http", "https"] as const) {
    const { connect, upstream } = await start({ listen: { ...listen, proxyScheme } });
    const client = connect();
    const fields = "X-Forwarded-Proto: gopher\r\n";
    expect(await exchange(client, header + request("/v2/x", { fields }))).toMatchObject({ status: 200 });
    expect(await exchange(client, request("/v2/x", { fields }))).toMatchObject({ status: 200 });
    const schemes = upstream.received.map(({ rawHeaders }) => valuesOf(rawHeaders, "X-Forwarded-Proto"));
    expect(schemes, `proxyScheme: ${proxyScheme}`).toEqual([[told[proxyScheme]], [told[proxyScheme]]]);
  }
});

test("connections of one client, by TLS and without, do not share what the upstream is told", async () => {
  const { connect, upstream } = await start();
  const bits = [1, 0, 1, 0, 0, 1];
  // The same bytes each time: what was read of the one before is used again.
  for (const bit of bits) await exchange(connect(), withTlvs(tlsTlv(bit)) + request("/v2/x"));
  const schemes = upstream.received.flatMap(({ rawHeaders }) => valuesOf(rawHeaders, "X-Forwarded-Proto"));
  expect(schemes).toEqual(bits.map((bit) => (bit === 1 ? "https" : "http")));
});

test("a client that a PROXY header says to be a trusted proxy tells the scheme itself", async () => {
  const { connect, upstream } = await start({ clientAddress: { trustedProxies: ["192.0.2.1"] } });
  await exchange(connect(), withTlvs(tlsTlv(1)) + request("/v2/x", { fields: "X-Forwarded-Proto: http\r\n" }));
  expect(upstream.received.map(({ rawHeaders }) => valuesOf(rawHeaders, "X-Forwarded-Proto"))).toEqual([["http"]]);
});

test("65,535 bytes of TLVs are skipped, in one piece or in many, and what follows them is read", async () => {
  const { gateway, connect, upstream } = await start();
  const bytes = withTlvs(bulk) + request("/v2/x", { method: "POST", fields: "Content-Length: 4\r\n", body: "body" });
  for (const size of [bytes.length, 30_000, 1_000]) {
    const client = connect();
    for (let at = 0; at < bytes.length; at += size) client.write(bytes.slice(at, at + size));
    expect((await client.read()).status, `${size}`).toBe(200);
    client.destroy();
  }
  expect(upstream.received.map(({ body, target }) => `${target} ${body}`)).toEqual(Array(3).fill("/v2/x body"));
  expect(await refusals(gateway, "invalid")).toBe(0);
});

test("TLVs that drip in have the head's time, and nothing of them is kept", async () => {
  holdTimers(cleanup);
  const { gateway, connect } = await start({ timeouts: { headMs: 15_000 } });
  const header = withTlvs(bulk);
  const read = vi.spyOn(ProxyHeaderReader.prototype, "read");
  const slow = connect().write(header.slice(0, 60_000));
  await eventually("it ends", () => {
    slow.write("\0");
    vi.advanceTimersByTime(1_000);
    return slow.ending !== null;
  });
  expect(await refusals(gateway, "timeout")).toBe(1);
  const kept = read.mock.calls.map(([unread], i) => {
    const result = read.mock.results[i]?.value as { readonly taken: number };
    return unread.length - result.taken;
  });
  expect(kept.length).toBeGreaterThan(10);
  expect(Math.max(...kept)).toBeLessThanOrEqual(3);
});
