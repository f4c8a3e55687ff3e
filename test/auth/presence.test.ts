import { expect, test } from "vitest";
import { offAuthenticator, presence, presenceAuthenticator } from "../../src/auth/presence.ts";
import type { BearerCredential } from "../../src/core/bearer.ts";

const credentials: readonly BearerCredential[] = [
  { kind: "token", token: "abc" },
  { kind: "missing" },
  { kind: "malformed" },
];

test("presence takes any one well-formed token, and tells none from one that cannot be one", () => {
  expect(credentials.map(presence)).toEqual(["accepted", "missing", "invalid"]);
  expect(credentials.map((credential) => presenceAuthenticator.authenticate(credential))).toEqual([
    "accepted",
    "missing",
    "invalid",
  ]);
});

test("off skips whatever was given", () => {
  expect(credentials.map((credential) => offAuthenticator.authenticate(credential))).toEqual([
    "skipped",
    "skipped",
    "skipped",
  ]);
});
