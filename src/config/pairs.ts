// Finds values that are valid by themselves and contradict each other. The error is reported at a key that was written;
// two defaults never contradict each other.
import type { HostPort } from "../core/host-port.ts";
import { upstreamTargets } from "../core/upstream.ts";
import { canonicalHost as canonical, isLoopback } from "./addresses.ts";
import type { ConfigError, IsSound } from "./config-error.ts";
import { collect, type Refuse } from "./contradictions.ts";
import { defaultSnapshotEvery } from "./counters-keys.ts";
import type { PoliciesInContext } from "./policy-context.ts";
import { judgePolicies } from "./policy-pairs.ts";
import type { Raw } from "./raw.ts";
import type { ParsedConfig } from "./schema.ts";
import { judgeStore } from "./store-pairs.ts";
import { parseDuration } from "./units.ts";

export function pairErrors(values: ParsedConfig, raw: Raw | undefined, isSound: IsSound): ConfigError[] {
  return collect(raw, isSound, (refuse) => {
    judgeConnections(values, refuse);
    judgePorts(values, refuse);
    judgeExtAuth(values, refuse);
    judgeListenTls(values, refuse);
    judgeAuth(values, refuse);
    judgePolicies(values, raw, refuse);
    judgeSnapshot(values, refuse);
    judgeStore(values, raw, refuse);
    judgeWorkers(values, refuse);
    judgeUpstreamTls(values, refuse);
    judgeUpstreamAddresses(values, refuse, isSound);
  });
}

/** What the configuration and the options of the Fastify plugin have in common. */
type SharedValues = Omit<PoliciesInContext, "basePath"> & { readonly upstream: UpstreamTlsValues };
type UpstreamTlsValues = Pick<ParsedConfig["upstream"], "url" | "tls">;

/** The same for the options of the Fastify plugin, which has no listeners of its own. */
export function pluginPairErrors(values: SharedValues, raw: Raw | undefined, isSound: IsSound): ConfigError[] {
  return collect(raw, isSound, (refuse) => {
    judgeAuth(values, refuse);
    judgePolicies({ ...values, basePath: "/" }, raw, refuse);
    judgeUpstreamTls(values, refuse);
  });
}

function judgeConnections({ listen }: ParsedConfig, refuse: Refuse): void {
  const { maxConnections, maxConnectionsPerPeer } = listen;
  if (maxConnectionsPerPeer <= maxConnections) return;
  const expected = `at most listen.maxConnections (${maxConnections}); lower it, or raise listen.maxConnections`;
  refuse("listen.maxConnectionsPerPeer", expected, "listen.maxConnections");
}

function judgePorts(values: ParsedConfig, refuse: Refuse): void {
  const open = openListeners(values);
  for (const [i, [name, one]] of open.entries()) {
    for (const [otherName, other] of open.slice(0, i)) {
      if (!collide(one, other)) continue;
      const hosts = one.host === other.host ? `both are on ${one.host}` : `${one.host} and ${other.host} overlap`;
      const expected = `a port other than ${otherName}.port, because ${hosts}`;
      refuse(`${name}.port`, expected, `${otherName}.port`, `${name}.host`, `${otherName}.host`);
    }
  }
}

function judgeExtAuth({ extAuth }: ParsedConfig, refuse: Refuse): void {
  const open = extAuth.http.enabled ? "http" : extAuth.grpc.enabled ? "grpc" : null;
  if (open === null || extAuth.trustedCallers.length > 0 || extAuth.secretsFile !== null) return;
  const enabled = `extAuth.${open}.enabled`;
  const expected = `the addresses of the ingresses (or extAuth.secretsFile), since ${enabled} is true`;
  refuse("extAuth.trustedCallers", expected, enabled, "extAuth.secretsFile");
}

function judgeListenTls({ listen }: ParsedConfig, refuse: Refuse): void {
  const { cert, key, clientCa } = listen.tls;
  if (cert === null && (key !== null || clientCa !== null)) {
    const other = key !== null ? "listen.tls.key" : "listen.tls.clientCa";
    refuse(
      "listen.tls.cert",
      `the path of a file, since ${other} is set; name the certificate, or remove ${other}`,
      other,
    );
  }
  if (key === null && cert !== null) {
    const expected =
      "the path of a file, since listen.tls.cert is set; name its private key, or remove listen.tls.cert";
    refuse("listen.tls.key", expected, "listen.tls.cert");
  }
}

function judgeAuth({ auth: { mode, tokensFile } }: SharedValues, refuse: Refuse): void {
  if (mode === "tokens" && tokensFile === null) {
    const expected = "the path of a file, since auth.mode is tokens; name the file, or change auth.mode";
    refuse("auth.tokensFile", expected, "auth.mode");
  }
  if (mode !== "tokens" && tokensFile !== null) {
    const expected = `none, since auth.mode is ${mode}; remove it, or set auth.mode to tokens`;
    refuse("auth.tokensFile", expected, "auth.mode");
  }
}

/** An interval without a path is a mistake. The default interval cannot be told from none. */
function judgeSnapshot({ counters: { snapshot } }: ParsedConfig, refuse: Refuse): void {
  if (snapshot.path !== null || snapshot.everyMs === parseDuration(defaultSnapshotEvery)) return;
  const every = "counters.snapshot.every";
  refuse("counters.snapshot.path", `the path of a file, since ${every} is set; name one, or remove ${every}`, every);
}

/** What protects the upstream is divided among the workers. */
function judgeWorkers({ workers, upstream, upgrade }: ParsedConfig, refuse: Refuse): void {
  if (workers === "auto") return;
  const bounds = { "upstream.maxConnections": upstream.maxConnections, "upgrade.maxTunnels": upgrade.maxTunnels };
  for (const [key, most] of Object.entries(bounds)) {
    if (workers > most) refuse("workers", `at most ${key} (${most}); lower it, or raise ${key}`, key);
  }
}

function judgeUpstreamTls({ upstream: { url, tls } }: SharedValues, refuse: Refuse): void {
  if (!upstreamTargets({ url, addresses: [] }).isTls) {
    const reason = "since upstream.url is not https; remove it, or begin upstream.url with https://";
    for (const key of ["ca", "serverName", "cert", "key"] as const) {
      if (tls[key] !== null) refuse(`upstream.tls.${key}`, `none, ${reason}`, "upstream.url");
    }
    if (tls.insecureSkipVerify) refuse("upstream.tls.insecureSkipVerify", `false, ${reason}`, "upstream.url");
    return;
  }
  for (const [missing, given] of [["cert", "key"] as const, ["key", "cert"] as const]) {
    if (tls[missing] !== null || tls[given] === null) continue;
    const expected = `the path of a file, since upstream.tls.${given} has one; name it, or remove upstream.tls.${given}`;
    refuse(`upstream.tls.${missing}`, expected, `upstream.tls.${given}`);
  }
}

/** A gateway that is its own upstream would receive each request again, until the quota is spent. */
function judgeUpstreamAddresses(values: ParsedConfig, refuse: Refuse, isSound: IsSound): void {
  const { url, addresses } = values.upstream;
  const places =
    addresses.length === 0
      ? [{ key: "upstream.url", addresses }]
      : addresses.map((address, index) => ({ key: `upstream.addresses.${index}`, addresses: [address] }));
  for (const [name, listener] of openListeners(values)) {
    for (const { key, addresses } of places.filter(({ key }) => isSound(key))) {
      const [target] = upstreamTargets({ url, addresses }).targets;
      if (target === undefined || !isLoopback(target.host) || !collide(listener, target)) continue;
      const expected = `another address than the gateway's own (${name}); name the API behind it, or change ${name}.port`;
      refuse(key, expected, "upstream.url", `${name}.port`, `${name}.host`, "upstream.addresses");
    }
  }
}

function openListeners({ listen, admin, extAuth }: ParsedConfig): [name: string, HostPort][] {
  return [
    ["listen", listen],
    ["admin", admin],
    ...(extAuth.http.enabled ? [["extAuth.http", extAuth.http] as [string, HostPort]] : []),
    ...(extAuth.grpc.enabled ? [["extAuth.grpc", extAuth.grpc] as [string, HostPort]] : []),
  ];
}

/** Whether the two listeners cannot be opened both. Port 0 picks a free port each time. */
function collide(a: HostPort, b: HostPort): boolean {
  return a.port !== 0 && a.port === b.port && addressesOverlap(a.host, b.host);
}

function addressesOverlap(a: string, b: string): boolean {
  const hosts = [a, b];
  if (canonical(a) === canonical(b)) return true;
  if (hosts.some((host) => canonical(host) === "localhost"))
    return hosts.every((host) => isLoopback(host) || isAny(host));
  // "::" accepts IPv4 as well, "0.0.0.0" accepts IPv4 only.
  return (
    hosts.map(canonical).includes(canonical("::")) || (hosts.some(isAny) && !hosts.some((host) => host.includes(":")))
  );
}

const isAny = (host: string): boolean => ["::", "0.0.0.0"].map(canonical).includes(canonical(host));
