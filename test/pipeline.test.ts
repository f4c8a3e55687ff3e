// What is answered, what is spent and who is asked, as one table over the whole pipeline, without a socket.
import { describe, expect, test, vi } from "vitest";
import { createAuthenticator, createDemandReader } from "../src/auth/authenticator.ts";
import { TokenList } from "../src/auth/tokens-file.ts";
import type { AuthDemands, AuthOutcome } from "../src/core/authentication.ts";
import { type Peer, readPeer } from "../src/core/client-address.ts";
import { systemClock } from "../src/core/clock.ts";
import { parseCidr } from "../src/core/ip-address.ts";
import type { AskedRequest, Limiter } from "../src/core/limiter.ts";
import type { RefusalReason } from "../src/core/local-reply.ts";
import { NetworkSet } from "../src/core/network-set.ts";
import type { Decision, Outcome, Policy } from "../src/core/policy.ts";
import type { RequestHead, RequestRules, Verdict } from "../src/core/request-head.ts";
import { createPathReader } from "../src/core/request-path.ts";
import { AllowedOrigins } from "../src/core/response-fields.ts";
import { RulesInForce } from "../src/core/rules-in-force.ts";
import type { TokenRate } from "../src/core/token-bucket.ts";
import { PolicyLimiter } from "../src/limits/limiter.ts";
import { RefusalBuckets } from "../src/limits/refusal-buckets.ts";
import { createDecide, type PipelineParts } from "../src/pipeline.ts";
import { digestOf } from "./auth/digest.ts";
import { slidingPolicy } from "./support/policy.ts";
import { requestRules } from "./support/request-rules.ts";

const policy: Policy = slidingPolicy({ limit: 3, windowMs: 60_000 });

interface Options {
  readonly limit?: number;
  readonly unmatched?: RequestRules["unmatched"];
  readonly own?: string;
  readonly upstream?: string;
  readonly authenticator?: PipelineParts["authenticator"];
  readonly auth?: AuthDemands;
  readonly trusted?: string;
  readonly refusals?: TokenRate;
  readonly origins?: readonly string[];
}

function rulesOf({ unmatched = "reject", own = "/", upstream = "/", trusted, origins }: Options): RequestRules {
  const cidr = trusted === undefined ? undefined : parseCidr(trusted);
  return requestRules({
    clientAddress: {
      header: "x-forwarded-for",
      trustedProxies: new NetworkSet(cidr === undefined ? [] : [cidr]),
      ipv6Prefix: 64,
    },
    pathReader: createPathReader(["/v1/", "/v2/"], own),
    unmatched,
    cors: origins === undefined ? null : new AllowedOrigins(origins),
    paths: { own, upstream },
  });
}

function partsOf(options: Options = {}): PipelineParts {
  return {
    rules: rulesOf(options),
    runtimeRules: new RulesInForce(),
    limiter: new PolicyLimiter([{ ...policy, limit: options.limit ?? policy.limit }]),
    authenticator: options.authenticator ?? createAuthenticator(null, systemClock),
    demandOf: createDemandReader(options.auth ?? { mode: "presence", rules: [] }, ["/v1/", "/v2/"], options.own ?? "/"),
    refusals: new RefusalBuckets(options.refusals ?? { perSecond: 50, burst: 500 }),
    nowMs: () => 1000,
  };
}

const isKnown = (): boolean => false;

const host = ["Host", "api.example"];
const bearer = ["Authorization", "Bearer abc"];
const good = [...host, ...bearer];

const stranger: Peer = readPeer("1.2.3.4", rulesOf({}).clientAddress);

function request(target: string, rawHeaders: readonly string[] = good, more: Partial<RequestHead> = {}): RequestHead {
  return { peer: stranger, rawHeaders, method: "GET", target, httpVersion: "1.1", ...more };
}

/** With the parts that answer at once, the pipeline does. */
function decideWith(parts: PipelineParts): (facts: RequestHead, nowMs?: number) => Verdict {
  const decide = createDecide(parts);
  return (facts, nowMs = 1000) => {
    const verdict = decide(facts, nowMs);
    if (verdict instanceof Promise) throw new Error("the pipeline answered with a promise");
    return verdict;
  };
}

interface Row {
  readonly claim: string;
  readonly facts: RequestHead;
  readonly reason: RefusalReason | null;
  readonly auth: AuthOutcome;
  readonly route: string | null;
}

const row = (
  claim: string,
  facts: RequestHead,
  reason: RefusalReason | null,
  auth: AuthOutcome,
  route: string | null,
): Row => ({ claim, facts, reason, auth, route });

const malformedAbsolute = "http://user@api.example/v1/x";
const long = `/v1/${"x".repeat(8192)}`;

const table: readonly Row[] = [
  row("a good request passes", request("/v2/x?a=1"), null, "accepted", "/v2/"),
  row("the route's own root passes", request("/v1"), null, "accepted", "/v1/"),
  row("another spelling passes", request("//V2/./x"), null, "accepted", "/v2/"),
  row("the absolute form passes", request("http://api.example/v1/x"), null, "accepted", "/v1/"),
  row("a HEAD passes", request("/v2/x", good, { method: "HEAD" }), null, "accepted", "/v2/"),
  row(
    "OPTIONS is asked for its token as well",
    request("/v2/x", host, { method: "OPTIONS" }),
    "no_token",
    "missing",
    "/v2/",
  ),
  row("no token", request("/v2/x", host), "no_token", "missing", "/v2/"),
  row("another scheme", request("/v2/x", [...host, "Authorization", "Basic x"]), "no_token", "missing", "/v2/"),
  row(
    "a token that is none",
    request("/v2/x", [...host, "Authorization", "Bearer a,b"]),
    "invalid_token",
    "invalid",
    "/v2/",
  ),
  row("two tokens", request("/v2/x", [...good, ...bearer]), "invalid_token", "invalid", "/v2/"),
  row("a body of the largest size", request("/v2/x", [...good, "Content-Length", "10"]), null, "accepted", "/v2/"),
  row("a body too large", request("/v2/x", [...good, "Content-Length", "11"]), "body_too_large", "accepted", "/v2/"),
  row(
    "too large, from a stranger: 401",
    request("/v2/x", [...host, "Content-Length", "11"]),
    "no_token",
    "missing",
    "/v2/",
  ),
  row(
    "a chunked body has no size yet",
    request("/v2/x", [...good, "Transfer-Encoding", "chunked"]),
    null,
    "accepted",
    "/v2/",
  ),
  row("an ambiguous path", request("/v1/..%2fv2/x"), "ambiguous_path", "skipped", "/v1/"),
  row("an ambiguous path without a token", request("/v1/a%00", host), "ambiguous_path", "skipped", "/v1/"),
  row("an ambiguous path under no route", request("/../x"), "ambiguous_path", "skipped", null),
  row("no route", request("/health"), "no_route", "skipped", null),
  row("no route and no token: 404, not 401", request("/health", host), "no_route", "skipped", null),
  row("a path that only resembles a route", request("/v22/x"), "no_route", "skipped", null),
  row("the root", request("/"), "no_route", "skipped", null),
  row("a route in the query is none", request("/?/v1/x"), "no_route", "skipped", null),
  row("OPTIONS *, which is no refusal", request("*", good, { method: "OPTIONS" }), null, "skipped", null),
  row("no Host", request("/v2/x", bearer), "bad_host", "skipped", "/v2/"),
  row("two Hosts", request("/v2/x", [...good, ...host]), "bad_host", "skipped", "/v2/"),
  row("an underscore", request("/v2/x", [...good, "X_Real_IP", "b"]), "bad_field_name", "skipped", "/v2/"),
  row("an underscore in a name that means nothing", request("/v2/x", [...good, "X_A", "b"]), null, "accepted", "/v2/"),
  row(
    "bad framing",
    request("/v2/x", [...good, "Content-Length", "1", "Content-Length", "1"]),
    "malformed",
    "skipped",
    "/v2/",
  ),
  row(
    "an unknown encoding",
    request("/v2/x", [...good, "Transfer-Encoding", "gzip"]),
    "unsupported_encoding",
    "skipped",
    "/v2/",
  ),
  row("an unknown expectation", request("/v2/x", [...good, "Expect", "x"]), "unsupported_expect", "skipped", "/v2/"),
  row("a target too long", request(long), "target_too_long", "skipped", "/v1/"),
  row("malformed before ambiguous", request("/v1/..%2fv2/x", bearer), "bad_host", "skipped", "/v1/"),
  row("malformed before no route", request("/health", bearer), "bad_host", "skipped", null),
  row("a target of no form", request("v2/x"), "malformed", "skipped", null),
  row("CONNECT", request("api.example:443", good, { method: "CONNECT" }), "unsupported_method", "skipped", null),
  row("TRACE", request("/v2/x", good, { method: "TRACE" }), "unsupported_method", "skipped", "/v2/"),
  row("an absolute form with a user", request(malformedAbsolute), "malformed", "skipped", null),
];

describe("what is under a route, or may be, spends one; nothing else spends; and over the quota nothing else is said", () => {
  test.each(table)("$claim", ({ facts, reason, auth, route }) => {
    const decide = decideWith(partsOf());
    const isCharged = route !== null;
    const first = decide(facts);
    expect(first.localReply?.reason ?? null).toBe(reason);
    expect(first.auth).toBe(auth);
    expect(first.parsed.route).toBe(route);
    expect(first.decision).toMatchObject({
      outcome: isCharged ? "admitted" : "observed",
      remaining: isCharged ? 2 : 3,
      resetMs: 61_000,
    });
    decide(facts);
    decide(facts);
    const fourth = decide(facts);
    expect(fourth.decision.outcome).toBe(isCharged ? "throttled" : "observed");
    expect(fourth.localReply?.reason ?? null).toBe(isCharged ? "throttled" : reason);
    expect(fourth.auth).toBe(isCharged ? "skipped" : auth);
  });
});

describe("the quota", () => {
  test("is one over both versions: 50 + 50, and the 101st is refused under either", () => {
    const decide = decideWith(partsOf({ limit: 100 }));
    for (let i = 0; i < 50; i += 1) {
      expect(decide(request("/v1/x")).decision.remaining).toBe(99 - 2 * i);
      expect(decide(request("/v2/x")).decision.remaining).toBe(98 - 2 * i);
    }
    for (const target of ["/v1/x", "/v2/x", "/v1/..%2fv2"]) {
      expect(decide(request(target)).localReply?.reason).toBe("throttled");
    }
  });

  test("goes before the token: of 101 without a good one the last is 429", () => {
    const bad = [host, [...host, "Authorization", "Bearer a,b"]];
    for (const fields of bad) {
      const decide = decideWith(partsOf({ limit: 100 }));
      for (let i = 0; i < 100; i += 1) expect(decide(request("/v2/x", fields)).localReply?.status).toBe(401);
      expect(decide(request("/v2/x", fields)).localReply?.status).toBe(429);
      expect(decide(request("/v2/x", good)).localReply?.status).toBe(429);
    }
  });

  test("is shown, and neither spent nor enforced, outside the routes", () => {
    const decide = decideWith(partsOf({ unmatched: "proxy" }));
    expect(decide(request("/health")).decision).toMatchObject({ outcome: "observed", remaining: 3 });
    for (let i = 0; i < 3; i += 1) decide(request("/v2/x"));
    expect(decide(request("/v2/x")).localReply?.reason).toBe("throttled");
    expect(decide(request("/health"))).toMatchObject({
      localReply: null,
      decision: { outcome: "observed", remaining: 0 },
    });
  });

  test("comes back at the reset, and not a millisecond before", () => {
    const decide = decideWith(partsOf({ limit: 1 }));
    const { resetMs } = decide(request("/v2/x")).decision;
    expect(decide(request("/v2/x"), resetMs - 1).localReply?.reason).toBe("throttled");
    expect(decide(request("/v2/x"), resetMs).localReply).toBeNull();
  });

  test("is the client's, whom a trusted proxy names and nobody else", () => {
    const parts = partsOf({ limit: 1, trusted: "10.0.0.0/8" });
    const decide = decideWith(parts);
    const proxy = readPeer("::ffff:10.0.0.1", parts.rules.clientAddress);
    const naming = (client: string, peer: Peer) =>
      decide(request("/v2/x", [...good, "X-Forwarded-For", client], { peer }));
    expect(naming("6.6.6.6", proxy)).toMatchObject({ localReply: null, parsed: { client: "6.6.6.6" } });
    expect(naming("7.7.7.7", proxy)).toMatchObject({ localReply: null, parsed: { client: "7.7.7.7" } });
    expect(naming("9.9.9.9, 6.6.6.6", proxy).localReply?.reason).toBe("throttled");
    expect(naming("8.8.8.8", stranger)).toMatchObject({ localReply: null, parsed: { client: "1.2.3.4" } });
    expect(naming("8.8.8.9", stranger).localReply?.reason).toBe("throttled");
  });

  test("is one for every spelling of an address, and for a /64", () => {
    const parts = partsOf({ limit: 1 });
    const decide = decideWith(parts);
    const from = (address: string) =>
      decide(request("/v2/x", good, { peer: readPeer(address, parts.rules.clientAddress) })).localReply?.reason ?? null;
    expect(from("1.2.3.4")).toBeNull();
    expect(from("::ffff:1.2.3.4")).toBe("throttled");
    expect(from("::ffff:102:304")).toBe("throttled");
    expect(from("2001:db8::1")).toBeNull();
    expect(from("2001:DB8:0:0:ffff::2")).toBe("throttled");
    expect(from("2001:db8:0:1::1")).toBeNull();
  });
});

describe("refusals that spend no quota", () => {
  const budget = { perSecond: 10, burst: 5 };
  const odd = "/x/%2e%2e/y";
  const free: readonly [claim: string, facts: RequestHead, reason: RefusalReason | null][] = [
    ["no route", request("/health"), "no_route"],
    ["an ambiguous path", request("/../x"), "ambiguous_path"],
    ["an unusual path", request("/a%20b"), "no_route"],
    ["a target of no form", request("v2/x"), "malformed"],
    ["bad framing under no route", request("/health", bearer), "bad_host"],
    ["OPTIONS *", request("*", good, { method: "OPTIONS" }), null],
  ];

  test.each(free)("%s: as many as the budget, then 429 without a reading of the path", (_, facts, reason) => {
    const parts = partsOf({ refusals: budget });
    const read = vi.spyOn(parts.rules.pathReader, "read");
    const decide = decideWith(parts);
    for (let i = 0; i < 5; i += 1) expect(decide(facts).localReply?.reason ?? null).toBe(reason);
    read.mockClear();
    for (let i = 0; i < 100; i += 1) {
      const verdict = decide(facts, 1000);
      expect(verdict.localReply).toMatchObject({ status: 429, reason: "too_many_refusals" });
      expect(verdict).toMatchObject({ decision: { outcome: "observed", remaining: 3 }, parsed: { route: null } });
    }
    expect(read).not.toHaveBeenCalled();
    // 100 ms earn one, and the client that waits for Retry-After has ten.
    expect(decide(facts, 1099).localReply?.reason).toBe("too_many_refusals");
    expect(decide(facts, 1100).localReply?.reason ?? null).toBe(reason);
    expect(decide(facts, 1100).localReply?.reason).toBe("too_many_refusals");
    expect(decide(facts, 2100).localReply?.reason ?? null).toBe(reason);
  });

  test("do not affect requests plainly under a route from the same address", () => {
    const decide = decideWith(partsOf({ refusals: budget, limit: 4 }));
    for (let i = 0; i < 20; i += 1) decide(request("/health"));
    for (const target of ["/v2/x", "/v1", "/V1/a/", "/v2/%E4%BD%A0%20b.txt"]) {
      expect(decide(request(target))).toMatchObject({ localReply: null, decision: { outcome: "admitted" } });
    }
    expect(decide(request("/v2/x")).localReply?.reason).toBe("throttled");
  });

  test("are not spent by what is charged, throttled or answered as too many", () => {
    const decide = decideWith(partsOf({ refusals: budget, limit: 10 }));
    // Each is charged: 10, of which 5 are refused for the path and 5 for the token.
    for (let i = 0; i < 5; i += 1) expect(decide(request("/v1/..%2fv2/x")).localReply?.status).toBe(400);
    for (let i = 0; i < 5; i += 1) expect(decide(request("/v1/x", host)).localReply?.status).toBe(401);
    for (let i = 0; i < 5; i += 1) expect(decide(request("/v1/x")).localReply?.reason).toBe("throttled");
    for (let i = 0; i < 5; i += 1) expect(decide(request("/health")).localReply?.reason).toBe("no_route");
    expect(decide(request("/health")).localReply?.reason).toBe("too_many_refusals");
  });

  test("are each client's own", () => {
    const parts = partsOf({ refusals: budget });
    const decide = decideWith(parts);
    for (let i = 0; i < 20; i += 1) decide(request("/health"));
    const other = readPeer("5.6.7.8", parts.rules.clientAddress);
    expect(decide(request("/health", good, { peer: other })).localReply?.reason).toBe("no_route");
  });

  test.each(["proxy", "leave"] as const)("with unmatched: %s, paths under no route still pass", (unmatched) => {
    const decide = decideWith(partsOf({ refusals: budget, unmatched }));
    for (let i = 0; i < 20; i += 1) decide(request("/../x"));
    expect(decide(request("/../x")).localReply?.reason).toBe("too_many_refusals");
    expect(decide(request("/health")).localReply).toBeNull();
  });

  test("a request under a route, before the route is known, is no refusal", () => {
    const decide = decideWith(partsOf({ refusals: budget, limit: 100 }));
    for (let i = 0; i < 20; i += 1) expect(decide(request("/%76%31/x")).localReply).toBeNull();
    expect(decide(request(odd)).localReply?.reason).toBe("ambiguous_path");
  });
});

describe("an exhausted client", () => {
  test("is throttled before an unusual path is read, under a route or not", () => {
    const parts = partsOf({ limit: 1 });
    const read = vi.spyOn(parts.rules.pathReader, "read");
    const decide = decideWith(parts);
    decide(request("/v2/x"));
    for (const target of ["/%76%31/x", "/x/%2e%2e/y", "/a%20b", `/${"\\%252f;".repeat(1000)}`]) {
      const verdict = decide(request(target));
      expect(verdict.localReply?.reason).toBe("throttled");
      expect(verdict.decision).toMatchObject({ outcome: "throttled", remaining: 0, resetMs: 61_000 });
    }
    expect(read).not.toHaveBeenCalled();
    // A usual path is read in no time, so nothing changes for it.
    expect(decide(request("/health"))).toMatchObject({
      localReply: { reason: "no_route" },
      decision: { outcome: "observed", remaining: 0 },
    });
    expect(decide(request("/%76%31/x"), 61_000).localReply).toBeNull();
  });

  test("with unmatched: proxy, gets an unusual path under no route, which is not limited", () => {
    const decide = decideWith(partsOf({ limit: 1, unmatched: "proxy" }));
    decide(request("/v2/x"));
    expect(decide(request("/a%20b"))).toMatchObject({ localReply: null, decision: { outcome: "observed" } });
    expect(decide(request("/%76%31/x")).localReply?.reason).toBe("throttled");
  });
});

describe("unmatched: proxy", () => {
  test.each<[target: string, rawHeaders: string[], reason: RefusalReason | null, auth: AuthOutcome]>([
    ["/health", good, null, "skipped"],
    ["/health", host, null, "skipped"],
    ["/health", [...host, "Authorization", "Bearer ?"], null, "skipped"],
    ["/health", [...host, "Content-Length", "11"], "body_too_large", "skipped"],
    ["/v2/x", host, "no_token", "missing"],
    ["/%76%32/x", host, "no_token", "missing"],
    ["/health%00", good, "ambiguous_path", "skipped"],
    ["/../health", good, "ambiguous_path", "skipped"],
    ["/x/../v1//../y", good, "ambiguous_path", "skipped"],
    ["/health", bearer, "bad_host", "skipped"],
  ])("%s with %j", (target, rawHeaders, reason, auth) => {
    const verdict = decideWith(partsOf({ unmatched: "proxy" }))(request(target, rawHeaders));
    expect(verdict.localReply?.reason ?? null).toBe(reason);
    expect(verdict.auth).toBe(auth);
  });

  test("opens no asterisk: that is about the gateway itself, which answers it", () => {
    const verdict = decideWith(partsOf({ unmatched: "proxy" }))(request("*", good, { method: "OPTIONS" }));
    expect(verdict).toMatchObject({ localReply: { status: 204, reason: null }, decision: { outcome: "observed" } });
  });

  test("opens what is below the base path, and nothing beside it", () => {
    const decide = decideWith(partsOf({ unmatched: "proxy", own: "/finance" }));
    expect(decide(request("/finance/health"))).toMatchObject({
      localReply: null,
      parsed: { upstreamTarget: "/health" },
    });
    for (const target of ["/health", "/finances/health", "/v2/x", "/"]) {
      expect(decide(request(target)).localReply?.reason).toBe("no_route");
    }
    expect(decide(request("*", good, { method: "OPTIONS" })).localReply?.status).toBe(204);
  });
});

describe("unmatched: leave", () => {
  test.each<[target: string, rawHeaders: string[], reason: RefusalReason | null, outcome: Outcome, auth: AuthOutcome]>([
    ["/health", host, null, "observed", "skipped"],
    ["/health", [...host, "Content-Length", "11"], null, "observed", "skipped"],
    ["/v2/x", host, "no_token", "admitted", "missing"],
    ["/health%00", host, "ambiguous_path", "observed", "skipped"],
    ["/health", bearer, "bad_host", "observed", "skipped"],
  ])("%s with %j", (target, rawHeaders, reason, outcome, auth) => {
    const verdict = decideWith(partsOf({ unmatched: "leave" }))(request(target, rawHeaders));
    expect(verdict.localReply?.reason ?? null).toBe(reason);
    expect(verdict).toMatchObject({ auth, decision: { outcome } });
  });
});

describe("base paths", () => {
  test.each([
    ["/", "/", "/v2/x?a=%20#", "/v2/x?a=%20#", "/v2/"],
    ["/", "/api", "/v2/x?a", "/api/v2/x?a", "/v2/"],
    ["/finance", "/", "/finance/v2/x?a", "/v2/x?a", "/v2/"],
    ["/finance", "/api", "/finance/v1", "/api/v1", "/v1/"],
    ["/finance", "/api", "/finance//V1/./x", "/api//V1/./x", "/v1/"],
    ["/finance", "/api", "http://h/finance/v1/x", "/api/v1/x", "/v1/"],
  ])("%s and %s: %s is forwarded as %s", (own, upstream, target, upstreamTarget, route) => {
    const verdict = decideWith(partsOf({ own, upstream }))(request(target));
    expect(verdict).toMatchObject({ localReply: null, parsed: { upstreamTarget, route } });
    expect(verdict.decision.remaining).toBe(2);
  });

  test.each(["/Finance/v2/x", "//finance/v2/x", "/%66inance/v2/x", "/./finance/v2/x"])(
    "%s is counted, and refused because the base path cannot be taken off",
    (target) => {
      const verdict = decideWith(partsOf({ own: "/finance" }))(request(target));
      expect(verdict.localReply?.reason).toBe("ambiguous_path");
      expect(verdict.decision).toMatchObject({ outcome: "admitted", remaining: 2 });
    },
  );

  test.each(["/v2/x", "/finances/v2/x", "/finance2/v2/x", "/"])("%s is outside and spends nothing", (target) => {
    const verdict = decideWith(partsOf({ own: "/finance" }))(request(target));
    expect(verdict.localReply?.reason).toBe("no_route");
    expect(verdict.decision.outcome).toBe("observed");
  });
});

describe("auth", () => {
  test("off: nobody is asked, and the quota is kept", () => {
    const decide = decideWith(partsOf({ auth: { mode: "off", rules: [] } }));
    for (const fields of [host, good, [...good, ...bearer]]) {
      expect(decide(request("/v2/x", fields))).toMatchObject({ localReply: null, auth: "skipped" });
    }
    expect(decide(request("/v2/x", host)).localReply?.reason).toBe("throttled");
  });

  test("tokens: a listed one passes, another is invalid, none is missing", () => {
    const value = new TokenList([{ digest: digestOf("abc"), name: null }]);
    const authenticator = createAuthenticator(
      { value, isCurrent: true, onChange: () => {}, close: () => {} },
      systemClock,
    );
    const decide = decideWith(partsOf({ auth: { mode: "tokens", rules: [] }, authenticator }));
    expect(decide(request("/v2/x"))).toMatchObject({ localReply: null, auth: "accepted" });
    const other = decide(request("/v2/x", [...host, "Authorization", "Bearer abd"]));
    expect(other).toMatchObject({ localReply: { reason: "invalid_token" }, auth: "invalid" });
    expect(decide(request("/v2/x", host))).toMatchObject({ localReply: { reason: "no_token" }, auth: "missing" });
  });

  test("is not asked once anything else has refused", () => {
    let asked = 0;
    const authenticator: PipelineParts["authenticator"] = {
      isKnown,
      authenticate: () => {
        asked += 1;
        return "accepted";
      },
    };
    for (const { facts, auth } of table) {
      asked = 0;
      decideWith(partsOf({ authenticator }))(facts);
      expect(asked).toBe(auth === "skipped" ? 0 : 1);
    }
  });
});

describe("a limiter and an authenticator that answer later", () => {
  const later = (parts: PipelineParts): PipelineParts => ({
    ...parts,
    limiter: laterLimiter(parts.limiter),
    authenticator: {
      ...parts.authenticator,
      authenticate: async (...asked) => parts.authenticator.authenticate(...asked),
    },
  });

  const laterLimiter = (limiter: Limiter): Limiter => ({
    limitsOthers: limiter.limitsOthers,
    ask: (request, step) =>
      step === "usedUp" ? limiter.ask(request, step) : Promise.resolve().then(() => limiter.ask(request, step)),
    show: (...shown) => limiter.show(...shown),
    quotasOf: (...caller) => limiter.quotasOf(...caller),
  });

  test.each(table)("say the same: $claim", async ({ facts }) => {
    const now = decideWith(partsOf());
    const [slow, slowLimiter, slowAuthenticator] = [partsOf(), partsOf(), partsOf()];
    const decides = [
      createDecide(later(slow)),
      createDecide({ ...slowLimiter, limiter: laterLimiter(slowLimiter.limiter) }),
      createDecide({ ...slowAuthenticator, authenticator: later(slowAuthenticator).authenticator }),
    ];
    for (let i = 0; i < 4; i += 1) {
      const expected = now(facts);
      for (const decide of decides) expect(await decide(facts, 1000)).toEqual(expected);
    }
  });

  test("are asked at the instant at which they are asked, not at which the request came", async () => {
    const parts = partsOf();
    let nowMs = 1000;
    const asked: [string, number][] = [];
    const limiter: Limiter = {
      ...laterLimiter(parts.limiter),
      ask: async (request, step) => {
        asked.push([step, request.nowMs]);
        if (step !== "anonymous") return request.decision as Decision;
        nowMs += 10;
        return parts.limiter.ask(request, step);
      },
      show: (client, atMs) => {
        asked.push(["show", atMs]);
        return parts.limiter.show(client, atMs);
      },
    };
    const decide = createDecide({ ...parts, limiter, nowMs: () => nowMs });
    expect(await decide(request("/%76%31/x"), 1000)).toMatchObject({ localReply: null });
    expect(asked).toEqual([
      ["show", 1000],
      ["anonymous", 1000],
      ["identified", 1010],
    ]);
  });

  test("admit exactly the limit of a thousand at once", async () => {
    const decide = createDecide(later(partsOf({ limit: 100 })));
    const verdicts = await Promise.all(Array.from({ length: 1000 }, () => decide(request("/v2/x"), 1000)));
    const outcomes = verdicts.map(({ decision }) => decision.outcome);
    expect(outcomes.filter((outcome: Outcome) => outcome === "admitted")).toHaveLength(100);
    expect(verdicts.filter(({ localReply }) => localReply === null)).toHaveLength(100);
  });

  test("that fail make the decision fail, and nobody is admitted", async () => {
    const failing = () => Promise.reject(new Error("out of reach"));
    const parts = partsOf();
    await expect(
      createDecide({ ...parts, authenticator: { authenticate: failing, isKnown } })(request("/v2/x"), 1000),
    ).rejects.toThrow("out of reach");
    const limiter = { ...laterLimiter(parts.limiter), ask: failing };
    await expect(createDecide({ ...parts, limiter })(request("/v2/x"), 1000)).rejects.toThrow("out of reach");
  });
});

describe("a limiter that cannot decide", () => {
  const unavailable = (parts: PipelineParts): Limiter => ({
    ask: (request) => request.decision ?? { ...shown(parts, request), outcome: "unavailable" },
    limitsOthers: false,
    show: (...shown) => parts.limiter.show(...shown),
    quotasOf: (...caller) => parts.limiter.quotasOf(...caller),
  });
  const shown = (parts: PipelineParts, { parsed, nowMs }: AskedRequest): Decision => parts.limiter.show(parsed, nowMs);

  test("refuses with 503 before anything else can, and no token is checked", () => {
    const parts = partsOf();
    const authenticate = vi.fn(() => "accepted" as const);
    const decide = decideWith({ ...parts, limiter: unavailable(parts), authenticator: { authenticate, isKnown } });
    for (const target of ["/v2/x", "/v1/..%2fv2/x"]) {
      expect(decide(request(target))).toMatchObject({
        localReply: { status: 503, reason: "store_unavailable" },
        decision: { outcome: "unavailable", remaining: 3 },
        auth: "skipped",
      });
    }
    expect(decide(request("/other")).localReply?.reason).toBe("no_route");
    expect(authenticate).not.toHaveBeenCalled();
  });

  test("in the step after the token it refuses with 503, and what the first step holds is held until the end", () => {
    const held = { end: vi.fn(), switched: () => null };
    const parts = partsOf();
    const limiter: Limiter = {
      ...unavailable(parts),
      ask: (request) =>
        request.decision === null
          ? { ...shown(parts, request), outcome: "admitted", held }
          : { ...request.decision, outcome: "unavailable" },
    };
    expect(decideWith({ ...parts, limiter })(request("/v2/x"), 1000)).toMatchObject({
      localReply: { reason: "store_unavailable" },
      decision: { outcome: "unavailable", held },
      auth: "accepted",
    });
    expect(held.end).not.toHaveBeenCalled();
  });

  test.each(["at once", "later"] as const)(
    "and whose second step fails, the token being checked %s, ends once what is held",
    async (when) => {
      const held = { end: vi.fn(), switched: () => null };
      const parts = partsOf();
      const authenticate = (): AuthOutcome | Promise<AuthOutcome> =>
        when === "at once" ? "accepted" : Promise.resolve("accepted");
      for (const fail of [
        () => Promise.reject(new Error("away")),
        () => {
          throw new Error("away");
        },
      ]) {
        held.end.mockClear();
        const limiter: Limiter = {
          ...unavailable(parts),
          ask: (request) =>
            request.decision === null ? { ...shown(parts, request), outcome: "admitted", held } : fail(),
        };
        const decide = createDecide({ ...parts, limiter, authenticator: { authenticate, isKnown } });
        await expect((async () => decide(request("/v2/x"), 1000))()).rejects.toThrow("away");
        expect(held.end.mock.calls).toEqual([[0]]);
      }
    },
  );

  test("spends the budget for refusals, so that unusual paths are not read without end", () => {
    const parts = partsOf({ refusals: { perSecond: 1, burst: 3 } });
    const decide = decideWith({ ...parts, limiter: unavailable(parts) });
    const reasons = Array.from({ length: 5 }, () => decide(request("/%76%31/x")).localReply?.reason);
    expect(reasons).toEqual([...Array(3).fill("store_unavailable"), "too_many_refusals", "too_many_refusals"]);
    expect(decide(request("/v1/x")).localReply?.reason).toBe("store_unavailable");
  });

  test("and that fails to count what is refused unread makes the decision fail, and nothing else", () => {
    const parts = partsOf({ refusals: { perSecond: 1, burst: 1 } });
    const observe = vi.fn<Limiter["show"]>((...client) => parts.limiter.show(...client));
    const show: Limiter["show"] = (of, nowMs, isObserved) =>
      isObserved ? observe(of, nowMs, isObserved) : parts.limiter.show(of, nowMs);
    const decide = createDecide({ ...parts, limiter: { ...unavailable(parts), show } });
    expect(decide(request("/other"), 1000)).toMatchObject({ localReply: { reason: "no_route" } });
    observe.mockImplementation(() => {
      throw new Error("away");
    });
    expect(() => decide(request("/other"), 1000)).toThrow("away");
  });
});

describe("a preflight of a listed origin", () => {
  const fields = [...host, "Origin", "https://app.example", "Access-Control-Request-Method", "GET"];
  const facts = request("/v2/x", fields, { method: "OPTIONS" });

  test("is charged by the policies of both steps, the second of which see no identity, and no token is checked", () => {
    const parts = partsOf({ origins: ["https://app.example"] });
    const authenticate = vi.fn(() => "missing" as const);
    const askIdentified = vi.fn(({ decision }: AskedRequest) => decision as Decision);
    const limiter: Limiter = {
      ask: (request, step) => (step === "identified" ? askIdentified(request) : parts.limiter.ask(request, step)),
      show: (...shown) => parts.limiter.show(...shown),
      quotasOf: (...caller) => parts.limiter.quotasOf(...caller),
      limitsOthers: false,
    };
    const verdict = decideWith({ ...parts, limiter, authenticator: { authenticate, isKnown } })(facts);
    expect(verdict).toMatchObject({
      auth: "skipped",
      localReply: null,
      decision: { outcome: "admitted", remaining: 2 },
    });
    expect(askIdentified.mock.calls.map(([{ identity }]) => identity)).toEqual([null]);
    expect(authenticate).not.toHaveBeenCalled();
  });
});
