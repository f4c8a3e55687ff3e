// Limits for requests with a verified token, and for all the rest: who is charged for what, and in which order, against a
// naive model of rules and policies.
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { createAuthenticator, createDemandReader } from "../../src/auth/authenticator.ts";
import { TokenList } from "../../src/auth/tokens-file.ts";
import { type AuthDemands, type AuthRule, authModes, verifiesTokens } from "../../src/core/authentication.ts";
import { readPeer } from "../../src/core/client-address.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Method } from "../../src/core/method.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { needsIdentity, type Policy } from "../../src/core/policy.ts";
import type { RequestHead, Verdict } from "../../src/core/request-head.ts";
import { createPathReader } from "../../src/core/request-path.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import type { TokenRate } from "../../src/core/token-bucket.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { RefusalBuckets } from "../../src/limits/refusal-buckets.ts";
import { createDecide } from "../../src/pipeline.ts";
import { slidingPolicy } from "../support/policy.ts";
import { requestRules } from "../support/request-rules.ts";
import { runs, scaled } from "../support/runs.ts";
import { digestOf } from "./digest.ts";

const routes = ["/v1/", "/v2/"];
const clientAddress = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;
const rules = requestRules({ clientAddress, pathReader: createPathReader(routes, "/"), maxBodyBytes: 1 });

interface Asked {
  readonly client: string;
  readonly method: Method;
  readonly path: string;
  /** "a,b" is malformed. */
  readonly token: string | null;
}

const listed = ["alice-token", "bob-token"];
const value = new TokenList([
  { digest: digestOf("alice-token"), name: "alice" },
  { digest: digestOf("bob-token"), name: "bob" },
]);

/** The clock is that of the test. */
function pipelineOf(auth: AuthDemands, policies: readonly Policy[], budget: TokenRate | null = null) {
  const authenticator = createAuthenticator(
    { value, isCurrent: true, onChange: () => {}, close: () => {} },
    systemClock,
  );
  const limiter = new PolicyLimiter(policies, { tokensAreVerified: verifiesTokens(auth), listAll: true });
  const refusals = budget && new RefusalBuckets(budget);
  const demandOf = createDemandReader(auth, routes, "/");
  const decide = createDecide({
    ...{ rules, limiter, authenticator, demandOf, refusals },
    runtimeRules: new RulesInForce(),
    nowMs: () => 0,
  });
  return ({ client, method, path, token }: Asked, nowMs: number): Verdict => {
    const peer = readPeer(client, clientAddress);
    const rawHeaders = ["Host", "a", ...(token === null ? [] : ["Authorization", `Bearer ${token}`])];
    const head: RequestHead = { peer, method, target: path, rawHeaders, httpVersion: "1.1" };
    const verdict = decide(head, nowMs);
    if (verdict instanceof Promise) throw new Error("nothing is waited for");
    return verdict;
  };
}

const statusOf = ({ localReply }: Verdict): number => localReply?.status ?? 200;

class Model {
  readonly #auth: AuthDemands;
  readonly #policies: readonly Policy[];
  readonly #charges = new Map<string, number[]>();

  constructor(auth: AuthDemands, policies: readonly Policy[]) {
    this.#auth = auth;
    this.#policies = policies;
  }

  /** Returns the status, and the fewest requests that are left of what was charged; null: nothing was. */
  decide(asked: Asked, nowMs: number): readonly [number, number | null] {
    const isSecond = (policy: Policy): boolean => needsIdentity(policy, verifiesTokens(this.#auth));
    const about = this.#policies.filter(({ match }) => fits(match, asked));
    const anyone = about.filter(({ who }) => who === null);
    const first = anyone.filter((policy) => !isSecond(policy));
    if (!this.#charge(first, asked, null, nowMs)) return [429, null];
    const { mode } = this.#auth.rules.find((rule) => fits(rule, asked)) ?? this.#auth;
    const name = mode === "tokens" ? (asked.token?.split("-")[0] ?? null) : null;
    const identity = asked.token !== null && listed.includes(asked.token) ? name : null;
    const isRefused =
      mode !== "off" && (asked.token === null || asked.token === "a,b" || (mode === "tokens" && identity === null));
    const others = about.filter(({ who }) => who === "others");
    const late = isRefused ? [] : anyone.filter(isSecond);
    const side = identity === null ? others : about.filter(({ who }) => who === "verified");
    const second = [...late, ...side];
    if (!this.#charge(second, asked, identity, nowMs)) return [429, null];
    const left = [...first, ...second].map((policy) => this.#left(policy, asked, identity, nowMs));
    return [isRefused ? 401 : 200, left.length === 0 ? null : Math.min(...left)];
  }

  #charge(policies: readonly Policy[], asked: Asked, identity: string | null, nowMs: number): boolean {
    if (policies.some((policy) => this.#left(policy, asked, identity, nowMs) < 1)) return false;
    for (const policy of policies) {
      const key = keyOf(policy, asked, identity);
      this.#charges.set(key, [...(this.#charges.get(key) ?? []), nowMs]);
    }
    return true;
  }

  #left(policy: Policy, asked: Asked, identity: string | null, nowMs: number): number {
    const windowMs = policy.rate.kind === "sliding" ? policy.rate.windowMs : 0;
    const charges = this.#charges.get(keyOf(policy, asked, identity)) ?? [];
    return policy.limit - charges.filter((atMs) => nowMs - atMs < windowMs).length;
  }
}

function fits({ paths, methods }: Pick<AuthRule, "paths" | "methods">, { path, method }: Asked): boolean {
  const isPath =
    paths.length === 0 || paths.some((each) => (each.endsWith("/") ? path.startsWith(each) : path === each));
  return isPath && (methods.length === 0 || methods.includes(method));
}

function keyOf({ name, key }: Policy, { client, token }: Asked, identity: string | null): string {
  const parts = key.map(({ kind }) => {
    if (kind === "token" && token !== null && token !== "a,b") return `token ${token}`;
    return kind === "subject" && identity !== null ? `subject ${identity}` : `client ${client}`;
  });
  return [name, ...parts].join(" ");
}

const match = {
  paths: fc.constantFrom<readonly string[]>([], ["/v1/"], ["/v1/login"], ["/v2/", "/v1/x"]),
  methods: fc.constantFrom<readonly Method[]>([], ["POST"]),
};
const auth: fc.Arbitrary<AuthDemands> = fc.record({
  mode: fc.constantFrom(...authModes),
  rules: fc.array(fc.record({ mode: fc.constantFrom(...authModes), scopes: fc.constant([]), ...match }), {
    maxLength: 3,
  }),
});
const policy = fc.record({
  match: fc.record(match),
  who: fc.constantFrom(null, "verified" as const, "others" as const),
  limit: fc.integer({ min: 1, max: 5 }),
  key: fc.constantFrom<Policy["key"]>(
    ...([
      [{ kind: "client" }],
      [{ kind: "subject" }],
      [{ kind: "token" }],
      [{ kind: "client" }, { kind: "token" }],
      [],
    ] as const),
  ),
});
const asked = fc.record({
  gapMs: fc.constantFrom(0, 0, 0, 10, 600),
  client: fc.constantFrom("192.0.2.1", "192.0.2.2"),
  method: fc.constantFrom("GET", "POST"),
  path: fc.constantFrom("/v1/x", "/v1/login", "/v2/x"),
  token: fc.constantFrom(null, "a,b", "stranger", "alice-token", "alice-token", "bob-token"),
});

test("any rules and policies say what a naive model says, request by request", () => {
  fc.assert(
    fc.property(
      auth,
      fc.array(policy, { minLength: 1, maxLength: 4 }),
      fc.array(asked, { minLength: 1, maxLength: 24 }),
      (demands, drawn, requests) => {
        const policies = drawn.map((each, i) => slidingPolicy({ ...each, name: `p${i}`, windowMs: 1000 }));
        const decide = pipelineOf(demands, policies);
        const model = new Model(demands, policies);
        let nowMs = 1000;
        for (const { gapMs, ...request } of requests) {
          nowMs += gapMs;
          const verdict = decide(request, nowMs);
          const [status, left] = model.decide(request, nowMs);
          expect(statusOf(verdict)).toBe(status);
          if (left !== null) expect(verdict.decision).toMatchObject({ outcome: "admitted", remaining: left });
          else if (status !== 429) expect(verdict.decision.outcome).toBe("observed");
        }
      },
    ),
    runs(10_000, 50),
  );
});

const byAddress = slidingPolicy({ name: "by-address", limit: 100, windowMs: 60_000, who: "others" });
const byPartner = slidingPolicy({
  ...{ name: "by-partner", limit: 1000, windowMs: 60_000, who: "verified" },
  key: [{ kind: "subject" }],
});
const tokensOnly: AuthDemands = { mode: "tokens", rules: [] };
const ask = (token: string | null, client = "192.0.2.1", path = "/v1/x"): Asked => ({
  ...{ client, method: "GET", path, token },
});

describe("100 by address and 1,000 by partner", () => {
  test("give an address 100 of all that is no verified request, whatever is wrong with its tokens", () => {
    const decide = pipelineOf(tokensOnly, [byAddress, byPartner]);
    const wrong = [null, "a,b", "stranger"];
    for (let i = 0; i < 100; i += 1) {
      const { localReply, decision } = decide(ask(wrong[i % 3] ?? null), 1000);
      expect([localReply?.status, decision.remaining]).toEqual([401, 99 - i]);
    }
    for (const token of [...wrong, "another"]) expect(statusOf(decide(ask(token), 1000))).toBe(429);
    // The partner behind the same address has all of his, at the address of another client, too.
    for (let i = 0; i < 1000; i += 1) {
      const { localReply, decision } = decide(ask("alice-token", i % 2 === 0 ? "192.0.2.1" : "192.0.2.2"), 1000);
      expect([localReply, decision.remaining, decision.policy.name]).toEqual([null, 999 - i, "by-partner"]);
    }
    expect(decide(ask("alice-token"), 1000)).toMatchObject({ localReply: { status: 429 }, auth: "accepted" });
    expect(statusOf(decide(ask("bob-token"), 1000))).toBe(200);
    expect(statusOf(decide(ask(null, "192.0.2.2"), 1000))).toBe(401);
  });

  test.each([0, 50, 100, 150, 400])("let a partner in whose first request comes after %i wrong tokens", (before) => {
    const decide = pipelineOf(tokensOnly, [byAddress, byPartner], { perSecond: 50, burst: 500 });
    for (let i = 0; i < before; i += 1) decide(ask(`guess-${i}`), 1000);
    expect(decide(ask("alice-token"), 1000).decision.remaining).toBe(999);
    for (let i = before; i < scaled(5000, 5); i += 1) decide(ask(`guess-${i}`), 1000);
    expect(decide(ask("alice-token"), 1000).decision.remaining).toBe(998);
  });

  test("charge others with what is refused before its token is looked at", () => {
    const decide = pipelineOf(tokensOnly, [byAddress, byPartner], { perSecond: 1, burst: 50 });
    for (let i = 0; i < 100; i += 1) {
      expect(statusOf(decide(ask("alice-token", "192.0.2.1", "/v1/..%2fv2/x"), 1000))).toBe(400);
    }
    expect(statusOf(decide(ask(null), 1000))).toBe(429);
    expect(statusOf(decide(ask("alice-token"), 1000))).toBe(200);
    // From now on each takes from the budget for refusals, and then its path is not read any more.
    const reasons = Array.from(
      { length: 60 },
      () => decide(ask("alice-token", "192.0.2.1", "/v1/..%2fv2/x"), 1000).localReply?.reason,
    );
    expect(reasons).toEqual([...Array(50).fill("throttled"), ...Array(10).fill("too_many_refusals")]);
    expect(statusOf(decide(ask("alice-token"), 1000))).toBe(200);
  });

  test("charge others on paths that are open, and with tokens that nobody verifies", () => {
    const rules: AuthRule[] = [
      { mode: "off", paths: ["/v1/login"], methods: [], scopes: [] },
      { mode: "presence", paths: ["/v2/"], methods: [], scopes: [] },
    ];
    const decide = pipelineOf({ mode: "tokens", rules }, [byAddress, byPartner]);
    for (let i = 0; i < 50; i += 1) {
      expect(decide(ask("alice-token", "192.0.2.1", "/v1/login"), 1000).decision.remaining).toBe(99 - 2 * i);
      expect(decide(ask("alice-token", "192.0.2.1", "/v2/x"), 1000).decision.remaining).toBe(98 - 2 * i);
    }
    expect(statusOf(decide(ask("alice-token", "192.0.2.1", "/v1/login"), 1000))).toBe(429);
    expect(statusOf(decide(ask("alice-token"), 1000))).toBe(200);
  });
});

describe("a client that has used up the quota of others and its budget for refusals", () => {
  test("cannot make the gateway hash tokens, while one that is known passes, and an unknown one a moment later", () => {
    const find = vi.spyOn(TokenList.prototype, "find");
    const decide = pipelineOf(tokensOnly, [byAddress, byPartner], { perSecond: 10, burst: 20 });
    expect(statusOf(decide(ask("alice-token"), 1000))).toBe(200);
    for (let i = 0; i < 120; i += 1) decide(ask(`guess-${i}`), 1000);
    expect(find).toHaveBeenCalledTimes(121);

    for (let i = 0; i < 1000; i += 1) {
      const verdict = decide(ask(`more-${i}`), 1000);
      expect(verdict).toMatchObject({
        auth: "skipped",
        localReply: { status: 429, reason: "too_many_refusals" },
        decision: { policy: { name: "by-address" }, outcome: "throttled", remaining: 0 },
      });
    }
    expect(decide(ask("bob-token"), 1000).localReply?.reason).toBe("too_many_refusals");
    expect(statusOf(decide(ask("alice-token"), 1000))).toBe(200);
    expect(statusOf(decide(ask("bob-token", "192.0.2.2"), 1000))).toBe(200);
    expect(find).toHaveBeenCalledTimes(122);
    // What costs nothing to refuse is told when the quota is there again.
    expect(decide(ask(null), 1000).localReply?.reason).toBe("throttled");

    // 10 a second: within the next second, ten tokens are looked up again, whoever sends them.
    for (let i = 0; i < 100; i += 1) decide(ask(`again-${i}`), 2000);
    expect(find).toHaveBeenCalledTimes(132);
    find.mockRestore();
  });

  test("is asked for its token as long as one of the two is left", () => {
    const decide = pipelineOf(tokensOnly, [{ ...byAddress, limit: 1 }, byPartner], { perSecond: 1, burst: 2 });
    const reasons = Array.from({ length: 5 }, (_, i) => decide(ask(`guess-${i}`), 1000).localReply?.reason);
    expect(reasons).toEqual(["invalid_token", "throttled", "throttled", "too_many_refusals", "too_many_refusals"]);
    // The window is over, so that the quota is there again.
    const later = decide(ask("guess"), 61_001);
    expect(later.localReply?.reason).toBe("invalid_token");
  });
});

test("a policy for others that is a shadow refuses nothing, and none is asked about the requests of the other side", () => {
  const shadow: Policy = { ...byAddress, limit: 1, mode: "shadow" };
  const decide = pipelineOf(tokensOnly, [shadow, byPartner], { perSecond: 1, burst: 1 });
  for (let i = 0; i < 5; i += 1) expect(statusOf(decide(ask("stranger"), 1000))).toBe(401);
  expect(decide(ask("alice-token"), 1000).decision.others).toBeNull();
});
