// Checks a rule that somebody wants to set: what is wrong with it, what it would cut off, and which policies it does not
// touch. Changes nothing.
import { isNarrower, wideEnough } from "../config/addresses.ts";
import { formatDuration, parseDuration } from "../config/leaves.ts";
import { maxChargedLimit, maxConcurrency, maxLimit } from "../config/policies.ts";
import { type ListedTokens, verifiesTokens } from "../core/authentication.ts";
import { withoutHidden } from "../core/hidden-characters.ts";
import {
  type Cidr,
  cidrOf,
  countedAs,
  formatCidr,
  formatIpAddress,
  isWithin,
  parseCidr,
  parseIpAddress,
} from "../core/ip-address.ts";
import { withFirstAddress } from "../core/network-set.ts";
import { needsIdentity, type Policy } from "../core/policy.ts";
import { type Rule, type RuleInput, type RuleSubject, ruleActions } from "../core/rules.ts";
import type { Settings } from "../core/settings.ts";

/** What of the configuration in force a rule is judged by. */
export interface RuleContext {
  readonly settings: Pick<Settings, "policies" | "auth" | "clientAddress" | "extAuth">;
  /** Null: there is no list of tokens. */
  readonly listed: Pick<ListedTokens, "names"> | null;
}

type WantedRule = Pick<Rule, "id" | "about" | "action" | "policy" | "limit" | "note"> & { readonly forMs: number };

const shortestMs = 1_000;
const longestMs = 30 * 86_400_000;
const maxNoteLength = 500;
const maxNameLength = 1_024;

/** Returns the rule, or everything that is wrong with it. */
export function readRule(input: RuleInput, { settings }: RuleContext): WantedRule | readonly string[] {
  const errors: string[] = [];
  const refuse = (error: string): null => {
    errors.push(error);
    return null;
  };
  const { id, limit = null, note = "" } = input;
  if (!isRuleId(id)) refuse('id: 1 to 64 letters, digits, ".", "_" or "-" are expected, and not dots alone');
  const about = aboutOf(input, settings.clientAddress.ipv6Prefix, refuse);
  const action = ruleActions.find((each) => each === input.action);
  if (action === undefined) refuse(`action: one of ${ruleActions.join(", ")} is expected`);
  const policy = policyOf(input, settings.policies, refuse);
  if (action === "limit") judgeLimit(limit, policy, refuse);
  else if (limit !== null) refuse(`limit: none is expected, since the action is ${input.action}`);
  const forMs = parseDuration(input.for) ?? 0;
  if (forMs < shortestMs || forMs > longestMs) {
    const range = `${formatDuration(shortestMs)} to ${formatDuration(longestMs)}`;
    refuse(`for: a duration with its unit from ${range} is expected, such as "1h"`);
  }
  if (note.length > maxNoteLength || note !== withoutHidden(note)) {
    refuse(
      `note: at most ${maxNoteLength} characters are expected, and no control, bidi or other invisible characters`,
    );
  }
  if (errors.length > 0 || about === null || action === undefined) return errors;
  return { id, about, action, policy: policy?.name ?? null, limit, note, forMs };
}

/** Not dots alone, which are removed from the path of a URL. */
function isRuleId(id: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(id) && !/^\.+$/.test(id);
}

type RefuseRule = (error: string) => null;

function aboutOf(input: RuleInput, ipv6Prefix: number, refuse: RefuseRule): RuleSubject | null {
  const kinds = (["client", "token", "subject"] as const).filter((kind) => input[kind] !== undefined);
  const [kind, second] = kinds;
  if (kind === undefined || second !== undefined) return refuse("exactly one of client, token and subject is expected");
  const value = input[kind] ?? "";
  if (kind === "client") {
    const network = canonicalNetwork(value, input.action, ipv6Prefix, refuse);
    return network === null ? null : { kind, value: network };
  }
  if (value === "" || value.length > maxNameLength || !isPlain(value)) {
    return refuse(`${kind}: 1 to ${maxNameLength} characters are expected, and no control characters`);
  }
  return { kind, value };
}

function canonicalNetwork(text: string, action: string, ipv6Prefix: number, refuse: RefuseRule): string | null {
  const written = parseCidr(text);
  if (written === undefined) return refuse("client: an address or a network is expected, such as 203.0.113.7");
  const isCounted = written.prefixBits === 128 && action !== "exempt";
  const cidr = isCounted ? { ...written, network: countedAs(written.network) } : written;
  if (isNarrower(cidr, ipv6Prefix)) {
    const whole = formatCidr(withFirstAddress({ ...cidr, prefixBits: ipv6Prefix }));
    return refuse(`client: an IPv6 network of ${wideEnough(ipv6Prefix)}, such as ${whole}`);
  }
  return formatCidr(withFirstAddress(cidr));
}

/** Returns the policy that the rule is about; null if it is about all, or if there is none. */
function policyOf(
  { action, policy: name = null }: RuleInput,
  policies: readonly Policy[],
  refuse: RefuseRule,
): Policy | null {
  const names = policies.map((policy) => policy.name).join(", ");
  if (action === "block") return name === null ? null : refuse("policy: none is expected, since the action is block");
  if (name !== null) {
    const named = policies.find((policy) => policy.name === name);
    return named ?? refuse(`policy: there is none of this name; there are ${names}`);
  }
  if (action !== "limit") return null;
  const [only, another] = policies;
  return another === undefined && only !== undefined ? only : refuse(`policy: one of ${names} is expected`);
}

function judgeLimit(limit: number | null, policy: Policy | null, refuse: RefuseRule): void {
  const least = policy?.cost ?? 1;
  const [most, why] = mostFor(policy);
  if (limit !== null && Number.isInteger(limit) && limit >= least && limit <= most) return;
  const from = least > 1 ? `${least} (the cost of ${policy?.name})` : "1";
  refuse(`limit: a whole number from ${from} to ${most}${why} is expected`);
}

function mostFor(policy: Policy | null): readonly [most: number, why: string] {
  if (policy?.rate.kind === "concurrency") return [maxConcurrency, ", since the policy has concurrency,"];
  if (policy !== null && policy.chargeStatuses !== null) return [maxChargedLimit, ", since the policy has charge,"];
  return [maxLimit, ""];
}

/** A text with half of a surrogate pair would be another one when it is read from a file. */
function isPlain(text: string): boolean {
  return !/\p{Cc}/u.test(text) && text.isWellFormed();
}

/** Says whom else a rule is about, on whom the gateway or the writer depends; empty if there is nobody. */
export function coveredBy(
  { about }: Pick<Rule, "about">,
  { settings }: RuleContext,
  writerAddress: string | null,
): readonly string[] {
  if (about.kind !== "client") return [];
  const network = cidrOf(about.value);
  const listed = [
    { key: "clientAddress.trustedProxies", networks: settings.clientAddress.trustedProxies },
    { key: "extAuth.trustedCallers", networks: settings.extAuth.trustedCallers },
  ];
  const covered = listed.flatMap(({ key, networks }) =>
    networks.filter((each) => overlap(network, cidrOf(each))).map((each) => `${each} of ${key}`),
  );
  const own = writerAddress === null ? undefined : parseIpAddress(writerAddress);
  const isOwn = own !== undefined && isWithin(own, network);
  const all = isOwn ? [...covered, `${formatIpAddress(own)}, which is your own address`] : covered;
  return all.map((whom) => `client: the rule covers ${whom}; set force to true if that is meant`);
}

function overlap(a: Cidr, b: Cidr): boolean {
  return a.prefixBits < b.prefixBits ? isWithin(b.network, a) : isWithin(a.network, b);
}

type RuleEffect = Pick<Rule, "about" | "action" | "policy" | "limit">;

/** Returns the policies that a rule is about and does not touch. */
export function untouchedBy(rule: RuleEffect, context: RuleContext): readonly string[] {
  if (rule.action === "block") return [];
  return context.settings.policies
    .filter(({ name }) => rule.policy === null || rule.policy === name)
    .filter((policy) => !isAskedInTime(policy, rule, context) || !isKeyed(policy, rule))
    .map((policy) => policy.name);
}

function isAskedInTime(policy: Policy, { about }: RuleEffect, { settings }: RuleContext): boolean {
  return about.kind === "client" || needsIdentity(policy, verifiesTokens(settings.auth));
}

function isKeyed({ key }: Policy, { about, limit }: RuleEffect): boolean {
  return limit === null || key.some(({ kind }) => kind === about.kind);
}

/** Says why a rule may be about nobody, or change nothing. */
export function ruleWarnings(rule: RuleEffect, context: RuleContext): readonly string[] {
  return [...unknownIn(rule, context), ...idleIn(rule, context)];
}

function unknownIn({ about: { kind, value } }: RuleEffect, { settings, listed }: RuleContext): readonly string[] {
  if (kind === "client") return [];
  if (!verifiesTokens(settings.auth)) return [`no token is verified, so nobody is known by this ${kind}`];
  return listed?.names().has(value) === true ? [] : ["no token of this name is listed"];
}

function idleIn(rule: RuleEffect, context: RuleContext): readonly string[] {
  const policy = context.settings.policies.find(({ name }) => name === rule.policy);
  if (policy === undefined) return [];
  if (!isKeyed(policy, rule)) {
    const parts = policy.key.map(({ kind }) => kind).join(" and ") || "nothing";
    return [`policy ${policy.name} counts by ${parts} and not by ${rule.about.kind}, so the rule changes nothing`];
  }
  // Without verified tokens, nobody is known by the token either.
  if (isAskedInTime(policy, rule, context) || !verifiesTokens(context.settings.auth)) return [];
  return [`policy ${policy.name} is asked before the token is checked, so the rule changes nothing`];
}
