// What an operator does with a store that gateways share: starts before it is there, corrects a password, drains while it
// hangs, reloads, and takes gateways away whose WebSockets hold slots. Takes about 25 s.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startWebSocketUpstream } from "../support/web-sockets.ts";
import { monotonicMs } from "./client-line.ts";
import { limits, startFleet } from "./fleet.ts";
import { startRecordingUpstream } from "./recording-upstream.ts";
import { clientsOf, shared, sharing as sharingSoon, stageStore } from "./stage.ts";
import type { Client } from "./traffic.ts";

const cleanup = useCleanup();
/** The counts are exact as long as no machine is so busy that the store seems to be slow. */
const sharing = [...sharingSoon, "counters.redis.wait=1s"];

const admitted = async (client: Client, count: number): Promise<number> =>
  (await client.burst(count)).filter(({ status }) => status === 200).length;

/** The status of /readyz, and the state of the store in it. */
const readyz = async ({ adminPort }: GatewayProcess): Promise<[status: number, state: unknown]> => {
  const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`);
  const { store } = (await response.json()) as { store?: { state?: unknown } };
  return [response.status, store?.state];
};

describe.skipIf(skipRedis)(`operating with a shared store${redisNeeded}`, () => {
  test("gateways start without their store, are ready, admit their shares, and join when it comes", async () => {
    const redis = cleanup(await startRedis());
    await redis.kill();
    const upstream = await startRecordingUpstream(cleanup);
    const url = `counters.redis.url=redis://127.0.0.1:${redis.port}`;
    const fleet = await startFleet(cleanup, upstream.url, 2, [...sharing, url, "counters.redis.replicas=2"]);
    for (const gateway of fleet.gateways) {
      expect(await readyz(gateway)).toEqual([200, "away"]);
    }
    // By the day: a burst must not outlast the window.
    const client = clientsOf(cleanup, fleet);
    expect(await admitted(client("/v1/day"), 3 * limits.day)).toBe(limits.day);
    await redis.restart();
    await shared(fleet.gateways, 2);
    expect(await admitted(client("/v1/day"), 3 * limits.day)).toBe(limits.day);
    for (const gateway of fleet.gateways) expect(await readyz(gateway)).toEqual([200, "up"]);
  });

  test("a wrong password is an outage that ends when the file is corrected", async () => {
    const redis = cleanup(await startRedis({ config: ["requirepass right"] }));
    const file = join(scratchFolder(cleanup), "password");
    writeFileSync(file, "wrong\n");
    const upstream = await startRecordingUpstream(cleanup);
    const url = `counters.redis.url=redis://127.0.0.1:${redis.port}`;
    const settings = [...sharing, url, `counters.redis.passwordFile=${file}`];
    const fleet = await startFleet(cleanup, upstream.url, 2, settings);
    const client = clientsOf(cleanup, fleet);
    expect(new Set((await client("/v1/few").burst(2)).map(({ status }) => status))).toEqual(new Set([200]));
    for (const { output } of fleet.gateways) expect(output.out).not.toMatch(/"wrong|wrong"/);
    writeFileSync(file, "right\n");
    await shared(fleet.gateways, 2);
    expect(await admitted(client("/v1/day"), 3 * limits.day)).toBe(limits.day);
  });

  test("a gateway drains in time while its store hangs", async () => {
    const { fleet, proxy, client } = await stageStore(cleanup, 1, { settings: ["drain.delay=0s", "drain.timeout=1s"] });
    const [gateway] = fleet.gateways;
    const small = client("/v1/small");
    await small.burst(20);
    await proxy.fault({ isHeld: true });
    const last = small.burst(20);
    const signalledMs = monotonicMs();
    gateway?.signal("SIGTERM");
    expect(await gateway?.exited).toEqual({ code: 0, signal: null });
    // The drain would take so long by default.
    expect(monotonicMs() - signalledMs).toBeLessThan(25_000);
    await last;
    expect(gateway?.output.err).toBe("");
  });

  test("a reload lowers the limit of what is counted already, and adds a policy", async () => {
    const redis = cleanup(await startRedis());
    const upstream = await startRecordingUpstream(cleanup);
    const config = join(scratchFolder(cleanup), "headgate.yaml");
    const write = (policies: readonly object[]): void => writeFileSync(config, JSON.stringify({ policies }));
    const first = { name: "first", limit: 100, window: "1h", match: { paths: ["/v1/first/"] } };
    // The start of a gateway in tests sets another limit for the first of the list.
    const unused = { name: "unused", limit: 1, window: "1h", match: { paths: ["/v1/unused/"] } };
    write([unused, first]);
    const store = [...sharing, `counters.redis.url=redis://127.0.0.1:${redis.port}`];
    const settings = ["auth.mode=off", "reload.watch=false", ...store];
    const start = () => startGatewayProcess(cleanup, upstream.url, settings, { config });
    const gateways = await Promise.all([start(), start()]);
    await shared(gateways, 2);
    const fleet = { gateways, ports: () => gateways.map(({ port }) => port), replace: () => {}, start };
    const client = clientsOf(cleanup, fleet)("/v1/first");
    expect(await admitted(client, 30)).toBe(30);
    write([
      unused,
      { ...first, limit: 40 },
      { name: "second", limit: 5, window: "1h", match: { paths: ["/v1/second/"] } },
    ]);
    for (const gateway of gateways) gateway.signal("SIGHUP");
    await eventually("both have reloaded", () =>
      gateways.every(({ output }) => output.out.includes('"msg":"reloaded"')),
    );
    expect(await admitted(client, 30)).toBe(10);
    expect(await admitted(clientsOf(cleanup, fleet)("/v1/second"), 30)).toBe(5);
  });

  test("WebSockets hold slots over two gateways, and those of a gateway that was killed come back", async () => {
    const redis = cleanup(await startRedis());
    const upstream = await startWebSocketUpstream(cleanup, () => {});
    const store = [...sharing, `counters.redis.url=redis://127.0.0.1:${redis.port}`];
    const fleet = await startFleet(cleanup, `http://127.0.0.1:${upstream.port}`, 2, store);
    await shared(fleet.gateways, 2);
    const [first, second] = fleet.gateways as [GatewayProcess, GatewayProcess];
    const held = [
      await opened(first),
      await opened(first),
      await opened(first),
      await opened(second),
      await opened(second),
    ];
    expect(held).not.toContain(429);
    expect([await opened(first), await opened(second)]).toEqual([429, 429]);
    (held[3] as WebSocket).close();
    // Sooner than its lease would end.
    await expect.poll(() => opened(first), { interval: 100, timeout: 9_000 }).not.toBe(429);
    expect(await opened(second)).toBe(429);
    first.signal("SIGKILL");
    // The four that it had come back; the one that the other holds is renewed all the time.
    for (let slot = 0; slot < 4; slot += 1) {
      await expect.poll(() => opened(second), { interval: 250, timeout: 20_000 }).not.toBe(429);
    }
    expect(await opened(second)).toBe(429);
  });
});

/** The socket, or the status of a refusal. */
async function opened({ port }: GatewayProcess): Promise<WebSocket | number> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/slots/1`, { headers: { authorization: "Bearer a" } });
  cleanup(() => socket.terminate());
  socket.on("error", () => {});
  return Promise.race([
    once(socket, "open").then(() => socket),
    once(socket, "unexpected-response").then(([, response]) => {
      response.destroy();
      return response.statusCode;
    }),
  ]);
}
