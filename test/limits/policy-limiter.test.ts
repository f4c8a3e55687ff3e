// What several policies say together, by scenarios. policy-model.sampled.test.ts compares any of them with a model.

import { describe, expect, test } from "vitest";
import type { Decision, Outcome, Policy } from "../../src/core/policy.ts";
import { PolicyLimiter, type PolicyLimiterOptions, type PolicySteps } from "../../src/limits/limiter.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { askedRequest, clientOf, identityOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { justBefore } from "./float.ts";
import { smallTable } from "./small-table.ts";

const minute = 60_000;
type Request = Parameters<typeof limitedRequest>[0];

const policy = (name: string, limit: number, options: Partial<Policy> = {}): Policy =>
  slidingPolicy({ name, limit, windowMs: minute, ...options });

/** Asks in both steps, as the pipeline does. */
function take(limiter: PolicyLimiter, nowMs = 0, parts: Request = {}, identity = identityOf()): Decision {
  const { request, head } = limitedRequest(parts);
  const first = decided(limiter.ask(askedRequest(request, head, nowMs), "anonymous"));
  if (first.outcome === "throttled") return first;
  return decided(limiter.ask(askedRequest(request, head, nowMs, identity, first), "identified"));
}

const bySubject: Partial<Policy> = { key: [{ kind: "subject" }] };
const slotsBy = (kind: "client" | "subject", name = "slots"): Policy =>
  policy(name, 1, { rate: { kind: "concurrency" }, key: [{ kind }] });
const heldLonger = policy("held", 1, { rate: { kind: "sliding", windowMs: 15 * minute }, chargeStatuses: [401] });

function create(policies: readonly Policy[], options: PolicyLimiterOptions = {}): PolicyLimiter {
  return new PolicyLimiter(policies, options);
}

/** A limiter that has replaced the one before. */
function reload(
  policies: readonly Policy[],
  previous: PolicyLimiter,
  options: PolicyLimiterOptions = {},
): PolicyLimiter {
  const next = create(policies, { ...options, previous });
  previous.replacedBy(next);
  return next;
}

/** What a policy has counted, without the outcomes that never came. */
function counts(limiter: PolicySteps): Record<string, Partial<Record<Outcome, number>>> {
  return Object.fromEntries(
    limiter
      .stats()
      .map(({ policy: { name }, outcomes }) => [
        name,
        Object.fromEntries(Object.entries(outcomes).filter(([, count]) => count > 0)),
      ]),
  );
}

/** How many keys each policy has in the table. */
function storedKeys(limiter: PolicyLimiter): number[] {
  return limiter.counterFigures().policies.map(({ keys }) => keys);
}

const shown = ({ outcome, policy: { name }, limit, remaining, resetMs }: Decision) => ({
  outcome,
  name,
  limit,
  remaining,
  resetMs,
});

describe("all or none", () => {
  test("a refusal charges no policy of its step, and each counts what it said", () => {
    const limiter = create([policy("wide", 10), policy("tight", 1), policy("trial", 1, { mode: "shadow" })]);
    expect(shown(take(limiter))).toEqual({
      outcome: "admitted",
      name: "tight",
      limit: 1,
      remaining: 0,
      resetMs: minute,
    });
    for (let i = 1; i <= 5; i += 1) {
      expect(shown(take(limiter, i))).toEqual({
        outcome: "throttled",
        name: "tight",
        limit: 1,
        remaining: 0,
        resetMs: minute,
      });
    }
    expect(counts(limiter)).toEqual({
      wide: { admitted: 1, observed: 5 },
      tight: { admitted: 1, throttled: 5 },
      trial: { admitted: 1, would_throttle: 5 },
    });
    expect(take(limiter, minute)).toMatchObject({ outcome: "admitted" });
    expect(counts(limiter)["wide"]).toEqual({ admitted: 2, observed: 5 });
  });

  test("what the first step has charged stays charged when the second refuses", () => {
    const limiter = create([policy("client", 3), policy("subject", 1, { key: [{ kind: "subject" }] })]);
    const alice = identityOf({ subject: "alice" });
    expect(shown(take(limiter, 0, {}, alice))).toMatchObject({ outcome: "admitted", name: "subject", remaining: 0 });
    expect(shown(take(limiter, 1, {}, alice))).toMatchObject({
      outcome: "throttled",
      name: "subject",
      resetMs: minute,
    });
    // The second step does not show a policy with more left.
    expect(shown(take(limiter, 2, {}, identityOf({ subject: "bob" })))).toMatchObject({
      name: "subject",
      remaining: 0,
    });
    expect(shown(take(limiter, 3, {}, identityOf({ subject: "carol" })))).toMatchObject({
      outcome: "throttled",
      name: "client",
    });
    expect(counts(limiter)).toEqual({ client: { admitted: 3, throttled: 1 }, subject: { admitted: 2, throttled: 1 } });
  });

  test("the first step is shown if it leaves less than the second", () => {
    const limiter = create([policy("client", 2), policy("subject", 9, { key: [{ kind: "subject" }] })]);
    expect(shown(take(limiter))).toMatchObject({ outcome: "admitted", name: "client", remaining: 1 });
  });

  test("32 policies are asked, the last one too", () => {
    const policies = Array.from({ length: 32 }, (_, i) => policy(`${i}`, i === 31 ? 1 : 5));
    const limiter = create(policies);
    expect(take(limiter)).toMatchObject({ outcome: "admitted", policy: { name: "31" } });
    expect(take(limiter)).toMatchObject({ outcome: "throttled", policy: { name: "31" } });
    expect(counts(limiter)["30"]).toEqual({ admitted: 1, observed: 1 });
  });
});

describe("the decision to show", () => {
  test("of several refusals, the one with the latest reset, at which the cost of the request fits", () => {
    const limiter = create([
      policy("short", 10, { cost: 5, rate: { kind: "sliding", windowMs: 1000 } }),
      policy("long", 6, { cost: 3 }),
    ]);
    for (const atMs of [0, 10]) expect(take(limiter, atMs).outcome).toBe("admitted");
    const refused = take(limiter, 20);
    expect(shown(refused)).toEqual({ outcome: "throttled", name: "long", limit: 6, remaining: 0, resetMs: minute });
    expect(take(limiter, justBefore(minute)).outcome).toBe("throttled");
    expect(take(limiter, minute).outcome).toBe("admitted");
  });

  test("of admissions, the one with the fewest requests left, not units; of equals the latest reset", () => {
    const limiter = create([
      policy("units", 50, { cost: 10 }),
      policy("requests", 6),
      policy("later", 5, { rate: { kind: "sliding", windowMs: 2 * minute } }),
    ]);
    expect(shown(take(limiter))).toEqual({
      outcome: "admitted",
      name: "later",
      limit: 5,
      remaining: 4,
      resetMs: 2 * minute,
    });
    const costly = create([policy("units", 50, { cost: 10 }), policy("requests", 6)]);
    expect(shown(take(costly))).toMatchObject({ name: "units", remaining: 40 });
  });

  test("a cost that does not fit leaves what remains, and fits when enough has expired", () => {
    const limiter = create([policy("units", 10, { cost: 4 })]);
    for (const atMs of [0, 100]) expect(take(limiter, atMs).outcome).toBe("admitted");
    expect(shown(take(limiter, 200))).toMatchObject({ outcome: "throttled", remaining: 2, resetMs: minute });
  });

  test("where no enforcing policy applies, the first one, unspent", () => {
    const exempt = create([policy("a", 5, { exempt: ["192.0.2.0/24"] }), policy("b", 9, { exempt: ["192.0.2.1"] })]);
    expect(shown(take(exempt, 7))).toEqual({
      outcome: "exempt",
      name: "a",
      limit: 5,
      remaining: 5,
      resetMs: minute + 7,
    });
    expect(counts(exempt)).toEqual({ a: { exempt: 1 }, b: { exempt: 1 } });
    const matched = create([
      policy("trial", 3, { mode: "shadow" }),
      policy("a", 5, { match: { paths: [], methods: ["POST"] } }),
    ]);
    expect(shown(take(matched, 7))).toEqual({
      outcome: "observed",
      name: "a",
      limit: 5,
      remaining: 5,
      resetMs: minute + 7,
    });
    expect(counts(matched)).toEqual({ trial: { admitted: 1 }, a: {} });
    expect(shown(matched.show(take(matched, 7), 9))).toMatchObject({ name: "a", remaining: 5, resetMs: minute + 9 });
  });

  test("a client that is exempt from one policy is limited by the others", () => {
    const limiter = create([policy("a", 1, { exempt: ["192.0.2.1"] }), policy("b", 2)]);
    for (let i = 0; i < 2; i += 1) expect(take(limiter)).toMatchObject({ outcome: "admitted", policy: { name: "b" } });
    expect(take(limiter)).toMatchObject({ outcome: "throttled", policy: { name: "b" } });
    expect(take(limiter, 0, { client: "192.0.2.2" })).toMatchObject({ outcome: "admitted", policy: { name: "a" } });
  });

  test("an override is the limit of its key, in decisions too, and a look keeps to it", () => {
    const limiter = create([policy("a", 1, { overrides: [{ part: "client", value: "192.0.2.0/24", limit: 3 }] })]);
    expect(shown(take(limiter))).toMatchObject({ outcome: "admitted", limit: 3, remaining: 2 });
    expect(shown(limiter.show(clientOf("192.0.2.1"), 5))).toMatchObject({
      outcome: "observed",
      limit: 3,
      remaining: 2,
    });
    expect(shown(take(limiter, 0, { client: "198.51.100.1" }))).toMatchObject({ limit: 1, remaining: 0 });
    expect(shown(take(limiter, 0, { client: "198.51.100.1" }))).toMatchObject({ outcome: "throttled", limit: 1 });
  });

  test("on requests that are not limited, the first enforcing policy by client that is about all requests", () => {
    const limiter = create([
      policy("all", 5, { key: [] }),
      policy("trial", 5, { mode: "shadow" }),
      policy("posts", 5, { match: { paths: [], methods: ["POST"] } }),
      policy("client", 7, { exempt: ["203.0.113.0/24"] }),
    ]);
    take(limiter);
    expect(shown(limiter.show(clientOf("192.0.2.1"), 3, true))).toEqual({
      outcome: "observed",
      name: "client",
      limit: 7,
      remaining: 6,
      resetMs: minute,
    });
    expect(shown(limiter.show(clientOf("203.0.113.9"), 3, true))).toMatchObject({
      outcome: "exempt",
      name: "client",
      remaining: 7,
    });
    limiter.show(clientOf("192.0.2.1"), 4);
    expect(counts(limiter)["client"]).toEqual({ admitted: 1, observed: 1, exempt: 1 });
    const without = create([policy("trial", 5, { mode: "shadow" }), policy("all", 5, { key: [] })]);
    take(without);
    expect(shown(without.show(clientOf("192.0.2.1"), 3, true))).toEqual({
      outcome: "observed",
      name: "all",
      limit: 5,
      remaining: 5,
      resetMs: minute + 3,
    });
    expect(counts(without)["all"]).toEqual({ admitted: 1 });
  });

  test("a decision is refreshed for its policy, key and limit, with its list", () => {
    const limiter = create([policy("a", 5), policy("b", 9, { key: [] })], { listAll: true });
    const decision = take(limiter);
    take(limiter, 1);
    const now = limiter.show(decision, 2);
    expect(shown(now)).toEqual({ outcome: "observed", name: "a", limit: 5, remaining: 3, resetMs: minute });
    expect(now.others?.map(shown)).toMatchObject([
      { name: "a", remaining: 3 },
      { name: "b", remaining: 7 },
    ]);
  });
});

describe("the list of all policies", () => {
  test("has every enforcing policy that applies, of both steps, charged or not", () => {
    const limiter = create(
      [
        policy("client", 9),
        policy("trial", 9, { mode: "shadow" }),
        policy("posts", 9, { match: { paths: [], methods: ["POST"] } }),
        policy("subject", 2, { key: [{ kind: "subject" }] }),
        policy("free", 2, { exempt: ["192.0.2.1"] }),
      ],
      { listAll: true },
    );
    expect(take(limiter).others?.map(shown)).toMatchObject([
      { outcome: "admitted", name: "client", remaining: 8 },
      { outcome: "admitted", name: "subject", remaining: 1 },
    ]);
    take(limiter);
    expect(take(limiter).others?.map(shown)).toMatchObject([
      { outcome: "admitted", name: "client", remaining: 6 },
      { outcome: "throttled", name: "subject", remaining: 0 },
    ]);
  });

  test("shows what a policy has left that was not charged because another refused", () => {
    const limiter = create([policy("wide", 10, { cost: 3 }), policy("tight", 1)], { listAll: true });
    take(limiter);
    expect(take(limiter).others?.map(shown)).toMatchObject([
      { outcome: "observed", name: "wide", remaining: 7 },
      { outcome: "throttled", name: "tight", remaining: 0 },
    ]);
  });

  test("is null for one policy, and unless it was asked for", () => {
    expect(take(create([policy("a", 5)], { listAll: true })).others).toBeNull();
    expect(take(create([policy("a", 5), policy("b", 5)])).others).toBeNull();
  });
});

describe("shadow policies", () => {
  test("refuse nothing, and are charged only with the enforcing ones of their step", () => {
    const limiter = create([policy("trial", 2, { mode: "shadow" }), policy("real", 4)]);
    for (let i = 0; i < 4; i += 1)
      expect(shown(take(limiter))).toMatchObject({ outcome: "admitted", name: "real", remaining: 3 - i });
    expect(take(limiter).outcome).toBe("throttled");
    expect(counts(limiter)).toEqual({ trial: { admitted: 2, would_throttle: 3 }, real: { admitted: 4, throttled: 1 } });
  });

  test("are all there is with enforcement shadow: nothing is refused, and the first one is shown unspent", () => {
    const limiter = create([policy("a", 1), policy("b", 2)], { enforcement: "shadow" });
    for (let i = 0; i < 3; i += 1) {
      expect(shown(take(limiter, i))).toEqual({
        outcome: "observed",
        name: "a",
        limit: 1,
        remaining: 1,
        resetMs: minute + i,
      });
    }
    expect(counts(limiter)).toEqual({ a: { admitted: 1, would_throttle: 2 }, b: { admitted: 2, would_throttle: 1 } });
    const enforced = reload([policy("a", 1), policy("b", 2)], limiter);
    expect(take(enforced, 3)).toMatchObject({ outcome: "throttled", policy: { name: "a" } });
  });
});

describe("what is held until the end", () => {
  const atOnce: Partial<Policy> = { rate: { kind: "concurrency" } };
  const failures: Partial<Policy> = { chargeStatuses: [401, 403] };

  test("a slot is free again when its exchange ends, whatever its status, and a second end frees no other", () => {
    const limiter = create([policy("slots", 2, atOnce)]);
    const [first, second] = [take(limiter), take(limiter)];
    expect(shown(take(limiter, 5))).toEqual({
      outcome: "throttled",
      name: "slots",
      limit: 2,
      remaining: 0,
      resetMs: 1005,
    });
    first.held?.end(200);
    first.held?.end(200);
    expect(take(limiter).outcome).toBe("admitted");
    expect(take(limiter).outcome).toBe("throttled");
    second.held?.end(0);
    expect(take(limiter).outcome).toBe("admitted");
  });

  test.each([
    [401, "kept"],
    [403, "kept"],
    [0, "kept"],
    [200, "given back"],
    [500, "given back"],
  ])("a unit charged by status is held; at the end with %d it is %s", (status, outcome) => {
    const limiter = create([policy("failures", 1, failures)]);
    const { held } = take(limiter);
    expect(take(limiter, 1).outcome).toBe("throttled");
    held?.end(status);
    expect(take(limiter, 2).outcome).toBe(outcome === "kept" ? "throttled" : "admitted");
  });

  test("a hundred guesses at once get ten through, and those that were no guesses are given back", () => {
    const limiter = create([policy("failures", 10, failures)]);
    const holds = Array.from({ length: 100 }, (_, i) => take(limiter, i)).flatMap(({ held }) => held ?? []);
    expect(holds).toHaveLength(10);
    for (const [i, held] of holds.entries()) held.end(i < 4 ? 200 : 401);
    const more = Array.from({ length: 100 }, () => take(limiter, 100)).filter(({ outcome }) => outcome === "admitted");
    expect(more).toHaveLength(4);
  });

  test("several policies hold for one exchange, of both steps, and shadow ones too", () => {
    const limiter = create([
      policy("slots", 5, atOnce),
      policy("trial", 5, { ...atOnce, mode: "shadow" }),
      policy("failures", 5, { ...failures, key: [{ kind: "subject" }] }),
    ]);
    const { held } = take(limiter);
    const left = () => storedKeys(limiter);
    expect(left()).toEqual([1, 1, 1]);
    held?.end(200);
    expect(left()).toEqual([0, 0, 0]);
  });

  test("a tunnel goes on holding its slots; its units are settled by the 101", () => {
    const limiter = create([
      policy("slots", 5, atOnce),
      policy("failures", 5, failures),
      policy("upgrades", 5, { chargeStatuses: [101] }),
      policy("more slots", 5, atOnce),
    ]);
    const left = () => storedKeys(limiter);
    const { held = null } = take(limiter);
    const tunnel = held?.switched(101);
    expect(left()).toEqual([1, 0, 1, 1]);
    tunnel?.end(101);
    expect(left()).toEqual([0, 0, 1, 0]);
    expect(take(create([policy("failures", 5, failures)])).held?.switched(101)).toBeNull();
  });

  test("a refusal by the second step holds the slot of the first until the exchange ends", () => {
    const limiter = create([policy("slots", 5, atOnce), policy("subject", 1, { key: [{ kind: "subject" }] })]);
    take(limiter).held?.end(200);
    const refused = take(limiter);
    expect(refused).toMatchObject({ outcome: "throttled", policy: { name: "subject" } });
    expect(storedKeys(limiter)[0]).toBe(1);
    refused.held?.end(429);
    expect(storedKeys(limiter)[0]).toBe(0);
  });

  test("a refusal in its own step holds nothing", () => {
    const limiter = create([policy("slots", 5, atOnce), policy("client", 1)]);
    expect(take(limiter).held).not.toBeNull();
    expect(take(limiter).held).toBeNull();
    expect(limiter.stats()[0]?.outcomes).toMatchObject({ admitted: 1, observed: 1 });
  });
});

describe("checks", () => {
  test("leave out what an end matters to, and share tables and statistics", () => {
    const limiter = create([
      policy("slots", 1, { rate: { kind: "concurrency" } }),
      policy("failures", 1, { chargeStatuses: [401] }),
      policy("client", 2),
    ]);
    const checks = limiter.forChecks();
    const { request, head } = limitedRequest();
    expect(checks.ask(askedRequest(request, head, 0), "anonymous")).toMatchObject({
      outcome: "admitted",
      policy: { name: "client" },
      held: null,
    });
    expect(take(limiter)).toMatchObject({ outcome: "admitted", policy: { name: "failures" } });
    expect(checks.ask(askedRequest(request, head, 0), "anonymous")).toMatchObject({
      outcome: "throttled",
      policy: { name: "client" },
    });
    expect(checks.show(clientOf("192.0.2.1"), 0)).toMatchObject({
      policy: { name: "client" },
      remaining: 0,
    });
    expect(counts(checks)).toEqual({
      slots: { admitted: 1 },
      failures: { admitted: 1 },
      client: { admitted: 2, throttled: 1 },
    });
  });

  test("with no policy left, show the first one unspent, and admit", () => {
    const checks = create([policy("slots", 1, { rate: { kind: "concurrency" } })]).forChecks();
    const { request, head } = limitedRequest();
    for (let i = 0; i < 3; i += 1)
      expect(shown(checks.ask(askedRequest(request, head, 0), "anonymous") as Decision)).toMatchObject({
        outcome: "observed",
        name: "slots",
        remaining: 1,
      });
    const first = decided(checks.ask(askedRequest(request, head, 0), "anonymous"));
    expect(checks.ask(askedRequest(request, head, 0, identityOf(), first), "identified")).toBe(first);
  });
});

test("what others have used up is found without a charge: the one that refuses for longest", () => {
  const others: Partial<Policy> = { who: "others" };
  const long = policy("long", 4, { ...others, cost: 2, rate: { kind: "sliding", windowMs: 5 * minute } });
  const limiter = create([policy("short", 2, others), long, policy("trial", 1, { ...others, mode: "shadow" })]);
  const { request, head } = limitedRequest();
  const first = decided(limiter.ask(askedRequest(request, head, 0), "anonymous"));
  const asked = askedRequest(request, head, 0, null, first);
  for (const left of [2, 1]) {
    expect(limiter.ask(asked, "usedUp")).toBe(first);
    expect(limiter.ask(asked, "refused")).toMatchObject({ outcome: "admitted", remaining: (left - 1) * 2 });
  }
  for (let i = 0; i < 2; i += 1) {
    expect(limiter.ask(asked, "usedUp")).toMatchObject({ outcome: "throttled", policy: long, resetMs: 5 * minute });
  }
  expect(counts(limiter)).toMatchObject({ short: { admitted: 2 }, long: { admitted: 2 } });
});

describe("a reload", () => {
  test("use 60 of 100, then a limit of 50: throttled with an exact reset; back to 100: 40 left", () => {
    const first = create([policy("client", 100)]);
    for (let i = 0; i < 60; i += 1) expect(take(first, i).outcome).toBe("admitted");
    const lower = reload([policy("client", 50)], first);
    expect(shown(take(lower, 100))).toEqual({
      outcome: "throttled",
      name: "client",
      limit: 50,
      remaining: 0,
      resetMs: minute + 10,
    });
    expect(shown(lower.show(clientOf("192.0.2.1"), 100))).toMatchObject({
      remaining: 0,
      resetMs: minute + 10,
    });
    const again = reload([policy("client", 100)], lower);
    expect(again.show(clientOf("192.0.2.1"), 100).remaining).toBe(40);
    expect(take(again, 100).remaining).toBe(39);
    const lowest = reload([policy("client", 50)], again);
    expect(take(lowest, justBefore(minute + 11)).outcome).toBe("throttled");
    expect(take(lowest, minute + 11).outcome).toBe("admitted");
  });

  test("keeps the counts of a policy under its name, kind and key, wherever it stands, and of hashed keys", () => {
    const key: Policy["key"] = [{ kind: "header", name: "x-plan" }];
    const request = { rawHeaders: ["X-Plan", "gold"] };
    const first = create([policy("plan", 5, { key }), policy("client", 9)]);
    for (let i = 0; i < 5; i += 1) take(first, 0, request);
    const second = reload([policy("new", 9), policy("client", 9), policy("plan", 5, { key })], first);
    expect(take(second, 1, request)).toMatchObject({ outcome: "throttled", policy: { name: "plan" } });
    const outcomes = counts(second);
    expect(outcomes["plan"]).toEqual({ admitted: 5, throttled: 1 });
    expect(outcomes["new"]).toEqual({ observed: 1 });
  });

  test.each([
    ["another name", policy("other", 2)],
    ["another kind", policy("client", 2, { rate: { kind: "calendar", per: "day", timezone: "UTC" } })],
    ["another key", policy("client", 2, { key: [] })],
  ])("%s starts empty", (_what, changed) => {
    const first = create([policy("client", 2)]);
    for (let i = 0; i < 2; i += 1) take(first);
    const second = reload([changed], first, { clock: new FakeClock() });
    expect(storedKeys(second)[0]).toBe(0);
    expect(take(second).outcome).toBe("admitted");
  });

  test("a slot taken before it is freed after it", () => {
    const slots = policy("slots", 1, { rate: { kind: "concurrency" } });
    const first = create([slots]);
    const { held } = take(first);
    const second = reload([{ ...slots, limit: 2 }], first);
    const later = take(second);
    expect(later.outcome).toBe("admitted");
    expect(take(second).outcome).toBe("throttled");
    held?.end(200);
    expect(take(second).outcome).toBe("admitted");
    later.held?.end(200);
    expect(storedKeys(second)[0]).toBe(1);
  });

  test.each([
    ["a slot", { rate: { kind: "concurrency" } }],
    ["a unit of a period", { rate: { kind: "calendar", per: "day", timezone: "UTC" }, chargeStatuses: [401] }],
  ] as const)("an exchange of a policy that is gone gives %s back to no other policy", (_what, options) => {
    const table = smallTable();
    const clock = new FakeClock();
    const first = create([policy("held", 1, options)], { table, clock });
    const { held } = take(first);
    const second = create([policy("client", 9)], { previous: first });
    first.replacedBy(second);
    while (!table.maintenance.sweep(0));
    const third = create([policy("again", 1, options)], { previous: second, clock });
    second.replacedBy(third);
    expect(third.slots).toMatchObject([{ slot: first.slots[0]?.slot }]);
    expect(take(third).outcome).toBe("admitted");
    held?.end(200);
    expect(take(third).outcome).toBe("throttled");
  });

  test("nor in a thread that is told the slots", () => {
    const table = smallTable();
    const clock = new FakeClock();
    const slots = (name: string) => [{ policy: policy(name, 1, { rate: { kind: "concurrency" } }), slot: 3 }];
    const made = (name: string, previous: PolicyLimiter | null) =>
      create([], { table, clock, slots: slots(name), previous });
    const other = policy("client", 9);
    const first = made("held", null);
    const { held } = take(first);
    const second = create([other], { table, slots: [{ policy: other, slot: 4 }], previous: first });
    first.replacedBy(second);
    while (!table.maintenance.sweep(0));
    const third = made("again", second);
    second.replacedBy(third);
    expect(take(third).outcome).toBe("admitted");
    held?.end(200);
    expect(take(third).outcome).toBe("throttled");
  });

  test("a thread that is late with a reload takes no slot from a policy that has it by then", () => {
    const table = smallTable();
    const clock = new FakeClock();
    const monthly = policy("monthly", 1, { rate: { kind: "calendar", per: "month", timezone: "UTC" } });
    const { slots } = create([monthly], { table, clock });
    const late = create([monthly], { table, clock, slots });
    expect(take(late).outcome).toBe("admitted");
    const other = policy("other", 1);
    const next = create([other], { previous: late, slots: [{ policy: other, slot: 7 }] });
    const { endMs } = table.periodOf(0);
    late.replacedBy(next);
    expect(table.periodOf(0).endMs).toBe(endMs);
  });

  test("another time zone moves the end of the period that is under way", () => {
    const day = (timezone: string) => policy("day", 2, { rate: { kind: "calendar", per: "day", timezone } });
    const clock = new FakeClock();
    const endOf = ({ resetMs }: Decision) => new Date(resetMs + clock.wallOffsetMs).toISOString();
    const first = create([day("UTC")], { clock });
    expect(endOf(take(first, clock.nowMs))).toBe("2023-11-15T00:00:00.000Z");
    const second = reload([day("America/New_York")], first, { clock });
    const decision = take(second, clock.nowMs);
    expect([decision.remaining, endOf(decision)]).toEqual([0, "2023-11-15T05:00:00.000Z"]);
  });

  test("a limiter that is made and not used changes nothing", () => {
    const day = policy("day", 2, { rate: { kind: "calendar", per: "day", timezone: "UTC" } });
    const clock = new FakeClock();
    const first = create([day], { clock });
    const { resetMs } = take(first);
    create([{ ...day, rate: { kind: "calendar", per: "month", timezone: "Europe/Berlin" } }], {
      clock,
      previous: first,
    });
    expect(take(first)).toMatchObject({ outcome: "admitted", remaining: 0, resetMs });
  });
});

/** Policies of the first step, and one of the step after the token check. All are used up; the latest reset is shown. */
test.each<[claim: string, first: readonly Policy[], second: Policy, lasting: string | null]>([
  ["the window before slots", [policy("window", 1)], slotsBy("subject"), "window"],
  ["the window behind slots", [slotsBy("client")], policy("window", 1, bySubject), "window"],
  ["the window behind held units, before slots", [policy("window", 1), heldLonger], slotsBy("subject"), "window"],
  ["nothing but slots", [slotsBy("client")], slotsBy("subject", "more"), null],
  ["units that a 429 keeps", [slotsBy("client")], policy("kept", 1, { ...bySubject, chargeStatuses: [429] }), "kept"],
  ["units that it gives back", [slotsBy("client")], policy("back", 1, { ...bySubject, chargeStatuses: [401] }), null],
  ["a shadow", [slotsBy("client")], policy("shadow", 1, { ...bySubject, mode: "shadow" }), null],
])("what lasts beyond an upstream's 429: %s", (_, first, second, lasting) => {
  const decision = take(create([...first, second]));
  expect(decision.outcome).toBe("admitted");
  expect(decision.lasting?.policy.name ?? null).toBe(lasting);
  expect(decision.lasting?.remaining ?? 0).toBe(0);
});
