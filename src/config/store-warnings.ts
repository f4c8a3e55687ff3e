// What an operator should know about a shared store whose settings are valid.
import type { HostPort } from "../core/host-port.ts";
import type { Policy } from "../core/policy.ts";
import { leasedAheadFrom, type StoreConnectionSettings } from "../core/store-link.ts";
import { isLoopback } from "./addresses.ts";
import { enumerate } from "./config-error.ts";
import type { WarnedSettings } from "./warned-settings.ts";

export function storeWarnings({ counters, policies }: WarnedSettings): readonly string[] {
  const redis = counters?.redis ?? null;
  if (redis === null) return [];
  const { connection, store } = redis;
  return [
    ...plainWarnings(connection),
    ...(store.onFailure === "open"
      ? ["counters.redis.onFailure is open: while the store is away, nobody is limited"]
      : []),
    ...(store.waitMs > mostWaitMs
      ? [`counters.redis.wait is ${store.waitMs}ms: while the store is slow, each request may take so much longer`]
      : []),
    ...windowWarnings(policies, store.waitMs),
  ];
}

const mostWaitMs = 100;

function plainWarnings({ servers, tls }: StoreConnectionSettings): string[] {
  if (tls !== null) return [];
  const remote = addressesOf(servers).filter(({ host }) => !isLoopback(host));
  if (remote.length === 0) return [];
  const hosts = enumerate([...new Set(remote.map(({ host }) => host))], "and");
  return [`counters.redis has no TLS to ${hosts}: passwords and clients' addresses are sent in plain text`];
}

function addressesOf(servers: StoreConnectionSettings["servers"]): readonly HostPort[] {
  return servers.kind === "one" ? [servers.address] : servers.addresses;
}

/** A unit that is asked for by itself counts for 1.5 × wait longer than the window: 5 % of a window of 30 × wait. */
function windowWarnings(policies: readonly Policy[], waitMs: number): string[] {
  return policies.flatMap(({ name, rate, limit, chargeStatuses }) => {
    const isAhead = limit >= leasedAheadFrom && chargeStatuses === null;
    if (rate.kind !== "sliding" || isAhead || rate.windowMs >= 30 * waitMs) return [];
    const percent = Math.floor((100 * 1.5 * waitMs) / (rate.windowMs + 1.5 * waitMs));
    return [
      `policy ${name}: its window of ${rate.windowMs}ms is short beside counters.redis.wait (${waitMs}ms): ` +
        `up to ${percent} % less than the limit is admitted`,
    ];
  });
}
