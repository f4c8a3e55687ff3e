// The rules that hold now; each thread that serves requests has its own copy and asks it. `block` comes before `exempt`, and
// `exempt` before `limit`; of one action the smallest network comes first, and of limits that of the subject, then that of
// the token, then that of the client. Knows nothing of time: the keeper of the rules removes those that have ended.
import type { CounterKey, MatchingRules } from "./counter-key.ts";
import { cidrOf } from "./ip-address.ts";
import { NetworkTable } from "./network-table.ts";
import type { KeyedPolicy, KeyPart } from "./policy.ts";
import { type Rule, type RuleChange, type RuleSubject, RulesAbout, ruleActions } from "./rules.ts";

/** Whom a verified token stands for, as far as rules can be about it. */
export interface RuledIdentity {
  readonly tokenName: string | null;
  readonly subject: string | null;
}

/** The rules that block, as decisions about requests ask for them. */
export interface BlockRules {
  /** Read before everything else, so that a gateway without rules pays for nothing. */
  readonly isEmpty: boolean;
  /** Returns the rule by which a client is blocked; null if there is none. */
  blockOfClient(client: CounterKey): Rule | null;
  blockOfIdentity(identity: RuledIdentity): Rule | null;
}

/** Rules that operators set at run time. */
export class RulesInForce implements BlockRules {
  isEmpty = true;
  readonly #rules = new Map<string, Rule>();
  readonly #networks = new NetworkTable<RulesAbout>();
  readonly #tokens = new Map<string, RulesAbout>();
  readonly #subjects = new Map<string, RulesAbout>();
  #ipv6Prefix = 128;
  #unmatched: MatchingRules = noMatches();

  /** How many bits tell IPv6 clients apart. A rule about a smaller network than that would hold for its neighbours too. */
  set ipv6Prefix(bits: number) {
    if (bits === this.#ipv6Prefix) return;
    this.#ipv6Prefix = bits;
    this.#networks.ipv6Prefix = bits;
    this.#unmatched = noMatches();
  }

  /** A rule replaces the one with its id. What is removed is removed first. */
  apply({ set, removed }: RuleChange): void {
    for (const id of removed) this.#remove(id);
    for (const rule of set) {
      this.#remove(rule.id);
      this.#add(rule);
    }
    this.isEmpty = this.#rules.size === 0;
    this.#unmatched = noMatches();
  }

  blockOfClient(client: CounterKey): Rule | null {
    for (const about of this.#about(client)) if (about.block !== null) return about.block;
    return client.literal === null ? null : this.blockOfClient(client.literal);
  }

  blockOfIdentity(identity: RuledIdentity): Rule | null {
    return this.#aboutSubject(identity)?.block ?? this.#aboutToken(identity)?.block ?? null;
  }

  /**
   * Returns the limit of a request's key by a policy: 0 if it is exempt, undefined if no rule says anything. `identity`: null
   * for a policy that is asked before the token check. A limit counts only if the key of the policy has the part that the
   * rule is about, or it would be the limit of others too. Of a client that is counted as another address, the lower limit
   * of the two holds, and only the address as it stands can be exempt.
   */
  limitOf(policy: KeyedPolicy, client: CounterKey, identity: RuledIdentity | null): number | undefined {
    const { name } = policy;
    const networks = this.#about(client);
    const literal = client.literal === null ? networks : this.#about(client.literal);
    const subject = identity === null ? undefined : this.#aboutSubject(identity);
    const token = identity === null ? undefined : this.#aboutToken(identity);
    if (subject === undefined && token === undefined && networks.length + literal.length === 0) return undefined;
    if ((subject?.exemptionFrom(name) ?? token?.exemptionFrom(name) ?? null) !== null) return exempted;
    for (const about of literal) if (about.exemptionFrom(name) !== null) return exempted;
    const ofIdentity = limitBy("subject", subject, policy) ?? limitBy("token", token, policy);
    return ofIdentity ?? lower(limitOfNetworks(networks, policy), limitOfNetworks(literal, policy));
  }

  /** Returns all rules about a client, in the order in which they count. */
  ofClient(client: CounterKey): readonly Rule[] {
    return inOrder([...this.#about(client), ...(client.literal === null ? [] : this.#about(client.literal))]);
  }

  ofIdentity(identity: RuledIdentity): readonly Rule[] {
    return inOrder([this.#aboutSubject(identity) ?? [], this.#aboutToken(identity) ?? []].flat());
  }

  #about(client: CounterKey): readonly RulesAbout[] {
    const { rules } = client;
    const unmatched = this.#unmatched;
    if (rules !== null && rules.version === unmatched.version) return rules.about;
    const about = this.#networks.isEmpty ? undefined : this.#networks.find(client);
    client.rules = about === undefined ? unmatched : { about, version: unmatched.version };
    return client.rules.about;
  }

  #aboutSubject({ subject }: RuledIdentity): RulesAbout | undefined {
    return subject === null || this.#subjects.size === 0 ? undefined : this.#subjects.get(subject);
  }

  #aboutToken({ tokenName }: RuledIdentity): RulesAbout | undefined {
    return tokenName === null || this.#tokens.size === 0 ? undefined : this.#tokens.get(tokenName);
  }

  #add(rule: Rule): void {
    this.#rules.set(rule.id, rule);
    this.#change(rule.about, (about) => about.add(rule));
  }

  #remove(id: string): void {
    const rule = this.#rules.get(id);
    if (rule === undefined) return;
    this.#rules.delete(id);
    this.#change(rule.about, (about) => about.remove(id));
  }

  #change({ kind, value }: RuleSubject, change: (about: RulesAbout) => void): void {
    if (kind === "client") changeIn(this.#networks, cidrOf(value), change);
    else changeIn(kind === "token" ? this.#tokens : this.#subjects, value, change);
  }
}

/** As the limits of configured policies have it. */
const exempted = 0;

/** Changes the rules about one thing, which are kept while there are some. */
function changeIn<Key>(
  all: { get(key: Key): RulesAbout | undefined; set(key: Key, about: RulesAbout): unknown; delete(key: Key): unknown },
  key: Key,
  change: (about: RulesAbout) => void,
): void {
  const known = all.get(key);
  const about = known ?? new RulesAbout();
  change(about);
  if (about.isEmpty) all.delete(key);
  else if (known === undefined) all.set(key, about);
}

function noMatches(): MatchingRules {
  return { about: [], version: {} };
}

function limitBy(part: KeyPart["kind"], about: RulesAbout | undefined, { name, key }: KeyedPolicy): number | undefined {
  const limit = about?.limitOf(name)?.limit ?? undefined;
  return limit !== undefined && key.some(({ kind }) => kind === part) ? limit : undefined;
}

function limitOfNetworks(networks: readonly RulesAbout[], policy: KeyedPolicy): number | undefined {
  for (const about of networks) {
    const limit = limitBy("client", about, policy);
    if (limit !== undefined) return limit;
  }
  return undefined;
}

/** Returns the lower of two limits; the only one if there is one. */
export function lower(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

/** By action; of one action in the order given, and of one thing the one that was set last first. */
function inOrder(all: readonly RulesAbout[]): readonly Rule[] {
  const rules = all.flatMap((about) => [...about.list()].sort((a, b) => b.revision - a.revision));
  return ruleActions.flatMap((action) => rules.filter((rule) => rule.action === action));
}
