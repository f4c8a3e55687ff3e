import { describe, expect, test } from "vitest";
import { readBearer } from "../../src/core/authentication.ts";
import { cpuMsOf } from "../support/cpu-time.ts";

/** Visible ASCII but the comma, the quotation mark, letters and digits. */
const others = "!#$%&'()*+-./:;<=>?@[\\]^_`{|}~";

const read = (...values: string[]) => readBearer(values.flatMap((value) => ["Authorization", value]));

describe("a token", () => {
  test.each<[value: string, token: string]>([
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
    // As widespread frameworks make them; RFC 6750, 2.1 does not allow these characters.
    ["Bearer 12|abcDEF0123456789", "12|abcDEF0123456789"],
    ["Bearer a:b", "a:b"],
    ["Bearer token=abc", "token=abc"],
    ["Bearer a%20b", "a%20b"],
    ["Bearer =", "="],
    ["Bearer ==abc", "==abc"],
    ["Bearer ab=c", "ab=c"],
    [`Bearer ${others}`, others],
    // The head has the only bound.
    ...[8192, 10_455, 15_000, 65_536].map((length): [string, string] => [
      `Bearer ${"x".repeat(length)}`,
      "x".repeat(length),
    ]),
    [`Bearer${" ".repeat(9000)}x`, "x"],
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
    "Bearer abc def",
    "Bearer abc, Bearer def",
    "Bearer abc,def",
    "Bearer abc ",
    "Bearer \tabc",
    "Bearer abc\n",
    "Bearer abc\ndef",
    'Bearer "abc"',
    "Bearer a,",
    "Bearer ,",
    'Bearer a"',
    'Bearer realm="a"',
    "Bearer a\u007f",
    "Bearer tök",
    "Bearer \u00a0abc",
    "Bearer ab\u0000c",
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

test("64 KiB of any one character are read at once", () => {
  const fields = [" ", ",", "a ", "a,", "\t"].map((part) => `Bearer ${part.repeat(65_536 / part.length)}`);
  const readAll = (): void => {
    for (const field of fields) expect(read(field).kind).not.toBe("token");
    expect(read(`Bearer ${"a=".repeat(32_768)}`).kind).toBe("token");
  };
  expect(cpuMsOf(readAll)).toBeLessThan(1_000);
});
