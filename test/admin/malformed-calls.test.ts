// Hundreds of calls that are not well-formed: each is refused in the v2 format, none is an internal error, and none is logged.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { testSettings } from "../support/gateway.ts";
import { type Call, stageApi } from "./api-stage.ts";
import { fakePlane, ruleBook } from "./fake-plane.ts";

const cleanup = useCleanup();

type Malformed = readonly [what: string, method: string, path: string, call?: Call];

const rule = { client: "203.0.113.7", action: "block", for: "1h" };
const check = { method: "GET", target: "/v2/me", client: "203.0.113.7" };
const json = { "content-type": "application/json" };

/** Values of each kind, where another one is expected. */
const others: readonly (readonly [string, unknown])[] = [
  ["null", null],
  ["a number", 7],
  ["a fraction", 1.5],
  ["a negative number", -1],
  ["true", true],
  ["empty text", ""],
  ["a blank", " "],
  ["a long text", "x".repeat(10_000)],
  ["a NUL", "\0"],
  ["a lone surrogate", "\ud800"],
  ["a list", []],
  ["an object", {}],
  ["a list of text", ["block"]],
];

/** Of each key, those that are not accepted. */
const wrong: Readonly<Record<string, (value: unknown) => boolean>> = {
  client: () => true,
  action: () => true,
  for: () => true,
  policy: () => true,
  limit: (value) => value !== 7,
  note: (value) => typeof value !== "string" || value.length > 256,
  force: (value) => typeof value !== "boolean",
};

const bodies: Malformed[] = Object.entries(wrong).flatMap(([key, isWrong]) =>
  others
    .filter(([, value]) => isWrong(value))
    .map(([what, value]): Malformed => {
      const base =
        key === "limit" || key === "policy" ? { ...rule, action: "limit", policy: "default", limit: 5 } : rule;
      return [`a rule whose ${key} is ${what}`, "PUT", "/api/rules/a", { body: { ...base, [key]: value } }];
    }),
);

const missing: Malformed[] = Object.keys(rule).map((key) => {
  const body = Object.fromEntries(Object.entries(rule).filter(([each]) => each !== key));
  return [`a rule without ${key}`, "PUT", "/api/rules/a", { body }];
});

const meanings: Malformed[] = (
  [
    ["two subjects", { ...rule, token: "alice" }],
    ["three subjects", { ...rule, token: "alice", subject: "bob" }],
    ["a block with a policy", { ...rule, policy: "default" }],
    ["a block with a limit", { ...rule, limit: 5 }],
    ["an exemption with a limit", { ...rule, action: "exempt", limit: 5 }],
    ["a limit without a policy", { ...rule, action: "limit", limit: 5 }],
    ["a limit without a limit", { ...rule, action: "limit", policy: "default" }],
    ["an unknown policy", { ...rule, action: "exempt", policy: "nobody" }],
    ["too short a time", { ...rule, for: "999ms" }],
    ["too long a time", { ...rule, for: "31d" }],
    ["no time", { ...rule, for: "0s" }],
    ["a time without a unit", { ...rule, for: "60" }],
    ["a time with two units", { ...rule, for: "1h30m" }],
    ["a negative time", { ...rule, for: "-1h" }],
    ["a host name", { ...rule, client: "example.com" }],
    ["a short address", { ...rule, client: "127.1" }],
    ["an octal address", { ...rule, client: "010.0.0.1" }],
    ["a zone", { ...rule, client: "fe80::1%eth0" }],
    ["a prefix that is too long", { ...rule, client: "10.0.0.0/33" }],
    ["a network narrower than a client", { ...rule, client: "2001:db8::/96" }],
    ["an address with a port", { ...rule, client: "10.0.0.1:80" }],
    ["an unknown key", { ...rule, Client: "203.0.113.7" }],
    ["a key of a trial", { ...rule, confirmWithin: "5m" }],
    ["a prototype's key", { ...rule, toString: "x" }],
  ] as const
).map(([what, body]) => [`a rule with ${what}`, "PUT", "/api/rules/a", { body }]);

const texts: Malformed[] = [
  "",
  " ",
  "{",
  "{]",
  "nonsense",
  "null",
  "7",
  '"text"',
  "[]",
  "[{}]",
  '{"a":1,}',
  "{'a':1}",
  "{a:1}",
  "\ufeff{}x",
  '{"__proto__":{"x":1}}',
  '{"constructor":{"prototype":{"x":1}}}',
  "{".repeat(1_000),
  "[".repeat(10_000),
  "1e999",
  "\0",
  '{"a":"\u0001"}',
  "client=203.0.113.7&action=block",
  "<rule/>",
].flatMap((body, i) =>
  [
    ["PUT", "/api/rules/a"],
    ["POST", "/api/check"],
    ["POST", "/api/reload"],
    ["POST", "/api/drain"],
  ].map(([method = "", path = ""]): Malformed => [`${path} with body ${i}`, method, path, { body, headers: json }]),
);

const emptyOnes: Malformed[] = ["reload/confirm", "reload/take-back", "drain"].flatMap((call) =>
  [{ confirmWithin: "5m" }, { unless: { refusedShare: 0.1 } }, { confirmWithin: null }, { x: {} }, { "": "" }].map(
    (body, i): Malformed => [`${call} with keys ${i}`, "POST", `/api/${call}`, { body }],
  ),
);

const trials: Malformed[] = [
  ...[null, "", "5", 5, "-5m", "1.5m", "5 m", ["5m"]].map((confirmWithin) => ({ confirmWithin })),
  ...[null, "", "takeback", true].map((unconfirmed) => ({ confirmWithin: "5m", unconfirmed })),
  ...[
    null,
    {},
    5,
    { refusedShare: 1 },
    { refusedShare: -0.1 },
    { refusedShare: "5%" },
    { refusedShare: 0.1, x: 1 },
  ].map((unless) => ({ confirmWithin: "5m", unless })),
  { confirmWithin: "5m", x: 1 },
].map((body, i): Malformed => [`reload with terms ${i}`, "POST", "/api/reload", { body }]);

const checks: Malformed[] = [
  ...["method", "target", "client", "headers"].flatMap((key) =>
    others
      .filter(
        ([what]) =>
          !(key === "headers" && what === "an object") &&
          !(key === "target" && /blank|NUL|surrogate|a long text/.test(what)),
      )
      .map(
        ([what, value]): Malformed => [
          `a check whose ${key} is ${what}`,
          "POST",
          "/api/check",
          { body: { ...check, [key]: value } },
        ],
      ),
  ),
  ["a check of a network", "POST", "/api/check", { body: { ...check, client: "10.0.0.0/8" } }],
  ["a check with a blank in a field's name", "POST", "/api/check", { body: { ...check, headers: { "a b": "c" } } }],
  ["a check with a list of values", "POST", "/api/check", { body: { ...check, headers: { a: ["b"] } } }],
  [
    "a check with too many fields",
    "POST",
    "/api/check",
    { body: { ...check, headers: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`x-${i}`, ""])) } },
  ],
  ["a check with another key", "POST", "/api/check", { body: { ...check, token: "x" } }],
];

const queries: Malformed[] = [
  ..."limit=0 limit=1001 limit=-1 limit=1.5 limit=x limit= limit=1&limit=2 limit[]=1 sort=x sort= sort=used&sort=recent policy= policy=nobody search= other=1 Limit=1 __proto__=1 constructor=1"
    .split(" ")
    .map((query): Malformed => [`clients?${query}`, "GET", `/api/clients?${query}`]),
  [`clients?search too long`, "GET", `/api/clients?search=${"x".repeat(129)}`],
  ...["against=next", "against=", "against=previous&against=previous", "x=1"].map(
    (query): Malformed => [`config?${query}`, "GET", `/api/config?${query}`],
  ),
];

const paths: Malformed[] = [
  ...["a b", "ä", "a/b", "..%2f", "x".repeat(65), "a:b", "%00", "%zz", "%c3", "a%0d%0ab"].flatMap((id) =>
    ["GET", "PUT", "DELETE"].map(
      (method): Malformed => [
        `${method} rules/${id.slice(0, 10)}`,
        method,
        `/api/rules/${/^[!-~]+$/.test(id) ? id : encodeURIComponent(id)}`,
        method === "PUT" ? { body: rule } : {},
      ],
    ),
  ),
  ...[
    "client",
    "client:",
    "clients:1.2.3.4",
    "CLIENT:1.2.3.4",
    "client:1.2.3",
    "client:1.2.3.4:80",
    "client:10.0.0.0%2F33",
    "client:::1%25lo",
    "key:abc",
    `key:${"A".repeat(32)}`,
    "key:",
    "token:",
    "subject:",
    ":x",
    "x",
    `token:${"x".repeat(2_000)}`,
    `token:${"x".repeat(5_000)}`,
    "%zz",
  ].flatMap((key) =>
    ["GET", "DELETE"].map(
      (method): Malformed => [`${method} clients/${key.slice(0, 20)}`, method, `/api/clients/${key}`],
    ),
  ),
  ...["%20", "a%20b", "%00", "ä", "x".repeat(201), "%0a"].map(
    (id): Malformed => [
      `requests/${id.slice(0, 10)}`,
      "GET",
      `/api/requests/${/^[!-~]+$/.test(id) ? id : encodeURIComponent(id)}`,
    ],
  ),
  ...[
    "/api",
    "/api/",
    "/api/x",
    "/api/status/x",
    "/api/rules/",
    "/api/rules/a/b",
    "/api/events/x",
    "/api?x",
    "/api/clients/",
    "/api/requests/",
  ].map((path): Malformed => [path, "GET", path]),
];

const methods: Malformed[] = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "QUERY"].flatMap(
  (method) =>
    ["/api/status", "/api/events", "/api/openapi.json"].map(
      (path): Malformed => [`${method} ${path}`, method, path, method === "TRACE" ? {} : { body: {} }],
    ),
);

const withBodies: Malformed[] = ["/api/status", "/api/rules", "/api/events", "/api/clients/client:1.2.3.4"].flatMap(
  (path) => [
    [`GET ${path} with a body`, "GET", path, { body: {} }],
    [`DELETE ${path} with a body`, "DELETE", path, { body: {} }],
  ],
);

const fields: Malformed[] = [
  ["two tokens", "GET", "/api/status", { token: null, headers: { authorization: "Bearer a, Bearer b" } }],
  ["a token of odd characters", "GET", "/api/status", { token: null, headers: { authorization: "Bearer \u00e9" } }],
  ["a long token", "GET", "/api/status", { token: null, headers: { authorization: `Bearer ${"x".repeat(7_000)}` } }],
  [
    "an unknown encoding",
    "POST",
    "/api/reload",
    { body: {}, headers: { "content-encoding": "zstd", "content-type": "text/x" } },
  ],
];

const all: readonly Malformed[] = [
  ...[bodies, missing, meanings, texts, emptyOnes, trials, checks, queries, paths, methods, withBodies, fields].flat(),
];

test(`${all.length} malformed calls are each refused in the v2 format, and nothing is changed or reported`, async () => {
  expect(all.length).toBeGreaterThan(300);
  const settings = testSettings("http://127.0.0.1:9");
  const policies = ["default", "other"].flatMap((name) => settings.policies.map((policy) => ({ ...policy, name })));
  const { book, rules } = await ruleBook({ ...settings, policies });
  const { createClientControl } = await import("../../src/gateway/control/client-control.ts");
  const { Clients } = await import("../../src/gateway/clients.ts");
  const counts = Object.assign(Object.create(Clients.prototype), {
    list: async () => [],
    state: async () => null,
    check: () => expect.unreachable("a malformed check"),
  });
  const clients = createClientControl({
    ...{ clients: counts, settings: () => settings, rules, inForce: book.inForce, listedTokens: () => null },
    recent: { refused: () => ({ keys: [], sinceMs: 0 }) },
    ...{ forgive: async () => null, isShared: () => false, wallMs: () => 0 },
  });
  const plane = fakePlane({ rules, clients });
  const stage = await stageApi(cleanup, plane);
  for (const [what, method, path, call] of all) {
    const answer = await stage.call(method, path, call);
    expect([what, answer.status, answer.json]).toEqual([
      what,
      expect.toSatisfy((status: number) => status >= 400 && status < 500),
      {
        message: expect.any(String),
        errors: expect.toSatisfy(
          (errors: { errMsg: unknown }[]) =>
            errors.length > 0 && errors.every(({ errMsg }) => typeof errMsg === "string" && errMsg !== ""),
        ),
      },
    ]);
    expect(answer.headers["cache-control"]).toBe("no-store");
  }
  expect([book.list(), plane.drains(), stage.failures]).toEqual([[], 0, []]);
  expect((await stage.call("PUT", "/api/rules/a", { body: rule })).status).toBe(201);
}, 60_000);
