// The rules that are shown for a client, a token and a subject.
import { expect, test } from "vitest";
import type { RuleControl } from "../../src/admin/control-plane.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { ruleOf } from "../support/rule.ts";
import { controlOf, Stage } from "./clients-stage.ts";

test("a token and its subject, which have one name, are shown with the rules about either", async () => {
  const inForce = new RulesInForce();
  const rules = [
    ruleOf("by-subject", { kind: "subject", value: "alice" }),
    ruleOf("by-token", { kind: "token", value: "alice" }),
    ruleOf("of-bob", { kind: "token", value: "bob" }),
  ];
  inForce.apply({ set: rules, removed: [] });
  const rulesById = { find: (id: string) => ({ rule: { id } }) } as unknown as RuleControl;
  const clients = controlOf(new Stage({}), { inForce, rules: rulesById });
  for (const key of ["token:alice", "subject:alice"]) {
    const found = await clients.find(key);
    expect(found).toMatchObject({ ok: true, value: { rules: [{ id: "by-subject" }, { id: "by-token" }] } });
  }
});
