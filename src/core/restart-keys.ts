// The settings that a reload cannot change: where listeners are, and what is allocated once. Their old values stay in
// force until a restart.
import type { HostPort } from "./host-port.ts";
import type { KeyPart, Policy } from "./policy.ts";
import type { ExtAuthListenerSettings, Settings } from "./settings.ts";

export interface WithoutRestart {
  /** The wanted settings, with the values in force of what needs a restart. */
  readonly settings: Settings;
  /** The keys whose wanted values need a restart, as in the configuration. */
  readonly keys: readonly string[];
}

export function withoutRestart(wanted: Settings, inForce: Settings): WithoutRestart {
  const keys: string[] = [];
  const keep: Keep = (key, now, next) => {
    if (now !== next) keys.push(key);
    return now;
  };
  const address = (name: string, now: HostPort, next: HostPort): HostPort => ({
    host: keep(`${name}.host`, now.host, next.host),
    port: keep(`${name}.port`, now.port, next.port),
  });
  const checks = (name: string, now: ExtAuthListenerSettings | null, next: ExtAuthListenerSettings | null) => {
    keep(`${name}.enabled`, now !== null, next !== null);
    return now === null || next === null ? now : { ...next, ...address(name, now, next) };
  };
  const { listen, admin, extAuth } = wanted;
  const hadTls = keep("listen.tls.cert", inForce.listen.tls !== null, listen.tls !== null);
  const settings: Settings = {
    ...wanted,
    listen: {
      ...listen,
      ...address("listen", inForce.listen, listen),
      proxyProtocol: keep("listen.proxyProtocol", inForce.listen.proxyProtocol, listen.proxyProtocol),
      tls: hadTls ? (listen.tls ?? inForce.listen.tls) : null,
    },
    admin: address("admin", inForce.admin, admin),
    extAuth: {
      ...extAuth,
      http: checks("extAuth.http", inForce.extAuth.http, extAuth.http),
      grpc: checks("extAuth.grpc", inForce.extAuth.grpc, extAuth.grpc),
    },
    counters: countersOf(keep, inForce.counters, wanted.counters),
    workers: keep("workers", inForce.workers, wanted.workers),
  };
  return { settings, keys };
}

/** Returns the value in force, and notes the key if another one is wanted. */
type Keep = <T>(key: string, now: T, next: T) => T;

function countersOf(keep: Keep, now: Settings["counters"], next: Settings["counters"]): Settings["counters"] {
  keep("counters.memory", now.memoryBytes, next.memoryBytes);
  keep("counters.snapshot.path", now.snapshot?.path, next.snapshot?.path);
  // Without a snapshot there is no other value than the default.
  if (now.snapshot && next.snapshot) keep("counters.snapshot.every", now.snapshot.everyMs, next.snapshot.everyMs);
  keep("counters.store", now.redis !== null, next.redis !== null);
  if (now.redis && next.redis) keepStore(keep, now.redis, next.redis);
  return now;
}

type Store = NonNullable<Settings["counters"]["redis"]>;

/** Connections and keys of the store are made once. */
function keepStore(keep: Keep, now: Store, next: Store): void {
  const [before, after] = [storeValues(now), storeValues(next)];
  for (const [key, value] of Object.entries(before)) {
    keep(`counters.redis.${key}`, JSON.stringify(value), JSON.stringify(after[key]));
  }
}

/** By the keys of the configuration. */
function storeValues({ connection, store }: Store): Readonly<Record<string, unknown>> {
  const { servers, database, username, passwordFile, tls } = connection;
  const isUrl = servers.kind === "one";
  return {
    url: isUrl ? [servers.address.host, servers.address.port, database, tls !== null] : null,
    "sentinels.name": servers.kind === "sentinels" ? servers.name : null,
    "sentinels.addresses": servers.kind === "sentinels" ? servers.addresses : [],
    cluster: servers.kind === "cluster" ? servers.addresses : [],
    username,
    passwordFile,
    "tls.enabled": !isUrl && tls !== null,
    "tls.ca": tls?.caFile ?? null,
    "tls.serverName": tls?.serverName ?? null,
    "tls.cert": tls?.certFile ?? null,
    "tls.key": tls?.keyFile ?? null,
    prefix: store.prefix,
    wait: store.waitMs,
    "lease.duration": store.lease.durationMs,
    "lease.most": store.lease.most,
    onFailure: store.onFailure,
    replicas: store.replicas,
    maxKeys: store.maxKeys,
  };
}

/** The policies that start empty, because there was none with their name, kind and key. */
export function emptyPolicies(policies: readonly Policy[], before: readonly Policy[]): string[] {
  return policies.filter((policy) => !before.some((other) => isContinued(policy, other))).map(({ name }) => name);
}

/** What says which policy a counter belongs to. */
export type PolicyIdentity = Pick<Policy, "name" | "key"> & {
  readonly rate: { readonly kind: Policy["rate"]["kind"] };
};

/** Returns whether what was counted for the policy before also counts for the new one. */
export function isContinued(policy: PolicyIdentity, before: PolicyIdentity): boolean {
  return policy.name === before.name && policy.rate.kind === before.rate.kind && isSameKey(policy.key, before.key);
}

function isSameKey(a: readonly KeyPart[], b: readonly KeyPart[]): boolean {
  const textOf = (part: KeyPart | undefined): string => JSON.stringify(part);
  return a.length === b.length && a.every((part, i) => textOf(part) === textOf(b[i]));
}
