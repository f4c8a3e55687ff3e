// Who is measured with a store: Headgate with and without, and what users of Node put before an API for several instances.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gatewayFrame } from "../gateway-config.ts";
import { freePort, type Running, start } from "../processes.ts";

/** A limit of an hour, a minute or a second for each address, or for each value of the header X-Client. */
export interface Limit {
  readonly limit: number;
  readonly windowMs: number;
  readonly key: "address" | "header";
}

export interface StoreContender {
  readonly name: string;
  start(place: Place): Promise<{ readonly port: number; readonly running: Running }>;
}

interface Place extends Limit {
  readonly folder: string;
  readonly upstreamPort: number;
  readonly redisPort: number;
  readonly core: number;
}

const bench = join(import.meta.dirname, "..");
const node = process.execPath;

const headgate = (name: string, hasStore: boolean, flags: readonly string[] = []): StoreContender => ({
  name,
  async start({ folder, upstreamPort, redisPort, core, limit, windowMs, key }) {
    const [port, admin] = [await freePort(), await freePort()];
    const config = join(folder, `headgate-${port}.yaml`);
    writeFileSync(
      config,
      `${gatewayFrame({ port, admin, upstreamPort }, ["newConnectionsPerPeer: 1000000"])}
policies:
  - { name: bench, limit: ${limit}, window: ${windowMs}ms${key === "header" ? ', key: ["header:x-client"]' : ""} }
log: { access: false }
${hasStore ? `counters: { store: redis, redis: { url: "redis://127.0.0.1:${redisPort}" } }` : ""}
`,
    );
    const main = join(bench, "../dist/main.js");
    const command = ["sh", "-c", 'exec "$0" "$@" >/dev/null', node, ...flags, main, "start", "--config", config];
    return { port, running: await start(command, { core, port }) };
  },
});

const peer = (name: string, file: string): StoreContender => ({
  name,
  async start({ upstreamPort, redisPort, core, limit, windowMs, key }) {
    const port = await freePort();
    const upstream = `http://127.0.0.1:${upstreamPort}`;
    const command = [node, join(bench, "peers", file), port, upstream, limit, windowMs, key, redisPort].map(String);
    return { port, running: await start(command, { core, port }) };
  },
});

export const alone = headgate("Headgate without a store", false);
export const shared = headgate("Headgate with Redis", true);
/** It leases nothing ahead. */
export const askingAlone = headgate("Headgate with Redis, asking alone", true, [
  "--import",
  join(import.meta.dirname, "asking-alone.ts"),
]);
export const storeContenders: readonly StoreContender[] = [
  alone,
  shared,
  peer("rate-limiter-flexible with Redis", "flexible-redis.js"),
  peer("@fastify/rate-limit with Redis", "fastify-redis.js"),
];
