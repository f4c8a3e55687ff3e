// Finds policies that are valid and probably not what is meant: requests that nothing limits, keys that a client can
// invent, limits that an ext-auth listener cannot hold.
import type { KeyPart } from "../core/policy.ts";
import { needsIdentity } from "../core/policy.ts";
import { enumerate } from "./config-error.ts";
import { idleOverrideWarnings } from "./idle-overrides.ts";
import { coversMethods, coversPath, regionOf } from "./match-regions.ts";
import {
  canRefuse,
  isComparable,
  mostPerSecond,
  mostTimes,
  type RatedPolicy,
  rated,
  rateInWords,
} from "./policy-rates.ts";
import type { WarnedSettings } from "./warned-settings.ts";

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
