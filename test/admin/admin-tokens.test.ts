// The file of the tokens of the admin API: what its lines mean, and that nothing of a wrong one is shown.
import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { AdminTokens, adminTokensFile, parseAdminTokens } from "../../src/admin/admin-tokens.ts";
import { digestOf } from "../auth/digest.ts";

const digest = digestOf("right");

test.each([
  [`${digest} read # ops`, [{ digest, role: "read", name: "ops" }]],
  [`  ${digest.toUpperCase()}\twrite   #   two words `, [{ digest, role: "write", name: "two words" }]],
  [`\ufeff# a comment\r\n\r\n${digest} write # a # b\r\n`, [{ digest, role: "write", name: "a # b" }]],
  [`${digest} write # ${"é".repeat(70)}`, [{ digest, role: "write", name: "é".repeat(64) }]],
  ["", []],
  ["# nothing\n\n   \n", []],
])("%j is %j", (text, tokens) => {
  expect(parseAdminTokens(text)).toEqual({ tokens, flaws: [] });
});

test.each([
  ["the-token-itself write # ops", "no SHA-256 digest at its beginning"],
  [`${digest}0 write # ops`, "no SHA-256 digest at its beginning"],
  [`write ${digest} # ops`, "no SHA-256 digest at its beginning"],
  [digest, "no role"],
  [`${digest} # ops`, "no role"],
  [`${digest} admin # ops`, "an unknown role"],
  [`${digest} WRITE # ops`, "an unknown role"],
  [`${digest} read write # ops`, "more than a digest and a role"],
  [`${digest} read ops`, "more than a digest and a role"],
  [`${digest} read`, "no name"],
  [`${digest} read #  `, "no name"],
  [`${digest} read # socket`, "the name socket"],
])("%j is refused: found %s", (line, found) => {
  const { tokens, flaws } = parseAdminTokens(`# first\n${line}\n`);
  expect(tokens).toEqual([]);
  expect(flaws).toMatchObject([{ line: 2, found }]);
  expect(JSON.stringify(flaws)).not.toMatch(/the-token-itself|admin"|ops/);
});

test("one digest twice is refused, also with the same role", () => {
  const { flaws } = parseAdminTokens(`${digest} read # a\n${digest} read # a\n`);
  expect(flaws).toMatchObject([{ line: 2, found: "the digest of line 1 again" }]);
});

test("a start needs a digest; later, a comment alone revokes all tokens, and an empty file is a mistake", () => {
  const group = adminTokensFile("/x");
  const parse = (text: string, isStart: boolean) => group.parse({ "admin.tokensFile": text }, isStart);
  expect(parse("# none\n", true)).toMatchObject({ ok: false, flaws: [{ found: "no digest in the file" }] });
  expect(parse("", false)).toMatchObject({ ok: false });
  const revoked = parse("# none\n", false);
  expect(revoked.ok && revoked.value.size).toBe(0);
});

test("a token is found by itself alone", () => {
  const tokens = new AdminTokens([{ digest, role: "write", name: "ops" }]);
  expect(tokens.find("right")).toEqual({ role: "write", name: "ops" });
  for (const other of ["", "Right", "right ", digest, hash("sha256", digest, "hex")])
    expect(tokens.find(other)).toBeNull();
});
