// The ids that commands make for rules: accepted by the API, the same for the same rule, and different for different ones.
import { expect, test } from "vitest";
import type { RuleWanted } from "../../../src/admin/control-plane.ts";
import { type KeyKind, readRuledKey } from "../../../src/commands/admin/invocation.ts";
import { idOf } from "../../../src/commands/admin/rule-report.ts";
import { ruleId } from "../../../src/commands/options.ts";

function idFor(action: RuleWanted["action"], whom: string, policy: string | null = null): string {
  const about = readRuledKey(whom);
  if (typeof about === "string") throw new Error(about);
  return idOf(action, policy, about);
}

test.each([
  ["block", "203.0.113.7", null, "block-203.0.113.7"],
  ["block", "203.0.113.99/24", null, "block-203.0.113.0_24"],
  ["block", "client:2001:DB8:0::/64", null, "block-2001_db8___64"],
  ["exempt", "alice", null, "exempt-token-alice"],
  ["limit", "subject:alice", "by-partner", "limit-by-partner-subject-alice"],
] as const)("%s of %s", (action, whom, policy, id) => {
  expect(idFor(action, whom, policy)).toBe(id);
});

test("names with any characters, and long ones, have ids of their own that the API accepts", () => {
  const names = [
    "Partner A",
    "Partner  A",
    "Partner_A",
    "Partner@A",
    "ä",
    "ö",
    "",
    "x".repeat(64),
    "x".repeat(63),
    "../..",
    "a/b",
    "a:b",
  ];
  const kinds: readonly KeyKind[] = ["token", "subject"];
  const ids = kinds.flatMap((kind) =>
    names.filter((name) => name !== "").map((name) => idFor("block", `${kind}:${name}`)),
  );
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) expect(id).toMatch(ruleId.pattern);
});
