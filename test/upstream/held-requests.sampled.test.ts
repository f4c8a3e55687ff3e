// Clients that take all connections to the upstream that they can, with requests that are never answered, and let none go:
// the next client is served all the same. A pool of 4,096 is measured by `npm run bench:hostile -- --only held-100-of-4096`.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { inFull } from "../support/runs.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();
const of = (client: number): string => `X-Forwarded-For: 192.0.2.${client + 1}\r\n`;

test.for([
  { pool: 16, clients: 1, active: 8 },
  { pool: 16, clients: 3, active: 12 },
  ...inFull([
    { pool: 256, clients: 1, active: 128 },
    { pool: 256, clients: 3, active: 192 },
    { pool: 256, clients: 10, active: 192 },
  ]),
])(
  "$clients clients at the same time hold $active of $pool connections, and the next one has no failure",
  async (it) => {
    const { send, next } = await stage(it.pool);
    const each = Math.ceil(it.pool / (it.clients + 1)) + 1;
    expect(await send(Array.from({ length: each * it.clients }, (_, i) => i % it.clients))).toBe(it.active);
    expect(await next(it.clients)).toEqual([200]);
  },
);

test.for([
  { pool: 16, held: [8, 4, 1] },
  { pool: 16, held: [8, 4, 1, 1, 1] },
  ...inFull([
    { pool: 256, held: [128, 64, 1] },
    { pool: 256, held: [128, 64, 1, 1, 1, 1, 1, 1, 1, 1] },
    { pool: 256, held: [128, 64, ...Array<number>(63).fill(1)] },
  ]),
])(
  "$held.length clients, one after the other, hold what they can of $pool connections, and the next one has no failure",
  async (it) => {
    const { send, next } = await stage(it.pool);
    let active = 0;
    for (const [client, held] of it.held.entries()) {
      active += held;
      // One more than it gets.
      expect(await send(Array<number>(held + 1).fill(client))).toBe(active);
    }
    expect(await next(it.held.length)).toEqual([200]);
  },
);

async function stage(pool: number) {
  const { gateway, connect } = await stageRaw(
    cleanup,
    (socket, data) => void (data.includes(" /v2/next ") && socket.write(response("ok"))),
    {
      policies: [slidingPolicy({ limit: 1_000_000, windowMs: 60_000 })],
      clientAddress: { trustedProxies: ["127.0.0.1"] },
      upstream: { maxConnections: pool, connectTimeoutMs: 30_000 },
    },
  );
  let sent = 0;
  return {
    /** Sends a request of each. Resolves with the connections that are held when all others wait. */
    async send(clients: readonly number[]): Promise<number> {
      sent += clients.length;
      for (const client of clients) connect().write(request("/v2/never", { fields: of(client) }));
      let held = 0;
      await eventually("each request has a connection or waits", async () => {
        const { active, waiting } = await upstreamConnections(gateway);
        held = active;
        return active + waiting === sent;
      });
      return held;
    },
    /** Returns the statuses of 20 requests, one after the other. */
    async next(client: number): Promise<number[]> {
      const connection = connect();
      const statuses = new Set<number>();
      for (let i = 0; i < 20; i += 1) {
        statuses.add((await connection.ask(request("/v2/next", { fields: of(client) }))).status);
      }
      return [...statuses];
    },
  };
}
