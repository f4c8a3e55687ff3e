// Finds what is wrong with policies whose keys are each valid: which kind of limit it is, what the key must contain for
// an override, what cannot be combined.
import { verifiesTokens } from "../core/authentication.ts";
import { readingOf } from "../core/field-names.ts";
import { cidrOf, formatIpAddress, isWithin } from "../core/ip-address.ts";
import { withFirstAddress } from "../core/network-set.ts";
import { isNarrower, wideEnough } from "./addresses.ts";
import type { auth } from "./auth.ts";
import type { Parsed } from "./definition.ts";
import {
  isTokenDigest,
  maxChargedLimit,
  maxConcurrency,
  modesOver,
  overrideParts,
  type policies,
  refuseOutOfRoutes,
  type WrittenPolicy,
} from "./policies.ts";
import type { clientAddress } from "./requests.ts";
import { type Raw, type Refuse, rawAt } from "./written.ts";

export interface PoliciesInContext {
  readonly policies: Parsed<typeof policies>;
  readonly auth: Parsed<typeof auth>;
  readonly clientAddress: Parsed<typeof clientAddress>;
  readonly routes: readonly string[];
  readonly basePath: string;
}

/** `key` names a key of the policy. */
interface PolicyInContext {
  readonly policy: WrittenPolicy;
  readonly key: (name: string) => string;
  readonly context: PoliciesInContext;
  readonly raw: Raw | undefined;
  readonly refuse: Refuse;
}

export function validatePolicies(context: PoliciesInContext, raw: Raw | undefined, refuse: Refuse): void {
  const names = context.policies.map(({ name }) => name);
  for (const [index, policy] of context.policies.entries()) {
    const at = `policies.${index}`;
    const key = (name: string): string => (name === "" ? at : `${at}.${name}`);
    const first = names.indexOf(policy.name);
    if (first < index) {
      const expected = `no second "${policy.name}" (policies.${first}); give one of the two another name`;
      refuse(key("name"), expected, `policies.${first}.name`);
    }
    const inContext = { policy, key, context, raw, refuse };
    validateKind(inContext);
    validateLimit(inContext);
    validateCharge(inContext);
    refuseOutOfRoutes(key("match.paths"), policy.match.paths, context, refuse);
    validateWho(inContext);
    validateKey(inContext);
    validateExempt(inContext);
    validateOverrides(inContext);
  }
}

function validateKind(inContext: PolicyInContext): void {
  const { policy, key, refuse } = inContext;
  const { limit, windowMs, per, timezone, concurrency } = policy;
  if (concurrency === null) validateQuota(inContext);
  else {
    for (const [name, value] of Object.entries({ limit, window: windowMs, per })) {
      if (value === null) continue;
      refuse(key(name), "none, since concurrency is set; remove one of the two", key("concurrency"));
    }
  }
  if (timezone !== null && per === null) {
    refuse(key("timezone"), "none, since per is not set; remove it, or set per", key("per"));
  }
}

/** Of a policy without concurrency. */
function validateQuota({ policy: { limit, windowMs, per }, key, refuse }: PolicyInContext): void {
  const kinds = ["limit", "window", "per", "concurrency"].map(key);
  const set = windowMs !== null ? "window" : per !== null ? "per" : null;
  if (limit === null && set === null) {
    refuse(key(""), "one of limit with window, limit with per, and concurrency in it", ...kinds, key(""));
  } else if (limit === null) {
    refuse(key("limit"), `a whole number, since ${set} is set`, ...kinds, key(""));
  } else if (set === null) {
    refuse(key("window"), 'the length of the window, such as "60s"; add it, or set per', ...kinds);
  }
  if (windowMs !== null && per !== null) {
    refuse(key("per"), "none, since window is set; remove one of the two", key("window"));
  }
}

function validateLimit({ policy, key, refuse }: PolicyInContext): void {
  const { limit, concurrency, cost } = policy;
  const bound = concurrency ?? limit;
  const name = concurrency === null ? "limit" : "concurrency";
  if (bound !== null && cost > bound) {
    refuse(key("cost"), `at most ${name} (${bound}); lower it, or raise ${name}`, key(name));
  }
}

function validateCharge({ policy, key, raw, refuse }: PolicyInContext): void {
  const { charge, concurrency, limit, overrides } = policy;
  if (charge.statuses.length === 0) {
    const written = rawAt(raw, key("charge").split("."));
    const expected = "the statuses that are charged, such as [401, 403]";
    if (written?.kind === "mapping") refuse(key("charge.statuses"), expected, key("charge"));
    return;
  }
  if (concurrency !== null) {
    const expected = "none, since concurrency is set; remove charge, or use limit and window instead of concurrency";
    refuse(key("charge.statuses"), expected, key("concurrency"));
    return;
  }
  const expected = `at most ${maxChargedLimit}, since charge is set; lower it, or remove charge`;
  if ((limit ?? 0) > maxChargedLimit) refuse(key("limit"), expected, key("charge"));
  for (const [i, override] of overrides.entries()) {
    if (override.limit > maxChargedLimit) refuse(key(`overrides.${i}.limit`), expected, key("charge"));
  }
}

function validateWho({ policy: { who, match }, key, context, refuse }: PolicyInContext): void {
  if (who !== "verified" || modesOver(context, match).has("tokens")) return;
  const expected =
    "others or none, since no token of these requests is verified; remove it, or set auth.mode to tokens";
  refuse(key("who"), expected, "auth.mode", "auth.rules", "routes", key("match"));
}

function validateKey({ policy, key, context: { auth, clientAddress }, refuse }: PolicyInContext): void {
  for (const [i, part] of policy.key.entries()) {
    const at = key(`key.${i}`);
    const dropped = clientAddress.dropHeaders.findIndex((name) => readingOf(`header:${name}`) === readingOf(part));
    if (dropped !== -1)
      refuse(`clientAddress.dropHeaders.${dropped}`, `none that ${at} reads; remove one of the two`, at);
    if (policy.who === "others" && part === "subject") {
      refuse(at, "another part, since who is others, and these have no subject; use client", key("who"));
      continue;
    }
    if (part.startsWith("claim:")) {
      refuse(at, "another part; claims need auth.mode jwt, which is not supported yet");
    } else if (part === "subject" && !verifiesTokens(auth)) {
      const expected = `another part, since auth.mode is ${auth.mode}; use token, or set auth.mode to tokens`;
      refuse(at, expected, "auth.mode", "auth.rules");
    }
  }
}

function validateExempt({
  policy: { exempt, overrides },
  key,
  context: { clientAddress },
  refuse,
}: PolicyInContext): void {
  const { ipv6Prefix } = clientAddress;
  const networks = exempt.map(cidrOf);
  for (const [i, network] of networks.entries()) {
    if (!isNarrower(network, ipv6Prefix)) continue;
    refuse(key(`exempt.${i}`), wideEnough(ipv6Prefix), "clientAddress.ipv6Prefix");
  }
  for (const [i, { client }] of overrides.entries()) {
    if (client === null) continue;
    const { network, prefixBits } = cidrOf(client);
    const outer = networks.findIndex((each) => each.prefixBits <= prefixBits && isWithin(network, each));
    if (outer === -1) continue;
    const expected = `a network outside of ${exempt[outer]}, which is exempt; remove it here or in exempt`;
    refuse(key(`overrides.${i}.client`), expected, key("exempt"));
  }
}

type OverridePart = (typeof overrideParts)[number];

type PolicyOverride = WrittenPolicy["overrides"][number];

function validateOverrides(inContext: PolicyInContext): void {
  const { policy, key, refuse } = inContext;
  const seen = new Map<string, number>();
  for (const [i, override] of policy.overrides.entries()) {
    validateOverrideLimit(inContext, i, override.limit);
    const part = onlyPartOf(inContext, i, override);
    if (part === null) continue;
    validatePart(inContext, i, override, part);
    const value = `${part} ${canonical(part, override)}`;
    const first = seen.get(value);
    if (first === undefined) seen.set(value, i);
    else {
      const expected = `no second one for the same ${part}; remove one of the two`;
      refuse(key(`overrides.${i}.${part}`), expected, key(`overrides.${first}`));
    }
  }
}

function validateOverrideLimit(
  { policy: { cost, concurrency }, key, refuse }: PolicyInContext,
  i: number,
  limit: number,
): void {
  const at = key(`overrides.${i}.limit`);
  if (limit < cost) refuse(at, `at least cost (${cost}); raise it, or lower cost`, key("cost"));
  if (concurrency !== null && limit > maxConcurrency) {
    refuse(at, `at most ${maxConcurrency}, since concurrency is set`, key("concurrency"));
  }
}

/** Refuses an override that names no part of a key, or two. Returns the part; null if it is refused. */
function onlyPartOf({ key, refuse }: PolicyInContext, i: number, override: PolicyOverride): OverridePart | null {
  const at = key(`overrides.${i}`);
  const [part, second] = overrideParts.filter((name) => override[name] !== null);
  if (part === undefined) {
    refuse(at, "one of client, token, subject and header in it", ...overrideParts.map((name) => `${at}.${name}`));
    return null;
  }
  if (second === undefined) return part;
  refuse(`${at}.${second}`, `none, since ${part} is set; write an override for each`, `${at}.${part}`);
  return null;
}

function validatePart(
  { policy, key, context, refuse }: PolicyInContext,
  i: number,
  override: PolicyOverride,
  part: OverridePart,
) {
  const expected = misfit(part, policy, override, context);
  if (expected === undefined) return;
  const others =
    part === "client" ? ["clientAddress.ipv6Prefix"] : part === "token" ? ["auth.mode", "auth.rules", key("who")] : [];
  refuse(key(`overrides.${i}.${part}`), expected, key("key"), ...others);
}

/** Returns what is expected if the policy's key has no such part, or not in this form. */
function misfit(
  part: OverridePart,
  policy: WrittenPolicy,
  override: PolicyOverride,
  { auth, clientAddress }: PoliciesInContext,
): string | undefined {
  const parts = policy.key.filter((each) => each.split(":")[0] === part);
  const shown = `[${policy.key.join(", ")}]`;
  const named = part === "header" ? "header:NAME" : part;
  if (parts.length === 0) {
    return `none, since key is ${shown}, without ${part}; add ${named} to key, or remove this override`;
  }
  if (parts.length > 1) {
    return `none, since key is ${shown}, with more than one ${part}; leave one of them in key, or remove this override`;
  }
  if (part === "token" && policy.who === "others" && !isTokenDigest(override.token ?? "")) {
    return "none, since who is others, and their tokens have no names; remove this override";
  }
  if (part === "token" && !verifiesTokens(auth) && !isTokenDigest(override.token ?? "")) {
    return `a SHA-256 digest (64 hex digits), since auth.mode is ${auth.mode} and tokens have no names; write the token's digest, or set auth.mode to tokens`;
  }
  const { ipv6Prefix } = clientAddress;
  if (part === "client" && isNarrower(cidrOf(override.client ?? ""), ipv6Prefix)) {
    return wideEnough(ipv6Prefix);
  }
  return undefined;
}

/** The same text for two values that mean the same. */
function canonical(part: OverridePart, override: PolicyOverride): string {
  const value = override[part] ?? "";
  if (part === "token" && isTokenDigest(value)) return value.toLowerCase();
  if (part !== "client") return value;
  const { network, prefixBits } = withFirstAddress(cidrOf(value));
  return `${formatIpAddress(network)}/${prefixBits}`;
}
