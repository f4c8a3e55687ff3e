import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseHost, parseNetwork } from "../../src/config/addresses.ts";
import { basePath, cors, routes } from "../../src/config/requests.ts";
import { upstream } from "../../src/config/upstream.ts";

describe("a host to listen on", () => {
  test.each([
    "0.0.0.0",
    "127.0.0.1",
    "::",
    "::1",
    "2001:db8::1",
    "localhost",
    "gateway-1.internal",
    "gateway.internal.",
  ])("%s is taken as it is", (text) => {
    expect(parseHost(text)).toBe(text);
  });

  test.each([
    "",
    "[::1]",
    "1.2.3",
    "1.2.3.256",
    "01.2.3.4",
    "8080",
    "host:80",
    "a..b",
    ".",
    "a..",
    ".a",
    "127.0.0.1.",
    "127.0.0.256.",
    "_srv.example",
    "-a",
    "fe80::1%eth0",
    "a b",
    "http://h",
  ])("%j is refused", (text) => {
    expect(parseHost(text)).toBeUndefined();
  });
});

describe("an origin of web pages", () => {
  test.each([
    ["https://app.example", "https://app.example"],
    ["HTTPS://App.Example:8443", "https://app.example:8443"],
    ["https://app.example:443", "https://app.example"],
    ["http://localhost:80", "http://localhost"],
    ["http://127.0.0.1:5173", "http://127.0.0.1:5173"],
    ["http://[::1]:5173", "http://[::1]:5173"],
    // To a browser this is another origin than that without the dot.
    ["https://app.example.", "https://app.example."],
  ])("%s is %s, as browsers send it", (text, origin) => {
    expect(cors.keys.origins.item.parse(text)).toBe(origin);
  });

  test.each([
    "",
    "*",
    "null",
    "app.example",
    "https://",
    "https://*.app.example",
    "https://app.example/",
    "https://app.example/page",
    "https://app.example?x",
    "https://app.example#x",
    "https://user@app.example",
    "https://app.example:0",
    "https://app.example:65536",
    "https://app.example https://b.example",
    "https://ä.example",
    "file://app.example",
    "chrome-extension://abc",
  ])("%j is refused", (text) => {
    expect(cors.keys.origins.item.parse(text)).toBeUndefined();
  });
});

describe("an upstream", () => {
  test.each(["http://127.0.0.1:3000", "http://api.internal/base/", "HTTP://api", "http://[::1]:3000/x"])(
    "%s is taken as it is",
    (text) => {
      expect(upstream.keys.url.parse(text)).toBe(text);
    },
  );

  test.each([
    "",
    "api:3000",
    "//api",
    "http:api",
    "http:///api",
    "http://u@api",
    "http://u:p@api",
    "http://api?x",
    "http://api#x",
    "http://api\\x",
    "http://a b",
    " http://api",
    "http://api:65536",
    "ftp://api",
  ])("%j is refused", (text) => {
    expect(upstream.keys.url.parse(text)).toBeUndefined();
  });
});

describe("a route", () => {
  test.each(["/", "/v1/", "/a/b.c/", "/.well-known/", "/a/.../", "/v1:x@y/"])("%s is taken", (text) => {
    expect(routes.item.parse(text)).toBe(text);
  });

  test.each([
    "",
    "v1/",
    "/v1",
    "//",
    "/v1//",
    "/../",
    "/a/./",
    "/v%31/",
    "/v1;x/",
    "/v1?/",
    "/v1#/",
    "/a\\b/",
    "/a b/",
    "/é/",
    "/a\n/",
  ])("%j is refused", (text) => {
    expect(routes.item.parse(text)).toBeUndefined();
  });

  test("never holds what two readers could take for two paths", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const route = routes.item.parse(`/${text}/`);
        if (route === undefined) return;
        expect(new URL(route, "http://h").pathname).toBe(route);
        expect(decodeURIComponent(route)).toBe(route);
      }),
    );
  });
});

test("a base path loses its slash at the end, and nothing else", () => {
  expect(["/", "/x", "/x/", "/x/y/"].map((text) => basePath.parse(text))).toEqual(["/", "/x", "/x", "/x/y"]);
  for (const text of ["", "x", "//", "/x//", "/..", "/x/../y", "/x%20"]) expect(basePath.parse(text)).toBeUndefined();
});

test("a trusted proxy is an address or a network of either family", () => {
  for (const text of ["10.0.0.0/8", "10.0.0.1", "2001:db8::/32", "::1", "::ffff:10.0.0.0/104"]) {
    expect(parseNetwork(text)).toBe(text);
  }
  for (const text of ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0/8", "*", "lb", "fe80::1%eth0"]) {
    expect(parseNetwork(text)).toBeUndefined();
  }
});

describe("an address of the upstream", () => {
  test.each(["10.0.0.1", "10.0.0.1:3000", "backend-b", "backend.internal:65535", "[::1]", "[2001:db8::1]:3000"])(
    "%s is taken as it is",
    (text) => {
      expect(upstream.keys.addresses.item.parse(text)).toBe(text);
    },
  );

  test.each(["", ":3000", "backend:", "backend:0", "backend:65536", "backend:http", "::1", "::1:3000", "[backend]:80"])(
    "%j is refused",
    (text) => {
      expect(upstream.keys.addresses.item.parse(text)).toBeUndefined();
    },
  );

  test.each(["10.0.0.1:3000/x", "http://backend", "user@backend", "[::1", "[::1]3000", "10.0.0.256", "a b"])(
    "%j is refused",
    (text) => {
      expect(upstream.keys.addresses.item.parse(text)).toBeUndefined();
    },
  );
});
