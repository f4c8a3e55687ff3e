import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isValidHost, readTarget, rebase } from "../../src/core/message-check.ts";

describe("a target is taken apart without changing a byte", () => {
  test.each([
    ["/", "/", "/"],
    ["/v2/x?a=1&b=%20#f", "/v2/x?a=1&b=%20#f", "/v2/x"],
    ["/v2/x?a?b", "/v2/x?a?b", "/v2/x"],
    ["/?", "/?", "/"],
    ["//other.example/v2/x", "//other.example/v2/x", "//other.example/v2/x"], // a path, never another host
    ["/v2/../%2e;x\\y", "/v2/../%2e;x\\y", "/v2/../%2e;x\\y"],
    ["/v2/\u00e9", "/v2/\u00e9", "/v2/\u00e9"],
    ["/http://other.example/", "/http://other.example/", "/http://other.example/"],
  ])("origin form %s", (target, original, path) => {
    expect(readTarget(target, "GET")).toEqual({ original, path, authority: null });
  });

  test.each([
    ["http://api.example/v2/x?a=1", "/v2/x?a=1", "/v2/x", "api.example"],
    ["HTTP://API.example:8080/V2/x", "/V2/x", "/V2/x", "API.example:8080"],
    ["https://api.example/", "/", "/", "api.example"],
    ["http://api.example", "/", "/", "api.example"],
    ["http://api.example?a=1", "/?a=1", "/", "api.example"],
    ["http://[::1]:80/x", "/x", "/x", "[::1]:80"],
    ["http://api.example//x", "//x", "//x", "api.example"],
    ["http://api.example/http://b/", "/http://b/", "/http://b/", "api.example"],
  ])("absolute form %s", (target, original, path, authority) => {
    expect(readTarget(target, "GET")).toEqual({ original, path, authority });
  });

  test("the asterisk is for OPTIONS alone", () => {
    expect(readTarget("*", "OPTIONS")).toEqual({ original: "*", path: "*", authority: null });
    for (const method of ["GET", "options", "HEAD"]) expect(readTarget("*", method)).toBeUndefined();
  });

  test.each([
    "",
    "v2/x",
    "api.example:443", // authority form, for CONNECT
    "\\v2\\x",
    "?a=1",
    "#/v2/",
    "*/v2/",
    "**",
    "%2fv2/x",
    "http:/v2/x",
    "http:v2/x",
    "http:///v2/x",
    "http://",
    "http://api.example#f",
    "http://user@api.example/v2/x",
    "http://user:secret@api.example/",
    "http://a,b/",
    "http://a b/",
    "http://api.example:99999/",
    "http://api.example:x/",
    "http://api.example\\@other/",
    "http://[::1/",
    "ftp://api.example/",
    "ws://api.example/v2/x",
    "javascript:alert(1)",
    " /v2/x",
  ])("%j has no form that a gateway accepts", (target) => {
    for (const method of ["GET", "CONNECT", "OPTIONS"]) expect(readTarget(target, method)).toBeUndefined();
  });

  test("whatever follows a slash is kept to the last byte, and its path ends at the first question mark", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (path, query) => {
        const target = `/${path.replaceAll("?", "")}?${query}`;
        const read = readTarget(target, "GET");
        expect(read).toEqual({ original: target, path: target.slice(0, target.indexOf("?")), authority: null });
        expect(readTarget(`http://api.example${target}`, "GET")?.original).toBe(target);
      }),
    );
  });
});

describe("a valid host", () => {
  test.each([
    "a",
    "api.example",
    "api.example:80",
    "api.example:",
    "1.2.3.4:65535",
    "[::1]",
    "[::ffff:1.2.3.4]:80",
    "a_b",
    "a%20b",
    "xn--bcher-kva.example",
  ])("%s", (host) => {
    expect(isValidHost(host)).toBe(true);
  });

  test.each([
    "",
    " ",
    ":80",
    "a b",
    "a,b",
    "a:80:80",
    "a:65536",
    "a:123456",
    "a:-1",
    "a:x",
    "u@a",
    "a/b",
    "a?b",
    "a#b",
    "a\\b",
    "[]",
    "[::1",
    "::1",
    "[::1]x",
    "[g]",
    "a%2",
    "a%zz",
    "a\u00e9",
    "a\t",
    "a\n",
    "<a>",
    '"a"',
    "a|b",
    "a^b",
  ])("%j is none", (host) => {
    expect(isValidHost(host)).toBe(false);
  });
});

describe("one base path in place of the other", () => {
  test.each([
    ["/", "/", "/v2/x?a", "/v2/x?a"],
    ["/", "/api", "/v2/x?a", "/api/v2/x?a"],
    ["/finance", "/", "/finance/v2/x?a", "/v2/x?a"],
    ["/finance", "/api/rest", "/finance/v2/x", "/api/rest/v2/x"],
    ["/finance", "/api", "/finance", "/api/"],
    ["/finance", "/api", "/finance?a=1", "/api/?a=1"],
    ["/finance", "/", "/finance", "/"],
    ["/finance", "/", "/finance//v2/./x%2f..", "//v2/./x%2f.."],
    ["/finance", "/", "/finance/finance/v2", "/finance/v2"],
    ["/", "/", "//v2/x", "//v2/x"],
    ["/finance", "/", "/finances/v2/x", null],
    ["/finance", "/", "/Finance/v2/x", null],
    ["/finance", "/", "/%66inance/v2/x", null],
    ["/finance", "/", "//finance/v2/x", null],
    ["/finance", "/", "/./finance/v2/x", null],
    ["/finance", "/", "/finance;a=1/v2/x", null],
    ["/finance", "/", "/finance%2fv2/x", null],
    ["/finance", "/", "/v2/x", null],
    ["/finance", "/", "/", null],
  ])("%s to %s: %s", (own, upstream, original, expected) => {
    expect(rebase(original, { own, upstream })).toBe(expected);
  });
});
