// Which names of fields are refused because a server may take them for others, against a naive reading of the rule.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FieldNames, fixedFieldNames, ownNames, readingOf, vouchingNames } from "../../src/core/field-names.ts";
import type { KeyedPolicy, KeyPart } from "../../src/core/policy.ts";
import { runs } from "../support/runs.ts";

const policyOf = (...names: string[]): KeyedPolicy => ({
  name: "any",
  key: names.map((name): KeyPart => ({ kind: "header", name })),
});

const known = [...ownNames, ...vouchingNames];
const tokenCharacters = "!#$%&'*+-.^_`|~";

/** The rule as it is written: each known name is compared, and every name behind the prefix is one. */
function naive(name: string, names: readonly string[]): boolean {
  const fold = (text: string) => [...text.toLowerCase()].map((c) => (/[a-z0-9]/.test(c) ? c : "-")).join("");
  if (names.includes(name.toLowerCase())) return false;
  const isForwarded = fold(name).startsWith("x-forwarded-") && fold(name) !== name.toLowerCase();
  return isForwarded || names.some((other) => fold(other) === fold(name));
}

describe("names that pass", () => {
  test.each([
    ...["SFDC_STACK_DEPTH", "api_key", "api.key", "Api_Key", "_", "__proto__", "X_A", "x_", "constructor", "0", "~"],
    ...["X.Custom", "Content_Type", "User_Agent", "X-Real.IPs", "aX.Real.IP", "Host.", "Host_", "Content-Length."],
    ...[
      "X-Real-IP.",
      "Client_IPs",
      "X_Client_Id",
      "SSL_CLIENT_CERT",
      "X_FAPI_Customer_IP_Address",
      "HTTP_X_REQUEST_ID",
      "Cookie_",
    ],
    ...[...tokenCharacters].map((character) => `a${character}b`),
  ])("%s", (name) => {
    expect(fixedFieldNames.takenFor(name)).toBeNull();
    expect(fixedFieldNames.isDropped(name.toLowerCase())).toBe(false);
  });

  test("every known name itself, in any case", () => {
    for (const name of known) {
      for (const spelling of [name, name.toUpperCase()])
        expect([name, fixedFieldNames.takenFor(spelling)]).toEqual([name, null]);
    }
  });
});

describe("names that are refused", () => {
  const several = known.filter((name) => name.includes("-"));
  test("each known name of several words, with any character in the place of a hyphen", () => {
    expect(several.length).toBeGreaterThan(70);
    for (const name of several) {
      for (const character of tokenCharacters.replace("-", "")) {
        for (const spelling of [name.replaceAll("-", character), name.replace("-", character).toUpperCase()]) {
          expect([spelling, fixedFieldNames.takenFor(spelling)]).toEqual([spelling, name]);
        }
      }
    }
  });

  test.each([
    ["X_Forwarded_For", "x-forwarded-for"],
    ["X-Forwarded-Client_Cert", "x-forwarded-client-cert"],
    ["x.forwarded-whatever", "x-forwarded-whatever"],
    ["X_Forwarded", "x-forwarded"],
    ["Client_Ip", "client-ip"],
    ["true.client.ip", "true-client-ip"],
    ["HTTP_CLIENT_IP", "http-client-ip"],
    ["HTTP_X_FORWARDED_FOR", "http-x-forwarded-for"],
    ["_WSRA", "$wsra"],
    ["-WSRA", "$wsra"],
    ["Content_Length", "content-length"],
  ])("%s can be read as %s", (name, other) => {
    expect(fixedFieldNames.takenFor(name)).toBe(other);
  });
});

describe("names of a configuration", () => {
  const names = new FieldNames(["x-user", "x.role"], [policyOf("x-org"), policyOf("api_key", "x-org")]);

  test.each(["X-User", "X.Role", "X-Org", "API_KEY", "X_Orgs", "X-Roles", "apikey"])("%s passes", (name) => {
    expect(names.takenFor(name)).toBeNull();
  });

  test.each([
    ["X_User", "x-user"],
    ["X-Role", "x.role"],
    ["X_Role", "x.role"],
    ["x.org", "x-org"],
    ["Api-Key", "api_key"],
    ["api.key", "api_key"],
  ])("%s is refused, which can be read as %s", (name, other) => {
    expect(names.takenFor(name)).toBe(other);
    expect(fixedFieldNames.takenFor(name)).toBeNull();
  });

  test("those of dropHeaders are dropped, those of a key are not", () => {
    expect(["x-user", "x.role", "x-org", "api_key"].filter((name) => names.isDropped(name))).toEqual([
      "x-user",
      "x.role",
    ]);
  });
});

test("no name that vouches for something is one that the gateway needs, and all begin as the quick look expects", () => {
  expect([...vouchingNames].filter((name) => ownNames.has(name))).toEqual(["forwarded"]);
  for (const name of known) {
    expect(name).toMatch(/^[!#$%&'*+.^_`|~0-9a-z-]+$/);
    // A plain name is looked up only if a configured name has other characters.
    if (!/^[a-z0-9-]+$/.test(name)) expect(readingOf(name)).toMatch(/^-/);
  }
});

test("the rule and nothing else refuses, whatever is configured", () => {
  const character = fc.constantFrom(...tokenCharacters, "a", "B", "0");
  const token = fc.string({ unit: character, minLength: 1, maxLength: 8 });
  const mutated = fc
    .tuple(
      fc.constantFrom(...known, "x-forwarded-client-cert", "x-forwarded-", "x-org", "api_key"),
      fc.array(fc.tuple(fc.nat(), character)),
      fc.boolean(),
    )
    .map(([name, changes, isUpper]) => {
      const letters = [...name];
      for (const [at, letter] of changes) {
        const i = at % letters.length;
        // Mostly what separates words.
        if (!/[a-z0-9]/.test(letters[i] ?? "") || changes.length === 1) letters[i] = letter;
      }
      return isUpper ? letters.join("").toUpperCase() : letters.join("");
    });
  const any = fc.oneof(mutated, token, fc.constantFrom("x_org", "X.Org", "api-key", "Api.Key", "x-a", "x_a"));
  const configured = fc.array(
    fc.oneof(token, fc.constantFrom("x-org", "api_key", "x_a")).map((name) => name.toLowerCase()),
  );
  let refused = 0;
  let passed = 0;
  fc.assert(
    fc.property(configured, configured, fc.array(any, { minLength: 1, maxLength: 20 }), (dropped, keys, sent) => {
      const names = new FieldNames(dropped, [policyOf(...keys)]);
      const all = [...known, ...dropped, ...keys];
      const refusedNames = sent.filter((name) => names.takenFor(name) !== null);
      expect(refusedNames).toEqual(sent.filter((name) => naive(name, all)));
      refused += refusedNames.length;
      passed += sent.length - refusedNames.length;
    }),
    runs(4_000),
  );
  expect(Math.min(refused, passed)).toBeGreaterThan(100);
});
