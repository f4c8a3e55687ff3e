// Sets, shows and removes rules for people: reads what they write, refuses what cannot be meant, and says what a rule does not
// do. The rules themselves are kept by a book.
import type {
  Caller,
  Outcome,
  RuleBook,
  RuleCondition,
  RuleControl,
  RuleResult,
  RuleWanted,
  RuleWrite,
  ShownRule,
  TaggedRule,
} from "../admin/control-plane.ts";
import { networkOf } from "../config/addresses.ts";
import { formatDuration, parseDuration } from "../config/leaves.ts";
import { maxConcurrency } from "../config/policies.ts";
import { enumerate } from "../config/written.ts";
import { verifiesTokens } from "../core/auth-demand.ts";
import type { ListedTokens } from "../core/authenticator.ts";
import type { Clock } from "../core/clock.ts";
import { type Cidr, isWithin, parseIpAddress } from "../core/ip-address.ts";
import { needsIdentity, type Policy } from "../core/policy.ts";
import { maxRules, type Rule, type RuleSubject } from "../core/rules.ts";
import type { Settings } from "../core/settings.ts";
import { readClientText } from "./client-texts.ts";

interface RuleControlOptions {
  readonly book: RuleBook;
  /** In force. */
  readonly settings: () => RuleSettings;
  readonly listedTokens: () => Pick<ListedTokens, "names"> | null;
  readonly clock: Pick<Clock, "wallMs">;
}

type RuleSettings = Pick<Settings, "policies" | "enforcement" | "auth" | "clientAddress" | "extAuth">;

/** What a rule says, apart from who set it and when. */
type Meaning = Pick<Rule, "about" | "action" | "policy" | "limit"> & { readonly forMs: number };

export function createRuleControl({ book, settings, listedTokens, clock }: RuleControlOptions): RuleControl {
  const shown = (rule: Rule): ShownRule => show(rule, settings(), listedTokens(), book.survivesRestart);
  const tagged = (rule: Rule): TaggedRule => ({ rule: shown(rule), revision: rule.revision });
  const written = (result: RuleResult): Outcome<RuleWrite> => {
    if (!result.ok) return { ok: false, why: result.why, details: [details[result.why]] };
    const { before, after } = result;
    return { ok: true, value: { before: before && tagged(before), after: after && tagged(after) } };
  };
  return {
    list: () =>
      book
        .all()
        .toSorted((a, b) => (a.id < b.id ? -1 : 1))
        .map(shown),
    find(id) {
      const rule = book.find(id);
      return rule && tagged(rule);
    },
    async put(id, wanted, condition, caller) {
      const inForce = settings();
      const reading = readMeaning(wanted, inForce);
      if (!reading.ok) return { ok: false, why: "unacceptable", details: reading.errors };
      const { forMs, ...meaning } = reading.meaning;
      const covered = wanted.force === true ? [] : coveredPeers(meaning.about, inForce, caller);
      if (covered.length > 0) {
        const detail = `body.client: it covers ${enumerate(covered, "and")}; set force to true if that is meant`;
        return { ok: false, why: "conflict", details: [detail] };
      }
      const setMs = clock.wallMs();
      const rule = { id, ...meaning, setMs, endsMs: setMs + forMs, note: wanted.note ?? "", setBy: caller.name };
      return written(await book.set(rule, condition));
    },
    remove: async (id: string, condition: RuleCondition) => written(await book.remove(id, condition)),
  };
}

const details = {
  mismatch: "If-Match, If-None-Match: the rule with this id is another one than expected.",
  absent: "There is no rule with this id.",
  full: `There are ${maxRules} rules, and no more can be set.`,
} as const;

type MeaningReading =
  | { readonly ok: true; readonly meaning: Meaning }
  | { readonly ok: false; readonly errors: readonly string[] };

const [minForMs, maxForMs] = [1_000, 30 * 86_400_000];

function readMeaning(wanted: RuleWanted, { policies, clientAddress }: RuleSettings): MeaningReading {
  const errors: string[] = [];
  const about = readAbout(wanted, clientAddress.ipv6Prefix, errors);
  errors.push(...contradictions(wanted, policies));
  const forMs = parseDuration(wanted.for) ?? 0;
  if (forMs < minForMs || forMs > maxForMs)
    errors.push("body.for: found another one, expected a duration from 1s to 30d");
  if (about === null || errors.length > 0) return { ok: false, errors };
  return {
    ok: true,
    meaning: { about, action: wanted.action, policy: wanted.policy ?? null, limit: wanted.limit ?? null, forMs },
  };
}

function readAbout(wanted: RuleWanted, ipv6Prefix: number, errors: string[]): RuleSubject | null {
  const given = (["client", "token", "subject"] as const).filter((kind) => wanted[kind] !== undefined);
  const [kind] = given;
  if (kind === undefined || given.length > 1) {
    const found = given.length === 0 ? "none" : enumerate(given, "and");
    errors.push(`body: found ${found}, expected one of client, token and subject`);
    return null;
  }
  const value = wanted[kind] ?? "";
  if (kind !== "client") return { kind, value };
  const reading = readClientText(value, ipv6Prefix);
  if (!reading.ok) errors.push(`body.client: found another text, expected ${reading.expected}`);
  return reading.ok ? { kind, value: reading.client.text } : null;
}

function contradictions({ action, policy: name, limit }: RuleWanted, policies: readonly Policy[]): string[] {
  const found: string[] = [];
  const policy = policies.find((each) => each.name === name);
  if (action === "block" && name !== undefined) found.push("body.policy: found one, expected none with action block");
  if (action !== "limit" && limit !== undefined)
    found.push(`body.limit: found one, expected none with action ${action}`);
  if (action === "limit" && name === undefined) found.push("body.policy: found nothing, expected the name of a policy");
  if (action === "limit" && limit === undefined)
    found.push("body.limit: found nothing, expected a whole number from 1");
  if (name !== undefined && policy === undefined) {
    found.push(`body.policy: found an unknown name, expected ${enumerate(policies.map((each) => each.name))}`);
  }
  if (policy !== undefined && limit !== undefined) {
    const most = policy.rate.kind === "concurrency" ? maxConcurrency : Number.POSITIVE_INFINITY;
    if (limit < policy.cost)
      found.push(`body.limit: found ${limit}, expected at least the cost of one request (${policy.cost})`);
    if (limit > most) found.push(`body.limit: found ${limit}, expected at most ${most}`);
  }
  return found;
}

/** Whose own requests, or those that they forward, the rule would be about. */
function coveredPeers(
  { kind, value }: RuleSubject,
  { clientAddress, extAuth }: RuleSettings,
  { peer }: Caller,
): string[] {
  if (kind !== "client") return [];
  const network = networkOf(value);
  const overlaps = (networks: readonly string[]): boolean =>
    networks.map(networkOf).some((other) => isWithin(other.network, network) || isWithin(network.network, other));
  const caller = peer === null ? undefined : parseIpAddress(peer);
  return [
    ...(overlaps(clientAddress.trustedProxies) ? ["a trusted proxy"] : []),
    ...(overlaps(extAuth.trustedCallers) ? ["a trusted caller"] : []),
    ...(caller !== undefined && isWithin(caller, network) ? ["whoever sets it"] : []),
  ];
}

function show(
  rule: Rule,
  settings: RuleSettings,
  listed: Pick<ListedTokens, "names"> | null,
  survivesRestart: boolean,
): ShownRule {
  const { id, about, action, policy, limit, setMs, endsMs, note, setBy } = rule;
  return {
    id,
    [about.kind]: about.value,
    action,
    ...(policy === null ? {} : { policy }),
    ...(limit === null ? {} : { limit }),
    for: formatDuration(endsMs - setMs),
    ...(note === "" ? {} : { note }),
    set: new Date(setMs).toISOString(),
    ends: new Date(endsMs).toISOString(),
    setBy,
    warnings: warningsAbout(rule, settings, listed),
    untouchedPolicies: untouchedBy(rule, settings),
    survivesRestart,
  };
}

/** Why it has less effect than it seems. */
function warningsAbout(
  { about, action, policy: name }: Rule,
  { policies, enforcement, auth }: RuleSettings,
  listed: Pick<ListedTokens, "names"> | null,
): string[] {
  const policy = policies.find((each) => each.name === name);
  const isShadow = enforcement === "shadow" || policy?.mode === "shadow";
  const countsBy = policy?.key.some(({ kind }) => kind === about.kind) === true;
  return [
    ...(name !== null && policy === undefined ? [`There is no policy ${name} any more.`] : []),
    ...(about.kind !== "client" && !verifiesTokens(auth)
      ? ["No token is verified, so nobody is known by a name."]
      : []),
    ...(about.kind === "token" && listed !== null && !listed.names().has(about.value)
      ? ["No listed token has this name."]
      : []),
    ...(action === "limit" && policy !== undefined && isShadow
      ? [`Policy ${policy.name} is a shadow and refuses nothing.`]
      : []),
    ...(action === "limit" && policy !== undefined && !countsBy
      ? [`Policy ${policy.name} does not count by ${about.kind}, so several of its keys have this limit each.`]
      : []),
  ];
}

/** Policies that are asked before the token is checked, when nobody is known by a name yet. */
function untouchedBy({ about, action, policy: name }: Rule, { policies, auth }: RuleSettings): string[] {
  if (about.kind === "client" || action === "block") return [];
  return policies
    .filter((policy) => (name === null || policy.name === name) && !needsIdentity(policy, verifiesTokens(auth)))
    .map((policy) => policy.name);
}

/** Whether the rule is about the key: of a network, about each client in it. */
export function isRuleAbout(about: RuleSubject, key: { readonly kind: string; readonly value: string }): boolean {
  if (about.kind !== key.kind) return false;
  if (about.kind !== "client") return about.value === key.value;
  const [outer, inner]: readonly Cidr[] = [networkOf(about.value), networkOf(key.value)];
  return (
    outer !== undefined && inner !== undefined && outer.prefixBits <= inner.prefixBits && isWithin(inner.network, outer)
  );
}
