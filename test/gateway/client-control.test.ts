// The rules that are shown for a client, a token and a subject.
import { expect, test } from "vitest";
import type { RuleControl } from "../../src/admin/control-plane.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { slidingPolicy } from "../support/policy.ts";
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

test("the period that is shown is the one of the moment", async () => {
  const rate = { kind: "calendar", per: "day", timezone: "UTC" } as const;
  const stage = new Stage({ policies: [{ ...slidingPolicy({ limit: 5, windowMs: 0 }), rate }] });
  const clients = controlOf(stage);
  for (const day of ["2023-11-14", "2023-11-15"]) {
    const found = await clients.find("client:192.0.2.1");
    expect(found).toMatchObject({ ok: true, value: { policies: [{ period: { start: `${day}T00:00:00.000Z` } }] } });
    stage.clock.advance(86_400_000);
  }
});
