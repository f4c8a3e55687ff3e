// What several policies say together, where the model of policy-model.sampled.test.ts does not say it, and the rule of all or none.

import { describe, expect, test } from "vitest";
import type { Decision, Outcome, Policy } from "../../src/core/policy.ts";
import { PolicyLimiter, type PolicyLimiterOptions, type PolicySteps } from "../../src/limits/limiter.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { askedRequest, clientOf, identityOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
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

  test("32 policies are asked, the last one too", () => {
    const policies = Array.from({ length: 32 }, (_, i) => policy(`${i}`, i === 31 ? 1 : 5));
    const limiter = create(policies);
    expect(take(limiter)).toMatchObject({ outcome: "admitted", policy: { name: "31" } });
    expect(take(limiter)).toMatchObject({ outcome: "throttled", policy: { name: "31" } });
    expect(counts(limiter)["30"]).toEqual({ admitted: 1, observed: 1 });
  });
});

describe("the decision to show", () => {
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
  test("is null for one policy, and unless it was asked for", () => {
    expect(take(create([policy("a", 5)], { listAll: true })).others).toBeNull();
    expect(take(create([policy("a", 5), policy("b", 5)])).others).toBeNull();
  });
});

describe("shadow policies", () => {
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

  test("a period ends at its border, also if the process has not run since the instant of the request", () => {
    const day = policy("day", 2, { rate: { kind: "calendar", per: "day", timezone: "UTC" } });
    const { nowMs, wallOffsetMs, monotonicMs, wallMs, wallMsAt } = new FakeClock();
    const clock = { monotonicMs, wallMs: () => wallMs() + 2_000, wallMsAt };
    const { resetMs } = take(create([day], { clock }), nowMs);
    expect(new Date(resetMs + wallOffsetMs).toISOString()).toBe("2023-11-15T00:00:00.000Z");
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
