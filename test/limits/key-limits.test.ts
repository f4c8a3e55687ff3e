import { describe, expect, test, vi } from "vitest";
import type { Identity } from "../../src/core/authentication.ts";
import { NetworkMap } from "../../src/core/network-set.ts";
import type { KeyPart, LimitOverride, Policy } from "../../src/core/policy.ts";
import { createKeyLimits, TokenDigests } from "../../src/limits/request-keys.ts";
import { digestOf } from "../auth/digest.ts";
import { counterKeyOf, identityOf, limitedRequest, translatedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";

const key: readonly KeyPart[] = [
  { kind: "client" },
  { kind: "token" },
  { kind: "subject" },
  { kind: "header", name: "x-plan" },
  { kind: "header", name: "x-team" },
];

function limitOf(
  options: Partial<Policy>,
  parts: Parameters<typeof limitedRequest>[0] = {},
  identity: Identity | null = null,
): number | undefined {
  const { request, head } = limitedRequest(parts);
  return createKeyLimits(slidingPolicy({ limit: 100, windowMs: 1, key, ...options }), new TokenDigests())?.(
    request,
    head,
    identity,
  );
}

const overriding = (...overrides: LimitOverride[]): Partial<Policy> => ({ overrides });

test("a policy without exemptions and overrides has no limits of keys", () => {
  expect(createKeyLimits(slidingPolicy({ limit: 100, windowMs: 1 }), new TokenDigests())).toBeNull();
});

describe("clients", () => {
  const options = overriding(
    { part: "client", value: "10.0.0.0/8", limit: 1 },
    { part: "client", value: "10.1.0.0/16", limit: 2 },
    { part: "client", value: "10.1.2.3", limit: 3 },
    { part: "client", value: "2001:db8::/32", limit: 4 },
    { part: "client", value: "2001:db8:1:2::/64", limit: 5 },
    { part: "client", value: "2001:db8:1:3::", limit: 6 },
  );
  const exempt = { ...options, exempt: ["10.1.0.0/16", "192.0.2.7"] };

  test.each([
    ["10.9.9.9", 1],
    ["10.1.9.9", 2],
    ["10.1.2.3", 3],
    ["11.0.0.1", 100],
    ["2001:db8:9:9::/64", 4],
    ["2001:db8:1:2::/64", 5],
    // An address does not stand for the network of which it is one address.
    ["2001:db8:1:3::/64", 4],
    ["2001:db9::/64", 100],
  ])("%s has the limit of the smallest network that contains it: %d", (client, limit) => {
    expect(limitOf(options, { client })).toBe(limit);
  });

  test.each([
    ["10.1.9.9", 0],
    ["10.1.2.3", 0],
    ["192.0.2.7", 0],
    ["10.9.9.9", 1],
    ["192.0.2.8", 100],
  ])("%s: an exempt network comes before all overrides (%d)", (client, limit) => {
    expect(limitOf(exempt, { client })).toBe(limit);
  });

  test.each<[claim: string, options: Partial<Policy>, limit: number]>([
    ["an override of the IPv4 address", overriding({ part: "client", value: "192.0.2.1", limit: 7 }), 7],
    ["an override of the translator's network", overriding({ part: "client", value: "64:ff9b::/64", limit: 8 }), 8],
    [
      "the lower of both",
      overriding({ part: "client", value: "192.0.2.1", limit: 7 }, { part: "client", value: "::/0", limit: 8 }),
      7,
    ],
    [
      "the lower of both, the other way",
      overriding(
        { part: "client", value: "192.0.2.0/24", limit: 9 },
        { part: "client", value: "64:ff9b::/64", limit: 8 },
      ),
      8,
    ],
    ["an exemption of the IPv4 address is none", { exempt: ["192.0.2.1"] }, 100],
    [
      "an exemption of the IPv4 address, and a limit",
      { exempt: ["192.0.2.0/24"], ...overriding({ part: "client", value: "64:ff9b::/64", limit: 8 }) },
      8,
    ],
    ["an exemption of the translator's network", { exempt: ["64:ff9b::/64"] }, 0],
    ["neither", overriding({ part: "client", value: "192.0.2.2", limit: 7 }), 100],
  ])("of an address that is counted as the IPv4 address in it: %s", (_, some, limit) => {
    const limits = createKeyLimits(slidingPolicy({ limit: 100, windowMs: 1, ...some }), new TokenDigests());
    const { request, head } = translatedRequest("192.0.2.1");
    // The second time, and beside the same IPv4 client without a translator.
    const plain = limits?.({ ...request, counterKey: counterKeyOf("192.0.2.1") }, head, null);
    expect([limits?.(request, head, null), limits?.(request, head, null)]).toEqual([limit, limit]);
    expect(limits?.({ ...request, counterKey: counterKeyOf("192.0.2.1") }, head, null)).toBe(plain);
  });

  test("an exempt client stays exempt with a token that has a limit", () => {
    const overrides: LimitOverride[] = [{ part: "token", value: "partner", limit: 8 }];
    expect(limitOf({ exempt: ["192.0.2.1"], overrides }, {}, identityOf({ tokenName: "partner" }))).toBe(0);
  });

  test("the address of a client that asks again is not looked up again", () => {
    const limits = createKeyLimits(slidingPolicy({ limit: 100, windowMs: 1, ...exempt }), new TokenDigests());
    const { head, request } = limitedRequest();
    const ask = (client: string) => limits?.({ ...request, client }, head, null);
    const lookUps = vi.spyOn(NetworkMap.prototype, "get");
    for (let i = 0; i < 100; i += 1) for (const client of ["10.1.9.9", "10.9.9.9", "11.1.1.1"]) ask(client);
    const ofThree = lookUps.mock.calls.map(([cidr]) => cidr);
    expect(new Set(ofThree).size).toBe(3);
    expect(ofThree.length).toBeLessThanOrEqual(6);
    // The number of clients that are remembered has a bound.
    for (let i = 0; i < 5000; i += 1) ask(`11.2.${i >> 8}.${i & 255}`);
    expect(ask("10.1.9.9")).toBe(0);
    expect(new Set(lookUps.mock.calls.map(([cidr]) => cidr)).size).toBe(5004);
    lookUps.mockRestore();
  });
});

describe("tokens", () => {
  const rawHeaders = ["Authorization", "Bearer gold"];
  const byDigest = overriding({ part: "token", value: digestOf("gold").toUpperCase(), limit: 7 });
  const byName = overriding({ part: "token", value: "partner", limit: 8 });

  test("a token is found by its digest, verified or not", () => {
    expect(limitOf(byDigest, { rawHeaders })).toBe(7);
    expect(limitOf(byDigest, {}, identityOf({ tokenDigest: digestOf("gold") }))).toBe(7);
    expect(limitOf(byDigest, { rawHeaders }, identityOf({ tokenDigest: digestOf("other") }))).toBe(100);
  });

  test("by its name only if it is verified: a token that is the name, or the digest, has none", () => {
    expect(limitOf(byName, {}, identityOf({ tokenName: "partner" }))).toBe(8);
    expect(limitOf(byName, {}, identityOf())).toBe(100);
    expect(limitOf(byName, { rawHeaders: ["Authorization", "Bearer partner"] })).toBe(100);
    expect(limitOf(byDigest, { rawHeaders: ["Authorization", `Bearer ${digestOf("gold")}`] })).toBe(100);
  });

  test("a missing, repeated or malformed token has the limit of the policy", () => {
    for (const fields of [[], [...rawHeaders, ...rawHeaders], ["Authorization", "Bearer gold x"]]) {
      expect(limitOf(byDigest, { rawHeaders: fields })).toBe(100);
    }
  });
});

test("a header has its limit if it is there once, whatever header of the key it is", () => {
  const options = overriding({ part: "header", value: "gold", limit: 9 });
  expect(limitOf(options, { rawHeaders: ["X-Plan", "gold"] })).toBe(9);
  expect(limitOf(options, { rawHeaders: ["x-plan", "tin", "X-Team", " gold"] })).toBe(9);
  for (const rawHeaders of [[], ["X-Plan", "gold", "X-Plan", "gold"], ["X-Plan", "Gold"], ["X-Other", "gold"]]) {
    expect(limitOf(options, { rawHeaders })).toBe(100);
  }
});

test("of several limits, that of the subject comes first, then token, header and client", () => {
  const all: readonly LimitOverride[] = [
    { part: "client", value: "192.0.2.0/24", limit: 4 },
    { part: "header", value: "gold", limit: 3 },
    { part: "token", value: "partner", limit: 2 },
    { part: "subject", value: "alice", limit: 1 },
  ];
  const identity = identityOf({ subject: "alice", tokenName: "partner" });
  const rawHeaders = ["X-Plan", "gold"];
  const ask = (overrides: readonly LimitOverride[]) => limitOf({ overrides }, { rawHeaders }, identity);
  expect([4, 3, 2, 1].map((kept) => ask(all.slice(0, kept)))).toEqual([1, 2, 3, 4]);
});

test("no digest is calculated for a policy that names tokens by name only", () => {
  const options = overriding({ part: "token", value: "partner", limit: 8 });
  const { request, head } = limitedRequest();
  const rawHeaders = new Proxy([], {
    get: () => expect.fail("the headers are read"),
  });
  const limits = createKeyLimits(slidingPolicy({ limit: 100, windowMs: 1, key, ...options }), new TokenDigests());
  expect(limits?.(request, { ...head, rawHeaders }, identityOf({ tokenName: "partner" }))).toBe(8);
});
