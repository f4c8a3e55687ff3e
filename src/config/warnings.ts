// Finds settings that are valid and probably not what is meant: requests that nothing limits, keys that a client can invent,
// limits that refuse nobody. `headgate check` prints these warnings, the start logs them, and `check --diff` and a reload show
// those that are new.
import { type AuthMode, verifiesTokens } from "../core/authentication.ts";
import { ownNetworks } from "../core/client-address.ts";
import { enumerate } from "../core/enumerate.ts";
import { cidrOf, parseIpAddress } from "../core/ip-address.ts";
import { NetworkSet } from "../core/network-set.ts";
import { type KeyPart, needsIdentity, type Policy, type PolicyWho, periodLengths, saysWho } from "../core/policy.ts";
import { createPathReader } from "../core/request-path.ts";
import type { RequestSettings, Settings } from "../core/settings.ts";
import { leasedAheadFrom, type StoreConnectionSettings } from "../core/store-link.ts";
import type { UpstreamHostSettings } from "../core/upstream.ts";
import { isLoopback } from "./addresses.ts";
import { formatDuration } from "./leaves.ts";
import { coversMethods, coversPath, modesOver, regionOf } from "./policies.ts";

export interface WarnedSettings extends RequestSettings {
  readonly basePath: string;
  readonly readiness: Settings["readiness"];
  /** `leave`: the gateway does not handle paths outside of all routes. */
  readonly unmatched: Settings["unmatched"] | "leave";
  /** Null: the app listens. */
  readonly listen: Settings["listen"] | null;
  /** Null: there is no admin listener. */
  readonly admin: Settings["admin"] | null;
  /** Null: there are no ext-auth listeners. */
  readonly extAuth: Settings["extAuth"] | null;
  /** Null: counters are in the memory of the process alone, whatever the settings are. */
  readonly counters: Settings["counters"] | null;
  /** Null: the app answers all requests itself. */
  readonly upstream: UpstreamHostSettings | null;
}

type Warn = (warning: string) => void;

export function configurationWarnings(settings: WarnedSettings): readonly string[] {
  const found: string[] = [];
  const warn: Warn = (warning) => void found.push(warning);
  warnOfTrust(settings, warn);
  warnOfPolicies({ ...settings, policies: settings.policies.map(rated) }, warn);
  warnOfStore(settings, warn);
  warnOfAdmin(settings, warn);
  if (settings.cors.preflights === "answer" && settings.cors.origins.length === 0) {
    warn("cors.preflights is answer, and cors.origins is empty: no preflight is answered; list the origins");
  }
  warnOfReadiness(settings, warn);
  if (settings.upstream?.tls.insecureSkipVerify === true) {
    warn("upstream.tls.insecureSkipVerify is true: anyone on the network path can impersonate the upstream");
  }
  return found;
}

function warnOfAdmin({ admin }: WarnedSettings, warn: Warn): void {
  if (admin === null || admin.tokensFile === null || admin.tls !== null || isLoopback(admin.host)) return;
  const what = "anyone on the network path can read the tokens of the admin API; name a certificate";
  warn(`admin.tokensFile is set, and admin.host is ${admin.host} without admin.tls: ${what}, or listen on 127.0.0.1`);
}

function warnOfReadiness({ readiness: { path }, routes, basePath }: WarnedSettings, warn: Warn): void {
  const reading = path === null ? null : createPathReader(routes, basePath).read(path);
  if (reading?.kind !== "route") return;
  const what = "the gateway answers it without a token and without a limit, and forwards none of its requests";
  warn(`readiness.path ${path} is under the route ${reading.route}: ${what}`);
}

/** Returns the warnings about `settings` that there were not about `before`. */
export function addedWarnings(before: WarnedSettings | null, settings: WarnedSettings): readonly string[] {
  const known = new Set(before === null ? [] : configurationWarnings(before));
  return configurationWarnings(settings).filter((warning) => !known.has(warning));
}

/** Providers give each household or server at least a network of this size (RFC 6177). */
const widestPrefix = 64;

/** Of settings by which anyone can choose who is charged. */
function warnOfTrust({ clientAddress, listen, extAuth }: WarnedSettings, warn: Warn): void {
  const proxies = wideShare(clientAddress.trustedProxies);
  const callers = extAuth?.http || extAuth?.grpc ? wideShare(extAuth.trustedCallers) : null;
  if (proxies !== null) {
    const what = "clients there can choose who is charged; list only the addresses of your proxies";
    warn(`clientAddress.trustedProxies contains ${proxies}: ${what}`);
  }
  if (callers !== null) {
    const what = "anyone there can spend the quota of any client; list only the addresses of your ingresses";
    warn(`extAuth.trustedCallers contains ${callers}: ${what}`);
  }
  if (clientAddress.ipv6Prefix > widestPrefix) {
    const what = `a client has a whole /${widestPrefix} as a rule, so it can take a new quota for each address in it`;
    warn(`clientAddress.ipv6Prefix is ${clientAddress.ipv6Prefix}: ${what}; set it to ${widestPrefix} or less`);
  }
  if (clientAddress.header === "forwarded" && clientAddress.trustedProxies.length === 0) {
    const what = "no header is read, because nobody is trusted to write it; list your proxies in trustedProxies";
    warn(`clientAddress.header is forwarded: ${what}`);
  }
  if (listen?.proxyProtocol && !isPrivate(listen.host)) {
    const what = "can choose who is charged; let only the load balancer reach it, or listen on a private address";
    warn(`listen.proxyProtocol is true: whoever reaches port ${listen.port} of ${listen.host} ${what}`);
  }
}

function isPrivate(host: string): boolean {
  const address = parseIpAddress(host);
  return isLoopback(host) || (address !== undefined && ownNetworks.has(address));
}

interface RatedSettings extends WarnedSettings {
  readonly policies: readonly RatedPolicy[];
}

/** Four networks of /8: more than all private IPv4 networks together. */
const mostShare = 1 / 64;

const regions = [
  { name: "IPv4", region: cidrOf("0.0.0.0/0") },
  // All that is assigned for use on the internet (RFC 4291, 2.4; IANA).
  { name: "global IPv6", region: cidrOf("2000::/3") },
];

/** Says how much of the internet is in the networks; null if it is not more than a 64th. */
function wideShare(networks: readonly string[]): string | null {
  const set = new NetworkSet(networks.map(cidrOf));
  for (const { name, region } of regions) {
    const share = set.shareOf(region);
    if (share === 1) return `every ${name} address`;
    if (share > mostShare) return `${Math.floor(100 * share)} % of all ${name} addresses`;
  }
  return null;
}

function warnOfPolicies(settings: RatedSettings, warn: Warn): void {
  const { policies, enforcement, unmatched, auth } = settings;
  for (const { name, exemptShare } of policies) {
    if (exemptShare === null) continue;
    warn(`policy ${name}: exempt contains ${exemptShare}: clients there are not limited by it`);
  }
  if (enforcement === "on") warnOfEnforced(settings, warn);
  else warn("enforcement is shadow: no policy refuses a request");
  // Where no token is asked for, nobody expects a token check anywhere.
  if (unmatched === "proxy" && [auth, ...auth.rules].some(({ mode }) => mode !== "off")) {
    warn(
      "unmatched is proxy: paths under no route are forwarded without a token and without a limit; " +
        "add paths that need either of them to routes",
    );
  }
  warnOfExtAuth(settings, warn);
  warnOfAnonymous(settings, warn);
}

function warnOfEnforced(settings: RatedSettings, warn: Warn): void {
  warnOfHighLimits(settings, warn);
  warnOfUncovered(settings, warn);
  warnOfGuesses(settings, warn);
  warnOfInventedKeys(settings, warn);
  warnOfInventedGuesses(settings, warn);
  warnOfSharedCounters(settings, warn);
  warnOfIdleOverrides(settings, warn);
  warnOfRestarts(settings, warn);
}

function warnOfHighLimits({ policies }: RatedSettings, warn: Warn): void {
  for (const policy of policies) {
    if (policy.mode !== "enforce" || canRefuse(policy)) continue;
    const most = `${mostPerSecond} ${policy.rate.kind === "concurrency" ? "at once" : "a second"}`;
    warn(`policy ${policy.name}: ${rateInWords(policy)} is more than ${most}, which limits nobody; lower the limit`);
  }
}

/** Whether the policy refuses requests at some rate, whatever their responses are. */
function limits(policy: RatedPolicy): boolean {
  return isInForce(policy) && policy.chargeStatuses === null;
}

function isInForce(policy: RatedPolicy): boolean {
  return policy.mode === "enforce" && policy.exemptShare === null && canRefuse(policy);
}

/** A route is covered by policies that are about all of its paths: what narrower ones leave over is not computed. */
function warnOfUncovered(settings: RatedSettings, warn: Warn): void {
  const { policies, routes } = settings;
  const bare: string[] = [];
  const byMethods = new Map<string, string[]>();
  for (const route of routes) {
    const covering = policies.filter((policy) => limits(policy) && coversPath(policy.match.paths, route));
    const whole = covering.filter(({ match }) => match.methods.length === 0);
    if (sidesOf(modesOver(settings, { paths: [route], methods: [] })).every((side) => isFor(whole, side))) continue;
    const methods = enumerate([...new Set(covering.flatMap(({ match }) => match.methods))].toSorted(), "and");
    if (methods === "") bare.push(route);
    else byMethods.set(methods, [...(byMethods.get(methods) ?? []), route]);
  }
  const reason = "no enforcing policy without charge is about";
  if (bare.length > 0) warn(`not all requests under ${enumerate(bare, "and")} are limited: ${reason} all of them`);
  const mayAnswer = settings.cors.origins.length > 0 && settings.cors.preflights === "forward";
  for (const [methods, under] of byMethods) {
    const others = `requests under ${enumerate(under, "and")} with other methods than ${methods}`;
    const remedy = mayAnswer && !methods.includes("OPTIONS") ? "; for preflights set cors.preflights to answer" : "";
    warn(`${others} are not limited: ${reason} them${remedy}`);
  }
}

/** Those of a policy without `who`. */
const bothSides = ["verified", "others"] as const;

/** What is asked of the requests says whether they are verified. Of refused ones, there is a warning of its own. */
function sidesOf(modes: ReadonlySet<AuthMode>): readonly PolicyWho[] {
  return bothSides.filter((side) => [...modes].some((mode) => (mode === "tokens") === (side === "verified")));
}

function isFor(policies: readonly RatedPolicy[], side: PolicyWho): boolean {
  return policies.some(({ who }) => who === null || who === side);
}

/** Refused tokens spend nothing of policies that are asked after the token check. */
function warnOfGuesses(settings: RatedSettings, warn: Warn): void {
  const { policies, routes } = settings;
  const stopsGuesses = (policy: RatedPolicy): boolean =>
    isInForce(policy) && !needsIdentity(policy, true) && policy.chargeStatuses?.includes(401) !== false;
  const open = routes.filter((route) => {
    if (!modesOver(settings, { paths: [route], methods: [] }).has("tokens")) return false;
    const all = policies.filter(({ match }) => coversPath(match.paths, route) && match.methods.length === 0);
    // Of routes that nothing covers, there is a warning already.
    return isFor(all.filter(limits), "verified") && !all.some(stopsGuesses);
  });
  if (open.length === 0) return;
  const requests = `requests under ${enumerate(open, "and")} with a refused token are not limited`;
  warn(`${requests}: all policies about them need a verified one, so add one by client`);
}

function warnOfInventedKeys(settings: RatedSettings, warn: Warn): void {
  const { policies, routes } = settings;
  const byClient = policies.filter((policy) => limits(policy) && policy.key.every(isBounded));
  for (const policy of policies) {
    const invented = inventedParts(policy, settings);
    if (policy.mode !== "enforce" || invented === "") continue;
    const beside = byClient.filter(({ rate }) => rate.kind !== "concurrency" || policy.rate.kind === "concurrency");
    // Only those without a verified token can invent one.
    const sides = policy.who !== null ? [policy.who] : invented === "token" ? (["others"] as const) : bothSides;
    const open = regionOf(policy.match, routes).filter((path) => {
      const near = beside.filter((other) => covers(other, policy, path) && isComparable(other, policy));
      return !sides.every((side) => isFor(near, side));
    });
    if (open.length === 0) continue;
    const problem = `a client that invents values of its key (${invented}) is not limited`;
    const tooHigh = beside.find(
      (other) => sides.every((side) => isFor([other], side)) && open.every((path) => covers(other, policy, path)),
    );
    const remedy =
      tooHigh === undefined
        ? "add an enforcing policy by client over the same requests"
        : `lower the limit of policy ${tooHigh.name}, which admits ${rateInWords(tooHigh)}, ` +
          `over ${mostTimes} times as much as one key may get in that time`;
    warn(`policy ${policy.name}: ${problem}; ${remedy}`);
  }
}

/** Whether `outer` is about all requests of `inner` to the path. */
function covers(outer: RatedPolicy, inner: RatedPolicy, path: string): boolean {
  return coversPath(outer.match.paths, path) && coversMethods(outer.match, inner.match);
}

/** A policy that counts failed attempts must stop a client that changes the guess with each attempt. */
function warnOfInventedGuesses(settings: RatedSettings, warn: Warn): void {
  for (const policy of settings.policies) {
    const invented = inventedParts(policy, settings);
    const isAboutGuesses = policy.chargeStatuses?.some((status) => status === 401 || status === 403) ?? false;
    if (policy.mode !== "enforce" || !isAboutGuesses || invented === "") continue;
    warn(`policy ${policy.name}: each guess with another ${invented} has a counter of its own; use key: [client]`);
  }
}

/** One counter for all clients, which one of them can use up. */
function warnOfSharedCounters(settings: RatedSettings, warn: Warn): void {
  const { policies, routes } = settings;
  const own = policies.filter((policy) => {
    const modes = modesOf(policy, settings);
    return limits(policy) && policy.key.some((part) => saysWho(part.kind) && !canBeInvented(part, modes));
  });
  for (const policy of policies) {
    if (!limits(policy) || policy.key.some((part) => saysWho(part.kind))) continue;
    const sides = policy.who === null ? bothSides : [policy.who];
    const isShielded = (path: string): boolean => {
      const covering = own.filter((other) => covers(other, policy, path));
      return sides.every((side) => isFor(covering, side));
    };
    if (regionOf(policy.match, routes).every(isShielded)) continue;
    const remedy = "add an enforcing policy by client over the same requests, with a lower limit";
    warn(`policy ${policy.name}: one client can use up its limit for all; ${remedy}`);
  }
}

/** Whether one client has few values of the part: all unusual methods are one. */
function isBounded(part: KeyPart): boolean {
  return part.kind === "client" || !saysWho(part.kind);
}

/** What is asked of the requests of a policy, as far as it decides who sends them. */
function modesOf({ who, match }: Policy, settings: RequestSettings): ReadonlySet<AuthMode> {
  if (who === null) return modesOver(settings, match);
  return new Set([who === "verified" ? "tokens" : "presence"]);
}

/** `modes`: those of the requests. */
function canBeInvented({ kind }: KeyPart, modes: ReadonlySet<AuthMode>): boolean {
  return kind === "header" || (kind === "token" && (modes.has("presence") || modes.has("off")));
}

/** The parts of its key that a client can invent, in words. */
function inventedParts(policy: Policy, settings: RequestSettings): string {
  const modes = modesOf(policy, settings);
  const parts = policy.key.filter((part) => canBeInvented(part, modes));
  return enumerate(
    parts.map((part) => ("name" in part ? `${part.kind}:${part.name}` : part.kind)),
    "and",
  );
}

/**
 * Of overrides that change nothing, because another policy holds the same requests to less. Says so only where it is
 * certain: whatever one counter of the policy counts is also counted by one counter of the other, over at least as long.
 */
function warnOfIdleOverrides({ policies, routes }: RatedSettings, warn: Warn): void {
  const inForce = policies.filter(isInForce);
  for (const policy of inForce) {
    const others = inForce.filter((other) => other !== policy && countsAll(other, policy, routes));
    for (const [i, { limit }] of policy.overrides.entries()) {
      // Between the two limits, the override is what makes the other policy decide.
      const least = requestsOf(policy, Math.min(limit, policy.limit));
      const lower = others.find((other) => other.mostRequests <= least);
      if (lower === undefined) continue;
      const reason = `policy ${lower.name} admits only ${rateInWords(lower)} of the same requests`;
      warn(`policy ${policy.name}: overrides.${i} has no effect: ${reason}; remove the override, or that policy`);
    }
  }
}

function countsAll(outer: RatedPolicy, inner: RatedPolicy, routes: readonly string[]): boolean {
  const isPlain = outer.chargeStatuses === null && outer.exempt.length === 0 && outer.overrides.length === 0;
  const parts = new Set(inner.key.map((part) => JSON.stringify(part)));
  return (
    isPlain &&
    (outer.who === null || outer.who === inner.who) &&
    isAsLong(outer.rate, inner.rate) &&
    outer.key.every((part) => parts.has(JSON.stringify(part))) &&
    regionOf(inner.match, routes).every((path) => covers(outer, inner, path))
  );
}

function isAsLong(outer: Policy["rate"], inner: Policy["rate"]): boolean {
  if (outer.kind === "sliding" && inner.kind === "sliding") return outer.windowMs >= inner.windowMs;
  return JSON.stringify(outer) === JSON.stringify(inner);
}

/** A shorter window ends soon anyway, so a restart gives back little. */
const longWindowMs = 3_600_000;

function warnOfRestarts({ policies, counters }: RatedSettings, warn: Warn): void {
  if (counters !== null && (counters.snapshot !== null || counters.redis !== null)) return;
  const remedy = counters === null ? "" : "; set counters.snapshot.path, or counters.store to redis";
  for (const policy of policies) {
    if (policy.mode !== "enforce" || (policy.windowMs ?? 0) < longWindowMs) continue;
    const spent = `what clients have spent of its ${rateInWords(policy)}`;
    warn(`policy ${policy.name}: a restart gives back ${spent}${remedy}`);
  }
}

/** Of limits that an ext-auth listener cannot hold. */
function warnOfExtAuth({ policies, extAuth, cors }: RatedSettings, warn: Warn): void {
  const ports = (["http", "grpc"] as const).filter((port) => extAuth?.[port]).map((port) => `extAuth.${port}`);
  if (ports.length === 0) return;
  if (cors.preflights === "answer") {
    warn(
      `cors.preflights is answer, but on ${enumerate(ports, "and")} preflights spend quota; answer them at the ingress`,
    );
  }
  for (const { name, rate, chargeStatuses } of policies) {
    const isHeld = rate.kind === "concurrency";
    if (!isHeld && chargeStatuses === null) continue;
    const reason = isHeld ? "when a request ends (concurrency)" : "the status of the response (charge)";
    warn(`policy ${name} is not asked on ${enumerate(ports, "and")}: an ingress does not tell ${reason}`);
  }
}

/**
 * Of quotas by token that also count requests without a token. A part of a key that a request lacks is replaced by the
 * client. So each address that sends no token has a quota as large as that of a token, shared by all clients behind it.
 */
function warnOfAnonymous(settings: RatedSettings, warn: Warn): void {
  // If tokens are verified, these policies are asked after the token check, which refuses requests without a token.
  const areRefusedFirst = verifiesTokens(settings.auth);
  for (const policy of settings.policies) {
    if (policy.who === "verified") continue;
    if (areRefusedFirst && !modesOver(settings, policy.match).has("off")) continue;
    const isQuota = policy.mode === "enforce" && policy.rate.kind !== "concurrency";
    if (!isQuota || !policy.key.some(({ kind }) => kind === "token")) continue;
    warn(
      `policy ${policy.name}: requests without a token are counted too: ` +
        `each address that sends none has ${rateInWords(policy)}`,
    );
  }
}

const mostWaitMs = 100;

/** Of a shared store. */
function warnOfStore({ counters, policies }: WarnedSettings, warn: Warn): void {
  const redis = counters?.redis ?? null;
  if (redis === null) return;
  const { waitMs, onFailure } = redis.store;
  warnOfPlainStore(redis.connection, warn);
  if (onFailure === "open") warn("counters.redis.onFailure is open: while the store is away, nobody is limited");
  if (waitMs > mostWaitMs) {
    warn(`counters.redis.wait is ${waitMs}ms: while the store is slow, each request may take so much longer`);
  }
  // A unit that is asked for by itself counts for 1.5 × wait longer than the window: 5 % of a window of 30 × wait.
  for (const { name, rate, limit, chargeStatuses } of policies) {
    const isAhead = limit >= leasedAheadFrom && chargeStatuses === null;
    if (rate.kind !== "sliding" || isAhead || rate.windowMs >= 30 * waitMs) continue;
    const percent = Math.floor((100 * 1.5 * waitMs) / (rate.windowMs + 1.5 * waitMs));
    warn(
      `policy ${name}: its window of ${rate.windowMs}ms is short beside counters.redis.wait (${waitMs}ms): ` +
        `up to ${percent} % less than the limit is admitted`,
    );
  }
}

function warnOfPlainStore({ servers, tls }: StoreConnectionSettings, warn: Warn): void {
  const addresses = servers.kind === "one" ? [servers.address] : servers.addresses;
  const remote = addresses.map(({ host }) => host).filter((host) => !isLoopback(host));
  if (tls !== null || remote.length === 0) return;
  const hosts = enumerate([...new Set(remote)], "and");
  warn(`counters.redis has no TLS to ${hosts}: passwords and clients' addresses are sent in plain text`);
}

/** Beyond it, a limit protects nothing: one gateway serves hardly more, and no upstream needs that much of one client. */
const mostPerSecond = 10_000;

/** A policy by client bounds invented keys if a client gets at most so many times what a key may get. */
const mostTimes = 100;

/** A policy with values that are computed once, because lists of networks can be long. */
interface RatedPolicy extends Policy {
  /** Null for a concurrency, which has no window. */
  readonly windowMs: number | null;
  /** The most that a key may get in a window. An override for a part of the internet speaks for everybody. */
  readonly mostRequests: number;
  /** How much of the internet is exempt, in words; null: a 64th at most. */
  readonly exemptShare: string | null;
}

function rated(policy: Policy): RatedPolicy {
  const { rate } = policy;
  const wide = policy.overrides.filter(({ part, value }) => part === "client" && wideShare([value]) !== null);
  return {
    ...policy,
    windowMs:
      rate.kind === "sliding" ? rate.windowMs : rate.kind === "calendar" ? periodLengths[rate.per].shortestMs : null,
    mostRequests: requestsOf(policy, Math.max(policy.limit, ...wide.map(({ limit }) => limit))),
    exemptShare: wideShare(policy.exempt),
  };
}

/** How many requests fit into the limit. */
function requestsOf({ cost }: Policy, limit: number): number {
  return Math.floor(limit / cost);
}

/** Such as "100 requests in 1m", for messages. */
function rateInWords({ rate, mostRequests }: RatedPolicy): string {
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
function canRefuse({ windowMs, mostRequests }: RatedPolicy): boolean {
  return mostRequests <= mostPerSecond * (windowMs === null ? 1 : windowMs / 1000);
}

/** Returns whether a key of `outer` gets, in a window of `outer`, at most `mostTimes` what a key of `inner` gets in it. */
function isComparable(outer: RatedPolicy, inner: RatedPolicy): boolean {
  // A concurrency has no number of requests in a time to compare with.
  if (outer.windowMs !== null && inner.windowMs === null) return true;
  const isTimed = outer.windowMs !== null && inner.windowMs !== null;
  const windows = isTimed ? Math.max(1, Math.ceil(outer.windowMs / inner.windowMs)) : 1;
  return outer.mostRequests <= mostTimes * requestsOf(inner, inner.limit) * windows;
}
