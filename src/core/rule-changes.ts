// What is asked of whoever keeps the rules, what is answered, and what others hear of it.
import type { Rule, RuleChange } from "./rules.ts";

/** A rule as a person writes it. Nothing of it has been checked. */
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

export interface RuleCondition {
  /** The revision that the rule must have; 0: there must be none; null: whatever there is. */
  readonly expectedRevision: number | null;
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
  readonly survivesRestart: boolean;
  /** False: the store is away, and it holds at this gateway alone until that is back. Null: gateways share nothing. */
  readonly isShared: boolean | null;
  /** The policies that the rule is about and does not touch: asked before the check, or not keyed by what it names. */
  readonly untouchedPolicies: readonly string[];
  readonly warnings: readonly string[];
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

/** Who keeps the rules of a process. */
export interface RuleKeeper {
  /** Rises with each change. */
  readonly revision: number;
  list(): readonly Rule[];
  get(id: string): Rule | null;
  /** Resolves when every thread that serves has the rule. */
  put(input: RuleInput, writer: RuleWriter, condition: RuleCondition): Promise<RulePut | RuleRefused>;
  remove(
    id: string,
    writer: RuleWriter,
    condition: Pick<RuleCondition, "expectedRevision">,
  ): Promise<RuleRemoved | RuleRefused>;
  /** As in RulePut, of what was set or removed last under this id. */
  isShared(id: string): boolean | null;
  /**
   * Takes over what gateways share, with its revisions. A rule that is newer here stays. `all`: those that are set are all that
   * hold, and others are removed; default: false.
   */
  take(change: RuleChange, all?: boolean): Promise<void>;
  /** Returns the function that ends it. */
  onChange(listener: (event: RuleEvent) => void): () => void;
}
