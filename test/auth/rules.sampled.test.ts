// Which rule decides about a request: the first that fits, and no spelling of a path or a method asks for less than another.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createDemandReader } from "../../src/auth/authenticator.ts";
import { type AuthDemands, type AuthMode, type AuthRule, authModes } from "../../src/core/authentication.ts";
import { readPeer } from "../../src/core/client-address.ts";
import type { Method } from "../../src/core/method.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { parseRequest, type RequestHead, type RequestRules, readOrigin } from "../../src/core/request-head.ts";
import { createPathReader } from "../../src/core/request-path.ts";
import { requestRules } from "../support/request-rules.ts";
import { runs } from "../support/runs.ts";

const versions = ["/v1/", "/v2/"];
const clientAddress = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;
const peer = readPeer("192.0.2.1", clientAddress);

function rulesAt(own: string, routes: readonly string[]): RequestRules {
  const pathReader = createPathReader(routes, own);
  return requestRules({ clientAddress, pathReader, maxBodyBytes: 1, paths: { own, upstream: "/" } });
}

/** Returns the mode for each request, given as "GET /path" with further headers. */
function modes(auth: AuthDemands, own = "/", routes: readonly string[] = versions) {
  const demandOf = createDemandReader(auth, routes, own);
  const rules = rulesAt(own, routes);
  return (request: string, fields: readonly string[] = []): AuthMode => {
    const [method = "", target = ""] = request.split(" ");
    const head: RequestHead = { peer, method, target, rawHeaders: ["Host", "a", ...fields], httpVersion: "1.1" };
    return demandOf(parseRequest(readOrigin(head, rules), rules), head).mode;
  };
}

const rule = (mode: AuthMode, paths: readonly string[], methods: AuthRule["methods"] = []): AuthRule => ({
  ...{ mode, paths, methods, scopes: [] },
});

const login: AuthDemands = {
  mode: "tokens",
  rules: [rule("off", ["/v1/login"], ["POST"]), rule("presence", ["/v2/"])],
};

describe("the first rule that fits decides", () => {
  test.each<[string, AuthMode]>([
    ["POST /v1/login", "off"],
    ["POST /v1/login/", "off"],
    ["POST /v1/login?next=/v2/x", "off"],
    ["GET /v1/login", "tokens"],
    ["POST /v1/login/x", "tokens"],
    ["POST /v1/logins", "tokens"],
    ["POST /v1/x", "tokens"],
    ["GET /v2/x", "presence"],
    ["GET /v2", "presence"],
    ["POST /v2/login", "presence"],
  ])("%s asks for %s", (request, mode) => expect(modes(login)(request)).toBe(mode));

  test("a rule above another one decides about what both fit", () => {
    const rules = [rule("off", ["/v1/a/"]), rule("tokens", ["/v1/"])];
    expect(modes({ mode: "presence", rules })("GET /v1/a/b")).toBe("off");
    expect(modes({ mode: "presence", rules: rules.toReversed() })("GET /v1/a/b")).toBe("tokens");
  });

  test("paths are below the base path", () => {
    const of = modes(login, "/api");
    expect([of("POST /api/v1/login"), of("POST /api/v1/x")]).toEqual(["off", "tokens"]);
  });

  test("32 rules are told apart", () => {
    const rules = Array.from({ length: 32 }, (_, i) => rule(i === 31 ? "off" : "presence", [`/v1/${i}`]));
    const of = modes({ mode: "tokens", rules });
    expect([of("GET /v1/31"), of("GET /v1/0"), of("GET /v1/32")]).toEqual(["off", "presence", "tokens"]);
  });
});

describe("what a backend may read in another way asks for the most of all readings", () => {
  test.each([
    "POST /v1/login/../accounts",
    "POST /v1//login",
    "POST /v1/accounts;/login",
    "POST /v1/login;x",
    "POST /v1/login%2f",
    "POST /v1/./login",
    "POST /v1/accounts/..;/login",
    "POST /v1/login%3f",
    "POST /v1/login.",
    "POST /V1/Login",
    "POST /v1/%6cogin",
    "post /v1/login",
  ])("%s is not open", (request) => expect(modes(login)(request)).toBe("tokens"));

  test("nor is a request that names another method", () => {
    const of = modes(login);
    expect(of("POST /v1/login", ["X-HTTP-Method-Override", "DELETE"])).toBe("tokens");
    expect(of("POST /v1/login?_method=delete")).toBe("tokens");
    expect(of("POST /v1/login", ["X-HTTP-Method-Override", "POST"])).toBe("off");
    expect(of("GET /v1/login", ["X-HTTP-Method-Override", "POST"])).toBe("tokens");
  });

  test("a stricter rule holds for every spelling that it may fit", () => {
    const of = modes({ mode: "off", rules: [rule("tokens", ["/v1/admin/"], ["DELETE"])] });
    for (const path of ["/v1/admin/x", "/v1//admin/x", "/v1/./admin/x", "/v1/%61dmin/x", "/v1/a/../admin/x"]) {
      expect([path, of(`DELETE ${path}`)]).toEqual([path, "tokens"]);
      expect([path, of(`GET ${path}`, ["X-Method-Override", "delete"])]).toEqual([path, "tokens"]);
      expect([path, of(`GET ${path}`)]).toEqual([path, "off"]);
    }
  });

  test.each([
    "GET /v2/publ%C4%B1c/x",
    "GET /v2/PUBL%C4%B0C/x",
    "GET /v2/publi%63/x",
    "GET /v2/PUBLIC/x",
    "GET /V2/public/x",
    "GET /v2/ta%C5%BFk%C5%BF/x",
    "GET /v2/tas%E2%84%AAs/x",
    "GET /v2/pa%C3%9F/x",
    "GET /v2/%EF%AC%81les/x",
    "GET /v2/%EF%AC%85yle/x",
    "GET /v2/of/%20/x",
    "GET /v2/of/a%2Fb/x",
  ])("%s only resembles an open path", (request) => {
    const open = ["/v2/public/", "/v2/tasks/", "/v2/pass/", "/v2/files/", "/v2/style/", "/v2/of/*/x"];
    expect(modes({ mode: "tokens", rules: [rule("off", open)] })(request)).toBe("tokens");
    expect(modes({ mode: "off", rules: [rule("tokens", open)] })(request)).toBe("tokens");
  });

  test.each(["//h%74asks", "//u@h%74asks/", "//h%74asks#@x%61", "//h%2574as%E2%84%AAs", "//h%70ass%2fword"])(
    "%s is a path behind a host for Node's url.parse",
    (path) => {
      const closed = ["/tasks", "/pass/word"];
      for (const base of ["", "/finance"]) {
        const of = modes({ mode: "off", rules: [rule("tokens", closed)] }, base || "/", ["/"]);
        expect(of(`GET ${base}${path}`)).toBe("tokens");
      }
    },
  );

  test.each([
    "GET /v2/public/%C4%B1%C5%9F%C4%B1k",
    "GET /v2/public/%E2%84%AA.pdf",
    "GET /v2/public/stra%C3%9Fe%20K",
    "GET /v2/public/A%2BB",
    "GET /v2/of/%C4%B1/x",
  ])("%s is open: each of its readings is", (request) => {
    expect(modes({ mode: "tokens", rules: [rule("off", ["/v2/public/", "/v2/of/*/x"])] })(request)).toBe("off");
  });

  test("a whole route in another case may be another path", () => {
    const of = modes({ mode: "tokens", rules: [rule("off", ["/v1/"])] });
    for (const path of [
      ...["/V1/x", "/V1//x", "//V1/x", "/V1/v1/x", "/%761/x", "/%761/a%2fb"],
      ...["//v1/V1/x", "//v1/%561/x", "/V1//v1/x", "///v1/V1/x", "/v1/../V1/x", "/V1/../v1/x"],
      // Behind a host, the rest may be under no route.
      ...["//v1/x", "//v1/admin"],
    ])
      expect([path, of(`GET ${path}`)]).toEqual([path, "tokens"]);
    const below = modes({ mode: "tokens", rules: [rule("off", ["/v1/"])] }, "/api");
    for (const path of ["/api//v1/V1/x", "/api//v1/x", "/API/v1/x"])
      expect([path, below(`GET ${path}`)]).toEqual([path, "tokens"]);
    expect(below("GET /api/v1//x")).toBe("off");
  });

  test("a whole route is open in each spelling that is under it in every reading", () => {
    const of = modes({ mode: "tokens", rules: [rule("off", ["/v1/"])] });
    for (const path of ["/v1//x", "/v1/x;a=b", "/v1/./x", "/v1/a%2fb"])
      expect([path, of(`GET ${path}`)]).toEqual([path, "off"]);
  });
});

test("equals a naive search for plain paths, and never asks for less for another spelling of the same path", () => {
  const name = fc.constantFrom("a", "b", "c");
  const pattern = fc
    .tuple(fc.constantFrom("v1", "v2"), fc.array(fc.oneof(name, fc.constant("*")), { maxLength: 2 }), fc.boolean())
    .map(([route, names, isPrefix]) => `/${[route, ...names].join("/")}${isPrefix ? "/" : ""}`);
  const methods = fc.uniqueArray(fc.constantFrom("GET", "POST"), { maxLength: 1 });
  const anyRule = fc.record({
    scopes: fc.constant([]),
    mode: fc.constantFrom(...authModes),
    paths: fc.array(pattern, { maxLength: 2 }),
    methods,
  });
  const auth = fc.record({ mode: fc.constantFrom(...authModes), rules: fc.array(anyRule, { maxLength: 4 }) });
  const names = fc
    .tuple(fc.constantFrom("v1", "v2"), fc.array(name, { maxLength: 3 }))
    .map(([r, rest]) => [r, ...rest]);
  const odd = fc.constantFrom("//", "/./", "/x/../", ";p/", "%2f", "/");
  fc.assert(
    fc.property(
      auth,
      names,
      fc.constantFrom("GET", "POST"),
      fc.array(odd, { maxLength: 4 }),
      (given, path, method, gaps) => {
        const of = modes(given);
        const expected = given.rules.find((each) => naivelyFits(each, path, method))?.mode ?? given.mode;
        expect(of(`${method} /${path.join("/")}`)).toBe(expected);
        const spelled = path.map((each, i) => (i === 0 ? `/${each}` : `${gaps[i] ?? "/"}${each}`)).join("");
        const strictness = (mode: AuthMode): number => authModes.indexOf(mode);
        // "%2f" may be a part of a name, so the path without it is one of the readings only.
        expect(strictness(of(`${method} ${spelled}`))).toBeGreaterThanOrEqual(strictness(expected));
      },
    ),
    runs(3000),
  );
});

function naivelyFits({ paths, methods }: AuthRule, path: readonly string[], method: Method): boolean {
  if (methods.length > 0 && !methods.includes(method)) return false;
  if (paths.length === 0) return true;
  return paths.some((pattern) => {
    const parts = pattern.split("/").filter((part) => part !== "");
    const isLongEnough = pattern.endsWith("/") ? path.length >= parts.length : path.length === parts.length;
    return isLongEnough && parts.every((part, i) => part === "*" || part === path[i]);
  });
}
