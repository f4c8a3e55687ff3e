// Sets, shows and removes rules for people. The rule book checks and keeps them; here they get the form of the API, and the
// preconditions of a call become the revision that a rule must have.
import { setImmediate } from "node:timers/promises";
import type {
  AdminCaller,
  ControlRefusal,
  ControlResult,
  Precondition,
  RuleControl,
  RuleVersions,
  RuleWanted,
  ShownRule,
  TaggedRule,
} from "../../admin/control-plane.ts";
import { entityTag } from "../../admin/request-fields.ts";
import { formatDuration } from "../../config/leaves.ts";
import { inPortions, type Rule, type RuleRefusalReason, type RuleRefused } from "../../core/rules.ts";
import type { RuleBook } from "../rule-book.ts";
import { type RuleContext, ruleWarnings, untouchedBy } from "../rule-input.ts";

interface RuleControlOptions {
  readonly keeper: RuleBook;
  /** The configuration in force. */
  readonly context: () => RuleContext;
}

export function createRuleControl({ keeper, context }: RuleControlOptions): RuleControl {
  const tagged = (rule: Rule): TaggedRule => ({
    rule: show(rule, context(), keeper),
    revision: rule.revision,
  });
  return {
    async *list() {
      const sorted = keeper.list().toSorted((a, b) => (a.id < b.id ? -1 : 1));
      for (const portion of inPortions(sorted)) {
        yield portion.map((rule) => tagged(rule).rule);
        await setImmediate();
      }
    },
    find(id) {
      const rule = keeper.get(id);
      return rule && tagged(rule);
    },
    async put(id, { force = false, ...wanted }: RuleWanted, precondition, caller) {
      const result = await underCondition(precondition, {
        rule: () => keeper.get(id),
        write: (expectedRevision) => keeper.put({ id, ...wanted }, writerOf(caller), { expectedRevision, force }),
      });
      if (!result.ok) return result;
      const { rule, before } = result.value;
      return { ok: true, value: { before: before && tagged(before), after: tagged(rule) } };
    },
    async remove(id, precondition, caller): Promise<ControlResult<RuleVersions>> {
      const result = await underCondition(precondition, {
        rule: () => keeper.get(id),
        write: (expectedRevision) => keeper.remove(id, writerOf(caller), { expectedRevision }),
      });
      if (!result.ok) return result;
      return { ok: true, value: { before: tagged(result.value.rule), after: null } };
    },
  };
}

/** Of a write whose rule other gateways change at the same time. */
const mostAttempts = 3;

/** Another gateway may have changed the rule: then the precondition is judged by what is there now, and not by a revision. */
async function underCondition<T extends { readonly ok: true }>(
  precondition: Precondition,
  of: { rule(): Rule | null; write(expectedRevision: number | null): Promise<T | RuleRefused> },
): Promise<ControlResult<T>> {
  for (let attempt = 0; attempt < mostAttempts; attempt += 1) {
    const expected = expectedRevision(of.rule(), precondition);
    if (typeof expected === "object" && expected !== null) return expected;
    const result = await of.write(expected);
    if (result.ok) return { ok: true, value: result };
    const { reason } = result;
    if (expected === null || (reason !== "changed" && reason !== "unknown")) return refusedAs(result);
  }
  return mismatch("The rule is changed at other gateways at the same time.");
}

/** Returns the revision that the rule must have, 0 for none and null for any; or what there is instead. */
function expectedRevision(rule: Rule | null, precondition: Precondition): number | null | ControlResult<never> {
  if (precondition.kind === "none") return null;
  if (precondition.kind === "missing") {
    return rule === null ? 0 : mismatch("If-None-Match: there is a rule with this id.");
  }
  if (rule === null) return mismatch("If-Match: there is no rule with this id.");
  if (precondition.kind !== "revisions" || precondition.revisions.includes(rule.revision)) return rule.revision;
  return mismatch(`If-Match: the entity tag of the rule is ${entityTag(rule.revision)} now.`);
}

function mismatch(detail: string): ControlResult<never> {
  return { ok: false, why: "mismatch", details: [detail] };
}

const whyNot: Readonly<Record<RuleRefusalReason, ControlRefusal>> = {
  invalid: "unacceptable",
  needs_force: "conflict",
  changed: "mismatch",
  full: "full",
  unknown: "absent",
};

/** Details about a key say that it is one of the body. */
function refusedAs({ reason, details }: RuleRefused): ControlResult<never> {
  return { ok: false, why: whyNot[reason], details: details.map((detail) => detail.replace(/^(?=[a-z]+: )/, "body.")) };
}

function writerOf({ name, peer }: AdminCaller) {
  return { name, address: peer };
}

function show(rule: Rule, context: RuleContext, keeper: RuleControlOptions["keeper"]): ShownRule {
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
    warnings: [...ruleWarnings(rule, context)],
    untouchedPolicies: [...untouchedBy(rule, context)],
    survivesRestart: keeper.survivesRestart(id),
    shared: keeper.isShared(id),
  };
}
