import { expect, test } from "vitest";
import { createAuthenticator } from "../../src/auth/authenticator.ts";
import type { AuthMode, BearerCredential } from "../../src/core/authentication.ts";
import { systemClock } from "../../src/core/clock.ts";

const credentials: readonly BearerCredential[] = [
  { kind: "token", token: "abc" },
  { kind: "missing" },
  { kind: "malformed" },
];

const without = createAuthenticator(null, systemClock);
const asked = (mode: AuthMode) => credentials.map((credential) => without.authenticate(credential, mode));

test("presence takes any one well-formed token, and tells none from one that cannot be one", () => {
  expect(asked("presence")).toEqual(["accepted", "missing", "invalid"]);
});

test("off skips whatever was given", () => {
  expect(asked("off")).toEqual(["skipped", "skipped", "skipped"]);
});

test("without a list, no token is a listed one", () => {
  expect(asked("tokens")).toEqual(["invalid", "missing", "invalid"]);
});
