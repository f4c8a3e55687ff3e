// A flood of clients that were never seen costs the store no more keys than `maxKeys` allows, and no other client its
// quota. HEADGATE_FLOOD_KEYS=1000000 floods with as many; by default it takes about 10 s.
import { once } from "node:events";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { stageStore } from "./stage.ts";

const cleanup = useCleanup();
const flooding = Number(process.env["HEADGATE_FLOOD_KEYS"] ?? 30_000);
const maxKeys = 2_000;
const connections = 64;
const limit = 100;
const policies = [{ name: "client", limit, window: "10m" }];

describe.skipIf(skipRedis)(`a flood of new clients${redisNeeded}`, () => {
  test("makes at most maxKeys counters and those of their networks, and takes no quota of others", async () => {
    const settings = [
      `policies=${JSON.stringify(policies)}`,
      `counters.redis.maxKeys=${maxKeys}`,
      // The counts are exact as long as no machine is so busy that the store seems to be slow.
      "counters.redis.wait=1s",
      // Without a token, a request is charged and answered by the gateway: the upstream costs nothing.
      "auth.mode=presence",
      'clientAddress.trustedProxies=["127.0.0.1"]',
      "listen.maxRequestsPerConnection=1000000",
    ];
    const { fleet, redis } = await stageStore(cleanup, 1, { settings });
    const port = fleet.gateways[0]?.port ?? 0;
    const known = "192.0.2.7";
    expect(await statuses(port, Array(60).fill(known))).toEqual({ 401: 60 });
    const networks = Math.ceil(flooding / 256);
    const flood = await statuses(
      port,
      Array.from({ length: flooding }, (_, i) => `10.${i >> 16}.${(i >> 8) & 0xff}.${i & 0xff}`),
    );
    expect(Object.keys(flood)).toEqual(["401", "429"]);
    // The list of gateways and the secret are keys, too; and a new key is counted when the store has answered.
    const more = 2 + connections;
    expect(Number(redis.cli("DBSIZE"))).toBeLessThanOrEqual(maxKeys + networks + more);
    expect(await statuses(port, Array(60).fill(known))).toEqual({ 401: 40, 429: 20 });
    expect(await statuses(port, Array(20).fill("198.51.100.9"))).toEqual({ 401: 20 });
  });
});

/** Asks once for each address, over several connections. Returns how often each status came. */
async function statuses(port: number, addresses: readonly string[]): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  let next = 0;
  const one = async (): Promise<void> => {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    cleanup(() => socket.destroy());
    while (next < addresses.length) {
      socket.write(`GET /v1/x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ${addresses[next]}\r\n\r\n`);
      next += 1;
      const status = await readStatus(socket);
      counts[status] = (counts[status] ?? 0) + 1;
    }
    socket.end();
  };
  await Promise.all(Array.from({ length: Math.min(connections, addresses.length) }, one));
  return counts;
}

/** A local reply is small enough to come in one piece. */
async function readStatus(socket: ReturnType<typeof connect>): Promise<string> {
  const [data] = await once(socket, "data");
  return String(data).slice(9, 12);
}
