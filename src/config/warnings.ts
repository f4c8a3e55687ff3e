// Finds settings that are valid and probably not what is meant: requests that nothing limits, keys that a client can invent,
// limits that refuse nobody. `headgate check` prints these warnings, the start logs them, and `check --diff` and a reload show
// those that are new.

import type { HostPort } from "../core/host-port.ts";
import { parseIpAddress } from "../core/ip-address.ts";
import type { KeyPart, Policy, Rate } from "../core/policy.ts";
import { needsIdentity } from "../core/policy.ts";
import type { Settings } from "../core/settings.ts";
import { leasedAheadFrom, type StoreConnectionSettings } from "../core/store-link.ts";
import { isLoopback, privateNetworks, wideShare } from "./addresses.ts";
import { formatDuration } from "./leaves.ts";
import { coversMethods, coversPath, regionOf } from "./policies.ts";
import { enumerate } from "./written.ts";

export interface WarnedSettings extends Pick<Settings, "policies" | "enforcement" | "routes" | "clientAddress"> {
  readonly auth: Pick<Settings["auth"], "mode">;
  /** `leave`: the gateway does not handle paths outside of all routes. */
  readonly unmatched: Settings["unmatched"] | "leave";
  /** Null: the app listens. */
  readonly listen: Pick<Settings["listen"], "host" | "port" | "proxyProtocol"> | null;
  /** Null: there are no ext-auth listeners. */
  readonly extAuth:
    | ({ readonly [port in "http" | "grpc"]: object | null } & Pick<Settings["extAuth"], "trustedCallers">)
    | null;
  /** Null: counters are in the memory of the process alone, whatever the settings are. */
  readonly counters: Pick<Settings["counters"], "snapshot" | "redis"> | null;
  /** Null: the app answers all requests itself. */
  readonly upstream: { readonly tls: Pick<Settings["upstream"]["tls"], "insecureSkipVerify"> } | null;
}

export function configurationWarnings(settings: WarnedSettings): readonly string[] {
  return [
    ...trustWarnings(settings),
    ...policyWarnings(settings),
    ...anonymousWarnings(settings),
    ...storeWarnings(settings),
    ...(settings.upstream?.tls.insecureSkipVerify === true
      ? ["upstream.tls.insecureSkipVerify is true: anyone on the network path can impersonate the upstream"]
      : []),
  ];
}

/** Returns the warnings about `settings` that there were not about `before`. */
export function addedWarnings(before: WarnedSettings | null, settings: WarnedSettings): readonly string[] {
  const known = new Set(before === null ? [] : configurationWarnings(before));
  return configurationWarnings(settings).filter((warning) => !known.has(warning));
}

/** Providers give each household or server at least a network of this size (RFC 6177). */
const widestPrefix = 64;

function trustWarnings({ clientAddress, listen, extAuth }: WarnedSettings): readonly string[] {
  const proxies = wideShare(clientAddress.trustedProxies);
  const callers = extAuth?.http || extAuth?.grpc ? wideShare(extAuth.trustedCallers) : null;
  const found: string[] = [];
  if (proxies !== null) {
    const what = "clients there can choose who is charged; list only the addresses of your proxies";
    found.push(`clientAddress.trustedProxies contains ${proxies}: ${what}`);
  }
  if (callers !== null) {
    const what = "anyone there can spend the quota of any client; list only the addresses of your ingresses";
    found.push(`extAuth.trustedCallers contains ${callers}: ${what}`);
  }
  if (clientAddress.ipv6Prefix > widestPrefix) {
    const what = `a client has a whole /${widestPrefix} as a rule, so it can take a new quota for each address in it`;
    found.push(`clientAddress.ipv6Prefix is ${clientAddress.ipv6Prefix}: ${what}; set it to ${widestPrefix} or less`);
  }
  if (clientAddress.header === "forwarded" && clientAddress.trustedProxies.length === 0) {
    const what = "no header is read, because nobody is trusted to write it; list your proxies in trustedProxies";
    found.push(`clientAddress.header is forwarded: ${what}`);
  }
  if (listen?.proxyProtocol && !isPrivate(listen.host)) {
    const what = "can choose who is charged; let only the load balancer reach it, or listen on a private address";
    found.push(`listen.proxyProtocol is true: whoever reaches port ${listen.port} of ${listen.host} ${what}`);
  }
  return found;
}

function isPrivate(host: string): boolean {
  const address = parseIpAddress(host);
  return isLoopback(host) || (address !== undefined && privateNetworks.has(address));
}

type RatedSettings = Omit<WarnedSettings, "policies"> & { readonly policies: readonly RatedPolicy[] };

export function policyWarnings(warned: WarnedSettings): readonly string[] {
  const settings = { ...warned, policies: warned.policies.map(rated) };
  const unlimited =
    settings.enforcement === "on"
      ? [
          ...highLimitWarnings(settings),
          ...coverageWarnings(settings),
          ...guessWarnings(settings),
          ...inventedKeyWarnings(settings),
          ...inventedGuessWarnings(settings),
          ...sharedCounterWarnings(settings),
          ...idleOverrideWarnings(settings.policies.filter(isInForce), settings.routes),
          ...restartWarnings(settings),
        ]
      : ["enforcement is shadow: no policy refuses a request"];
  return [...exemptWarnings(settings), ...unlimited, ...openPathWarnings(settings), ...extAuthWarnings(settings)];
}

/** With `auth.mode: off` there is no warning, because nobody then expects a token check anywhere. */
function openPathWarnings({ unmatched, auth }: RatedSettings): string[] {
  if (unmatched !== "proxy" || auth.mode === "off") return [];
  return [
    "unmatched is proxy: paths under no route are forwarded without a token and without a limit; " +
      "add paths that need either of them to routes",
  ];
}

function exemptWarnings({ policies }: RatedSettings): string[] {
  return policies.flatMap(({ name, exemptShare: share }) =>
    share === null ? [] : [`policy ${name}: exempt contains ${share}: clients there are not limited by it`],
  );
}

function highLimitWarnings({ policies }: RatedSettings): string[] {
  return policies
    .filter((policy) => policy.mode === "enforce" && !canRefuse(policy))
    .map((policy) => {
      const unit = policy.rate.kind === "concurrency" ? "at once" : "a second";
      const rate = rateInWords(policy);
      return `policy ${policy.name}: ${rate} is more than ${mostPerSecond} ${unit}, which limits nobody; lower the limit`;
    });
}

/** Whether the policy refuses requests at some rate, whatever their responses are. */
function limits(policy: RatedPolicy): boolean {
  return isInForce(policy) && policy.chargeStatuses === null;
}

function isInForce(policy: RatedPolicy): boolean {
  return policy.mode === "enforce" && policy.exemptShare === null && canRefuse(policy);
}

/** A route is covered by policies that are about all of its paths: what narrower ones leave over is not computed. */
function coverageWarnings({ policies, routes }: RatedSettings): string[] {
  const limiting = policies.filter(limits);
  const bare: string[] = [];
  const byMethods = new Map<string, string[]>();
  for (const route of routes) {
    const covering = limiting.filter(({ match }) => coversPath(match.paths, route));
    if (covering.some(({ match }) => match.methods.length === 0)) continue;
    const methods = enumerate([...new Set(covering.flatMap(({ match }) => match.methods))].toSorted(), "and");
    if (methods === "") bare.push(route);
    else byMethods.set(methods, [...(byMethods.get(methods) ?? []), route]);
  }
  const reason = "no enforcing policy without charge is about";
  return [
    ...(bare.length === 0
      ? []
      : [`not all requests under ${enumerate(bare, "and")} are limited: ${reason} all of them`]),
    ...[...byMethods].map(([methods, under]) => {
      const others = `requests under ${enumerate(under, "and")} with other methods than ${methods}`;
      return `${others} are not limited: ${reason} them`;
    }),
  ];
}

/** Refused tokens spend nothing of policies that are asked after the token check. */
function guessWarnings({ policies, routes, auth }: RatedSettings): string[] {
  if (auth.mode !== "tokens") return [];
  const coversAll = (policy: RatedPolicy, route: string): boolean =>
    coversPath(policy.match.paths, route) && policy.match.methods.length === 0;
  const stopsGuesses = (policy: RatedPolicy): boolean =>
    isInForce(policy) && !needsIdentity(policy, true) && policy.chargeStatuses?.includes(401) !== false;
  // Of routes that nothing covers, there is a warning already.
  const open = routes
    .filter((route) => policies.some((policy) => limits(policy) && coversAll(policy, route)))
    .filter((route) => !policies.some((policy) => stopsGuesses(policy) && coversAll(policy, route)));
  if (open.length === 0) return [];
  const requests = `requests under ${enumerate(open, "and")} with a refused token are not limited`;
  return [`${requests}: all policies about them need a verified one, so add one by client`];
}

function inventedKeyWarnings({ policies, routes, auth }: RatedSettings): string[] {
  const byClient = policies.filter((policy) => limits(policy) && policy.key.every(isBounded));
  return policies.flatMap((policy) => {
    const invented = policy.mode === "enforce" ? policy.key.filter((part) => canBeInvented(part, auth.mode)) : [];
    if (invented.length === 0) return [];
    const beside = byClient.filter(({ rate }) => rate.kind !== "concurrency" || policy.rate.kind === "concurrency");
    const region = regionOf(policy.match, routes);
    const covers = (other: RatedPolicy, path: string): boolean =>
      coversPath(other.match.paths, path) && coversMethods(other.match, policy.match);
    const open = region.filter((path) => !beside.some((other) => covers(other, path) && isComparable(other, policy)));
    if (open.length === 0) return [];
    const problem = `a client that invents values of its key (${enumerate(invented.map(nameOf), "and")}) is not limited`;
    const tooHigh = beside.find((other) => open.every((path) => covers(other, path)));
    const remedy =
      tooHigh === undefined
        ? "add an enforcing policy by client over the same requests"
        : `lower the limit of policy ${tooHigh.name}, which admits ${rateInWords(tooHigh)}, ` +
          `over ${mostTimes} times as much as one key may get in that time`;
    return [`policy ${policy.name}: ${problem}; ${remedy}`];
  });
}

/** A policy that counts failed attempts must stop a client that changes the guess with each attempt. */
function inventedGuessWarnings({ policies, auth }: RatedSettings): string[] {
  return policies.flatMap(({ name, mode, key, chargeStatuses }) => {
    const invented = key.filter((part) => canBeInvented(part, auth.mode));
    const isAboutGuesses = chargeStatuses?.some((status) => status === 401 || status === 403) ?? false;
    if (mode !== "enforce" || !isAboutGuesses || invented.length === 0) return [];
    const parts = enumerate(invented.map(nameOf), "and");
    return [`policy ${name}: each guess with another ${parts} has a counter of its own; use key: [client]`];
  });
}

/** One counter for all clients, which one of them can use up. */
function sharedCounterWarnings({ policies, routes, auth }: RatedSettings): string[] {
  const isOfOne = (part: KeyPart): boolean => !isShared(part) && !canBeInvented(part, auth.mode);
  const own = policies.filter((policy) => limits(policy) && policy.key.some(isOfOne));
  return policies
    .filter((policy) => limits(policy) && policy.key.every(isShared))
    .filter(({ match }) =>
      regionOf(match, routes).some(
        (path) => !own.some((other) => coversPath(other.match.paths, path) && coversMethods(other.match, match)),
      ),
    )
    .map(({ name }) => {
      const remedy = "add an enforcing policy by client over the same requests, with a lower limit";
      return `policy ${name}: one client can use up its limit for all; ${remedy}`;
    });
}

function isShared({ kind }: KeyPart): boolean {
  return kind === "method" || kind === "route";
}

/** Whether one client has few values of the part: all unusual methods are one. */
function isBounded({ kind }: KeyPart): boolean {
  return kind === "client" || kind === "route" || kind === "method";
}

function canBeInvented({ kind }: KeyPart, mode: WarnedSettings["auth"]["mode"]): boolean {
  return kind === "header" || (kind === "token" && (mode === "presence" || mode === "off"));
}

function nameOf(part: KeyPart): string {
  return "name" in part ? `${part.kind}:${part.name}` : part.kind;
}

/** A shorter window ends soon anyway, so a restart gives back little. */
const longWindowMs = 3_600_000;

function restartWarnings({ policies, counters }: RatedSettings): string[] {
  if (counters !== null && (counters.snapshot !== null || counters.redis !== null)) return [];
  const remedy = counters === null ? "" : "; set counters.snapshot.path, or counters.store to redis";
  return policies
    .filter(({ mode, windowMs }) => mode === "enforce" && (windowMs ?? 0) >= longWindowMs)
    .map((policy) => {
      const spent = `what clients have spent of its ${rateInWords(policy)}`;
      return `policy ${policy.name}: a restart gives back ${spent}${remedy}`;
    });
}

function extAuthWarnings({ policies, extAuth }: RatedSettings): string[] {
  const ports = (["http", "grpc"] as const).filter((port) => extAuth?.[port]).map((port) => `extAuth.${port}`);
  if (ports.length === 0) return [];
  return policies.flatMap(({ name, rate, chargeStatuses }) => {
    const isHeld = rate.kind === "concurrency";
    if (!isHeld && chargeStatuses === null) return [];
    const reason = isHeld ? "when a request ends" : "the status of the response";
    const what = isHeld ? "concurrency" : "charge";
    return [`policy ${name} is not asked on ${enumerate(ports, "and")}: an ingress does not tell ${reason} (${what})`];
  });
}

export function anonymousWarnings({ policies, auth }: WarnedSettings): string[] {
  // In mode `tokens`, these policies are asked after the token check, which refuses requests without a token.
  if (auth.mode !== "off" && auth.mode !== "presence") return [];
  const quotas = policies.filter(({ mode, rate }) => mode === "enforce" && rate.kind !== "concurrency");
  const byToken = quotas.filter(({ key }) => key.some(({ kind }) => kind === "token"));
  return byToken.map(
    (policy) =>
      `policy ${policy.name}: requests without a token are counted too: ` +
      `each address that sends none has ${rateInWords(rated(policy))}`,
  );
}

/** `policies`: those that are in force. */
export function idleOverrideWarnings(policies: readonly RatedPolicy[], routes: readonly string[]): string[] {
  return policies.flatMap((policy) => {
    const others = policies.filter((other) => other !== policy && countsAll(other, policy, routes));
    return policy.overrides.flatMap(({ limit }, i) => {
      // Between the two limits, the override is what makes the other policy decide.
      const least = requestsOf(policy, Math.min(limit, policy.limit));
      const lower = others.find((other) => other.mostRequests <= least);
      if (lower === undefined) return [];
      const reason = `policy ${lower.name} admits only ${rateInWords(lower)} of the same requests`;
      return [`policy ${policy.name}: overrides.${i} has no effect: ${reason}; remove the override, or that policy`];
    });
  });
}

function countsAll(outer: RatedPolicy, inner: RatedPolicy, routes: readonly string[]): boolean {
  const isPlain = outer.chargeStatuses === null && outer.exempt.length === 0 && outer.overrides.length === 0;
  const parts = new Set(inner.key.map((part) => JSON.stringify(part)));
  return (
    isPlain &&
    isAsLong(outer.rate, inner.rate) &&
    outer.key.every((part) => parts.has(JSON.stringify(part))) &&
    coversMethods(outer.match, inner.match) &&
    regionOf(inner.match, routes).every((path) => coversPath(outer.match.paths, path))
  );
}

function isAsLong(outer: Policy["rate"], inner: Policy["rate"]): boolean {
  if (outer.kind === "sliding" && inner.kind === "sliding") return outer.windowMs >= inner.windowMs;
  return JSON.stringify(outer) === JSON.stringify(inner);
}

/** Beyond it, a limit protects nothing: one gateway serves hardly more, and no upstream needs that much of one client. */
export const mostPerSecond = 10_000;

/** A policy by client bounds invented keys if a client gets at most so many times what a key may get. */
export const mostTimes = 100;

/** A policy with values that are computed once, because lists of networks can be long. */
export interface RatedPolicy extends Policy {
  /** Null for a concurrency, which has no window. */
  readonly windowMs: number | null;
  /** The most that a key may get in a window. An override for a part of the internet speaks for everybody. */
  readonly mostRequests: number;
  /** How much of the internet is exempt, in words; null: a 64th at most. */
  readonly exemptShare: string | null;
}

export function rated(policy: Policy): RatedPolicy {
  const wide = policy.overrides.filter(({ part, value }) => part === "client" && wideShare([value]) !== null);
  return {
    ...policy,
    windowMs: windowMsOf(policy.rate),
    mostRequests: requestsOf(policy, Math.max(policy.limit, ...wide.map(({ limit }) => limit))),
    exemptShare: wideShare(policy.exempt),
  };
}

const dayMs = 86_400_000;

/** A month is as short as it can be. */
const periodMs = { minute: 60_000, hour: 3_600_000, day: dayMs, month: 28 * dayMs } as const;

function windowMsOf(rate: Rate): number | null {
  switch (rate.kind) {
    case "sliding":
      return rate.windowMs;
    case "calendar":
      return periodMs[rate.per];
    case "concurrency":
      return null;
  }
}

/** How many requests fit into the limit. */
export function requestsOf({ cost }: Policy, limit: number): number {
  return Math.floor(limit / cost);
}

/** Such as "100 requests in 1m", for messages. */
export function rateInWords({ rate, mostRequests }: RatedPolicy): string {
  const requests = `${mostRequests} request${mostRequests === 1 ? "" : "s"}`;
  switch (rate.kind) {
    case "sliding":
      return `${requests} in ${formatDuration(rate.windowMs)}`;
    case "calendar":
      return `${requests} per ${rate.per}`;
    case "concurrency":
      return `${requests} at once`;
  }
}

/** Returns whether clients ever send more than the limit. */
export function canRefuse({ windowMs, mostRequests }: RatedPolicy): boolean {
  return mostRequests <= mostPerSecond * (windowMs === null ? 1 : windowMs / 1000);
}

/** Returns whether a key of `outer` gets, in a window of `outer`, at most `mostTimes` what a key of `inner` gets in it. */
export function isComparable(outer: RatedPolicy, inner: RatedPolicy): boolean {
  // A concurrency has no number of requests in a time to compare with.
  if (outer.windowMs !== null && inner.windowMs === null) return true;
  const isTimed = outer.windowMs !== null && inner.windowMs !== null;
  const windows = isTimed ? Math.max(1, Math.ceil(outer.windowMs / inner.windowMs)) : 1;
  return outer.mostRequests <= mostTimes * requestsOf(inner, inner.limit) * windows;
}

function storeWarnings({ counters, policies }: WarnedSettings): readonly string[] {
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
