// Rules that a person sets while the gateway runs: block, exempt, or limit one client, token or subject, until an end.
// They are not in the configuration. The pipeline and the limiter ask them; who sets, keeps and shares them is the gateway.

import { withoutHidden } from "./hidden-characters.ts";
import { parseCidr } from "./ip-address.ts";

/** `block` comes before `exempt`, and `exempt` before `limit`. */
export const ruleActions = ["block", "exempt", "limit"] as const;

export type RuleAction = (typeof ruleActions)[number];

/** Whom a rule is about. */
export type RuleSubject =
  /** `value`: an address or a network, in its canonical text. */
  | { readonly kind: "client"; readonly value: string }
  /** `value`: the name of a listed token. */
  | { readonly kind: "token"; readonly value: string }
  /** `value`: the subject of a verified identity. */
  | { readonly kind: "subject"; readonly value: string };

export interface Rule {
  /** 1 to 64 letters, digits, `.`, `_` or `-`; chosen by whoever sets it. */
  readonly id: string;
  readonly about: RuleSubject;
  readonly action: RuleAction;
  /** `exempt`: null means all policies. `limit`: the policy whose limit it replaces. `block`: null. */
  readonly policy: string | null;
  /** From 1; null unless the action is `limit`. */
  readonly limit: number | null;
  /** When it was set, and from when on it does not hold, in Unix milliseconds. */
  readonly setMs: number;
  readonly endsMs: number;
  /** For people. */
  readonly note: string;
  /** The name of the admin token by which it was set, or `socket`. */
  readonly setBy: string;
  /** Rises with each change of any rule; gateways that share rules have the same. */
  readonly revision: number;
}

/** Returns a rule that was read from a file or a store, without hidden characters in its texts; null if it is no rule. */
export function parseRule(value: unknown): Rule | null {
  return isRule(value) ? { ...value, note: withoutHidden(value.note), setBy: withoutHidden(value.setBy) } : null;
}

function isRule(value: unknown): value is Rule {
  if (typeof value !== "object" || value === null) return false;
  const { id, about, action, policy, limit, setMs, endsMs, note, setBy, revision } = value as Record<string, unknown>;
  const areTexts = [id, note, setBy].every((text) => typeof text === "string");
  const areNumbers = Number.isFinite(setMs) && Number.isFinite(endsMs) && Number.isSafeInteger(revision);
  const isAction = ruleActions.some((each) => each === action);
  const isPolicy = policy === null || typeof policy === "string";
  const isLimit = action === "limit" ? Number.isSafeInteger(limit) && Number(limit) >= 1 : limit === null;
  return areTexts && areNumbers && isAction && isPolicy && isLimit && isSubject(about);
}

function isSubject(about: unknown): about is RuleSubject {
  const { kind, value } = (about ?? {}) as Record<string, unknown>;
  if (typeof value !== "string") return false;
  return kind === "client" ? parseCidr(value) !== undefined : kind === "token" || kind === "subject";
}

/** Rules that are set or replaced, and the ids of those that are removed. */
export interface RuleChange {
  readonly set: readonly Rule[];
  readonly removed: readonly string[];
}

/** So many rules take less than a millisecond or two, here and in another thread. */
const portion = 250;

/** Divides many rules, or their ids, so that no thread is busy with them for long. */
export function inPortions<T>(all: readonly T[]): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / portion) }, (_, i) => all.slice(i * portion, (i + 1) * portion));
}

/** Whose counts are forgotten. */
export type ForgivenKey =
  | RuleSubject
  /** `value`: 32 hexadecimal digits, for a key of which only a hash is known. */
  | { readonly kind: "key"; readonly value: string };

/** At most so many rules hold at once. */
export const maxRules = 10_000;

/**
 * What is asked of whoever keeps the rules, what is answered, and what others hear of it. A rule as a person writes it.
 * Nothing of it has been checked.
 */
export interface RuleInput {
  readonly id: string;
  /** Exactly one of the three: an address or a network, the name of a listed token, or a subject. */
  readonly client?: string | undefined;
  readonly token?: string | undefined;
  readonly subject?: string | undefined;
  readonly action: string;
  /** For `exempt`: null means all. For `limit`: may be left out if there is only one. */
  readonly policy?: string | null | undefined;
  readonly limit?: number | null | undefined;
  /** A duration with its unit, such as "1h". */
  readonly for: string;
  readonly note?: string | undefined;
}

export interface RuleWriter {
  /** The name of an admin token, or `socket`. */
  readonly name: string;
  /** Of its connection; null if that has none. */
  readonly address: string | null;
}

export interface ExpectedRevision {
  /** The revision that the rule must have; 0: there must be none; null: whatever there is. */
  readonly expectedRevision: number | null;
}

export interface RuleCondition extends ExpectedRevision {
  /** Sets a rule that blocks those on whom the gateway, or its operator, depends. */
  readonly force: boolean;
}

/**
 * `invalid`: something of the input is wrong. `needs_force`: see RuleCondition. `changed`: the rule has another revision.
 * `full`: there are as many rules as there may be. `unknown`: there is no such rule.
 */
export type RuleRefusalReason = "invalid" | "needs_force" | "changed" | "full" | "unknown";

export interface RuleRefused {
  readonly ok: false;
  readonly reason: RuleRefusalReason;
  /** For people; at least one. */
  readonly details: readonly string[];
  /** What holds; null if there is no such rule. */
  readonly current: Rule | null;
}

export interface RulePut {
  readonly ok: true;
  readonly rule: Rule;
  /** What it replaces. */
  readonly before: Rule | null;
}

export interface RuleRemoved {
  readonly ok: true;
  readonly rule: Rule;
}

/** `ended`: its time was over. */
export interface RuleEvent {
  readonly kind: "set" | "replaced" | "removed" | "ended";
  readonly rule: Rule;
  /** Of a rule that was replaced. */
  readonly before: Rule | null;
  /** Who did it; null: nobody, or another gateway. */
  readonly by: string | null;
  /** Whether another gateway did it. */
  readonly isForeign: boolean;
}

/** What the rules say together; null where none says anything. */
interface Summary {
  readonly block: Rule | null;
  readonly exemptsAll: Rule | null;
  /** By the policy. */
  readonly exempts: ReadonlyMap<string, Rule> | null;
  readonly limits: ReadonlyMap<string, Rule> | null;
}

/**
 * The rules about one network, one token or one subject, and what they say together. Of several with the same action
 * and policy, the one that was set last counts.
 */
export class RulesAbout {
  readonly #rules: Rule[] = [];
  /** Null: to be made when it is asked for, since rules often change many at a time. */
  #summary: Summary | null = null;

  get isEmpty(): boolean {
    return this.#rules.length === 0;
  }

  /** There must be none with this id. */
  add(rule: Rule): void {
    this.#rules.push(rule);
    this.#summary = null;
  }

  remove(id: string): void {
    const index = this.#rules.findIndex((rule) => rule.id === id);
    if (index === -1) return;
    this.#rules.splice(index, 1);
    this.#summary = null;
  }

  list(): readonly Rule[] {
    return this.#rules;
  }

  get block(): Rule | null {
    return this.#summarized().block;
  }

  exemptionFrom(policy: string): Rule | null {
    const { exemptsAll, exempts } = this.#summarized();
    return exemptsAll ?? exempts?.get(policy) ?? null;
  }

  limitOf(policy: string): Rule | null {
    return this.#summarized().limits?.get(policy) ?? null;
  }

  #summarized(): Summary {
    this.#summary ??= summaryOf(this.#rules);
    return this.#summary;
  }
}

function summaryOf(rules: readonly Rule[]): Summary {
  let block: Rule | null = null;
  let exemptsAll: Rule | null = null;
  const exempts = new Map<string, Rule>();
  const limits = new Map<string, Rule>();
  for (const rule of rules) {
    const { action, policy } = rule;
    if (action === "block") block = later(rule, block);
    else if (action === "limit") limits.set(policy ?? "", later(rule, limits.get(policy ?? "")));
    else if (policy === null) exemptsAll = later(rule, exemptsAll);
    else exempts.set(policy, later(rule, exempts.get(policy)));
  }
  return { block, exemptsAll, exempts: orNull(exempts), limits: orNull(limits) };
}

function orNull(map: ReadonlyMap<string, Rule>): ReadonlyMap<string, Rule> | null {
  return map.size === 0 ? null : map;
}

function later(rule: Rule, than: Rule | null | undefined): Rule {
  return than && than.revision > rule.revision ? than : rule;
}
