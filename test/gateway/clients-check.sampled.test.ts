// A request that is tried gets the answer of the next real one, whatever is configured and whatever was counted before, and
// trying it changes no byte of the table.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { KeyPart, LimitOverride, Policy } from "../../src/core/policy.ts";
import type { Rule } from "../../src/core/rules.ts";
import type { TriedRequest } from "../../src/gateway/clients.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import type { Overrides } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { runs, scaled } from "../support/runs.ts";
import { Stage } from "./clients-stage.ts";

const keys: fc.Arbitrary<readonly KeyPart[]> = fc.constantFrom<readonly KeyPart[]>(
  [{ kind: "client" }],
  [],
  [{ kind: "token" }],
  [{ kind: "subject" }],
  [{ kind: "header", name: "x-plan" }],
  [{ kind: "client" }, { kind: "method" }, { kind: "route" }],
);
const overrideOf: Readonly<Record<string, LimitOverride>> = {
  client: { part: "client", value: "192.0.2.0/24", limit: 4 },
  subject: { part: "subject", value: "alice", limit: 4 },
  token: { part: "token", value: "bob", limit: 4 },
  header: { part: "header", value: "gold", limit: 4 },
};
const drafts = fc.record({
  rate: fc.constantFrom<Policy["rate"]>(
    { kind: "sliding", windowMs: 1_000 },
    { kind: "sliding", windowMs: 3_000 },
    { kind: "calendar", per: "minute", timezone: "UTC" },
    { kind: "concurrency" },
  ),
  limitAndCost: fc.constantFrom([1, 1] as const, [2, 1] as const, [3, 2] as const, [20_000, 8_000] as const),
  key: keys,
  match: fc.constantFrom(
    { paths: [], methods: [] },
    { paths: [], methods: ["POST"] },
    { paths: ["/v2/crypto"], methods: [] },
  ),
  who: fc.constantFrom(null, null, null, "verified" as const, "others" as const),
  chargeStatuses: fc.constantFrom(null, null, [401]),
  mode: fc.constantFrom("enforce" as const, "enforce" as const, "shadow" as const),
  exempt: fc.constantFrom([], [], ["192.0.2.1"], ["198.51.100.0/24"]),
  isOverridden: fc.boolean(),
});

function policyOf(
  {
    limitAndCost: [limit, cost],
    chargeStatuses,
    isOverridden,
    ...draft
  }: typeof drafts extends fc.Arbitrary<infer T> ? T : never,
  i: number,
): Policy {
  const overrides = draft.key.flatMap(({ kind }) =>
    isOverridden && overrideOf[kind] !== undefined && cost <= 4 ? [overrideOf[kind]] : [],
  );
  return {
    ...slidingPolicy({ name: `policy-${i}`, limit, windowMs: 1, cost }),
    ...draft,
    overrides: overrides as LimitOverride[],
    chargeStatuses: draft.rate.kind === "concurrency" ? null : chargeStatuses,
  };
}

const requests: fc.Arbitrary<TriedRequest> = fc.record({
  client: fc.constantFrom("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.9", "198.51.100.1", "2001:db8::1"),
  method: fc.constantFrom("GET", "POST", "BREW"),
  target: fc.constantFrom("/v2/crypto", "/v1/x", "/v2/x", "/nothing", "/v1/..%2fv2/x", "*"),
  rawHeaders: fc
    .tuple(fc.constantFrom("a", "b", "stranger", "not b64", null), fc.constantFrom("gold", null))
    .map(([token, plan]) => [
      ...["Host", "a.example", "X-Forwarded-For", "203.0.113.9"],
      ...(token === null ? [] : ["Authorization", `Bearer ${token}`]),
      ...(plan === null ? [] : ["X-Plan", plan]),
    ]),
});
const steps = fc.array(
  fc.record({
    request: requests,
    times: fc.integer({ min: 1, max: 3 }),
    gapMs: fc.constantFrom(0, 0.5, 300, 300, 800, 800, 30_000),
    ends: fc.constantFrom(null, null, 200, 401),
  }),
  { minLength: 2, maxLength: 12 },
);
/** At most one of each, so that no two say the same. */
const rules = fc.uniqueArray(
  fc.constantFrom<Pick<Rule, "about" | "action" | "policy" | "limit">>(
    { about: { kind: "client", value: "192.0.2.9" }, action: "block", policy: null, limit: null },
    { about: { kind: "token", value: "bob" }, action: "block", policy: null, limit: null },
    { about: { kind: "client", value: "198.51.100.0/24" }, action: "exempt", policy: null, limit: null },
    { about: { kind: "subject", value: "alice" }, action: "exempt", policy: "policy-0", limit: null },
    { about: { kind: "client", value: "192.0.2.0/24" }, action: "limit", policy: "policy-1", limit: 3 },
    { about: { kind: "token", value: "alice" }, action: "limit", policy: "policy-0", limit: 5 },
  ),
  { maxLength: 3 },
);

const auths = fc.constantFrom<Overrides["auth"] & object>(
  { mode: "presence", rules: [] },
  { mode: "off", rules: [] },
  { mode: "tokens", rules: [] },
  { mode: "tokens", rules: [{ paths: ["/v1/"], methods: [], mode: "off", scopes: [] }] },
  { mode: "tokens", rules: [{ paths: ["/v2/crypto"], methods: [], mode: "tokens", scopes: ["read"] }] },
);

/** The table before a request is tried. */
const before = new Int32Array(minTableBytes / 4);

test("what is tried is what comes, and nothing has changed", async () => {
  const seen = new Map<unknown, number>();
  await fc.assert(
    fc.asyncProperty(
      fc.array(drafts, { minLength: 1, maxLength: 4 }),
      auths,
      fc.constantFrom("reject" as const, "proxy" as const),
      fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: rules }),
      steps,
      async (policies, auth, unmatched, ruled, script) => {
        const stage = new Stage({ policies: policies.map(policyOf), auth, unmatched });
        stage.set(ruled);
        for (const { request, times, gapMs, ends } of script) {
          stage.clock.advance(gapMs);
          for (let i = 0; i < times; i += 1) {
            before.set(stage.words);
            const stats = structuredClone(stage.limiter.stats());
            const { policies: tried, ...answer } = (await stage.clients.check(request)) ?? fail();
            expect(Buffer.from(stage.words.buffer).equals(Buffer.from(before.buffer))).toBe(true);
            expect(stage.limiter.stats()).toEqual(stats);
            const outcomes = tried.map((each) => [each.policy, each.outcome]);
            const { resetMs, ...real } = stage.send(request);
            expect({ ...answer, outcomes }).toEqual(real);
            const shown = tried.find(({ policy }) => policy === answer.policy);
            // A response shows a shadow unspent.
            if (!shown?.isShadow && (shown?.outcome === "admitted" || shown?.outcome === "throttled")) {
              // Null: nobody knows. The response says to ask again in a second.
              expect(shown.quota?.resetMs ?? Math.ceil(stage.clock.wallMs()) + 1_000).toBe(resetMs);
            }
            seen.set(answer.reason, (seen.get(answer.reason) ?? 0) + 1);
            for (const { quota, outcome } of tried) {
              if (quota === null) continue;
              expect(quota.remaining).toBe(Math.max(0, quota.limit - quota.used));
              if (outcome === "admitted") expect(quota.fits).toBe(true);
              if (outcome === "throttled" || outcome === "would_throttle") expect(quota.fits).toBe(false);
            }
          }
          if (ends !== null) stage.held.shift()?.end(ends);
        }
      },
    ),
    runs(600),
  );
  for (const reason of [null, "throttled", "blocked", "invalid_token", "no_route", "insufficient_scope"]) {
    expect([reason, seen.get(reason) ?? 0]).toEqual([reason, expect.toSatisfy((count) => count > scaled(20))]);
  }
});

test("a caller is told of each policy what its next request finds there, and being told charges nothing", async () => {
  const seen = { told: 0, used: 0, exempt: 0, verified: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.array(drafts, { minLength: 1, maxLength: 4 }),
      auths,
      fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: rules }),
      steps,
      async (policies, auth, ruled, script) => {
        const stage = new Stage({ policies: policies.map(policyOf), auth, quota: { path: "/quota" } });
        stage.set(ruled);
        for (const { request, times, gapMs, ends } of script) {
          stage.clock.advance(gapMs);
          for (let i = 0; i < times; i += 1) stage.send(request);
          if (ends !== null) stage.held.shift()?.end(ends);
          const tried = (await stage.clients.check(request)) ?? fail();
          const told = stage.tell(request);
          expect(await stage.clients.check(request)).toEqual(tried);
          // Where a path asks for less than another one, a request there may have no identity.
          if (told === null || told.isVerified !== (tried.subject !== null)) continue;
          for (const { policy: name, isShadow, outcome, quota } of tried.policies) {
            if (isShadow || outcome === null || (outcome !== "exempt" && quota === null)) continue;
            const method = request.method === "BREW" ? "other" : request.method;
            const own = told.policies.find(
              (each) =>
                each.name === name && [null, method].includes(each.method) && [null, tried.route].includes(each.route),
            );
            expect(own?.name).toBe(name);
            if (own?.state === "unknown") {
              expect(own.key).toEqual(["header:x-plan"]);
              continue;
            }
            expect(own?.state === "exempt").toBe(outcome === "exempt");
            seen.told += 1;
            seen.exempt += outcome === "exempt" ? 1 : 0;
            seen.verified += told.isVerified ? 1 : 0;
            if (quota === null) continue;
            seen.used += quota.used > 0 ? 1 : 0;
            const { used, limit, remaining } = quota;
            expect(own).toMatchObject({ used, limit, remaining });
          }
        }
      },
    ),
    runs(600),
  );
  expect(Object.entries(seen).filter(([, count]) => count < scaled(20))).toEqual([]);
});

function fail(): never {
  throw new Error("the client is an address");
}

describe("a request that is tried", () => {
  const get = { method: "GET", target: "/v2/x", client: "192.0.2.1", rawHeaders: ["Authorization", "Bearer any"] };
  const policies = [
    slidingPolicy({ name: "per-ip", limit: 2, windowMs: 60_000 }),
    slidingPolicy({ name: "spared", limit: 9, windowMs: 60_000, exempt: ["10.0.0.0/8", "192.0.2.0/24"] }),
    slidingPolicy({ name: "writes", limit: 9, windowMs: 60_000, match: { paths: [], methods: ["POST"] } }),
    {
      ...slidingPolicy({ name: "by-token", limit: 5, windowMs: 60_000, mode: "shadow" }),
      key: [{ kind: "token" }],
    } as Policy,
  ];

  test("says of each policy what it has counted, and why it is not asked", async () => {
    const stage = new Stage({ policies });
    const { clock } = stage;
    for (let i = 0; i < 2; i += 1) stage.send({ ...get, rawHeaders: ["Host", "a", ...get.rawHeaders] });
    const resetMs = Math.ceil(clock.wallMs()) + 60_000;
    expect(await stage.clients.check(get)).toEqual({
      ...{
        status: 429,
        reason: "throttled",
        policy: "per-ip",
        client: "192.0.2.1",
        route: "/v2/",
        auth: "skipped",
        isVerified: false,
        subject: null,
        blockedBy: null,
      },
      policies: [
        {
          ...{ policy: "per-ip", isShadow: false, matches: true, outcome: "throttled", exemptBy: null },
          quota: { key: "client:192.0.2.1", limit: 2, used: 2, remaining: 0, fits: false, resetMs },
        },
        {
          ...{
            policy: "spared",
            isShadow: false,
            matches: true,
            outcome: "exempt",
            exemptBy: "192.0.2.0/24",
            quota: null,
          },
        },
        { ...{ policy: "writes", isShadow: false, matches: false, outcome: null, exemptBy: null, quota: null } },
        {
          ...{ policy: "by-token", isShadow: true, matches: true, outcome: "observed", exemptBy: null },
          quota: {
            key: expect.stringMatching(/^key:[0-9a-f]{32}$/),
            limit: 5,
            used: 2,
            remaining: 3,
            fits: true,
            resetMs,
          },
        },
      ],
    });
  });

  test("names the rule that blocks it, or exempts it", async () => {
    const stage = new Stage({ policies, auth: { mode: "tokens", rules: [] } });
    stage.set([
      { about: { kind: "client", value: "192.0.2.1" }, action: "block", policy: null, limit: null },
      { about: { kind: "client", value: "198.51.100.0/24" }, action: "exempt", policy: "per-ip", limit: null },
      { about: { kind: "token", value: "alice" }, action: "exempt", policy: "by-token", limit: null },
    ]);
    expect(await stage.clients.check(get)).toMatchObject({ status: 403, reason: "blocked", blockedBy: "rule-0" });
    const ofAlice = { ...get, client: "198.51.100.7", rawHeaders: ["Authorization", "Bearer a"] };
    const answer = await stage.clients.check(ofAlice);
    expect(answer).toMatchObject({ status: null, blockedBy: null, subject: "alice" });
    expect(answer?.policies.map(({ exemptBy }) => exemptBy)).toEqual(["rule rule-1", null, null, "rule rule-2"]);
    const state = await stage.clients.state({ kind: "client", value: "198.51.100.7" });
    expect(state?.policies[0]?.keys).toMatchObject([{ exemptBy: "rule rule-1" }]);
  });

  test("is that of the named client, whatever its headers and the trusted proxies say", async () => {
    const stage = new Stage({ policies, clientAddress: { trustedProxies: ["192.0.2.1", "127.0.0.1"] } });
    const forwarded = { ...get, rawHeaders: [...get.rawHeaders, "X-Forwarded-For", "203.0.113.9"] };
    expect((await stage.clients.check(forwarded))?.client).toBe("192.0.2.1");
    expect((await stage.clients.check({ ...forwarded, client: null }))?.client).toBe("203.0.113.9");
    expect(await stage.clients.check({ ...get, client: "alice" })).toBeNull();
  });

  test("has its own answer, whatever else is asked at the same time", async () => {
    const stage = new Stage({ policies: [slidingPolicy({ name: "per-ip", limit: 9, windowMs: 60_000 })] });
    const names = Array.from({ length: 9 }, (_, i) => `192.0.2.${i}`);
    for (const [i, client] of names.entries()) {
      for (let sent = 0; sent < i; sent += 1)
        stage.send({ ...get, client, rawHeaders: ["Host", "a", ...get.rawHeaders] });
    }
    const answers = names.map((value) => [
      stage.clients.check({ ...get, client: value }),
      stage.clients.state({ kind: "client", value }),
      stage.clients.check({ ...get, client: value, target: "/nothing" }),
    ]);
    for (const [i, [checked, state, outside]] of (
      await Promise.all(answers.map((all) => Promise.all(all)))
    ).entries()) {
      const key = `client:192.0.2.${i}`;
      expect(checked).toMatchObject({ status: null, policies: [{ outcome: "admitted", quota: { key, used: i } }] });
      expect(state).toMatchObject({ policies: [{ keys: [{ key, units: i }] }] });
      expect(outside).toMatchObject({ status: 404, policies: [{ outcome: "observed", quota: { key, used: i } }] });
    }
  });

  test("is judged by the settings in force", async () => {
    const stage = new Stage({ policies });
    expect(await Promise.all([1, 2, 3].map(() => stage.clients.check(get)))).toMatchObject(
      [1, 2, 3].map(() => ({ status: null, reason: null })),
    );
    expect(await stage.clients.check({ ...get, rawHeaders: [] })).toMatchObject({ status: 401, reason: "no_token" });
    expect(await stage.clients.check({ ...get, target: "/x" })).toMatchObject({ status: 404, policy: "per-ip" });
  });
});
