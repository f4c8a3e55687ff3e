// Gateways of this process with one store, whose rules and forgiveness a test uses: each client has an address of its own.
import type { RuleInput } from "../../src/core/rules.ts";
import type { Settings } from "../../src/core/settings.ts";
import type { StoreConnectionSettings } from "../../src/core/store-link.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { eventually, stallMs } from "../support/eventually.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { type RedisServer, startRedis } from "../support/redis-servers.ts";
import { sharedCounters } from "../support/shared-settings.ts";
import { request } from "../support/stage.ts";
import { startUpstream } from "../support/upstream.ts";

/** Two heartbeats, and what a busy machine takes. */
export const heardMs = 2_000 + stallMs;
export const limit = 10;
export const replicas = 3;
export const writer = { name: "ops", address: null };
export const anyway = { expectedRevision: null, force: true };
export const policies = [slidingPolicy({ limit, windowMs: 3_600_000 })];
const threadEntry = new URL("../workers/faulty-thread.ts", import.meta.url);

export type StoreServers = StoreConnectionSettings["servers"];

export class RulesStage {
  readonly upstreamUrl: string;
  readonly #servers: StoreServers;
  readonly #cleanup: Cleanup;

  constructor(cleanup: Cleanup, servers: StoreServers, upstreamUrl: string) {
    this.#cleanup = cleanup;
    this.#servers = servers;
    this.upstreamUrl = upstreamUrl;
  }

  /** `port`: where it finds the store, if that is one server. */
  async start(overrides: Overrides = {}, port: number | null = null): Promise<TestGateway> {
    const merged = this.#merged(overrides, port);
    const gateway = await startTestGateway({ upstreamUrl: this.upstreamUrl, overrides: merged, threadEntry });
    this.#cleanup(() => gateway.close());
    return gateway;
  }

  /** Of a gateway that was started so. */
  settings(overrides: Overrides = {}): Settings {
    return testSettings(this.upstreamUrl, this.#merged(overrides, null));
  }

  #merged(overrides: Overrides, port: number | null): Overrides {
    const { counters = {}, ...others } = overrides;
    const { redis, ...common } = sharedCounters(port ?? 0);
    if (redis === null) throw new Error("there is a store");
    const { connection, store } = redis;
    const servers = port === null ? this.#servers : connection.servers;
    const shared = { connection: { ...connection, servers }, store: { ...store, replicas } };
    return {
      policies,
      drain: { timeoutMs: 0 },
      ...others,
      counters: { ...common, ...counters, redis: shared },
    };
  }

  /** Resolves when the store is up for all of them, and the rules have been read. */
  async up(...gateways: readonly TestGateway[]): Promise<void> {
    for (const gateway of gateways) {
      await eventually(
        "the store is up",
        async () =>
          (await metric(gateway, 'headgate_store_state{state="up"}')) === 1 &&
          (await metric(gateway, 'headgate_shared_rules_state{state="read"}')) === 1,
        15_000,
      );
    }
  }
}

/** A stage whose store is one server. */
export interface OneStoreStage extends RulesStage {
  readonly redis: RedisServer;
}

export async function stageRules(cleanup: Cleanup): Promise<OneStoreStage> {
  const upstream = cleanup(await startUpstream());
  const redis = cleanup(await startRedis());
  const servers = { kind: "one" as const, address: { host: "127.0.0.1", port: redis.port } };
  return Object.assign(new RulesStage(cleanup, servers, upstream.url), { redis });
}

let lastClient = 0;

/** An address that no other test of this file has used. */
export function newClient(): string {
  lastClient += 1;
  return `127.0.9.${lastClient}`;
}

export const blockOf = (client: string): RuleInput => ({ id: `block-${client}`, client, action: "block", for: "1h" });

/** Asks once, on a connection of its own. Returns the status. */
export async function ask({ traffic }: Pick<TestGateway, "traffic">, client: string): Promise<number> {
  const connection = new RawConnection(traffic.port, { localAddress: client });
  try {
    return (await connection.ask(request("/v1/x"))).status;
  } finally {
    connection.destroy();
  }
}

/** Asks the gateways in turn, so often each. Returns how many were admitted. */
export async function askAll(
  gateways: readonly Pick<TestGateway, "traffic">[],
  client: string,
  times: number,
): Promise<number> {
  let admitted = 0;
  for (let i = 0; i < times; i += 1)
    for (const gateway of gateways) if ((await ask(gateway, client)) === 200) admitted += 1;
  return admitted;
}

/** Resolves when each gateway has admitted a request or more; with how many were admitted. */
export async function admittedByAll(
  gateways: readonly Pick<TestGateway, "traffic">[],
  client: string,
): Promise<number> {
  let admitted = 0;
  for (const gateway of gateways) {
    await eventually("it is admitted", async () => (await ask(gateway, client)) === 200, heardMs);
    admitted += 1;
  }
  return admitted;
}

export async function isBlocked(gateway: Pick<TestGateway, "traffic">, client: string): Promise<boolean> {
  return (await ask(gateway, client)) === 403;
}

export async function allBlock(
  gateways: readonly Pick<TestGateway, "traffic">[],
  client: string,
  wanted = true,
): Promise<void> {
  for (const gateway of gateways) {
    const what = wanted ? "it is blocked" : "it is not blocked any more";
    await eventually(what, async () => (await isBlocked(gateway, client)) === wanted, heardMs);
  }
}

/**
 * Asks until each of them has admitted a request and the limit is used up, and on. Returns how many were admitted, with those
 * before.
 */
export async function admittedOfLimit(
  gateways: readonly Pick<TestGateway, "traffic">[],
  client: string,
  before = 0,
): Promise<number> {
  let admitted = before + (await admittedByAll(gateways, client));
  await eventually(
    "the limit is used up",
    async () => {
      admitted += await askAll(gateways, client, 1);
      return admitted >= limit;
    },
    heardMs,
  );
  return admitted + (await askAll(gateways, client, limit));
}

/** Sets a rule, and says where it holds then. */
export async function setRule({ rules }: TestGateway, input: RuleInput) {
  const { ok } = await rules.put(input, writer, anyway);
  return { ok, isShared: rules.isShared(input.id), survivesRestart: rules.survivesRestart(input.id) };
}

/** Resolves when a gateway has read all that is in the log by now: what is written behind it, at another gateway, has come. */
export async function logReadBy(gateway: TestGateway, other: TestGateway): Promise<void> {
  const client = newClient();
  await other.rules.put(blockOf(client), writer, anyway);
  await allBlock([gateway], client);
}
