import { expect, test } from "vitest";
import type { KeyPart, LimitOverride } from "../../src/core/policy.ts";
import { needsIdentity } from "../../src/core/policy.ts";
import { slidingPolicy } from "../support/policy.ts";

const policy = (key: readonly KeyPart[], overrides: readonly LimitOverride[] = []) =>
  slidingPolicy({ limit: 1, windowMs: 1, key, overrides });

test("a subject or a claim needs an identity; a token needs one if tokens are verified; the rest never does", () => {
  for (const tokensAreVerified of [false, true]) {
    const needs = (...parts: Parameters<typeof policy>) => needsIdentity(policy(...parts), tokensAreVerified);
    expect(needs([{ kind: "client" }, { kind: "subject" }])).toBe(true);
    expect(needs([{ kind: "claim", name: "org" }])).toBe(true);
    expect(needs([{ kind: "client" }], [{ part: "subject", value: "a", limit: 1 }])).toBe(true);
    expect(needs([{ kind: "token" }])).toBe(tokensAreVerified);
    expect(needs([{ kind: "client" }], [{ part: "token", value: "a", limit: 1 }])).toBe(tokensAreVerified);
    expect(needs([])).toBe(false);
    expect(needs([{ kind: "client" }, { kind: "header", name: "a" }, { kind: "method" }, { kind: "route" }])).toBe(
      false,
    );
    expect(needs([{ kind: "client" }], [{ part: "client", value: "::1", limit: 1 }])).toBe(false);
  }
});
