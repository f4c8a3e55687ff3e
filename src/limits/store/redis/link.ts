// Opens the link to the store that gateways share.

import type { HostPort } from "../../../core/ip-address.ts";
import type {
  CallFailure,
  OnAnswer,
  StoreConnectionSettings,
  StoreEvents,
  StoreIdentity,
  StoreLink,
} from "../../../core/store-link.ts";
import { ClusterLink } from "./cluster.ts";
import { lastContext, type Opener, openPrimary, type ReadFile } from "./connection.ts";
import { namedScript, type Script, Sentinels, ShardLink } from "./shard-link.ts";

interface RedisLinkOptions {
  readonly script: string;
  /** Rejects with the system's error. */
  readonly readFile: ReadFile;
  /** For all that is done until a connection can be used. */
  readonly connectTimeoutMs?: number;
}

/** Does nothing until `open`. */
export function openRedisLink(settings: StoreConnectionSettings, options: RedisLinkOptions): StoreLink {
  const { readFile, connectTimeoutMs = 1_000 } = options;
  const opener: Opener = { settings, readFile, connectTimeoutMs, contextOf: lastContext() };
  const script = namedScript(options.script);
  const { servers } = settings;
  switch (servers.kind) {
    case "one":
      return new SingleLink(opener, script, () => servers.address);
    case "sentinels":
      return new SentinelLink(opener, script, servers);
    case "cluster":
      return new ClusterLink(opener, script, servers.addresses);
  }
}

// The link to a store of one server: given by its address, or by sentinels that know it.

class SingleLink implements StoreLink {
  readonly isClustered = false;
  readonly shards = [0];
  events: StoreEvents = { onConnected() {}, onDisconnected() {}, onGone() {} };
  protected readonly shard: ShardLink;

  constructor(opener: Opener, script: Script, locate: () => HostPort | Promise<HostPort>) {
    this.shard = new ShardLink(
      0,
      (signal) => openPrimary(opener, locate, signal),
      script,
      () => this.events,
    );
  }

  shardOf(): number {
    return 0;
  }

  anyTagOf(): string {
    return "0";
  }

  call(_shard: number, keys: readonly string[], args: readonly string[], answered: OnAnswer): void {
    this.shard.call(keys, args, false, answered);
  }

  identify(_shard: number, identified: (identity: StoreIdentity | null, failure: CallFailure | null) => void): void {
    this.shard.identify(identified);
  }

  reconnect(): void {
    this.shard.reconnect();
  }

  open(): void {
    this.shard.open();
  }

  close(): Promise<void> {
    return this.shard.close();
  }
}

/** Sentinels do not tell a gateway that is cut off from the others; so they are asked. */
const watchMs = 2_000;

type SentinelSettings = Extract<StoreConnectionSettings["servers"], { readonly kind: "sentinels" }>;

/** An old primary that the sentinels have replaced may still answer: its connection is dropped then. */
class SentinelLink extends SingleLink {
  readonly #sentinels: Sentinels;
  #isClosed = false;
  #timer: NodeJS.Timeout | null = null;
  #watched: Promise<void> = Promise.resolve();

  constructor(opener: Opener, script: Script, { name, addresses, user }: SentinelSettings) {
    const sentinels = new Sentinels({ ...opener, settings: { ...opener.settings, ...user } }, name, addresses);
    super(opener, script, () => sentinels.primary());
    this.#sentinels = sentinels;
  }

  override open(): void {
    super.open();
    this.#watchLater();
  }

  override async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#sentinels.close();
    await super.close();
    await this.#watched;
  }

  #watchLater(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(
      () => {
        this.#watched = this.#watch().finally(() => this.#watchLater());
      },
      watchMs * (0.5 + Math.random()),
    );
  }

  async #watch(): Promise<void> {
    const used = this.shard.connection;
    if (used === null) return;
    const primary = await this.#sentinels.primary().catch(() => null);
    if (primary === null || (primary.host === used.address.host && primary.port === used.address.port)) return;
    used.drop({ kind: "unready", detail: "the sentinels have promoted another server" });
  }
}
