// Settings that are each right and cannot stand together. Each is told where the one stands that somebody wrote; two
// defaults never contradict each other.
import { parseIpAddress } from "../core/ip-address.ts";
import { upstreamTargets } from "../core/upstream.ts";
import { type ConfigError, type Origin, showFound } from "./config-error.ts";
import { splitPath } from "./paths.ts";
import { type Raw, rawAt } from "./raw.ts";
import type { ParsedConfig } from "./schema.ts";

/** 8 GiB of them: the counters' memory is bounded, and by what a machine may have. */
const maxInstants = 2 ** 30;

export function pairErrors(values: ParsedConfig, raw: Raw | undefined): ConfigError[] {
  const whereWritten = (...keys: string[]): Origin =>
    keys.map((key) => rawAt(raw, splitPath(key))?.at).find((at) => at !== undefined) ?? { kind: "default" };
  const errors: ConfigError[] = [];
  const refuse = (key: string, found: string, expected: string, ...others: string[]) =>
    errors.push({ kind: "value", at: whereWritten(key, ...others), key, found, expected });

  const { listen, admin, auth, upstream, policies } = values;
  if (collide(listen, admin)) {
    const expected = `another port than listen.port where ${admin.host} and ${listen.host} overlap`;
    refuse("admin.port", String(admin.port), expected, "listen.port", "admin.host", "listen.host");
  }
  if (auth.mode === "tokens" && auth.tokensFile === null) {
    refuse("auth.tokensFile", "nothing", "the path of a file, since auth.mode is tokens", "auth.mode");
  }
  if (auth.mode !== "tokens" && auth.tokensFile !== null) {
    refuse("auth.tokensFile", showFound(auth.tokensFile), `none, since auth.mode is ${auth.mode}`);
  }
  if (listen.maxConnectionsPerPeer > listen.maxConnections) {
    const expected = `at most listen.maxConnections (${listen.maxConnections})`;
    refuse("listen.maxConnectionsPerPeer", String(listen.maxConnectionsPerPeer), expected, "listen.maxConnections");
  }
  const { cert, key, clientCa } = listen.tls;
  if (cert === null && (key !== null || clientCa !== null)) {
    const other = key !== null ? "key" : "clientCa";
    refuse("listen.tls.cert", "nothing", `the path of a file, since listen.tls.${other} is set`, `listen.tls.${other}`);
  }
  if (key === null && cert !== null) {
    refuse("listen.tls.key", "nothing", "the path of a file, since listen.tls.cert is set", "listen.tls.cert");
  }
  for (const [index, { limit, maxClients }] of policies.entries()) {
    if (limit * maxClients > maxInstants) {
      const expected = `at most ${Math.floor(maxInstants / limit)} with a limit of ${limit}: 8 bytes for each admission of each client`;
      refuse(`policies.${index}.maxClients`, String(maxClients), expected, `policies.${index}.limit`);
    }
  }
  const { isTls, targets } = upstreamTargets(upstream);
  if (!isTls) {
    for (const key of ["ca", "serverName", "cert", "key"] as const) {
      const value = upstream.tls[key];
      if (value === null) continue;
      refuse(`upstream.tls.${key}`, showFound(value), "none, since upstream.url is not https");
    }
    if (upstream.tls.insecureSkipVerify) {
      refuse("upstream.tls.insecureSkipVerify", "true", "false, since upstream.url is not https");
    }
  } else if ((upstream.tls.cert === null) !== (upstream.tls.key === null)) {
    const [missing, given] = upstream.tls.cert === null ? ["cert", "key"] : ["key", "cert"];
    const expected = `the path of a file, since upstream.tls.${given} has one`;
    refuse(`upstream.tls.${missing}`, "nothing", expected, `upstream.tls.${given}`);
  }
  for (const [name, listener] of [["listen", listen] as const, ["admin", admin] as const]) {
    for (const [index, target] of targets.entries()) {
      // Every request would come back as a new one, until the quota is spent.
      if (!isLoopback(target.host) || !collide(listener, target)) continue;
      const written = upstream.addresses[index];
      const key = written === undefined ? "upstream.url" : `upstream.addresses.${index}`;
      const expected = `another address than the gateway's own (${name})`;
      refuse(key, showFound(written ?? upstream.url), expected, "upstream.url", `${name}.port`, `${name}.host`);
    }
  }
  return errors;
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
