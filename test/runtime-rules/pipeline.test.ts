// What rules make of a request, and what it costs: the whole pipeline and the real limiter, without a socket.
import { describe, expect, test } from "vitest";
import { createAuthenticator, createDemandReader } from "../../src/auth/authenticator.ts";
import { TokenList } from "../../src/auth/tokens-file.ts";
import { readPeer } from "../../src/core/client-address.ts";
import { systemClock } from "../../src/core/clock.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import type { Policy } from "../../src/core/policy.ts";
import { HeadersMemory, HeadMemory, type RequestHead, type Verdict } from "../../src/core/request-head.ts";
import type { Rule } from "../../src/core/rules.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import type { TokenRate } from "../../src/core/token-bucket.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { RefusalBuckets } from "../../src/limits/refusal-buckets.ts";
import { createDecide } from "../../src/pipeline.ts";
import { digestOf } from "../auth/digest.ts";
import { slidingPolicy } from "../support/policy.ts";
import { requestRules } from "../support/request-rules.ts";
import { client, ruleOf } from "../support/rule.ts";

const windowMs = 60_000;
const perIp = slidingPolicy({ limit: 3, windowMs });
const perToken: Policy = { ...slidingPolicy({ limit: 5, windowMs }), name: "per-token", key: [{ kind: "token" }] };
const clientAddress = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;
const value = new TokenList([
  { digest: digestOf("alice-token"), name: "alice" },
  { digest: digestOf("bob-token"), name: "bob" },
]);

interface Stage {
  readonly rules?: readonly Rule[];
  readonly policies?: readonly Policy[];
  readonly budget?: TokenRate;
  readonly mode?: "tokens" | "presence";
}

function stage({ rules: set = [], policies = [perIp], budget, mode = "tokens" }: Stage) {
  const runtimeRules = new RulesInForce();
  runtimeRules.apply({ set, removed: [] });
  const routes = ["/v1/", "/v2/"];
  const rules = requestRules({ clientAddress });
  const limiter = new PolicyLimiter(policies, { tokensAreVerified: mode === "tokens", listAll: true, runtimeRules });
  const decide = createDecide({
    ...{ rules, runtimeRules, limiter },
    authenticator: createAuthenticator({ value, isCurrent: true, onChange: () => {}, close: () => {} }, systemClock),
    demandOf: createDemandReader({ mode, rules: [] }, routes, "/"),
    refusals: new RefusalBuckets(budget ?? { perSecond: 1, burst: 100 }),
    nowMs: () => 0,
  });
  const ask = (token: string | null = "alice", target = "/v2/x", changes: Partial<RequestHead> = {}): Verdict => {
    const rawHeaders = ["Host", "a", ...(token === null ? [] : ["Authorization", `Bearer ${token}-token`])];
    const peer = readPeer("192.0.2.1", clientAddress);
    const verdict = decide({ peer, method: "GET", target, rawHeaders, httpVersion: "1.1", ...changes }, 0);
    if (verdict instanceof Promise) throw new Error("nothing is waited for");
    return verdict;
  };
  return { ask, limiter, change: runtimeRules.apply.bind(runtimeRules) };
}

const shown = ({ localReply, auth, decision, blockedBy }: Verdict) => ({
  reason: localReply?.reason ?? null,
  auth,
  by: blockedBy?.id ?? null,
  outcome: decision.outcome,
  left: `${decision.remaining} of ${decision.limit} by ${decision.policy.name}`,
});

const blockClient = ruleOf("bad-net", client("192.0.2.0/24"));
const blockAlice = ruleOf("bad-token", { kind: "token", value: "alice" });

describe("a blocked client", () => {
  const blocked = {
    reason: "blocked",
    auth: "skipped",
    by: "bad-net",
    outcome: "observed",
    left: "3 of 3 by per-ip",
  };
  const requests: readonly [string, string | null, string?, Partial<RequestHead>?][] = [
    ["with a good token", "alice"],
    ["without a token", null],
    ["outside of all routes", "alice", "/health"],
    ["with a path in an unusual spelling", "alice", "/v1/%2e%2e/x"],
    ["with an ambiguous path", "alice", "/v1/..%2fv2/x"],
    ["OPTIONS *", "alice", "*", { method: "OPTIONS" }],
    ["a method that is refused", "alice", "/v2/x", { method: "TRACE" }],
  ];
  test.each(requests)(
    "is refused before its quota and its token: %s",
    (_, token, target?: string, changes?: Partial<RequestHead>) => {
      const { ask } = stage({ rules: [blockClient] });
      expect(shown(ask(token, target, changes))).toEqual(blocked);
      expect(shown(ask())).toEqual(blocked);
    },
  );

  test("is refused although its head is remembered, and served again by the same head", () => {
    const { ask, change } = stage({});
    const memory = new HeadMemory(new HeadersMemory());
    expect(shown(ask("alice", "/v2/x", { memory }))).toMatchObject({ reason: null, left: "2 of 3 by per-ip" });
    change({ set: [blockClient], removed: [] });
    expect(shown(ask("alice", "/v2/x", { memory }))).toEqual({ ...blocked, left: "2 of 3 by per-ip" });
    change({ set: [], removed: ["bad-net"] });
    expect(shown(ask("alice", "/v2/x", { memory }))).toMatchObject({ reason: null, left: "1 of 3 by per-ip" });
  });

  test("pays from its budget for refusals", () => {
    const { ask } = stage({ rules: [blockClient], budget: { perSecond: 1, burst: 2 } });
    const reasons = Array.from({ length: 3 }, () => shown(ask()).reason);
    expect(reasons).toEqual(["blocked", "blocked", "too_many_refusals"]);
  });

  test("is blocked although another rule exempts a smaller network of it", () => {
    const { ask } = stage({ rules: [blockClient, ruleOf("good", client("192.0.2.1"), { action: "exempt" })] });
    expect(shown(ask())).toMatchObject({ reason: "blocked", outcome: "exempt" });
  });
});

describe("a blocked token", () => {
  test("is refused after its check, with its client's quota charged and its own spared", () => {
    const { ask, limiter } = stage({ rules: [blockAlice], policies: [perIp, perToken] });
    expect(shown(ask())).toEqual({
      ...{ reason: "blocked", auth: "accepted", by: "bad-token" },
      ...{ outcome: "admitted", left: "2 of 3 by per-ip" },
    });
    expect(shown(ask("bob"))).toMatchObject({ reason: null, auth: "accepted", left: "1 of 3 by per-ip" });
    expect(limiter.stats().map(({ outcomes }) => outcomes.admitted)).toEqual([2, 1]);
    expect(shown(ask("wrong"))).toMatchObject({ reason: "invalid_token", by: null });
  });

  test("is not known where tokens are not verified", () => {
    const { ask } = stage({ rules: [blockAlice], mode: "presence" });
    expect(shown(ask())).toMatchObject({ reason: null, auth: "accepted" });
  });

  test("pays from the budget for refusals where no quota was charged before", () => {
    const { ask } = stage({ rules: [blockAlice], policies: [perToken], budget: { perSecond: 1, burst: 1 } });
    const reasons = Array.from({ length: 2 }, () => shown(ask()).reason);
    expect(reasons).toEqual(["blocked", "too_many_refusals"]);
  });

  test("holds nothing after its refusal", () => {
    const slots: Policy = { ...perIp, rate: { kind: "concurrency" }, limit: 1 };
    const { ask } = stage({ rules: [blockAlice], policies: [slots] });
    const first = ask();
    expect(shown(first)).toMatchObject({ reason: "blocked" });
    expect(shown(ask("bob"))).toMatchObject({ reason: "throttled" });
    first.decision.held?.end(403);
    expect(shown(ask("bob"))).toMatchObject({ reason: null });
  });

  test("is refused by its subject, too", () => {
    const { ask } = stage({ rules: [ruleOf("who", { kind: "subject", value: "alice" })] });
    expect(shown(ask())).toMatchObject({ reason: "blocked", by: "who" });
  });
});

describe("a rule about quotas", () => {
  const exempt = { action: "exempt" } as const;
  const limitTo = (policy: string, limit: number) => ({ action: "limit", policy, limit }) as const;

  test("an exempt client is charged by no policy", () => {
    const { ask, limiter } = stage({
      rules: [ruleOf("good", client("192.0.2.1"), exempt)],
      policies: [perIp, perToken],
    });
    for (let i = 0; i < 9; i += 1) expect(shown(ask())).toMatchObject({ reason: null, outcome: "exempt" });
    expect(limiter.stats().map(({ outcomes }) => outcomes.exempt)).toEqual([9, 9]);
  });

  test("an exempt client of the only policy is charged nothing, and shown so outside of routes", () => {
    const { ask } = stage({ rules: [ruleOf("good", client("192.0.2.1"), exempt)] });
    for (let i = 0; i < 9; i += 1) {
      expect(shown(ask())).toMatchObject({ reason: null, outcome: "exempt", left: "3 of 3 by per-ip" });
    }
    expect(shown(ask(null, "/health"))).toMatchObject({ reason: "no_route", outcome: "exempt" });
  });

  test("an exempt token is still charged by what is asked before its check", () => {
    const rule = ruleOf("good", { kind: "token", value: "alice" }, exempt);
    const { ask } = stage({
      rules: [rule],
      policies: [
        { ...perIp, limit: 7 },
        { ...perToken, limit: 1 },
      ],
    });
    expect(shown(ask())).toMatchObject({ reason: null, left: "6 of 7 by per-ip" });
    expect(shown(ask())).toMatchObject({ reason: null, left: "5 of 7 by per-ip" });
    expect(shown(ask("bob"))).toMatchObject({ reason: null, left: "0 of 1 by per-token" });
    expect(shown(ask("bob"))).toMatchObject({ reason: "throttled" });
  });

  test("a client's limit is the one that is applied and shown, in and outside of routes", () => {
    const { ask, change } = stage({ rules: [ruleOf("more", client("192.0.2.0/24"), limitTo("per-ip", 5))] });
    for (const left of [4, 3, 2, 1]) expect(shown(ask())).toMatchObject({ left: `${left} of 5 by per-ip` });
    expect(shown(ask(null, "/health"))).toMatchObject({ left: "1 of 5 by per-ip" });
    change({ set: [ruleOf("less", client("192.0.2.1"), limitTo("per-ip", 2))], removed: [] });
    expect(shown(ask())).toMatchObject({ reason: "throttled", left: "0 of 2 by per-ip" });
    change({ set: [], removed: ["less", "more"] });
    expect(shown(ask())).toMatchObject({ reason: "throttled", left: "0 of 3 by per-ip" });
  });

  test("the list of all policies shows it as well", () => {
    const rules = [
      ruleOf("a", client("192.0.2.1"), limitTo("per-ip", 10)),
      ruleOf("b", { kind: "token", value: "alice" }, limitTo("per-token", 2)),
    ];
    const { ask } = stage({ rules, policies: [perIp, perToken] });
    const { decision } = ask();
    expect(decision.others?.map(({ limit, remaining }) => [limit, remaining])).toEqual([
      [10, 9],
      [2, 1],
    ]);
    ask();
    expect(shown(ask())).toMatchObject({ reason: "throttled", left: "0 of 2 by per-token" });
  });

  test("comes before what the configuration says of the same client", () => {
    const policies = [{ ...perIp, exempt: ["192.0.2.0/24"] }];
    const { ask, change } = stage({ policies });
    expect(shown(ask())).toMatchObject({ outcome: "exempt" });
    change({ set: [ruleOf("a", client("192.0.2.1"), limitTo("per-ip", 1))], removed: [] });
    expect(shown(ask())).toMatchObject({ reason: null, left: "0 of 1 by per-ip" });
    expect(shown(ask())).toMatchObject({ reason: "throttled" });
  });
});
