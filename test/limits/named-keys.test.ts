// Which keys a name has: those under which its requests are counted, and no others; and what is said where that is not all.
import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { TokenList } from "../../src/auth/tokens-file.ts";
import type { Identity } from "../../src/core/authentication.ts";
import { hexOfKey } from "../../src/core/counter-key.ts";
import type { KeyPart, Policy } from "../../src/core/policy.ts";
import type { ForgivenKey } from "../../src/core/rules.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { createKeyFinder, type NameContext } from "../../src/limits/named-keys.ts";
import { createKeyLimits, createKeyReader, TokenDigests } from "../../src/limits/request-keys.ts";
import { SipHash } from "../../src/limits/table/sip-hash.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { askedRequest, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";

const digestOf = (token: string): string => hash("sha256", token, "hex");
const listed = new TokenList([
  { digest: digestOf("a1"), name: "alice" },
  { digest: digestOf("a2"), name: "alice" },
  { digest: digestOf("b"), name: "bob" },
]);
const context: NameContext = { ipv6Prefix: 64, listed, routes: ["/v1/", "/v2/"] };
const [client, token, subject, method, route] = (["client", "token", "subject", "method", "route"] as const).map(
  (kind) => ({ kind }),
) as [KeyPart, KeyPart, KeyPart, KeyPart, KeyPart];
const plan: KeyPart = { kind: "header", name: "x-plan" };
const org: KeyPart = { kind: "claim", name: "org" };

const sipHash = new SipHash(Buffer.alloc(16, 5));

interface Asked {
  readonly client?: string;
  readonly token?: string;
  readonly method?: string;
  readonly route?: string;
  readonly plan?: string;
}

function keyFinderOf(policy: Policy) {
  const tokens = new TokenDigests();
  const readKey = createKeyReader(policy, sipHash, tokens);
  const row = { policy, readKey, readLimit: createKeyLimits(policy, tokens), runtimeRules: new RulesInForce() };
  return {
    named: (name: ForgivenKey, given = context) => createKeyFinder(name, given)?.(row) ?? null,
    /** The key of a request. */
    of({ client = "198.51.100.1", token, method = "GET", route = "/v2/", plan }: Asked): string {
      const rawHeaders = [
        ...(token === undefined ? [] : ["authorization", `Bearer ${token}`]),
        ...(plan === undefined ? [] : ["x-plan", plan]),
      ];
      const { request, head } = limitedRequest({ client, method, route, rawHeaders });
      const identity: Identity | null = token === undefined ? null : listed.find(token);
      return hexOfKey(readKey(request, head, identity));
    },
  };
}

const me = { kind: "client", value: "192.0.2.7" } as const;
const alice = { kind: "token", value: "alice" } as const;
const ofAlice = { kind: "subject", value: "alice" } as const;
const my = { client: me.value };

describe.each<[string, readonly KeyPart[], ForgivenKey, readonly Asked[], string | null]>([
  ["an address", [client], me, [my, { ...my, token: "b" }], null],
  ["an IPv6 address", [client], { kind: "client", value: "2001:db8::7" }, [{ client: "2001:db8::/64" }], null],
  ["an IPv6 client", [client], { kind: "client", value: "2001:db8::/64" }, [{ client: "2001:db8::/64" }], null],
  ["an address by method", [client, method], me, methodsOf(my), null],
  ["an address by method and route", [method, client, route], me, methodsOf(my).flatMap(routesOf), null],
  ["an address in place of a token", [token], me, [my], "requests with a token have keys of their own"],
  ["a token's client", [client, token], me, [my], "requests with a token have keys of their own"],
  ["a header's client", [plan, org], me, [my], "requests with a header or claim have keys of their own"],
  ["a listed token", [token], alice, [{ token: "a1" }, { token: "a2" }], null],
  ["a subject", [subject], ofAlice, [{ token: "a1" }], null],
  ["a subject by token", [subject, token], ofAlice, [{ token: "a1" }, { token: "a2" }], null],
  ["a token by subject", [subject], alice, [{ token: "a1" }], null],
  ["a token by route", [route, token], alice, [{ token: "a1" }, { token: "a2" }].flatMap(routesOf), null],
])("%s", (_, key, name, requests, gap) => {
  test("has the keys of its requests, and no others", () => {
    const finder = keyFinderOf({ ...slidingPolicy({ limit: 1, windowMs: 1 }), key });
    const found = finder.named(name);
    expect(found?.gap).toBe(gap);
    expect(new Set(found?.keys.map((each) => hexOfKey(each.key)))).toEqual(new Set(requests.map(finder.of)));
  });
});

function methodsOf(asked: Asked): Asked[] {
  const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "PURGE"];
  return methods.map((each) => ({ ...asked, method: each }));
}

function routesOf(asked: Asked): Asked[] {
  return context.routes.map((each) => ({ ...asked, route: each }));
}

test.each<[string, readonly KeyPart[], ForgivenKey, NameContext, string]>([
  ["one counter for all", [], me, context, "it counts all clients together"],
  ["a counter for each route", [route], me, context, "it counts all clients together"],
  ["a token where clients count", [client], alice, context, "its key has neither a token nor a subject"],
  ["a token that also needs a client", [client, token], alice, context, "its key also needs the client"],
  [
    "a token that also needs a header and a claim",
    [token, plan, org],
    alice,
    context,
    "its key also needs the header and the claim",
  ],
  ["a token without a list", [token], alice, { ...context, listed: null }, "no listed token has this name"],
  ["a token that is not listed", [token], { kind: "token", value: "eve" }, context, "no listed token has this name"],
  ["a subject without a token", [token], { kind: "subject", value: "eve" }, context, "its key also needs the token"],
  [
    "too many routes",
    [client, route],
    me,
    { ...context, routes: Array.from({ length: 257 }, (_, i) => `/${i}/`) },
    "it has more than 256 keys for it",
  ],
  [
    "a hash where keys are addresses",
    [client],
    { kind: "key", value: "0".repeat(32) },
    context,
    "its keys are addresses",
  ],
])("has no keys for %s, and says why", (_, key, name, given, gap) => {
  const finder = keyFinderOf({ ...slidingPolicy({ limit: 1, windowMs: 1 }), key });
  expect(finder.named(name, given)).toEqual({ keys: [], gap });
});

test("a subject that no list knows has its key", () => {
  const finder = keyFinderOf({ ...slidingPolicy({ limit: 1, windowMs: 1 }), key: [subject] });
  expect(finder.named({ kind: "subject", value: "eve" })).toMatchObject({ keys: [{ client: null }], gap: null });
});

test("the limit of a key is that of its requests", () => {
  const finder = keyFinderOf({
    ...slidingPolicy({ limit: 10, windowMs: 1 }),
    key: [client, token],
    exempt: ["192.0.2.0/28"],
    overrides: [{ part: "client", value: "198.51.100.0/24", limit: 20 }],
  });
  const limits = ["192.0.2.7", "198.51.100.1", "203.0.113.1"].map(
    (value) => finder.named({ kind: "client", value })?.keys[0]?.limit,
  );
  expect(limits).toEqual([0, 20, 10]);
});

test.each<ForgivenKey>([
  { kind: "client", value: "192.0.2.0/24" },
  { kind: "client", value: "2001:db8::/48" },
  { kind: "client", value: "alice" },
  { kind: "key", value: "12ab" },
])("$kind:$value is no name", (name) => {
  expect(createKeyFinder(name, context)).toBeNull();
});

describe("a limiter", () => {
  const policies: readonly Policy[] = [
    slidingPolicy({ name: "by-address", limit: 2, windowMs: 60_000 }),
    { ...slidingPolicy({ name: "by-token", limit: 2, windowMs: 60_000 }), key: [token] },
    { ...slidingPolicy({ name: "all", limit: 100, windowMs: 60_000 }), key: [] },
    { ...slidingPolicy({ name: "at-once", limit: 100, windowMs: 1 }), rate: { kind: "concurrency" } },
  ];

  function limiterWithUse() {
    // The limiter forgives by its own clock: by that of the machine, the requests would have expired after a minute.
    const clock = new FakeClock();
    const limiter = new PolicyLimiter(policies, { hash: sipHash, clock });
    const ask = (address: string, bearer: string) => {
      const { request, head } = limitedRequest({ client: address, rawHeaders: ["authorization", `Bearer ${bearer}`] });
      return decided(limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous"));
    };
    return { limiter, ask };
  }

  test("forgives what it has counted of a client, and says what it has not touched", async () => {
    const { limiter, ask } = limiterWithUse();
    expect(["a1", "a2", "b"].map((bearer) => ask(me.value, bearer).outcome)).toEqual([
      "admitted",
      "admitted",
      "throttled",
    ]);
    expect(await limiter.forgive(me, context)).toEqual({
      policies: [
        { policy: "by-address", keys: 1, units: 2, coarse: null, gap: null },
        { policy: "by-token", keys: 0, units: 0, coarse: null, gap: "requests with a token have keys of their own" },
      ],
      coarse: false,
      untouched: [
        { policy: "all", why: "it counts all clients together" },
        { policy: "at-once", why: "slots in use stay in use" },
      ],
    });
    expect(["a1", "a2", "b"].map((bearer) => ask(me.value, bearer).outcome)).toEqual([
      "admitted",
      "admitted",
      "throttled",
    ]);
  });

  test("forgives a token whatever addresses it came from, and a key by its hash", async () => {
    const { limiter, ask } = limiterWithUse();
    for (const address of ["192.0.2.1", "192.0.2.2"]) expect(ask(address, "a1").outcome).toBe("admitted");
    const refused = ask("192.0.2.3", "a1");
    expect(refused).toMatchObject({ outcome: "throttled", policy: { name: "by-token" } });
    expect(await limiter.forgive(alice, context)).toMatchObject({
      policies: [{ policy: "by-token", keys: 1, units: 2 }],
    });
    for (const address of ["192.0.2.4", "192.0.2.5"]) expect(ask(address, "a1").outcome).toBe("admitted");
    const byHash = await limiter.forgive({ kind: "key", value: hexOfKey(refused.key) }, context);
    expect(byHash?.policies).toMatchObject([
      { policy: "by-token", units: 2 },
      { policy: "all", units: 0 },
    ]);
    expect(ask("192.0.2.6", "a1").outcome).toBe("admitted");
    const figures = limiter.counterFigures().policies;
    expect(figures.map(({ forgiven }) => forgiven)).toEqual([0, 2, 0, 0]);
  });

  test("forgives nobody under a name that is none", async () => {
    const { limiter } = limiterWithUse();
    expect(await limiter.forgive({ kind: "client", value: "192.0.2.0/24" }, context)).toBeNull();
  });
});
