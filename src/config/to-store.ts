// From the values of `counters.redis` to the settings of the store.
import type { HostPort } from "../core/host-port.ts";
import type { Policy } from "../core/policy.ts";
import type { Settings } from "../core/settings.ts";
import type { StoreConnectionSettings } from "../core/store-link.ts";
import { splitAddress } from "../core/upstream.ts";
import type { ParsedConfig } from "./schema.ts";
import { isTlsUrl } from "./store-pairs.ts";

type StoreValues = ParsedConfig["counters"]["redis"];

const serverPort = 6379;
const sentinelPort = 26_379;

/** The values must not contradict each other. */
export function toStore(values: StoreValues, policies: readonly Policy[]): NonNullable<Settings["counters"]["redis"]> {
  const { url, username, passwordFile, tls, prefix, lease, onFailure, replicas, maxKeys } = values;
  const waitMs = values.waitMs === "auto" ? autoWaitMs(policies) : values.waitMs;
  const { ca: caFile, cert: certFile, key: keyFile, serverName } = tls;
  const isTls = url === null ? tls.enabled : isTlsUrl(url);
  return {
    connection: {
      servers: serversOf(values),
      database: url === null ? 0 : Number(/\/(\d+)$/.exec(url)?.[1] ?? 0),
      username,
      passwordFile,
      tls: isTls ? { caFile, certFile, keyFile, serverName } : null,
    },
    store: { prefix, waitMs, lease, onFailure, replicas, maxKeys },
  };
}

/** A longer wait is more exact, because later answers are not used; but it must be short beside each window. */
function autoWaitMs(policies: readonly Policy[]): number {
  const windows = policies.flatMap(({ rate }) => (rate.kind === "sliding" ? [rate.windowMs] : []));
  return Math.max(10, Math.min(50, Math.floor(Math.min(...windows) / 50)));
}

function serversOf({ url, sentinels, cluster }: StoreValues): StoreConnectionSettings["servers"] {
  if (url !== null) return { kind: "one", address: placeOf(authorityOf(url), serverPort) };
  if (sentinels.name === null) return { kind: "cluster", addresses: cluster.map((one) => placeOf(one, serverPort)) };
  const addresses = sentinels.addresses.map((address) => placeOf(address, sentinelPort));
  return { kind: "sentinels", name: sentinels.name, addresses };
}

function authorityOf(url: string): string {
  return url.split("/")[2] ?? "";
}

function placeOf(address: string, defaultPort: number): HostPort {
  const { host, port } = splitAddress(address);
  return { host, port: port ?? defaultPort };
}
