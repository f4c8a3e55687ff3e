import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Method, overrideNames } from "../../src/core/method.ts";
import type { ParsedRequest, RequestHead } from "../../src/core/request-head.ts";
import { createPolicyMatcher } from "../../src/limits/request-keys.ts";
import { spellingsOf } from "../conformance/paths/spellings.ts";
import { pathReaders } from "../core/path-readers.ts";
import { limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { runs, scaled, spread } from "../support/runs.ts";

const policyOf = (paths: readonly string[], methods: readonly Method[] = []) =>
  slidingPolicy({ limit: 1, windowMs: 1, match: { paths, methods } });

/** Returns whether a policy with these paths is about the target. */
function matches(paths: readonly string[], target: string, basePath = "/"): boolean {
  const { request, head } = limitedRequest({ target });
  return createPolicyMatcher([policyOf(paths)], basePath)(request, head) !== 0;
}

test("policies without match are about every request, which is not looked at", () => {
  const untouchable = new Proxy({}, { get: () => expect.fail("the request is read") });
  const matcher = createPolicyMatcher(
    Array.from({ length: 32 }, () => policyOf([])),
    "/",
  );
  expect(matcher(untouchable as ParsedRequest, untouchable as RequestHead)).toBe(-1);
});

test.each([
  ["/v2/crypto", "/v2/crypto", true],
  ["/v2/crypto", "/V2/Crypto/", true],
  ["/v2/crypto", "/v2/crypto?x=/v2", true],
  ["/v2/crypto", "/v2/crypto/x", false],
  ["/v2/crypto", "/v2/cryptos", false],
  ["/v2/crypto", "/v2", false],
  ["/v2/crypto", "/v1/v2/crypto", false],
  ["/v2/crypto/", "/v2/crypto", true],
  ["/v2/crypto/", "/v2/crypto/x/y", true],
  ["/v2/crypto/", "/v2/x?/v2/crypto", false],
  ["/v2/*/refresh", "/v2/crypto/refresh", true],
  ["/v2/*/refresh", "/v2/a%20b/refresh/", true],
  ["/v2/*/refresh", "/v2/refresh", false],
  ["/v2/*/refresh", "/v2/a/b/refresh", false],
  ["/v2/*", "/v2/x", true],
  ["/v2/*", "/v2/", false],
  ["/v2/*", "/v2/x/y", false],
  ["/v2/*/", "/v2/x/y", true],
  ["/v2/*/", "/v2/", false],
  ["/", "/anything", true],
  ["/*/x", "/a/x", true],
  ["/v2/crypto", "/v2/%63rypto", true],
  ["/v2/crypto", "/v2/crypt%C3%B6", false],
  ["/v2/crypto", "http://a/v2/crypto", true],
  // Spellings that backends read in different ways: the names occur in order.
  ["/v2/crypto", "/v2//crypto", true],
  ["/v2/crypto", "/v2/x/../crypto", true],
  ["/v2/crypto", "/v2/./x", false],
  ["/v2/crypto", "/v2%2fcrypto", true],
  ["/v2/crypto", "/v2\\crypto", true],
  ["/v2/crypto", "/v2/crypto;a=b", true],
  ["/v2/crypto", "/v2/%2563rypto", true],
  ["/v2/crypto", "/v2/crypto%00.json", true],
  ["/v2/crypto", "/crypto//v2", false],
  ["/v2/crypto", "/v2/%u0063rypto", true],
  // Windows drops dots and blanks at the end of a name.
  ["/v2/crypto", "/v2/crypto.", true],
  ["/v2/crypto", "/v2/crypto%20", true],
  ["/v2/crypto", "/v2/crypto.%20..", true],
  ["/v2/crypto", "/v2./crypto", true],
  ["/v2/crypto", "/v2%20/crypto./", true],
  ["/v2/crypto", "/v2//crypto.", true],
  ["/v2/crypto", "/v2//crypto%20..;x", true],
  ["/v2/crypto", "/v2/crypto.x", false],
  ["/v2/crypto", "/v2/crypto.x/a%20b.c", false],
  ["/v2/crypto", "/v2//crypto.x", false],
  ["/v2/crypto", "/v2/crypto%20x", false],
  ["/v2/crypto", "/v2/.crypto", false],
  ["/v2/*/refresh", "/v2/a/refresh.", true],
  ["/v2/*/refresh", "/v2/.../refresh", true],
  ["/v2/*", "/v2/...", true],
  ["/v2/crypto/", "/v2/crypto./x", true],
  ["/v2/v2.1", "/v2/v2.1", true],
  ["/v2/v2.1", "/v2/v2.", false],
  ["/v2/*/refresh", "/v2//refresh", true],
  ["/v2/a/a", "/v2//a", false],
  ["/v2/a/a", "/v2//a/a", true],
])("%s and %s: %s", (pattern, target, expected) => {
  expect(matches([pattern], target)).toBe(expected);
});

test("patterns are below the base path", () => {
  for (const [target, expected] of [
    ["/finance/v2/crypto", true],
    ["/Finance/v2//crypto", true],
    ["/v2/crypto", false],
    ["/v2//crypto", false],
    ["/finance/finance/v2/crypto", false],
  ] as const) {
    expect([target, matches(["/v2/crypto"], target, "/finance")]).toEqual([target, expected]);
  }
});

test("each policy has its bit, up to the 32nd", () => {
  const policies = Array.from({ length: 32 }, (_, i) => policyOf(i === 5 ? [] : [`/v2/p${i}/`, "/v2/all"]));
  const matcher = createPolicyMatcher(policies, "/");
  const ask = (target: string): number => {
    const { request, head } = limitedRequest({ target });
    return matcher(request, head);
  };
  expect(ask("/v2/all")).toBe(-1);
  expect(ask("/v2/none")).toBe(1 << 5);
  for (let i = 0; i < 32; i += 1) expect(ask(`/v2/p${i}/x`)).toBe((1 << 5) | (1 << i));
});

describe("methods", () => {
  const matcher = createPolicyMatcher(
    [policyOf([], ["GET", "POST"]), policyOf([]), policyOf(["/v2/x"], ["POST"]), policyOf(["/v2/y"])],
    "/",
  );

  test.each([
    ["GET", "/v2/x", 0b0011],
    ["POST", "/v2/x", 0b0111],
    ["post", "/v2/x", 0b0111],
    ["POST", "/v2/y", 0b1011],
    ["HEAD", "/v2/y", 0b1010],
    ["PUT", "/v2/x", 0b0010],
  ])("%s %s", (method, target, expected) => {
    const { request, head } = limitedRequest({ method, target });
    expect(matcher(request, head)).toBe(expected);
  });
});

describe("a method that a framework may take instead of the request's", () => {
  const matcher = createPolicyMatcher([policyOf([], ["DELETE"]), policyOf(["/v2/x"], ["POST"]), policyOf([])], "/");

  test.each<[claim: string, target: string, rawHeaders: string[], expected: number]>([
    ["none", "/v2/x", ["X-HTTP", "DELETE"], 0b110],
    ...overrideNames.flatMap((name): [string, string, string[], number][] => [
      [name, "/v2/x", [name, "delete"], 0b111],
      [`${name} in upper case`, "/v2/x", [name.toUpperCase(), "Delete"], 0b111],
    ]),
    ["the second of two", "/v2/x", ["X-HTTP-Method", "PUT", "X-HTTP-Method", "DELETE"], 0b111],
    ["one that no policy names", "/v2/x", ["X-HTTP-Method", "PURGE"], 0b110],
    ["_method", "/v2/x?_method=DELETE", [], 0b111],
    ["the first of a list, which method-override takes", "/v2/x", ["X-HTTP-Method-Override", "DELETE , GET"], 0b111],
    ["_method up to a NUL, where PHP ends a name", "/v2/x?_method%00x=DELETE", [], 0b111],
    ["_method, not the first", "/v2/x?a=b&_method=delete&c", [], 0b111],
    ["_method behind a semicolon", "/v2/x?a=b;_method=delete", [], 0b111],
    ["_method in escapes", "/v2/x?%5F%6dethod=%44ELETE", [], 0b111],
    ["what PHP reads as _method", "/v2/x?.method=DELETE", [], 0b111],
    ["the same behind a blank", "/v2/x?+_method=DELETE", [], 0b111],
    ["another parameter", "/v2/x?method=DELETE&x_method=DELETE", [], 0b110],
    ["_method in the path", "/v2/x/_method=DELETE", [], 0b100],
  ])("%s", (_, target, rawHeaders, expected) => {
    const { request, head } = limitedRequest({ method: "POST", target, rawHeaders });
    expect(matcher(request, head)).toBe(expected);
  });
});

test("a target that cannot be read matches every path", () => {
  const { request, head } = limitedRequest({ target: "nonsense" });
  expect(createPolicyMatcher([policyOf(["/v2/x"])], "/")(request, head)).toBe(1);
});

/** What a pattern says of a path that has one reading. */
function naiveMatch(pattern: string, path: string): boolean {
  const split = (text: string) => text.toLowerCase().replace(/\/$/, "").split("/").slice(1);
  const [names, segments] = [split(pattern), split(path)];
  const isLongEnough = pattern.endsWith("/") ? segments.length >= names.length : segments.length === names.length;
  return isLongEnough && names.every((name, i) => name === segments[i] || (name === "*" && segments[i] !== ""));
}

describe("whatever a backend makes of a path", () => {
  const segments = fc.array(fc.constantFrom("v1", "v2", "X", "*"), { minLength: 1, maxLength: 3 });
  const anyPattern = fc.tuple(segments, fc.constantFrom("", "/")).map(([each, end]) => `/${each.join("/")}${end}`);

  test("in every spelling of the corpus", () => {
    const patterns = ["/v1/", "/v1/x", "/v2/", "/*/x", "/v1/*/", "/x/v1", "/v1/v2/x", "/a/*/v1/"];
    const matcher = createPolicyMatcher(
      patterns.map((pattern) => policyOf([pattern])),
      "/",
    );
    let matched = 0;
    for (const target of spread(spellingsOf("v1", "v2"), 5)) {
      const readings = new Set(pathReaders.map(({ read }) => read(target.replace(/\?.*$/s, ""))));
      const { request, head } = limitedRequest({ target });
      const mask = matcher(request, head);
      for (const [i, pattern] of patterns.entries()) {
        if (![...readings].some((reading) => naiveMatch(pattern, reading))) continue;
        matched += 1;
        if ((mask & (1 << i)) === 0) throw new Error(`${target} is not matched by ${pattern}`);
      }
    }
    expect(matched).toBeGreaterThan(scaled(2000, 5));
  });

  test("in any spelling", () => {
    const separators = ["/", "/", "/", "//", "\\", "%2f", "%5c", "%252f", "/./", "/%2e/"];
    const names = [
      "v1",
      "V1",
      "v2",
      "x",
      "%76%31",
      "%2576%2531",
      "v1;a=b",
      ";",
      "x%3fa",
      "x%00",
      "..",
      "%2e%2e",
      "..;",
    ];
    const spellings = fc
      .array(fc.tuple(fc.constantFrom(...separators), fc.constantFrom(...names)), { minLength: 1, maxLength: 6 })
      .map((parts) => `/${parts.flat().join("").replace(/^\//, "")}`);
    let matched = 0;
    fc.assert(
      fc.property(spellings, anyPattern, (target, pattern) => {
        const reader = pathReaders.find(({ read }) => naiveMatch(pattern, read(target)));
        if (reader === undefined) return;
        matched += 1;
        if (matches([pattern], target)) return;
        throw new Error(`a backend that ${reader.name} reads ${target} as one of ${pattern}`);
      }),
      runs(10_000),
    );
    expect(matched).toBeGreaterThan(scaled(1_000));
  });

  test("a path that all read in the same way is matched exactly", () => {
    const plain = fc.array(fc.constantFrom("v1", "V2", "x", "v11", "%76%31", "v%31", "a%20b"), { maxLength: 4 });
    fc.assert(
      fc.property(
        fc.array(anyPattern, { minLength: 1, maxLength: 4 }),
        plain,
        fc.boolean(),
        (asked, parts, hasSlash) => {
          const path = `/${parts.join("/")}${hasSlash && parts.length > 0 ? "/" : ""}`;
          const expected = asked.some((pattern) => naiveMatch(pattern, decodeURIComponent(path)));
          expect([asked, path, matches(asked, path)]).toEqual([asked, path, expected]);
        },
      ),
      runs(10_000),
    );
  });

  test("letters that are an ASCII letter in another case", () => {
    const spellingsOfLetters = { s: "%C5%BF", k: "%E2%84%AA", i: "%C4%B0", I: "%C4%B1" };
    for (const [letter, escaped] of Object.entries(spellingsOfLetters)) {
      expect(matches([`/v2/a${letter}b`], `/v2/A${escaped}b`)).toBe(true);
      expect(matches([`/v2/a${letter}b`], `/v2//a${escaped}b;`)).toBe(true);
      expect(matches([`/v2/a${letter}b`], `/v2/a${escaped}`)).toBe(false);
      expect(matches([`/v2/a${letter}b`], `/v2/a${escaped.slice(0, -3)}b`)).toBe(false);
    }
  });
});
