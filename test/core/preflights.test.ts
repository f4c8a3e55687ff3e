// `cors.preflights: answer` over the whole pipeline, without a socket: which requests are answered, with what, and what that
// costs.
import { describe, expect, test } from "vitest";
import { createAuthenticator, createDemandReader } from "../../src/auth/authenticator.ts";
import { readPeer } from "../../src/core/client-address.ts";
import { systemClock } from "../../src/core/clock.ts";
import { listOf } from "../../src/core/headers.ts";
import type { Policy } from "../../src/core/policy.ts";
import {
  HeadersMemory,
  HeadMemory,
  type RequestHead,
  type RequestRules,
  type Verdict,
} from "../../src/core/request-head.ts";
import { createPathReader } from "../../src/core/request-path.ts";
import { AllowedOrigins } from "../../src/core/response-fields.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import type { TokenRate } from "../../src/core/token-bucket.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { RefusalBuckets } from "../../src/limits/refusal-buckets.ts";
import { createDecide } from "../../src/pipeline.ts";
import { slidingPolicy } from "../support/policy.ts";
import { requestRules } from "../support/request-rules.ts";
import { client, ruleOf } from "../support/rule.ts";

const page = "https://app.example";
const perIp = slidingPolicy({ limit: 2, windowMs: 60_000 });

interface Stage {
  readonly policies?: readonly Policy[];
  readonly budget?: TokenRate;
  readonly rules?: Partial<RequestRules>;
  readonly answers?: boolean;
}

function stage({ policies = [perIp], budget, rules: given = {}, answers = true }: Stage = {}) {
  const rules = requestRules({ cors: new AllowedOrigins([page], answers), ...given });
  const runtimeRules = new RulesInForce();
  const decide = createDecide({
    rules,
    runtimeRules,
    limiter: new PolicyLimiter(policies, { tokensAreVerified: false, listAll: false, runtimeRules }),
    authenticator: createAuthenticator(null, systemClock),
    demandOf: createDemandReader({ mode: "presence", rules: [] }, ["/v1/", "/v2/"], rules.paths.own),
    refusals: new RefusalBuckets(budget ?? { perSecond: 1, burst: 100 }),
    nowMs: () => 0,
  });
  const send = (target: string, rawHeaders: readonly string[], more: Partial<RequestHead> = {}): Verdict => {
    const peer = readPeer("192.0.2.1", rules.clientAddress);
    const verdict = decide({ peer, method: "OPTIONS", target, rawHeaders, httpVersion: "1.1", ...more }, 0);
    if (verdict instanceof Promise) throw new Error("nothing is waited for");
    return verdict;
  };
  const call = (): Verdict => send("/v2/x", ["Host", "a", "Authorization", "Bearer t"], { method: "GET" });
  return { send, call, block: () => runtimeRules.apply({ set: [ruleOf("b", client("192.0.2.1"))], removed: [] }) };
}

const asking = (method = "GET", names?: string): string[] => [
  ...["Host", "a", "Origin", page, "Access-Control-Request-Method", method],
  ...(names === undefined ? [] : ["Access-Control-Request-Headers", names]),
];

const shown = ({ localReply, decision, auth }: Verdict) => [
  localReply === null ? "forwarded" : (localReply.reason ?? localReply.status),
  decision.remaining,
  auth,
];

const many = (count: number): string => Array.from({ length: count }, (_, i) => `x-${i}`).join(",");

describe("a preflight is answered", () => {
  test.each<[claim: string, asked: string[], methods: string, names: string[]]>([
    ["without names", asking(), "GET", []],
    ["with an empty list of names", asking("PUT", ""), "PUT", []],
    [
      "with the names that were asked for",
      asking("POST", "authorization,content-type"),
      "POST",
      ["authorization, content-type"],
    ],
    ["with blanks around names", asking("PATCH", " authorization ,\tX-A"), "PATCH", ["authorization, X-A"]],
    ["with a method that nobody knows", asking("FETCH-IT"), "FETCH-IT", []],
    ["with 32 names", asking("GET", many(32)), "GET", [many(32).replaceAll(",", ", ")]],
  ])("%s", (_, asked, methods, names) => {
    const { localReply, decision, auth, parsed } = stage().send("/v2/x?a=1", asked);
    expect([localReply?.status, localReply?.reason, localReply?.body, auth]).toEqual([204, null, "", "skipped"]);
    expect([decision.outcome, decision.remaining, parsed.route]).toEqual(["observed", 2, "/v2/"]);
    expect(listOf(localReply?.lines ?? "")).toEqual([
      ...["Cache-Control", "no-store", "Access-Control-Allow-Methods", methods],
      ...names.flatMap((each) => ["Access-Control-Allow-Headers", each]),
      ...["Access-Control-Max-Age", "600"],
    ]);
    expect(localReply?.varies).toBe("Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
  });

  test("where the token, the quota and the rules of a policy would refuse it", () => {
    const policies: Policy[] = [
      perIp,
      { ...perIp, name: "at-once", rate: { kind: "concurrency" }, limit: 1 },
      { ...perIp, name: "options", match: { paths: [], methods: ["OPTIONS"] }, limit: 1 },
      { ...perIp, name: "all", key: [], limit: 9 },
    ];
    const { send, call } = stage({ policies });
    const memory = new HeadMemory(new HeadersMemory());
    for (let i = 0; i < 3; i += 1) {
      const { localReply, decision } = send("/v2/x", asking(), { memory });
      expect([localReply?.status, decision.held]).toEqual([204, null]);
    }
    const first = call();
    expect(shown(first)).toEqual(["forwarded", 0, "accepted"]);
    first.decision.held?.end(200);
    expect(shown(call())).toEqual(["forwarded", 0, "accepted"]);
  });

  test("to a client whose quota is used up, which then gets the 429 of its call", () => {
    const { send, call } = stage();
    for (const remaining of [1, 0]) expect(shown(call())).toEqual(["forwarded", remaining, "accepted"]);
    expect(shown(send("/v2/x", asking()))).toEqual([204, 0, "skipped"]);
    expect(shown(send("/v2/a%20b", asking()))).toEqual([204, 0, "skipped"]);
    expect(shown(send("/v2/group%2Fproject", asking()))).toEqual([204, 0, "skipped"]);
    expect(shown(call())).toEqual(["throttled", 0, "skipped"]);
  });

  test.each(["/V2/./x", "//v2/x", "/%76%32/x", "/v2"])("at %s, which is under one route in every reading", (target) => {
    expect(shown(stage().send(target, asking()))).toEqual([204, 2, "skipped"]);
  });
});

describe("spends the budget for refusals:", () => {
  test("beyond it, a preflight is 429, and a call passes", () => {
    const { send, call } = stage({ budget: { perSecond: 1, burst: 2 } });
    const memory = new HeadMemory(new HeadersMemory());
    const replies = Array.from({ length: 4 }, () => shown(send("/v2/x", asking(), { memory }))[0]);
    expect(replies).toEqual([204, 204, "too_many_refusals", "too_many_refusals"]);
    expect(shown(send("//v2/x", asking()))[0]).toBe("too_many_refusals");
    expect(shown(call())).toEqual(["forwarded", 1, "accepted"]);
  });
});

test("reading an unusual path is paid for as well, also if it is not answered then", () => {
  const { send } = stage({ policies: [{ ...perIp, limit: 1 }], budget: { perSecond: 1, burst: 5 } });
  const ask = (target: string) => shown(send(target, asking()))[0];
  expect(ask("/v2/group%2Fproject")).toBe(204);
  expect(ask("/v1/..%2fv2/x")).toBe("ambiguous_path");
  expect(Array.from({ length: 3 }, () => ask("/v1/..%2fv2/x"))).toEqual([
    "throttled",
    "throttled",
    "too_many_refusals",
  ]);
});

describe("is no preflight, but charged and asked for its token:", () => {
  const with2 = (name: string, value: string): string[] => [...asking(), name, value];
  const from = (origin: string): string[] => asking().with(3, origin);
  const strangers: [claim: string, asked: string[]][] = [
    ["an origin that is not listed", from("https://b.example")],
    ["a name below a listed one", from("https://x.app.example")],
    ["another scheme", from("http://app.example")],
    ["another port", from(`${page}:444`)],
    ["null", from("null")],
    ["an empty origin", from("")],
    ["a list of origins", from(`${page}, https://b`)],
    ["no origin", asking().toSpliced(2, 2)],
    ["two origins", with2("Origin", page)],
    ["two origins, one of them listed", with2("Origin", "https://b")],
  ];
  const others: [claim: string, asked: string[], more?: Partial<RequestHead>][] = [
    ["no method", asking().slice(0, 4)],
    ["an empty method", asking("")],
    ["another method of the request", asking(), { method: "GET" }],
    ["two methods", with2("Access-Control-Request-Method", "GET")],
    ["a body", with2("Content-Length", "1")],
    ["a chunked body", with2("Transfer-Encoding", "chunked")],
    ["an Upgrade", [...with2("Upgrade", "websocket"), "Connection", "upgrade"]],
    ["an Authorization that is no token", with2("Authorization", "Basic YTpi")],
    ["another method in a header", with2("X-HTTP-Method-Override", "DELETE")],
    ["another method in another header", with2("x-method-override", "delete")],
    ["another method in the query", asking(), { target: "/v2/x?a&_method=delete" }],
    ["the same encoded", asking(), { target: "/v2/x?%5fmethod=delete" }],
  ];
  describe.each([true, false])("with answers: %s", (answers) => {
    test.each([...strangers, ...others])("%s", (_, asked, more = {}) => {
      const verdict = stage({ answers }).send("/v2/x", asked, more);
      expect(shown(verdict)).toEqual(["no_token", 1, "missing"]);
    });
  });
});

describe("is not answered, but charged and asked for its token:", () => {
  test.each<[claim: string, asked: string[]]>([
    ["two lists of names", [...asking("GET", "a"), "access-control-request-headers", "b"]],
    ["33 names", asking("GET", many(33))],
    ["a name that is no token", asking("GET", "a b")],
    ["a name with a line's end", asking("GET", "a\r\nX: y")],
    ["an empty name", asking("GET", "a,,b")],
    ["a method that is no token", asking("GET, PUT")],
  ])("%s", (_, asked) => {
    expect(shown(stage().send("/v2/x", asked))).toEqual(["no_token", 1, "missing"]);
  });

  test.each<[claim: string, target: string, reason: string, remaining: number]>([
    ["a path that can be read as one of two routes", "/v1/..%2fv2/x", "ambiguous_path", 1],
    ["no route", "/elsewhere", "no_route", 2],
    ["the server as a whole", "*", "204", 2],
  ])("%s", (_, target, reason, remaining) => {
    const { localReply, decision } = stage().send(target, asking());
    expect([`${localReply?.reason ?? localReply?.status}`, decision.remaining]).toEqual([reason, remaining]);
    expect(localReply?.lines).not.toContain("Access-Control-Allow-Methods");
  });

  test("a base path in another spelling, whose call is refused, too", () => {
    const rules = { paths: { own: "/finance", upstream: "/" }, pathReader: createPathReader(["/v1/"], "/finance") };
    const { send } = stage({ rules });
    expect(shown(send("/Finance/v1/x", asking()))[0]).toBe("ambiguous_path");
    expect(shown(send("/finance/v1/x", asking()))[0]).toBe(204);
  });

  test("a malformed request", () => {
    expect(shown(stage().send("/v2/x", asking().slice(2)))).toEqual(["bad_host", 1, "skipped"]);
  });
});

test("a path under no route is forwarded with unmatched: proxy, preflight or not", () => {
  const { send } = stage({ rules: { unmatched: "proxy" } });
  expect(shown(send("/page", asking()))).toEqual(["forwarded", 2, "skipped"]);
});

test("a blocked client gets its 403, also on a head that is remembered", () => {
  const { send, block } = stage();
  const memory = new HeadMemory(new HeadersMemory());
  expect(shown(send("/v2/x", asking(), { memory }))[0]).toBe(204);
  block();
  expect(shown(send("/v2/x", asking(), { memory }))[0]).toBe("blocked");
  expect(shown(send("/v2/x", asking()))[0]).toBe("blocked");
});

test("with forward, it is charged and passes", () => {
  expect(shown(stage({ answers: false }).send("/v2/x", asking()))).toEqual(["forwarded", 1, "skipped"]);
});
