// Rules for tests.
import type { Rule, RuleSubject } from "../../src/core/rules.ts";

/** A block without an end, unless the test says otherwise. */
export function ruleOf(id: string, about: RuleSubject, changes: Partial<Rule> = {}): Rule {
  const endsMs = Number.MAX_SAFE_INTEGER;
  const others = {
    action: "block",
    policy: null,
    limit: null,
    setMs: 0,
    note: "",
    setBy: "test",
    revision: 1,
  } as const;
  return { id, about, ...others, endsMs, ...changes };
}

export function client(value: string): RuleSubject {
  return { kind: "client", value };
}
