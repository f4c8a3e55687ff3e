// The rules about one network, one token or one subject, and what they say together. Of several with the same action and
// policy, the one that was set last counts.
import type { Rule } from "./rules.ts";

/** What the rules say together; null where none says anything. */
interface Summary {
  readonly block: Rule | null;
  readonly exemptsAll: Rule | null;
  /** By the policy. */
  readonly exempts: ReadonlyMap<string, Rule> | null;
  readonly limits: ReadonlyMap<string, Rule> | null;
}

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
