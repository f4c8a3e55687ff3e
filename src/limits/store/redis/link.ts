// Opens the link to the store that gateways share: to one server, to the primary that sentinels name, or to a cluster.
import { setTimeout as sleep } from "node:timers/promises";
import { ignoreError } from "../../../core/failure.ts";
import type { HostPort } from "../../../core/ip-address.ts";
import type { CallFailure, StoreConnectionSettings, StoreLink } from "../../../core/store-link.ts";
import { ClusterLink } from "./cluster.ts";
import { type Connection, lastContext, type Opener, openConnection } from "./connection.ts";
import { failureAt, failureOf, StoreError, unreachable } from "./replies.ts";
import { ShardLink } from "./shard-link.ts";

type RedisLinkOptions = Pick<Opener, "script" | "readFile"> & Partial<Pick<Opener, "connectTimeoutMs">>;

/** Does nothing until `open`. */
export function openRedisLink(settings: StoreConnectionSettings, options: RedisLinkOptions): StoreLink {
  const opener: Opener = { connectTimeoutMs: 1_000, ...options, settings, contextOf: lastContext() };
  const { servers } = settings;
  switch (servers.kind) {
    case "one":
      return new ShardLink(opener, () => servers.address);
    case "sentinels":
      return new SentinelLink(opener, servers);
    case "cluster":
      return new ClusterLink(opener, servers.addresses);
  }
}

const watchMs = 2_000;

type SentinelSettings = Extract<StoreConnectionSettings["servers"], { readonly kind: "sentinels" }>;

interface Named {
  readonly address: HostPort;
  /** Grows with each promotion. */
  readonly epoch: number;
}

/**
 * Asks the sentinels which server is the primary. A sentinel that is cut off from the others may name an old one, so a majority
 * is asked and the newest answer counts. Sentinels do not tell a gateway that is cut off from the others; so they are asked all
 * the time: an old primary that they have replaced may still answer, and its connection is dropped then.
 */
class SentinelLink extends ShardLink {
  readonly #opener: Opener;
  readonly #servers: SentinelSettings;
  readonly #connections = new Map<HostPort, Connection>();
  #watching: Promise<void> = Promise.resolve();

  constructor(opener: Opener, servers: SentinelSettings) {
    super(opener, () => this.#primary());
    this.#opener = { ...opener, settings: { ...opener.settings, ...servers.user } };
    this.#servers = servers;
  }

  override open(): void {
    super.open();
    this.#watching = this.#watch(this.closed.signal);
  }

  override async close(): Promise<void> {
    const ended = super.close();
    for (const connection of this.#connections.values()) connection.drop(unreachable("the connection was closed"));
    await ended;
    await this.#watching;
  }

  async #watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(watchMs * (0.5 + Math.random()), undefined, { signal }).catch(ignoreError);
      const used = this.connection;
      if (used === null || signal.aborted) continue;
      const primary = await this.#primary().catch(() => used.address);
      if (primary.host === used.address.host && primary.port === used.address.port) continue;
      used.drop({ kind: "unready", detail: "the sentinels have promoted another server" });
    }
  }

  /** Resolves when a majority has answered, or all have ended. Rejects with a StoreError. */
  async #primary(): Promise<HostPort> {
    const answers: Named[] = [];
    const failures: CallFailure[] = [];
    const asked = new Set<Promise<void>>();
    for (const address of this.#servers.addresses) {
      const ended = this.#ask(address)
        .then(
          (answer) => void answers.push(answer),
          (error) => {
            const { kind, detail } = failureOf(error);
            failures.push({ kind, detail: `sentinel: ${detail}` });
          },
        )
        .finally(() => asked.delete(ended));
      asked.add(ended);
    }
    while (asked.size > 0 && answers.length <= this.#servers.addresses.length / 2) await Promise.race(asked);
    const [newest] = answers.sort((a, b) => b.epoch - a.epoch);
    if (newest !== undefined) return newest.address;
    throw new StoreError(failures[0] ?? unreachable("no sentinel is configured"));
  }

  async #ask(address: HostPort): Promise<Named> {
    const connection = await this.#connectionTo(address);
    // During a failover, a sentinel names the new primary in the one answer before it does in the other, which has the
    // epoch.
    const [named, about] = await Promise.all([
      this.#answerOf(connection, "GET-MASTER-ADDR-BY-NAME"),
      this.#answerOf(connection, "MASTER"),
    ]);
    const [host, port]: unknown[] = Array.isArray(named) ? named : [];
    const fields: unknown[] = Array.isArray(about) ? about : [];
    const epoch = Number(fields[fields.indexOf("config-epoch") + 1]) || 0;
    if (typeof host === "string" && host !== "" && Number(port) > 0 && Number(port) < 65_536) {
      return { address: { host, port: Number(port) }, epoch };
    }
    throw new StoreError(
      failureAt(address, { kind: "failed", detail: `it names no primary of ${this.#servers.name}` }),
    );
  }

  async #answerOf(connection: Connection, question: string): Promise<unknown> {
    try {
      return await connection.askWithin(this.#opener.connectTimeoutMs, "sentinel", question, this.#servers.name);
    } catch (error) {
      connection.drop(unreachable("the sentinel does not answer"));
      throw new StoreError(failureAt(connection.address, failureOf(error)));
    }
  }

  async #connectionTo(address: HostPort): Promise<Connection> {
    const known = this.#connections.get(address);
    if (known !== undefined && known.lost === null) return known;
    const connection = await openConnection("sentinel", this.#opener, address, this.closed.signal);
    // Another question may have opened one meanwhile.
    this.#connections.get(address)?.drop(unreachable("not needed any more"));
    this.#connections.set(address, connection);
    return connection;
  }
}
