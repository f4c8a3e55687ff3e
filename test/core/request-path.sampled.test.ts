import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createPathReader } from "../../src/core/request-path.ts";
import { cpuMsOf } from "../support/cpu-time.ts";
import { runs } from "../support/runs.ts";

const { read } = createPathReader(["/v1/", "/v2/"], "/");

describe("counted under its route, in whatever spelling", () => {
  test.each([
    ["/v2/transactions", "/v2/"],
    ["/v2/", "/v2/"],
    ["/v2", "/v2/"],
    ["/V2/transactions", "/v2/"],
    ["//v2/x", "/v2/"],
    ["//v2/v2/x", "/v2/"],
    ["///v2///x", "/v2/"],
    ["/./v2/x", "/v2/"],
    ["/%76%32/x", "/v2/"],
    ["/%76%32%2Fx/../..", null],
    ["/v1/./b", "/v1/"],
    ["/v1/a/../b", "/v1/"],
    ["/v1/a%2fb", "/v1/"],
    ["/v1/a\\b", "/v1/"],
    ["/v1/a%5cb", "/v1/"],
    ["/v1/{}", "/v1/"],
    ["/v1/a;b=c", "/v1/"],
    ["/v1/%", "/v1/"],
    ["/v1/100%25", "/v1/"],
    ["/v1/a%25252541", "/v1/"],
    ["/v1/%c3%a9", "/v1/"],
    ["/v1/foo../bar", "/v1/"],
  ])("%s", (path, route) => {
    expect(read(path)).toEqual(route === null ? { kind: "ambiguous", route: "/v2/" } : { kind: "route", route });
  });
});

describe("ambiguous, and still charged to a route it may be under", () => {
  test.each([
    ["/v1/..%2fv2/x"],
    ["/v1/../v2/x"],
    ["/v1/../admin"],
    ["/v1/foo//../bar"],
    ["/v1/a;x/../c"],
    ["/v1/a/../c%20d"],
    ["//x/v1/me"],
    ["///x/v1/me"],
    ["/\\x/v1/me"],
    ["//x:80/v1/me"],
    ["//x/%2e/v1/me"],
    ["//v1/v2/me"],
    ["/%2fx/v1/me"],
    ["/%2F%2fx/v1/me"],
    ["/%5cx/v1/me"],
    ["/%2fx%2fv1/me"],
    ["/%2fv1/v2/me"],
    // The authority ends at `/` alone (Python, PHP, Java), at `\\` too, at what is decoded first, or at an escape (Node).
    ["//a%2fb/v2/x"],
    ["//a%76%32#@h%61"],
    ["/%252e%252e%2e/v1/x"],
    ["/x/%2e%252e%2e/v2"],
    ["//a%5cb/v2/x"],
    ["//a\\b/v2/x"],
    ["//u%2f@h/v2/x"],
    ["//u\\@h/v2/x"],
    ["//u:p%2fq@h:80/v2/x"],
    ["//a#b/v2/x"],
    ["//a%3fb/v2/x"],
    ["//a%252fb/v2/x"],
    ["//a%252fv2/x"],
    ["//a%25252fv2/x"],
    ["//a%76%32/x"],
    ["//u%40@a%76%32/x"],
    ["/%252fa/v2/x"],
    ["/%255ca/v2/x"],
    ["/\\a%2fb/v2/x"],
    ["//%2fa%2fb/v2/x"],
    ["//\\@h/v2/x"],
    ["//[::1]/v2/x"],
    ["//[::1/v2/x"],
    ["//[::1]/../v2/x"],
    ["//a;b/v2/x"],
    ["//%761/v2/x"],
    ["//v1%20/v2/x"],
    ["///a%2fb/v2/x"],
    ["/../v2/x"],
    ["/v1/.."],
    ["/v1/%2e%2e/admin"],
    ["/v1/%252e%252e/admin"],
    ["/v1/..%5cadmin"],
    ["/v1/..\\admin"],
    ["/v1/..;/admin"],
    ["/v1/..;x=y/admin"],
    ["/admin/../v2/x"],
    ["/x%2fv2/../../v2/x"],
    ["/v2%2fx"],
    ["/v2;a=b/x"],
    ["/v2%3f/x"],
    ["/v1/a%00b"],
    ["/v1/a%0ab"],
    ["/v1/%c0%ae%c0%ae/admin"],
    ["/v1/%25252525252541"],
    ["/%2576%32/x"],
    // `..` beside what readers split at, decode or drop differently: some lands in a route, some leaves it.
    ["/x/../v1//../y"],
    ["/x/../v1/%2e/../y"],
    ["/x/../v1/%2e%2e/y"],
    ["/x/../v1/;a/../y"],
    ["/x\\..\\v1/a%5c..%5c../y"],
    ["/v1/a%5cb\\../../admin"],
    ["/v1/.%2e\\v1%5cv1/v1"],
    ["/..\\../v1/.%2e"],
    ["/x/%c0%ae%c0%ae/v1/y"],
    ["/;%2fx%2fv1/v1%2fy/z"],
    // Bytes that Python's http.server takes for blanks, at which it ends the target.
    ["/v1\xa0"],
    ["/v1/a\x85"],
    ["/v1/a\xa0\xa0"],
    // Dots and blanks at the end of a name, which Windows drops, before or after others decode again.
    ["/v2."],
    ["/v2%20/x"],
    ["/v2%252e"],
    ["/v2%252e/x"],
    ["/v2%2520/x"],
    ["/v2%25252e%20/x"],
    ["/v2%25%32%65/x"],
    ["/%2576%2532%252e/x"],
    ["//a/v2%252e/x"],
    ["/v2.%23/x"],
    ["/v2%2e%3fx"],
    ["/v2.#x"],
    ["/v2.%253bx/y"],
    // Such a name may have nothing left, or be `..`.
    ["/%20/v2/x"],
    ["/%2520/v2/x"],
    ["/.%20./v2/x"],
    ["/x/..%20/v2/y"],
    ["/v1/..%2520/v2/y"],
  ])("%s", (path) => {
    const reading = read(path);
    expect(reading.kind).toBe("ambiguous");
    expect(reading.kind === "ambiguous" && reading.route).not.toBeNull();
  });
});

test.each([
  ["/"],
  ["/v3/x"],
  ["/v22/x"],
  ["/foo../bar"],
  ["/foo/v2/x"],
  ["/foo%2fv2/x"],
  ["/health"],
  ["/x/../y"],
  ["/x/.."],
  ["//host/x"],
  ["//host:80/x/v2/y"],
  ["//user@host/x"],
  ["//a%2fb/x"],
  ["//caf%c3%a9/x"],
  ["/x%252e/v2"],
  ["/x/v2%252e"],
  ["/x./v2."],
])("%s is under no route", (path) => {
  expect(read(path)).toEqual({ kind: "unmatched" });
});

test.each([["/../admin"], ["/x/../../admin"], ["/x%00"], ["/x//../y"], ["/v%31x/%2e%2e/y"]])(
  "%s is ambiguous under no route",
  (path) => {
    expect(read(path)).toEqual({ kind: "ambiguous", route: null });
  },
);

test("a base path stands before the routes", () => {
  const { read: readFinance } = createPathReader(["/v1/", "/v2/"], "/finance");
  expect(readFinance("/finance/v2/x")).toEqual({ kind: "route", route: "/v2/" });
  expect(readFinance("/Finance//v2/x")).toEqual({ kind: "route", route: "/v2/" });
  expect(readFinance("/finance/health")).toEqual({ kind: "unmatched" });
  expect(readFinance("/finances/v2/x")).toEqual({ kind: "outside" });
  expect(readFinance("/v2/x")).toEqual({ kind: "outside" });
  expect(readFinance("/finance/../v2/x")).toEqual({ kind: "ambiguous", route: null });
  expect(readFinance("/finance%2f..%2ffinance/v2/x")).toEqual({ kind: "ambiguous", route: "/v2/" });
  expect(readFinance("/v2/../finance/%2e%2e/x")).toEqual({ kind: "ambiguous", route: null });
  expect(readFinance("/v2%00")).toEqual({ kind: "ambiguous", route: null });
});

test("what the upstream may read as a host stands behind the base path", () => {
  const { read: readFinance } = createPathReader(["/v1/", "/v2/"], "/finance");
  for (const rest of ["//host/v2/x", "/\\host/v2/x", "//a%2fb/v2/x", "//a%76%32/x", "/%252fa/v2/x", "//v1/v2/x"])
    expect([rest, readFinance(`/finance${rest}`).kind]).toEqual([rest, "ambiguous"]);
  expect(readFinance("/finance//v2/x")).toEqual({ kind: "route", route: "/v2/" });
  expect(readFinance("/finance//host/x")).toEqual({ kind: "unmatched" });
  expect(readFinance("/finance//a%2fb/x")).toEqual({ kind: "unmatched" });
});

test.each([
  ["/api/", "/ap%c4%b1/x"],
  ["/api/", "/AP\xc4\xb0"],
  ["/api/", "/ap%25c4%25b1//x"],
  ["/sky/", "/%c5%bf%e2%84%aay/x"],
  ["/sky/", "/x/../%c5%bf%e2%84%aay%2fx"],
  ["/pass/", "/pa%c3%9f/x"],
  ["/pass/", "/PA%e1%ba%9e"],
  ["/office/", "/o%ef%ac%83ce/x"],
  ["/style/", "/%ef%ac%85yle/x"],
])("%s may be meant by letters whose other case is ASCII: %s", (route, path) => {
  expect(createPathReader([route], "/").read(path)).toEqual({ kind: "ambiguous", route });
});

test("letters of other languages are read as they are, however many segments have them", () => {
  const { read: readOpen } = createPathReader(["/", "/v2/admin/"], "/");
  for (const text of [
    "/%e6%97%a5%e6%9c%ac".repeat(100),
    "/\xe6\x97\xa5".repeat(200),
    "/voil\xc3\xa0/\xc2\xa0",
    "/k%c4%b1z",
  ]) {
    expect(readOpen(text)).toEqual({ kind: "route", route: "/" });
    expect(readOpen(`/v2${text}`)).toEqual({ kind: "route", route: "/" });
  }
});

test("a prefix of several segments is one route", () => {
  const { read: readDeep } = createPathReader(["/api/v2.1/"], "/");
  expect(readDeep("/api/v2.1/x")).toEqual({ kind: "route", route: "/api/v2.1/" });
  expect(readDeep("/API/./v2%2e1")).toEqual({ kind: "route", route: "/api/v2.1/" });
  expect(readDeep("/x/..%2fapi/y/../v2.1/z")).toEqual({ kind: "ambiguous", route: "/api/v2.1/" });
  expect(readDeep("/v2.1/..%2fapi/x")).toEqual({ kind: "ambiguous", route: null });
  expect(readDeep("/api/v2x1/y")).toEqual({ kind: "unmatched" });
});

test("8 KiB of whatever is costly to read are read at once", () => {
  const parts = ["/..", "%252f", ";", "/;", "\\", "%5c;%2f?", "%25", "/.", "?", "%c0%ae", "%3b%2525"];
  const paths = parts.map((part) => `/v1/${part.repeat(Math.floor(8192 / part.length))}`);
  const readAll = (): void => {
    for (const path of paths) expect(["route", "ambiguous"]).toContain(read(path).kind);
  };
  expect(cpuMsOf(readAll)).toBeLessThan(1_000);
});

test("no way of encoding single characters takes a path out of its route", () => {
  const spell = fc.constantFrom(
    (c: string) => c,
    (c: string) => c.toUpperCase(),
    (c: string) => `%${c.charCodeAt(0).toString(16).padStart(2, "0")}`,
    (c: string) => `%25${c.charCodeAt(0).toString(16).padStart(2, "0")}`,
    (c: string) => (c === "/" ? "//" : c),
    (c: string) => (c === "/" ? "/./" : c),
    (c: string) => (c === "/" ? "/a/../" : c),
    (c: string) => (c === "/" ? "\\" : c),
    (c: string) => (c === "/" ? ";p=1/" : c),
  );
  fc.assert(
    fc.property(fc.constantFrom("v1", "v2"), fc.array(spell, { minLength: 7, maxLength: 7 }), (version, spellings) => {
      const path = `/${[...`/${version}/abc`].map((c, i) => (spellings[i] ?? ((x) => x))(c)).join("")}`;
      const reading = read(path);
      expect(reading.kind).not.toBe("unmatched");
      if (reading.kind === "route") expect(reading.route).toBe(`/${version}/`);
    }),
    runs(5000),
  );
});
