// Gateways with one store behind a proxy, a recording upstream, and clients. The store's `wait` is longer than by default:
// a machine that is busy with other tests must not look like a store that fails.
import type { Cleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { type RedisOptions, type RedisServer, startRedis } from "../support/redis-servers.ts";
import { monotonicMs } from "./client-line.ts";
import { type Fleet, startFleet } from "./fleet.ts";
import { type RecordingUpstream, startRecordingUpstream } from "./recording-upstream.ts";
import { type StoreProxy, startStoreProxy } from "./store-proxy.ts";
import { before, Client } from "./traffic.ts";

export const waitMs = Number(process.env["HEADGATE_WAIT_MS"] ?? 100);

export interface SharedStage {
  readonly upstream: RecordingUpstream;
  readonly redis: RedisServer;
  readonly proxy: StoreProxy;
  readonly fleet: Fleet;
  /** A client with an address of its own: no other one has its counters. */
  client(path: string, query?: string): Client;
}

export async function stageStore(
  cleanup: Cleanup,
  count: number,
  options: { readonly settings?: readonly string[]; readonly redis?: RedisOptions } = {},
): Promise<SharedStage> {
  const upstream = await startRecordingUpstream(cleanup);
  const redis = cleanup(await startRedis(options.redis));
  const proxy = await startStoreProxy(cleanup, redis.port);
  const store = [`counters.redis.url=redis://127.0.0.1:${proxy.port}`, ...(options.settings ?? [])];
  const fleet = await startFleet(cleanup, upstream.url, count, [...sharing, ...store]);
  await shared(fleet.gateways, count);
  return { upstream, redis, proxy, fleet, client: clientsOf(cleanup, fleet) };
}

export const sharing = ["counters.store=redis", `counters.redis.wait=${waitMs}ms`];

/** Makes clients, each with the next address of the loopback network. */
export function clientsOf(cleanup: Cleanup, { ports }: Fleet): SharedStage["client"] {
  let last = 0;
  return (path, query) => {
    last += 1;
    return new Client(cleanup, ports, `127.0.${1 + (last >> 8)}.${last & 0xff}`, path, query);
  };
}

/** Resolves when the store is up for all of these gateways, and each has seen all. */
export async function shared(
  gateways: readonly GatewayProcess[],
  replicas: number,
  deadlineMs = 15_000,
): Promise<void> {
  await eventually(
    "all gateways share the store",
    async () => {
      const seen = await Promise.all(gateways.map((gateway) => gateway.figures()));
      const isUp = (figures: ReadonlyMap<string, number>) =>
        figures.get('headgate_store_state{state="up"}') === 1 &&
        (figures.get("headgate_store_replicas") ?? 0) >= replicas;
      return seen.every(isUp);
    },
    deadlineMs,
  );
}

/** Lets the gateways run each path often enough to be compiled: a cold one takes several times as long. */
export async function warmUp({ client }: Pick<SharedStage, "client">): Promise<void> {
  const endMs = monotonicMs() + 1_500;
  const clients = ["/v1/small", "/v1/small", "/v1/large"].map((path) => client(path));
  await Promise.all(clients.map((each) => each.greedy(before(endMs))));
}

/** A figure, summed over gateways. */
export async function total(gateways: readonly GatewayProcess[], name: string): Promise<number> {
  const figures = await Promise.all(gateways.map((gateway) => gateway.figures()));
  return figures.reduce((sum, each) => sum + (each.get(name) ?? 0), 0);
}
