import { describe, expect, test } from "vitest";
import { readBearer } from "../../src/core/authentication.ts";
import { cpuMsOf } from "../support/cpu-time.ts";

const read = (...values: string[]) => readBearer(values.flatMap((value) => ["Authorization", value]));

describe("a token", () => {
  test.each([
    ["Bearer abc", "abc"],
    ["bearer abc", "abc"],
    ["BEARER abc", "abc"],
    ["bEaReR abc", "abc"],
    ["Bearer   abc", "abc"], // RFC 9110, 11.4: one or more spaces
    ["Bearer abc=", "abc="],
    ["Bearer abc==", "abc=="],
    ["Bearer abc====", "abc===="],
    ["Bearer A-Z.a_z~0+9/", "A-Z.a_z~0+9/"],
    ["Bearer bearer", "bearer"],
    [`Bearer ${"x".repeat(8192 - 7)}`, "x".repeat(8192 - 7)],
  ])("%.30s", (value, token) => {
    expect(read(value)).toEqual({ kind: "token", token });
  });

  test("is found under the field's name in any case, among others", () => {
    const rawHeaders = ["Host", "Bearer no", "aUTHORIZATION", "Bearer yes", "X-Authorization", "Bearer no"];
    expect(readBearer(rawHeaders)).toEqual({ kind: "token", token: "yes" });
  });
});

describe("missing: nothing was given as a bearer token", () => {
  test.each([
    "",
    "Bearer",
    "bearer",
    "Bearer ",
    "Bearer    ",
    "Basic dTpw",
    "Bearerabc",
    "Bearer:abc",
    "Bearer\tabc",
    "Bearer=abc",
    "Token abc",
    "Basic Bearer abc",
    " Bearer abc",
    "abc",
  ])("%j", (value) => {
    expect(read(value)).toEqual({ kind: "missing" });
  });

  test("no Authorization at all, or only names that resemble it", () => {
    expect(readBearer([])).toEqual({ kind: "missing" });
    const names = [
      "Proxy-Authorization",
      "X-Authorization",
      "Authorizatio",
      "Authorization2",
      "authorisation1",
      "__proto__",
    ];
    expect(readBearer(names.flatMap((name) => [name, "Bearer abc"]))).toEqual({ kind: "missing" });
  });

  test("another scheme, twice", () => {
    expect(read("Basic dTpw", "Basic dTpw")).toEqual({ kind: "missing" });
    expect(read("", "")).toEqual({ kind: "missing" });
  });
});

describe("malformed: something was given and cannot be one token", () => {
  test.each([
    "Bearer =",
    "Bearer ==abc",
    "Bearer ab=c",
    "Bearer abc def",
    "Bearer abc, Bearer def",
    "Bearer abc,def",
    "Bearer abc ",
    "Bearer \tabc",
    "Bearer abc\n",
    "Bearer abc\ndef",
    'Bearer "abc"',
    "Bearer a%20b",
    "Bearer tök",
    "Bearer \u00a0abc",
    "Bearer ab\u0000c",
    "Bearer a:b",
    "Bearer token=abc",
    `Bearer ${"x".repeat(8192 - 6)}`,
    `Bearer ${"x".repeat(65_536)}`,
    `Bearer${" ".repeat(9000)}x`,
  ])("%.30j", (value) => {
    expect(read(value)).toEqual({ kind: "malformed" });
  });

  test.each([
    ["the same token twice", ["Bearer abc", "Bearer abc"]],
    ["two tokens", ["Bearer abc", "Bearer def"]],
    ["a token and another scheme", ["Bearer abc", "Basic dTpw"]],
    ["another scheme and a token", ["Basic dTpw", "Bearer abc"]],
    ["a token and an empty field", ["Bearer abc", ""]],
    ["an empty field and a token", ["", "Bearer abc"]],
  ])("%s", (_, values) => {
    expect(read(...values)).toEqual({ kind: "malformed" });
  });
});

test("64 KiB of any one character are refused at once", () => {
  const fields = [" ", "=", "a", "a ", "a=", "\t"].map((part) => `Bearer ${part.repeat(65_536 / part.length)}`);
  const readAll = (): void => {
    for (const field of fields) expect(read(field).kind).not.toBe("token");
  };
  expect(cpuMsOf(readAll)).toBeLessThan(1_000);
});
