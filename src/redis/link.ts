// Opens the link to the store that gateways share.
import type { StoreConnectionSettings, StoreLink } from "../core/shared-store.ts";
import { ClusterLink } from "./cluster-link.ts";
import type { ReadFile } from "./credentials.ts";
import type { Opener } from "./handshake.ts";
import { namedScript } from "./shard-link.ts";
import { SentinelLink, SingleLink } from "./single-link.ts";

export interface RedisLinkOptions {
  readonly script: string;
  /** Rejects with the system's error. */
  readonly readFile: ReadFile;
  /** For all that is done until a connection can be used. */
  readonly connectTimeoutMs?: number;
}

/** Does nothing until `open`. */
export function openRedisLink(settings: StoreConnectionSettings, options: RedisLinkOptions): StoreLink {
  const { readFile, connectTimeoutMs = 1_000 } = options;
  const opener: Opener = { settings, readFile, connectTimeoutMs };
  const script = namedScript(options.script);
  const { servers } = settings;
  switch (servers.kind) {
    case "one":
      return new SingleLink(opener, script, () => servers.address);
    case "sentinels":
      return new SentinelLink(opener, script, servers.name, servers.addresses);
    case "cluster":
      return new ClusterLink(opener, script, servers.addresses);
  }
}
