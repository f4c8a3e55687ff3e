// Questions about a quota that come together, against a naive log of what each policy has charged to each key.

import fc from "fast-check";
import { expect, test } from "vitest";
import type { QuotaLimiter, QuotaRequest } from "../../src/core/limiter.ts";
import type { Decision, Policy } from "../../src/core/policy.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { clockOf } from "../support/clock.ts";
import { identityOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { ruleOf } from "../support/rule.ts";
import { runs, scaled } from "../support/runs.ts";
import { reusedTable } from "./small-table.ts";

interface Asked {
  readonly client: string;
  readonly policy: string | null;
  readonly hits: number;
}

const policyAt = (i: number) =>
  fc
    .record({
      // Large enough for calls of several questions to be admitted often.
      limit: fc.integer({ min: 1, max: 20 }),
      cost: fc.integer({ min: 1, max: 3 }),
      windowMs: fc.integer({ min: 20, max: 200 }),
      isForAll: fc.boolean(),
      isShadow: fc.boolean(),
    })
    .map(({ isForAll, isShadow, cost, limit, windowMs }) =>
      slidingPolicy({
        name: `p${i}`,
        windowMs,
        limit,
        cost: Math.min(cost, limit),
        key: isForAll ? [] : [{ kind: "client" }],
        // One of them enforces, so that there is something to show.
        mode: isShadow && i > 0 ? "shadow" : "enforce",
      }),
    );

const policies = fc.tuple(policyAt(0), policyAt(1), policyAt(2));
const questions = fc.array(
  fc.record<Asked>({
    client: fc.constantFrom("192.0.2.1", "192.0.2.2"),
    policy: fc.constantFrom(null, null, "p0", "p1"),
    hits: fc.integer({ min: 1, max: 5 }),
  }),
  { minLength: 1, maxLength: 4 },
);
const calls = fc.array(fc.record({ gapMs: fc.nat({ max: 60 }), questions }), { minLength: 1, maxLength: 30 });

/** Keeps every charge. */
class Model {
  readonly #charged = new Map<string, { readonly atMs: number; readonly units: number }[]>();
  readonly #policies: readonly Policy[];

  constructor(policies: readonly Policy[]) {
    this.#policies = policies;
  }

  /** Returns whether each question is refused. */
  ask(all: readonly Asked[], nowMs: number): boolean[] {
    const charges = new Map<string, { readonly policy: Policy; units: number }>();
    const keysOf = ({ client, policy: named }: Asked): (readonly [policy: Policy, key: string])[] =>
      this.#policies
        .filter(({ name }) => named === null || named === name)
        .map((policy) => [policy, `${policy.name} ${policy.key.length === 0 ? "" : client}`]);
    for (const asked of all) {
      for (const [policy, key] of keysOf(asked)) {
        const charge = charges.get(key) ?? { policy, units: 0 };
        charge.units += asked.hits * policy.cost;
        charges.set(key, charge);
      }
    }
    const fits = (key: string): boolean => {
      const { policy, units } = charges.get(key) ?? { policy: this.#policies[0] as Policy, units: 0 };
      return this.counted(key, policy, nowMs) + units <= policy.limit;
    };
    const refuses = ([policy, key]: readonly [Policy, string]): boolean => policy.mode === "enforce" && !fits(key);
    const refused = all.map((asked) => keysOf(asked).some(refuses));
    if (refused.includes(true)) return refused;
    const fitting = [...charges].filter(([key]) => fits(key));
    for (const [key, { units }] of fitting) {
      this.#charged.set(key, [...(this.#charged.get(key) ?? []), { atMs: nowMs, units }]);
    }
    return refused;
  }

  counted(key: string, { rate }: Policy, nowMs: number): number {
    const windowMs = rate.kind === "sliding" ? rate.windowMs : 0;
    const young = (this.#charged.get(key) ?? []).filter(({ atMs }) => nowMs - atMs < windowMs);
    return young.reduce((sum, { units }) => sum + units, 0);
  }
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

test("all of a call are charged or none, and no key is ever over its limit", () => {
  let [refusals, admissions] = [0, 0];
  fc.assert(
    fc.property(policies, calls, (list, script) => {
      const quotas = new PolicyLimiter(list, { table: reusedTable(), clock }).forQuotas();
      const model = new Model(list);
      let nowMs = 0;
      for (const { gapMs, questions: asked } of script) {
        nowMs += gapMs;
        const expected = model.ask(asked, nowMs);
        const decisions = decideAll(quotas, asked.map(requestOf), nowMs);
        expect(decisions.map(({ outcome }) => outcome === "throttled")).toEqual(expected);
        if (expected.includes(true)) refusals += 1;
        else admissions += 1;
        for (const [i, { policy, limit, remaining }] of decisions.entries()) {
          const client = policy.key.length === 0 ? "" : asked[i]?.client;
          // A shadow policy is shown only if it is the one that was named.
          const counted = model.counted(`${policy.name} ${client}`, policy, nowMs);
          if (policy.mode === "enforce") expect(remaining).toBe(limit - counted);
        }
      }
    }),
    runs(1_000),
  );
  expect(refusals).toBeGreaterThan(scaled(1_000));
  expect(admissions).toBeGreaterThan(scaled(1_000));
});

test("the reset that a refusal tells is the instant at which the whole call fits", () => {
  const quotas = new PolicyLimiter([slidingPolicy({ limit: 5, windowMs: 100 })]).forQuotas();
  const asks = (hits: number, nowMs: number) =>
    decideAll(quotas, [requestOf({ client: "192.0.2.1", policy: null, hits })], nowMs)[0];
  for (const nowMs of [0, 10, 20, 30, 40]) expect(asks(1, nowMs)?.outcome).toBe("admitted");
  expect(asks(3, 50)).toMatchObject({ outcome: "throttled", remaining: 0, resetMs: 120 });
  expect(asks(3, 119)?.outcome).toBe("throttled");
  expect(asks(3, 120)).toMatchObject({ outcome: "admitted", remaining: 0 });
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
