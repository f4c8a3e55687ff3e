// What the limiter is asked, drawn: kinds of policies, and the steps of a scenario.
import { hash } from "node:crypto";
import fc from "fast-check";
import type { KeyPart, LimitOverride, Policy } from "../../src/core/policy.ts";
import { slidingPolicy } from "../support/policy.ts";
import type { ModelRequest } from "./policy-model.ts";

/** By the digest, which is how the model knows a token. */
export const tokens = new Map(["t1", "t2"].map((token) => [hash("sha256", token, "hex"), token] as const));
const [t1 = "", t2 = ""] = tokens.keys();

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

const fractional = (maxMs: number) => fc.double({ min: 0, max: maxMs, noNaN: true });

const windows = fc
  .oneof(
    fc.integer({ min: 1, max: 3000 }),
    fc.constant(60_000),
    fractional(499).map((ms) => ms + 1),
  )
  .map((windowMs) => ({ kind: "sliding", windowMs }) as const);

const rates: fc.Arbitrary<Policy["rate"]> = fc.oneof(
  { weight: 4, arbitrary: windows },
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

const plain = slidingPolicy({ name: "policy 0", limit: 1, windowMs: 1 });
const limitAndCost = (...pairs: readonly (readonly [limit: number, cost: number])[]) =>
  fc.constantFrom(...pairs).map(([limit, cost]) => ({ limit, cost }));

const minuteWindow = { kind: "sliding", windowMs: 60_000 } as const;

/** What a table counts in cells: in which unit of time a charge expires, only the tests of the counters say. */
const inCells = fc
  .record({ numbers: limitAndCost([20_000, 4_000], [20_000, 5_000]), chargeStatuses: fc.constantFrom([401], null) })
  .map(({ numbers, chargeStatuses }): Policy => ({ ...plain, ...numbers, chargeStatuses, rate: minuteWindow }));

/** The policies of a scenario, by kind. */
const policyLists: fc.Arbitrary<readonly Policy[]> = fc.oneof(
  { weight: 6, arbitrary: fc.array(drafts, { minLength: 1, maxLength: 5 }).map((all) => all.map(policyOf)) },
  // Alone and by client, which is decided in a shorter way.
  {
    weight: 3,
    arbitrary: fc
      .record({ rate: windows, limit: fc.integer({ min: 1, max: 20 }) })
      .map((drawn) => [{ ...plain, ...drawn }]),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({ rate: windows, numbers: limitAndCost([10, 1], [10, 3], [25, 7], [12, 12]) })
      .map(({ rate, numbers }) => [{ ...plain, ...numbers, rate }]),
  },
  {
    weight: 3,
    arbitrary: fc
      .record({ rate: fc.oneof(fc.constant(minuteWindow), rates), numbers: limitAndCost([5, 1], [7, 2], [4, 1]) })
      .filter(({ rate }) => rate.kind !== "concurrency")
      .map(({ rate, numbers }) => [{ ...plain, ...numbers, rate, chargeStatuses: [401] }]),
  },
  { weight: 2, arbitrary: inCells.map((policy) => [policy]) },
);

const clients = fc.constantFrom("192.0.2.1", "192.0.2.7", "198.51.100.1");

// Without a token nobody is known.
const requests: fc.Arbitrary<ModelRequest> = fc
  .record({
    client: clients,
    method: fc.constantFrom("GET", "POST"),
    target: fc.constantFrom("/v2/crypto", "/v2/x"),
    token: fc.constantFrom(t1, t1, t2, null),
    plan: fc.constantFrom("gold", "free", "", null),
    subject: fc.constantFrom("alice", "alice", "bob", null),
  })
  .map((request) => (request.token === null ? { ...request, subject: null } : request));

const kind = <K extends string>(name: K) => fc.constant(name);

const steps = fc.oneof(
  {
    weight: 16,
    arbitrary: fc.record({
      kind: kind("request"),
      request: requests,
      times: fc.constantFrom(1, 1, 3, 8),
      waits: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: kind("end"),
      which: fc.nat({ max: 8 }),
      status: fc.constantFrom(200, 401, 403, 0),
    }),
  },
  // All that are under way.
  { weight: 1, arbitrary: fc.record({ kind: kind("endAll"), status: fc.constantFrom(200, 200, 401, 0) }) },
  {
    weight: 9,
    arbitrary: fc.record({
      kind: kind("gap"),
      ms: fc.oneof(
        fractional(40),
        fc.constantFrom(0.5, 4, 7_000, 61_000, 3_000_000),
        fc.constantFrom("to the reset" as const, "to just before it" as const),
        { weight: 5, arbitrary: fractional(0.3).map((ofWindow) => ({ ofWindow })) },
      ),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: kind("show"), client: clients }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: kind("quota"),
      questions: fc.array(
        fc.record({
          request: requests,
          policy: fc.constantFrom(null, null, "policy 0", "policy 1"),
          hits: fc.constantFrom(1, 1, 2, 5, 12),
        }),
        { minLength: 1, maxLength: 4 },
      ),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: kind("forgive"), client: clients }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: kind("rule"),
      client: clients,
      which: fc.constantFrom(0, 0, 0, 1, 2),
      /** Null: the rule is removed. */
      limit: fc.constantFrom(null, 1, 3, 10, 25),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: kind("reload"),
      spare: fc.array(fc.constantFrom(0, 1, 2, 5, 12, 24), { minLength: 5, maxLength: 5 }),
      isShorter: fc.boolean(),
    }),
  },
);

// Also around the instants at which a tick of 32 bits changes its sign or begins again.
const starts = fc.oneof(
  { weight: 4, arbitrary: fractional(1e7) },
  { weight: 3, arbitrary: fractional(500).map((ms) => 2 ** 31 - ms) },
  { weight: 1, arbitrary: fractional(500).map((ms) => 2 ** 32 - ms) },
);

export const scenarios = fc.record({
  policies: policyLists,
  tokensAreVerified: fc.boolean(),
  enforcement: fc.constantFrom("on", "on", "on", "shadow"),
  startMs: starts,
  script: fc.array(steps, { minLength: 5, maxLength: 40, size: "max" }),
});

export type Scenario = typeof scenarios extends fc.Arbitrary<infer T> ? T : never;
export type Step = Scenario["script"][number];
