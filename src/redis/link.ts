// The connection to a store of one server: given by its address, or by sentinels that know it.
import type { HostPort } from "../core/host-port.ts";
import type {
  CallFailure,
  OnAnswer,
  StoreConnectionSettings,
  StoreEvents,
  StoreIdentity,
  StoreLink,
} from "../core/shared-store.ts";
import type { ReadFile } from "./credentials.ts";
import { type Opener, openPrimary } from "./handshake.ts";
import { namedScript, Shard } from "./shard.ts";

export interface RedisLinkOptions {
  readonly script: string;
  /** Rejects with the system's error. */
  readonly readFile: ReadFile;
  /** For all that is done until a connection can be used. */
  readonly connectTimeoutMs?: number;
}

/** Does nothing until `open`. */
export function openRedisLink(settings: StoreConnectionSettings, options: RedisLinkOptions): StoreLink {
  const { script, readFile, connectTimeoutMs = 1_000 } = options;
  const opener: Opener = { settings, readFile, connectTimeoutMs };
  const { servers } = settings;
  switch (servers.kind) {
    case "one":
      return new SingleLink(opener, script, () => servers.address);
    default:
      throw new Error("not implemented yet");
  }
}

const unheard: StoreEvents = { onConnected() {}, onDisconnected() {}, onGone() {} };

class SingleLink implements StoreLink {
  readonly isClustered = false;
  readonly shards = [0];
  events = unheard;
  readonly #shard: Shard;

  constructor(opener: Opener, script: string, locate: () => HostPort | Promise<HostPort>) {
    this.#shard = new Shard(0, (signal) => openPrimary(opener, locate, signal), namedScript(script), {
      onConnected: (shard) => this.events.onConnected(shard),
      onDisconnected: (shard, failure) => this.events.onDisconnected(shard, failure),
    });
  }

  shardOf(): number {
    return 0;
  }

  tagOf(): string {
    return "0";
  }

  call(_shard: number, keys: readonly string[], args: readonly string[], answered: OnAnswer): void {
    this.#shard.call(keys, args, false, answered);
  }

  identify(_shard: number, identified: (identity: StoreIdentity | null, failure: CallFailure | null) => void): void {
    this.#shard.identify(identified);
  }

  reconnect(): void {
    this.#shard.reconnect();
  }

  open(): void {
    this.#shard.open();
  }

  close(): Promise<void> {
    return this.#shard.close();
  }
}
