// Settings that are each right and cannot stand together. Each is told where the one stands that somebody wrote; two
// defaults never contradict each other.
import { parseIpAddress } from "../core/ip-address.ts";
import { upstreamTargets } from "../core/upstream.ts";
import { type ConfigError, type IsSound, showFound, valueError } from "./config-error.ts";
import { originOf, type Raw } from "./raw.ts";
import type { ParsedConfig } from "./schema.ts";

/** 8 GiB of them: the counters' memory is bounded, and by what a machine may have. */
const maxInstants = 2 ** 30;

interface Pairs {
  readonly values: ParsedConfig;
  readonly isSound: IsSound;
  /** `others`: where it stands, in turn, if nobody wrote `key`. */
  readonly refuse: (key: string, found: string, expected: string, ...others: string[]) => void;
}

/** Says nothing of values that are wrong by themselves. */
export function pairErrors(values: ParsedConfig, raw: Raw | undefined, isSound: IsSound): ConfigError[] {
  const errors: ConfigError[] = [];
  const pairs: Pairs = {
    values,
    isSound,
    refuse: (key, found, expected, ...others) =>
      errors.push(valueError(originOf(raw, key, ...others), key, found, expected)),
  };
  judgeListeners(pairs);
  judgeDecision(pairs);
  judgeListenTls(pairs);
  judgeAuth(pairs);
  judgeCounters(pairs);
  judgeUpstreamTls(pairs);
  judgeUpstreamAddresses(pairs);
  return errors;
}

function judgeListeners({ values: { listen, admin }, isSound, refuse }: Pairs): void {
  if (isSound("listen.host", "listen.port", "admin.host", "admin.port") && collide(listen, admin)) {
    const expected = `another port than listen.port where ${admin.host} and ${listen.host} overlap`;
    refuse("admin.port", String(admin.port), expected, "listen.port", "admin.host", "listen.host");
  }
  const { maxConnections, maxConnectionsPerPeer } = listen;
  const areBounds = isSound("listen.maxConnections", "listen.maxConnectionsPerPeer");
  if (areBounds && maxConnectionsPerPeer > maxConnections) {
    const expected = `at most listen.maxConnections (${maxConnections})`;
    refuse("listen.maxConnectionsPerPeer", String(maxConnectionsPerPeer), expected, "listen.maxConnections");
  }
}

function judgeDecision(pairs: Pairs): void {
  const { values, isSound, refuse } = pairs;
  const { trustedCallers, secretsFile } = values.extAuth;
  const open = (["http", "grpc"] as const).filter(
    (kind) => isSound(`extAuth.${kind}.enabled`) && values.extAuth[kind].enabled,
  );
  if (open.length === 0) return;
  const first = `extAuth.${open[0]}`;
  if (isSound("extAuth.trustedCallers", "extAuth.secretsFile") && trustedCallers.length === 0 && secretsFile === null) {
    const expected = `addresses of those who may ask (or extAuth.secretsFile), since ${first}.enabled is true`;
    refuse("extAuth.trustedCallers", "nothing", expected, `${first}.enabled`);
  }
  const others: Record<string, Address> = { listen: values.listen, admin: values.admin };
  for (const kind of open) {
    const name = `extAuth.${kind}`;
    judgeExtAuthPort(pairs, { ...values.extAuth[kind], name }, others);
    others[name] = values.extAuth[kind];
  }
}

function judgeExtAuthPort(
  { isSound, refuse }: Pairs,
  { name, host, port }: Address & { readonly name: string },
  others: Readonly<Record<string, Address>>,
): void {
  if (!isSound(`${name}.host`, `${name}.port`)) return;
  for (const [otherName, other] of Object.entries(others)) {
    if (!isSound(`${otherName}.host`, `${otherName}.port`) || !collide({ host, port }, other)) continue;
    const expected = `another port than ${otherName}.port where ${host} and ${other.host} overlap`;
    refuse(`${name}.port`, String(port), expected, `${otherName}.port`, `${name}.host`, `${otherName}.host`);
  }
}

function judgeListenTls({ values, isSound, refuse }: Pairs): void {
  // One that is wrong is not null: it was meant to be the path of a file.
  const { cert, key, clientCa } = values.listen.tls;
  if (isSound("listen.tls.cert") && cert === null && (key !== null || clientCa !== null)) {
    const other = key !== null ? "key" : "clientCa";
    refuse("listen.tls.cert", "nothing", `the path of a file, since listen.tls.${other} is set`, `listen.tls.${other}`);
  }
  if (isSound("listen.tls.key") && key === null && cert !== null) {
    refuse("listen.tls.key", "nothing", "the path of a file, since listen.tls.cert is set", "listen.tls.cert");
  }
}

function judgeAuth({ values: { auth }, isSound, refuse }: Pairs): void {
  if (!isSound("auth.mode", "auth.tokensFile")) return;
  if (auth.mode === "tokens" && auth.tokensFile === null) {
    refuse("auth.tokensFile", "nothing", "the path of a file, since auth.mode is tokens", "auth.mode");
  }
  if (auth.mode !== "tokens" && auth.tokensFile !== null) {
    refuse("auth.tokensFile", showFound(auth.tokensFile), `none, since auth.mode is ${auth.mode}`);
  }
}

function judgeCounters({ values, isSound, refuse }: Pairs): void {
  if (!isSound("policies")) return;
  for (const [index, { limit, maxClients }] of values.policies.entries()) {
    const keys = { limit: `policies.${index}.limit`, maxClients: `policies.${index}.maxClients` };
    if (!isSound(keys.limit, keys.maxClients) || limit * maxClients <= maxInstants) continue;
    const expected = `at most ${Math.floor(maxInstants / limit)} with a limit of ${limit}: 8 bytes for each admission of each client`;
    refuse(keys.maxClients, String(maxClients), expected, keys.limit);
  }
}

function judgeUpstreamTls({ values: { upstream }, isSound, refuse }: Pairs): void {
  const { url, tls } = upstream;
  if (isSound("upstream.url") && !upstreamTargets({ url, addresses: [] }).isTls) {
    for (const key of ["ca", "serverName", "cert", "key"] as const) {
      const value = tls[key];
      if (value === null || !isSound(`upstream.tls.${key}`)) continue;
      refuse(`upstream.tls.${key}`, showFound(value), "none, since upstream.url is not https");
    }
    if (isSound("upstream.tls.insecureSkipVerify") && tls.insecureSkipVerify) {
      refuse("upstream.tls.insecureSkipVerify", "true", "false, since upstream.url is not https");
    }
    return;
  }
  for (const [missing, given] of [["cert", "key"] as const, ["key", "cert"] as const]) {
    if (!isSound(`upstream.tls.${missing}`) || tls[missing] !== null || tls[given] === null) continue;
    const expected = `the path of a file, since upstream.tls.${given} has one`;
    refuse(`upstream.tls.${missing}`, "nothing", expected, `upstream.tls.${given}`);
  }
}

/** Every request would come back as a new one, until the quota is spent. */
function judgeUpstreamAddresses({ values, isSound, refuse }: Pairs): void {
  const { upstream, listen, admin, extAuth } = values;
  const { url, addresses } = upstream;
  if (!isSound("upstream.url", "upstream.addresses")) return;
  const places =
    addresses.length === 0
      ? [{ key: "upstream.url", addresses }]
      : addresses.map((address, index) => ({ key: `upstream.addresses.${index}`, addresses: [address] }));
  const listeners = {
    listen,
    admin,
    ...(extAuth.http.enabled ? { "extAuth.http": extAuth.http } : {}),
    ...(extAuth.grpc.enabled ? { "extAuth.grpc": extAuth.grpc } : {}),
  };
  for (const [name, listener] of Object.entries(listeners)) {
    if (!isSound(`${name}.host`, `${name}.port`)) continue;
    for (const { key, addresses } of places) {
      if (!isSound(key)) continue;
      const [target] = upstreamTargets({ url, addresses }).targets;
      if (target === undefined || !isLoopback(target.host) || !collide(listener, target)) continue;
      const expected = `another address than the gateway's own (${name})`;
      refuse(key, showFound(addresses[0] ?? url), expected, "upstream.url", `${name}.port`, `${name}.host`);
    }
  }
}

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Whether two listeners cannot both be opened. Port 0 is a free one each time. */
function collide(a: Address, b: Address): boolean {
  return a.port !== 0 && a.port === b.port && addressesOverlap(a.host, b.host);
}

function addressesOverlap(a: string, b: string): boolean {
  const hosts = [a, b];
  if (canonical(a) === canonical(b)) return true;
  if (hosts.some((host) => canonical(host) === "localhost"))
    return hosts.every((host) => isLoopback(host) || isAny(host));
  // "::" takes IPv4 as well, "0.0.0.0" takes nothing but.
  return (
    hosts.map(canonical).includes(canonical("::")) || (hosts.some(isAny) && !hosts.some((host) => host.includes(":")))
  );
}

const canonical = (host: string): string => parseIpAddress(host)?.join(":") ?? host.toLowerCase();
const isAny = (host: string): boolean => ["::", "0.0.0.0"].map(canonical).includes(canonical(host));
const isLoopback = (host: string): boolean =>
  ["localhost", canonical("::1")].includes(canonical(host)) || /^127\.[\d.]+$/.test(host);
