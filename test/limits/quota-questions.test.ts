// Questions about a quota that come together. policy-model.sampled.test.ts compares any of them with a model.
import { expect, test } from "vitest";
import type { QuotaLimiter, QuotaRequest } from "../../src/core/limiter.ts";
import type { Decision } from "../../src/core/policy.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { clockOf } from "../support/clock.ts";
import { identityOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { ruleOf } from "../support/rule.ts";
import { reusedTable } from "./small-table.ts";

interface Asked {
  readonly client: string;
  readonly policy: string | null;
  readonly hits: number;
}

function requestOf({ client, policy, hits }: Asked): QuotaRequest {
  const { request: parsed, head } = limitedRequest({ client });
  return { parsed, head, identity: null, isVerified: false, policy, hits };
}

/** The counters of this process answer at once. */
function decideAll(quotas: QuotaLimiter, requests: readonly QuotaRequest[], nowMs: number): readonly Decision[] {
  const decisions = quotas.askAll(requests, nowMs);
  if (decisions instanceof Promise) throw new Error("the decisions come later");
  return decisions;
}

/** Requests are charged at the instants that they name, though threads may share the table. */
const clock = clockOf(
  () => 0,
  () => 0,
);

test("the reset that a refusal tells is the instant at which the whole call fits", () => {
  const quotas = new PolicyLimiter([slidingPolicy({ limit: 5, windowMs: 100 })]).forQuotas();
  const asks = (hits: number, nowMs: number) =>
    decideAll(quotas, [requestOf({ client: "192.0.2.1", policy: null, hits })], nowMs)[0];
  for (const nowMs of [0, 10, 20, 30, 40]) expect(asks(1, nowMs)?.outcome).toBe("admitted");
  expect(asks(3, 50)).toMatchObject({ outcome: "throttled", remaining: 0, resetMs: 120 });
  expect(asks(3, 119)?.outcome).toBe("throttled");
  expect(asks(3, 120)).toMatchObject({ outcome: "admitted", remaining: 0 });
});

test("a quota is exhausted as soon as less is left than a request costs", () => {
  const limiter = new PolicyLimiter([slidingPolicy({ limit: 5, cost: 2, windowMs: 100 })], { clock });
  const [asked] = [requestOf({ client: "192.0.2.1", policy: null, hits: 1 })];
  const told = () => limiter.quotasOf(asked, [], 0).map(({ state, remaining }) => [state, remaining]);
  for (const expected of [
    ["open", 3],
    ["exhausted", 1],
  ] as const) {
    decideAll(limiter.forQuotas(), [asked], 0);
    expect(told()).toEqual([expected]);
  }
});

test("a rule about a subject is none for a policy that is asked before the token check, as for any request", () => {
  const runtimeRules = new RulesInForce();
  runtimeRules.apply({ set: [ruleOf("1", { kind: "subject", value: "alice" }, { action: "exempt" })], removed: [] });
  const each = { limit: 1, windowMs: 1000 };
  const list = [slidingPolicy(each), slidingPolicy({ ...each, name: "named", key: [{ kind: "subject" }] })];
  const quotas = new PolicyLimiter(list, { table: reusedTable(), clock, runtimeRules }).forQuotas();
  const asked = { client: "192.0.2.1", hits: 1 };
  const identity = identityOf({ subject: "alice" });
  const outcomes = list.map(({ name }) => {
    const request = { ...requestOf({ ...asked, policy: name }), identity, isVerified: true };
    return [0, 0].map(() => decideAll(quotas, [request], 0)[0]?.outcome);
  });
  expect(outcomes).toEqual([
    ["admitted", "throttled"],
    ["exempt", "exempt"],
  ]);
});
