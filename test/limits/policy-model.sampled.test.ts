// Several policies of all kinds, with random keys, costs, overrides, exemptions and modes, against the model, while time
// passes, exchanges end and reloads change the limits.

import { hash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Decision, Held, KeyPart, LimitOverride, Policy } from "../../src/core/policy.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { askedRequest, identityOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { runs, scaled } from "../support/runs.ts";
import { justBefore } from "./float.ts";
import { type Answer, type ModelRequest, PolicyModel, type Told, unitsIn } from "./policy-model.ts";
import { reusedTable } from "./small-table.ts";

/** By the digest, which is how the model knows a token. */
const tokens = new Map(["t1", "t2"].map((token) => [hash("sha256", token, "hex"), token] as const));
const [t1 = "", t2 = ""] = tokens.keys();

const secret = Buffer.alloc(16, 7);

const keys: fc.Arbitrary<readonly KeyPart[]> = fc.constantFrom<readonly KeyPart[]>(
  [{ kind: "client" }],
  [{ kind: "client" }],
  [],
  [{ kind: "token" }],
  [{ kind: "subject" }],
  [{ kind: "claim", name: "org" }],
  [{ kind: "header", name: "x-plan" }],
  [{ kind: "client" }, { kind: "method" }, { kind: "header", name: "x-plan" }],
  [{ kind: "route" }, { kind: "subject" }, { kind: "client" }],
);

const overrideValues: Readonly<Record<string, readonly string[]>> = {
  client: ["192.0.2.1", "192.0.2.0/24", "198.51.100.1"],
  subject: ["alice", "bob"],
  header: ["gold", "free"],
  token: [t1, t2],
};

const rates: fc.Arbitrary<Policy["rate"]> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.integer({ min: 1, max: 3000 }).map((windowMs) => ({ kind: "sliding", windowMs }) as const),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom("minute", "hour").map((per) => ({ kind: "calendar", per, timezone: "UTC" }) as const),
  },
  { weight: 2, arbitrary: fc.constant({ kind: "concurrency" } as const) },
);

const drafts = fc.record({
  rate: rates,
  cost: fc.constantFrom(1, 1, 1, 2, 3),
  /** Beyond the cost. */
  spare: fc.nat({ max: 5 }),
  key: keys,
  match: fc.constantFrom(
    { paths: [], methods: [] },
    { paths: [], methods: [] },
    { paths: [], methods: ["POST"] },
    { paths: ["/v2/crypto"], methods: [] },
  ),
  chargeStatuses: fc.constantFrom(null, null, [401], [401, 403]),
  mode: fc.constantFrom("enforce", "enforce", "enforce", "shadow"),
  exempt: fc.constantFrom([], [], [], ["192.0.2.1"], ["192.0.2.0/24"]),
  overrides: fc.array(fc.record({ value: fc.nat({ max: 2 }), spare: fc.nat({ max: 8 }) }), { maxLength: 2 }),
});

type Draft = typeof drafts extends fc.Arbitrary<infer T> ? T : never;

function policyOf({ spare, overrides, rate, cost, key, chargeStatuses, ...draft }: Draft, index: number): Policy {
  const parts = key.flatMap(({ kind }) => (kind in overrideValues ? [kind as LimitOverride["part"]] : []));
  const listed = overrides.flatMap((override, i): LimitOverride[] => {
    const part = parts[i % Math.max(1, parts.length)];
    const value = part === undefined ? undefined : overrideValues[part]?.[override.value];
    return part === undefined || value === undefined ? [] : [{ part, value, limit: cost + override.spare }];
  });
  return {
    ...slidingPolicy({ name: `policy ${index}`, limit: cost + spare, windowMs: 1 }),
    ...draft,
    rate,
    cost,
    key,
    chargeStatuses: rate.kind === "concurrency" ? null : chargeStatuses,
    overrides: listed.filter(
      ({ part, value }, i) => listed.findIndex((one) => one.part === part && one.value === value) === i,
    ),
  };
}

// Without a token nobody is known.
const requests: fc.Arbitrary<ModelRequest> = fc
  .record({
    client: fc.constantFrom("192.0.2.1", "192.0.2.7", "198.51.100.1"),
    method: fc.constantFrom("GET", "POST"),
    target: fc.constantFrom("/v2/crypto", "/v2/x"),
    token: fc.constantFrom(t1, t1, t2, null),
    plan: fc.constantFrom("gold", "free", "", null),
    subject: fc.constantFrom("alice", "alice", "bob", null),
  })
  .map((request) => (request.token === null ? { ...request, subject: null } : request));

const steps = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("request" as const),
      request: requests,
      times: fc.constantFrom(1, 1, 3, 8),
      waits: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      which: fc.nat({ max: 30 }),
      status: fc.constantFrom(200, 401, 403, 0),
    }),
  },
  // Multiples of 1/64 ms, so that sums with the wall clock are exact.
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("gap" as const),
      ms: fc.oneof(
        fc.nat({ max: 64_000 }).map((n) => n / 64),
        fc.constantFrom(20_000, 3_000_000),
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("reload" as const),
      spare: fc.array(fc.nat({ max: 5 }), { minLength: 5, maxLength: 5 }),
    }),
  },
);

const scenarios = fc.record({
  drafts: fc.array(drafts, { minLength: 1, maxLength: 5 }),
  tokensAreVerified: fc.boolean(),
  enforcement: fc.constantFrom("on", "on", "on", "shadow"),
  script: fc.array(steps, { minLength: 5, maxLength: 25, size: "max" }),
});

type Scenario = typeof scenarios extends fc.Arbitrary<infer T> ? T : never;

/** The limiter and the model side by side. */
class Trial {
  readonly clock = new FakeClock();
  readonly model = new PolicyModel();
  readonly open: { readonly held: Held | null; readonly exchange: number }[] = [];
  refused = 0;
  waits = 0;
  readonly #largest = new Map<string, number>();
  #limiter: PolicyLimiter;
  readonly #options: Pick<Scenario, "tokensAreVerified" | "enforcement">;

  constructor(policies: readonly Policy[], options: Pick<Scenario, "tokensAreVerified" | "enforcement">) {
    this.#options = options;
    const isSecond = ({ kind }: KeyPart) =>
      kind === "subject" || kind === "claim" || (kind === "token" && options.tokensAreVerified);
    this.model.isSecond = ({ key }) => key.some(isSecond);
    this.model.isShadow = ({ mode }) => mode === "shadow" || options.enforcement === "shadow";
    this.model.policies = policies;
    this.#limiter = this.#create(policies, null);
  }

  reload(policies: readonly Policy[]): void {
    this.model.policies = policies;
    this.#limiter = this.#create(policies, this.#limiter);
  }

  end(which: number, status: number): void {
    const [exchange] = this.open.splice(which, 1);
    if (exchange === undefined) return;
    exchange.held?.end(status);
    this.model.end(exchange.exchange, status);
  }

  request(request: ModelRequest): Answer {
    const { nowMs } = this.clock;
    const now = { nowMs, wallMs: this.clock.wallMs() };
    const decision = this.#decide(request, nowMs);
    const answer = this.model.take(request, now);
    same(toldOf(decision), answer.shown);
    const all = decision.others?.map(toldOf) ?? [];
    if (answer.all.length > 1) for (const [i, told] of answer.all.entries()) same(all[i], told);
    else if (decision.others !== null) throw new Error("a list of one policy");
    this.#keepsBounds(now);
    for (const { policy, outcomes } of this.#limiter.stats()) {
      const counted = this.model.outcomes.get(policy.name);
      for (const [outcome, count] of Object.entries(outcomes)) {
        if (count !== ((counted as Record<string, number>)?.[outcome] ?? 0)) expect(outcomes).toEqual(counted);
      }
    }
    if (answer.refusing.length > 0) this.refused += 1;
    this.open.push({ held: decision.held, exchange: answer.exchange });
    return answer;
  }

  /** Waits as long as the refusal has told, if one policy alone has refused. */
  waitFor(request: ModelRequest, { refusing, shown, mayEndSoon }: Answer): void {
    const [policy] = refusing;
    if (policy === undefined || refusing.length > 1 || policy.rate.kind === "concurrency" || mayEndSoon) return;
    this.waits += 1;
    // Sums with the wall clock are exact in steps of 1/64 ms only.
    this.clock.nowMs = policy.rate.kind === "sliding" ? justBefore(shown.resetMs) : shown.resetMs - 1 / 64;
    const early = this.request(request);
    if (early.refusing.length === 0) throw new Error(`admitted before ${shown.resetMs}`);
    this.clock.nowMs = shown.resetMs;
    const late = this.request(request);
    if (late.refusing.includes(policy)) throw new Error(`refused at ${shown.resetMs}`);
    // A refusal in the second step has charged the first, which may refuse now.
    if (!this.model.isSecond(policy) && !late.refusing.every(this.model.isSecond))
      throw new Error("refused by another");
  }

  #decide(parts: ModelRequest, nowMs: number): Decision {
    const { client, method, target, token, plan, subject } = parts;
    const authorization = token === null ? [] : ["Authorization", `Bearer ${tokens.get(token)}`];
    const rawHeaders = [...authorization, ...(plan === null ? [] : ["X-Plan", plan])];
    const { request, head } = limitedRequest({ client, method, target, rawHeaders });
    const first = decided(this.#limiter.ask(askedRequest(request, head, nowMs), "anonymous"));
    if (first.outcome === "throttled") return first;
    const claims = new Map(subject === null ? [] : [["org", subject]]);
    const identity = token === null ? null : identityOf({ tokenDigest: token, subject, claims });
    return decided(this.#limiter.ask(askedRequest(request, head, nowMs, identity, first), "identified"));
  }

  #keepsBounds(now: { readonly nowMs: number; readonly wallMs: number }): void {
    for (const policy of this.model.policies) {
      const most = Math.max(
        this.#largest.get(policy.name) ?? 0,
        policy.limit,
        ...policy.overrides.map(({ limit }) => limit),
      );
      this.#largest.set(policy.name, most);
      const last = this.model.charges.get(policy.name)?.at(-1);
      if (last === undefined) continue;
      const used = unitsIn(this.model.counted(policy, last.key, now));
      if (used > most) throw new Error(`${used} units of ${most}`);
    }
  }

  #create(policies: readonly Policy[], previous: PolicyLimiter | null): PolicyLimiter {
    const options = { ...this.#options, clock: this.clock, listAll: true, secret, previous };
    const next = new PolicyLimiter(policies, previous === null ? { ...options, table: reusedTable() } : options);
    previous?.replacedBy(next);
    return next;
  }
}

test("equals the model, whatever the policies are and whatever happens", () => {
  const seen = { refused: 0, waits: 0 };
  fc.assert(
    fc.property(scenarios, (scenario) => {
      const trial = play(scenario);
      seen.refused += trial.refused;
      seen.waits += trial.waits;
    }),
    runs(10_000, 50),
  );
  expect(seen.refused).toBeGreaterThan(scaled(50_000, 50));
  expect(seen.waits).toBeGreaterThan(scaled(4_000, 50));
});

function play({ drafts: list, script, ...options }: Scenario): Trial {
  let policies = list.map(policyOf);
  const trial = new Trial(policies, options);
  for (const step of script) {
    switch (step.kind) {
      case "request": {
        for (let i = 1; i < step.times; i += 1) trial.request(step.request);
        const answer = trial.request(step.request);
        if (step.waits) trial.waitFor(step.request, answer);
        break;
      }
      case "end":
        trial.end(step.which, step.status);
        break;
      case "gap":
        trial.clock.advance(step.ms);
        break;
      case "reload":
        policies = policies.map((policy, i) => ({ ...policy, limit: policy.cost + (step.spare[i] ?? 0) }));
        trial.reload(policies);
        break;
    }
  }
  return trial;
}

function toldOf({ outcome, policy: { name }, limit, remaining, resetMs }: Decision): Told {
  return { outcome, name, limit, remaining, resetMs };
}

/** Compared by hand: a million calls of expect() would take longer than everything else. */
function same(actual: Told | undefined, expected: Told): void {
  const isSame =
    actual !== undefined &&
    actual.outcome === expected.outcome &&
    actual.name === expected.name &&
    actual.limit === expected.limit &&
    actual.remaining === expected.remaining &&
    actual.resetMs === expected.resetMs;
  if (!isSame) expect(actual).toEqual(expected);
}
