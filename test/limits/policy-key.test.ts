import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Identity } from "../../src/core/authentication.ts";
import type { CounterKey } from "../../src/core/counter-key.ts";
import type { KeyPart } from "../../src/core/policy.ts";
import { readHttp2Head } from "../../src/core/request-head.ts";
import { createKeyReader, TokenDigests } from "../../src/limits/request-keys.ts";
import { SipHash } from "../../src/limits/table/sip-hash.ts";
import { digestOf } from "../auth/digest.ts";
import { counterKeyOf, identityOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";

const secret = Buffer.from("0123456789abcdef");
type Parts = Parameters<typeof limitedRequest>[0];

function keyOf(key: readonly KeyPart[], parts: Parts = {}, identity: Identity | null = null): string {
  const { request, head } = limitedRequest(parts);
  return textOf(
    createKeyReader(slidingPolicy({ limit: 1, windowMs: 1, key }), new SipHash(secret), new TokenDigests())(
      request,
      head,
      identity,
    ),
  );
}

function textOf({ a, b, c, d, isAddress }: CounterKey): string {
  return [a, b, c, d, isAddress].join(" ");
}

const client: KeyPart = { kind: "client" };
const token: KeyPart = { kind: "token" };
const header = (name: string): KeyPart => ({ kind: "header", name });
const claim = (name: string): KeyPart => ({ kind: "claim", name });

test("a key by client is the client's own; one without parts is the same for all", () => {
  expect(keyOf([client], { client: "2001:db8:1:2::/64" })).toBe(textOf(counterKeyOf("2001:db8:1:2::/64")));
  expect(keyOf([], { client: "192.0.2.9" })).toBe(keyOf([], { client: "192.0.2.8" }));
});

test("any other key is a hash of four words, whatever the request has, and no address", () => {
  const wordsOfHash = /^(-?\d{1,10} ){4}false$/;
  for (const value of ["a", "gold", "x".repeat(1024), "\xff\xfe"]) {
    expect(keyOf([header("x-plan"), token, { kind: "route" }], { rawHeaders: ["X-Plan", value] })).toMatch(wordsOfHash);
  }
  // The address of a client alone is an address, and among other parts it is not.
  expect(keyOf([client, { kind: "route" }])).toMatch(wordsOfHash);
});

test("a key depends on the secret", () => {
  const { request, head } = limitedRequest({ rawHeaders: ["X-Plan", "gold"] });
  const policy = slidingPolicy({ limit: 1, windowMs: 1, key: [header("x-plan")] });
  const keys = ["0123456789abcdef", "0123456789abcdeg"].map((text) =>
    textOf(createKeyReader(policy, new SipHash(Buffer.from(text)), new TokenDigests())(request, head, null)),
  );
  expect(keys[0]).not.toBe(keys[1]);
});

describe("what a request lacks is replaced by the client", () => {
  const long = "x".repeat(8192);
  const bearer = (value: string) => ["Authorization", `Bearer ${value}`];
  const cases: readonly [name: string, part: KeyPart, rawHeaders: readonly string[]][] = [
    ["no header", header("x-plan"), []],
    ["an empty header", header("x-plan"), ["X-Plan", ""]],
    ["a header of blanks", header("x-plan"), ["X-Plan", " \t "]],
    ["a header given twice", header("x-plan"), ["X-Plan", "gold", "x-plan", "gold"]],
    ["a header given twice, once empty", header("x-plan"), ["X-Plan", "gold", "X-PLAN", ""]],
    ["a header of 8 KiB", header("x-plan"), ["X-Plan", long]],
    ["a header of 1025 bytes", header("x-plan"), ["X-Plan", "x".repeat(1025)]],
    ["no token", token, []],
    ["another scheme", token, ["Authorization", "Basic Z29sZA=="]],
    ["an empty token", token, ["Authorization", "Bearer "]],
    ["a malformed token", token, bearer("a b")],
    ["a token given twice", token, [...bearer("gold"), ...bearer("gold")]],
    ["a subject without an identity", { kind: "subject" }, bearer("gold")],
    ["a claim without an identity", claim("org"), bearer("gold")],
  ];

  test.each(cases)("%s", (_, part, rawHeaders) => {
    const own = keyOf([{ kind: "header", name: "x-none" }]);
    expect(keyOf([part], { rawHeaders })).toBe(own);
    expect(keyOf([part], { rawHeaders, client: "192.0.2.2" })).not.toBe(own);
  });

  test("an identity without a subject, with an empty claim or with one that is too long", () => {
    const own = keyOf([header("x-none")]);
    const claims = new Map([
      ["empty", ""],
      ["long", "x".repeat(1025)],
    ]);
    const identity = identityOf({ claims, subject: "x".repeat(8192) });
    for (const part of [claim("none"), claim("empty"), claim("long"), { kind: "subject" } as const]) {
      expect(keyOf([part], {}, identity)).toBe(own);
    }
    expect(keyOf([{ kind: "subject" }], {}, identityOf())).toBe(own);
  });
});

test("the name of a header has no case, and blanks around its value do not count", () => {
  const key = keyOf([header("x-plan")], { rawHeaders: ["X-Plan", "gold"] });
  expect(keyOf([header("x-plan")], { rawHeaders: ["Host", "a", "x-PLAN", "\tgold "] })).toBe(key);
  for (const value of ["Gold", "gol", "gold\xa0", "golda"]) {
    expect(keyOf([header("x-plan")], { rawHeaders: ["X-Plan", value] })).not.toBe(key);
  }
});

test("HTTP/2 has the same keys: the authority is the header Host, and a header given twice is none", () => {
  const pseudo = [":method", "GET", ":path", "/v2/x", ":authority", "a.example"];
  const overHttp2 = (name: string, ...fields: string[]) =>
    keyOf([header(name)], { rawHeaders: readHttp2Head([...pseudo, ...fields]).rawHeaders });
  const ofHost = keyOf([header("host")], { rawHeaders: ["Host", "a.example"] });
  expect(overHttp2("host")).toBe(ofHost);
  expect(overHttp2("host", "host", "a.example")).toBe(ofHost);
  const own = keyOf([header("host")]);
  expect(overHttp2("host", "host", "b.example")).toBe(own);
  expect(overHttp2("x-plan", "x-plan", "gold", "x-plan", "gold")).toBe(own);
  expect(overHttp2("x-plan", "x-plan", "gold")).toBe(keyOf([header("x-plan")], { rawHeaders: ["X-Plan", "gold"] }));
});

test("no value passes for another kind: a header with the address of a client is not that client", () => {
  const keys = [
    keyOf([header("x-plan")], { client: "192.0.2.1" }),
    keyOf([header("x-plan")], { client: "192.0.2.2", rawHeaders: ["X-Plan", "192.0.2.1"] }),
    keyOf([token], { rawHeaders: ["Authorization", "Bearer 192.0.2.1"] }),
    keyOf([{ kind: "subject" }], {}, identityOf({ subject: "192.0.2.1" })),
    keyOf([claim("sub")], {}, identityOf({ claims: new Map([["sub", "192.0.2.1"]]) })),
    keyOf([{ kind: "route" }], { route: "192.0.2.1" }),
  ];
  expect(new Set(keys).size).toBe(keys.length);
});

test("a token has the same key before and after it is verified", () => {
  const rawHeaders = ["Authorization", "bearer  gold"];
  const verified = keyOf([token], { rawHeaders }, identityOf({ tokenDigest: digestOf("gold") }));
  expect(verified).toBe(keyOf([token], { rawHeaders }));
});

test("invented methods share one key", () => {
  const methods = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "QUERY",
    "PROPFIND",
    "get",
    "X1",
    "other",
  ];
  expect(new Set(methods.map((method) => keyOf([{ kind: "method" }], { method }))).size).toBe(9);
});

test("a value cannot hold another part: each is preceded by its length", () => {
  const key = [claim("a"), claim("b")];
  const ask = (a: string, b: string) => keyOf(key, {}, identityOf({ claims: new Map(Object.entries({ a, b })) }));
  const border = "\x04\0\0\0\0";
  expect(ask(`1${border}2`, "3")).not.toBe(ask("1", `2${border}3`));
});

test("a key does not depend on the requests before", () => {
  const policy = slidingPolicy({ limit: 1, windowMs: 1, key: [header("a"), header("b")] });
  const reader = createKeyReader(policy, new SipHash(secret), new TokenDigests());
  const ask = (...rawHeaders: string[]) => {
    const { request, head } = limitedRequest({ rawHeaders });
    return textOf(reader(request, head, null));
  };
  const first = ask("a", "1", "b", "2");
  const long = ["1", "2"].map((value) => ask("a", value, "b", "x".repeat(1024)));
  expect(new Set([first, ...long]).size).toBe(3);
  expect(ask("a", "1", "b", "2")).toBe(first);
});

test("a part before a long one counts", () => {
  const [one, two] = ["1", "2"].map((value) =>
    keyOf([header("a"), header("b")], { rawHeaders: ["a", value, "b", "x".repeat(1024)] }),
  );
  expect(one).not.toBe(two);
});

test("two requests have the same key exactly if all parts are the same", () => {
  const values = fc.constantFrom(
    "a",
    "",
    "\x00",
    "\x00\x01",
    "a\x00",
    "192.0.2.1",
    "192.0.2.2",
    "\xff",
    "Ā",
    "Ȁ",
    "aĀ",
  );
  const bytes = values.map((value) => value.replace(/[^\0-\xff]/g, "?"));
  const parts = fc.constantFrom<KeyPart>(client, header("a"), header("b"), claim("a"), { kind: "subject" });
  const requests = fc.record({
    client: fc.constantFrom("192.0.2.1", "192.0.2.2"),
    a: fc.option(bytes),
    b: fc.option(bytes),
    subject: fc.option(values),
    claim: fc.option(values),
  });
  type Asked = typeof requests extends fc.Arbitrary<infer T> ? T : never;
  const naiveKey = (key: readonly KeyPart[], asked: Asked): string =>
    JSON.stringify(
      key.map((part) => {
        const value = "name" in part ? (part.kind === "claim" ? asked.claim : asked[part.name as "a"]) : null;
        const chosen = part.kind === "subject" ? asked.subject : value;
        return chosen === null || chosen === "" ? ["client", asked.client] : [part.kind, chosen];
      }),
    );
  const actualKey = (key: readonly KeyPart[], asked: Asked): string => {
    const rawHeaders = (["a", "b"] as const).flatMap((name) => (asked[name] === null ? [] : [name, asked[name]]));
    const claims = new Map(asked.claim === null ? [] : [["a", asked.claim]]);
    return keyOf(key, { client: asked.client, rawHeaders }, identityOf({ subject: asked.subject, claims }));
  };
  let same = 0;
  fc.assert(
    fc.property(fc.uniqueArray(parts, { minLength: 1, maxLength: 3 }), requests, requests, (key, one, other) => {
      const expected = naiveKey(key, one) === naiveKey(key, other);
      if (expected) same += 1;
      expect(actualKey(key, one) === actualKey(key, other)).toBe(expected);
    }),
    { numRuns: 3000 },
  );
  expect(same).toBeGreaterThan(100);
});
