// What one HTTP/2 client may cost, at the port: both sides of each bound, and that the next client is served.
import type { Socket } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { closeMs } from "../../src/core/http-bounds.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, turns } from "../support/eventually.ts";
import { type Overrides, startTestGateway, type TestGateway } from "../support/gateway.ts";
import {
  code,
  endHeaders,
  FrameClient,
  type FrameClientOptions,
  frame,
  frameTypes,
  get,
  integer,
  literals,
  text,
} from "../support/http2-frames.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { response, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";
import { startRawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const withTls = useTls();
const refusedStream = 7;
const cancel = 8;
const compressionError = 9;
const enhanceYourCalm = 11;
const window = (bytes: number): Buffer => Buffer.concat([Buffer.of(0, 4), code(bytes)]);

async function start(options: Overrides = {}, onData?: (socket: Socket, data: Buffer) => void) {
  const { ca, overrides } = withTls(options);
  const answer = onData ?? ((socket: Socket) => void socket.write(response("ok")));
  // Time would give points back, the more the slower the machine.
  const staged = await stageRaw(cleanup, answer, overrides, new FakeClock());
  const { gateway } = staged;
  const client = (extra?: FrameClientOptions) => new FrameClient(gateway.traffic.port, { ca }, cleanup, extra);
  const isServed = async (): Promise<void> => {
    const other = client();
    other.headers(1, get());
    expect(await other.ended(1)).toBe("whole");
    other.socket.destroy();
  };
  return { ...staged, client, isServed };
}

const closed = (gateway: TestGateway, reason: string) =>
  metric(gateway, `headgate_http2_connections_closed_total{reason="${reason}"}`);
const reset = (gateway: TestGateway, reason: string) =>
  metric(gateway, `headgate_http2_streams_reset_total{reason="${reason}"}`);

/** Not all at once, so that the client reads meanwhile. */
async function flood(client: FrameClient, one: Buffer): Promise<void> {
  // What is written before waits for the handshake, and then comes at once.
  await eventually("it is connected", () => client.of(frameTypes.settings).length > 0);
  for (let i = 0; i < 100 && client.goaways.length === 0; i += 1) {
    client.socket.write(Buffer.concat(Array(100).fill(one)));
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const largeEntry = Buffer.concat([Buffer.of(0x40), text("x"), text("y".repeat(4_000))]);
const references = (count: number): Buffer => Buffer.alloc(count, integer(62, 7, 0x80));

describe("heads", () => {
  test("one that decodes to sixty megabytes is never decoded, and its connection is told to calm down", async () => {
    const { client, gateway, isServed, upstream } = await start();
    const one = client();
    one.headers(1, get("/v2/before"));
    expect(await one.ended(1)).toBe("whole");
    const block = Buffer.concat([literals(get("/v2/attack")), largeEntry, references(12_000)]);
    one.send(frameTypes.headers, endHeaders | 1, 3, block);
    await eventually("the connection ends", () => one.isClosed);
    expect(one.goaways).toEqual([enhanceYourCalm]);
    expect(await closed(gateway, "head_too_large")).toBe(1);
    expect(gateway.logLines.find(({ msg }) => /^HTTP\/2 connection closed/.test(String(msg)))).toMatchObject({
      reason: "head_too_large",
      peer: "127.0.0.1",
    });
    await isServed();
    expect(upstream.bytes()).not.toContain("attack");
  });

  test("one within twice the bounds is answered", async () => {
    const { client, gateway } = await start();
    const one = client();
    one.send(frameTypes.headers, endHeaders | 1, 1, Buffer.concat([literals(get()), largeEntry, references(6)]));
    expect(await one.ended(1)).toBe("whole");
    one.headers(3, get("/v2/x", ["x", "y".repeat(20_000)]).slice(0, 5));
    expect(await one.ended(3)).toBe("whole");
    expect(await closed(gateway, "head_too_large")).toBe(0);
  });

  test("one that breaks a rule is reset and counted, and the next request is served", async () => {
    const { client, gateway } = await start();
    const one = client();
    one.headers(1, get("/v2/x", ["X-Capital", "y"]));
    expect(await one.ended(1)).toBe(1);
    one.headers(3, get("/v2/x", ["connection", "keep-alive"]));
    expect(await one.ended(3)).toBe(1);
    one.headers(5, get());
    expect(await one.ended(5)).toBe("whole");
    expect(await reset(gateway, "malformed")).toBe(2);
  });

  test("one that is not HPACK ends the connection as RFC 9113 says", async () => {
    const { client, gateway, isServed } = await start();
    const one = client();
    one.send(frameTypes.headers, endHeaders | 1, 1, Buffer.of(0xff, 0));
    await eventually("the connection ends", () => one.isClosed);
    expect(one.goaways).toEqual([compressionError]);
    expect(await closed(gateway, "malformed")).toBe(1);
    await isServed();
  });
});

describe("frames that carry nothing", () => {
  test.each<[claim: string, one: Buffer]>([
    ["PING", frame(frameTypes.ping, 0, 0, Buffer.alloc(8))],
    ["SETTINGS", frame(frameTypes.settings, 0, 0)],
    ["PRIORITY", frame(frameTypes.priority, 0, 3, Buffer.alloc(5, 1))],
    ["WINDOW_UPDATE", frame(frameTypes.windowUpdate, 0, 0, code(1))],
    ["unknown types", frame(0xbe, 0, 0, Buffer.alloc(200))],
  ])("%s: a few pass, and a flood ends the connection", async (_, one) => {
    const { client, isServed, gateway } = await start();
    const legitimate = client();
    const flooding = client();
    for (let i = 0; i < 10; i += 1) legitimate.socket.write(one);
    legitimate.headers(1, get());
    expect(await legitimate.ended(1)).toBe("whole");
    await flood(flooding, one);
    await eventually("the connection ends", () => flooding.isClosed);
    expect(flooding.goaways).toContain(enhanceYourCalm);
    expect(await closed(gateway, "frames")).toBe(1);
    await isServed();
    expect(legitimate.isClosed).toBe(false);
  });

  test("requests beyond the streams of a connection are refused, and a flood of them ends it", async () => {
    const { client } = await start({ upstream: { maxConnections: 500 } }, () => {});
    const one = client({ acknowledges: false });
    for (let i = 0; i < 4_000 && !one.isClosed; i += 1) one.headers(2 * i + 1, get());
    await eventually("the connection ends", () => one.isClosed);
    expect(one.of(frameTypes.rstStream).length).toBeLessThan(3_600);
  });

  test("the end comes two seconds after the GOAWAY, even if streams end one by one until then", async () => {
    holdTimers(cleanup);
    const pending: (() => void)[] = [];
    const upstream = await startRawUpstream((socket) => void pending.push(() => socket.write(response("late"))));
    cleanup(() => upstream.close());
    const { ca, overrides } = withTls({ drain: { timeoutMs: 0 } });
    const gateway = await startTestGateway({
      upstreamUrl: upstream.url,
      overrides,
      http2LingerMs: closeMs,
    });
    cleanup(() => gateway.close());
    const one = new FrameClient(gateway.traffic.port, { ca }, cleanup);
    for (let id = 1; id < 40; id += 2) one.headers(id, get());
    await eventually("all are at the upstream", () => pending.length === 20);
    await flood(one, frame(frameTypes.priority, 0, 3, Buffer.alloc(5, 1)));
    await eventually("it is told", () => one.goaways.includes(enhanceYourCalm));
    // A stream ends in each of the first six tenths of the time.
    for (let ended = 1; ended <= 6; ended += 1) {
      vi.advanceTimersByTime(closeMs / 10);
      pending.shift()?.();
      await turns(20);
      expect(one.isClosed).toBe(false);
    }
    vi.advanceTimersByTime((4 * closeMs) / 10);
    await eventually("the connection ends", () => one.isClosed);
    expect(pending).toHaveLength(14);
  });
});

describe("open streams", () => {
  const listen = (maxConnectionsPerPeer: number, maxConnections = 100): Overrides => ({
    listen: { maxConnectionsPerPeer, maxConnections },
    policies: [slidingPolicy({ limit: 1_000, windowMs: 60_000 })],
  });

  test("of one peer are bounded over all its connections; the rest is refused, not charged, and free again", async () => {
    const pending: Socket[] = [];
    const { client, gateway } = await start(listen(5), (socket) => void pending.push(socket));
    const [one, other] = [client(), client()];
    for (const id of [1, 3, 5]) one.headers(id, get());
    await eventually("they are at the upstream", () => pending.length === 3);
    for (const id of [1, 3, 5]) other.headers(id, get());
    await eventually("one is refused", () => other.of(frameTypes.rstStream).length === 1);
    expect(other.of(frameTypes.rstStream).map(({ payload }) => payload.readUInt32BE(0))).toEqual([refusedStream]);
    expect(await reset(gateway, "per_peer")).toBe(1);
    for (const socket of pending) socket.write(response("ok"));
    await eventually("five are answered", () => [1, 3].every((id) => other.endOf(id) === "whole"));
    other.headers(7, get());
    await eventually("it is at the upstream", () => pending.length === 6);
    pending[5]?.write(response("ok"));
    expect(await other.ended(7)).toBe("whole");
    await eventually("six are logged", () => gateway.logLines.filter(({ status }) => status === 200).length === 6);
    expect(Math.min(...gateway.logLines.map(({ remaining }) => Number(remaining ?? 1_000)))).toBe(994);
  });

  test("of one peer are no more than are free, and the next peer gets its own", async () => {
    const { client, gateway, upstream } = await start(listen(8, 8), () => {});
    const sent = () => upstream.bytes().split("GET ").length - 1;
    /** How many of eight get to the upstream. */
    const use = async (localAddress: string): Promise<number> => {
      const before = sent();
      const one = client({ localAddress });
      for (let id = 1; id < 16; id += 2) one.headers(id, get());
      const ended = () => sent() - before + one.of(frameTypes.rstStream).length;
      await eventually("all are at the upstream, or refused", () => ended() === 8);
      return sent() - before;
    };
    const got = [];
    for (const last of [2, 3, 4, 5, 6]) got.push(await use(`127.0.0.${last}`));
    expect(got).toEqual([4, 2, 1, 1, 0]);
    expect([await reset(gateway, "per_peer"), await reset(gateway, "total")]).toEqual([17, 15]);
  });

  test("of a trusted proxy are bounded only with all others", async () => {
    let pending = 0;
    const trusted = { clientAddress: { trustedProxies: ["127.0.0.1"] } };
    const { client, gateway } = await start({ ...listen(2, 6), ...trusted }, () => {
      pending += 1;
    });
    const one = client();
    for (let id = 1; id < 14; id += 2) one.headers(id, get());
    await eventually("one is refused", () => one.of(frameTypes.rstStream).length === 1);
    await eventually("six are at the upstream", () => pending === 6);
    expect([await reset(gateway, "per_peer"), await reset(gateway, "total")]).toEqual([0, 1]);
  });

  test("whose responses are not read are reset in a few seconds, when the peer has many", async () => {
    holdTimers(cleanup);
    const { client, gateway, isServed } = await start(listen(12));
    const one = client();
    one.send(frameTypes.settings, 0, 0, window(0));
    for (let id = 1; id < 20; id += 2) one.headers(id, get("/none"));
    await eventually("all are answered", () => one.of(frameTypes.headers).length === 10);
    expect(one.of(frameTypes.rstStream)).toEqual([]);
    for (let seconds = 0; seconds < 8 && one.of(frameTypes.rstStream).length < 10; seconds += 1) {
      vi.advanceTimersByTime(1_000);
      await turns(20);
    }
    expect(one.of(frameTypes.rstStream)).toHaveLength(10);
    expect(new Set(one.of(frameTypes.rstStream).map(({ payload }) => payload.readUInt32BE(0)))).toEqual(
      new Set([cancel]),
    );
    expect(await reset(gateway, "unread")).toBe(10);
    await isServed();
  });
});
