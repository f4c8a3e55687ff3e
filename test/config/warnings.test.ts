// Warnings about policies that are valid and probably not what is meant: `headgate check` prints them, the start logs
// them. A sound configuration has none.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fastify } from "fastify";
import { afterAll, describe, expect, test } from "vitest";
import { writtenEnd } from "../../src/auth/tokens-file.ts";
import { run } from "../../src/commands/check.ts";
import { loadSettings } from "../../src/config/load.ts";
import { configurationWarnings } from "../../src/config/warnings.ts";
import type { Settings } from "../../src/core/settings.ts";
import { headgate } from "../../src/fastify/index.ts";
import { testIo } from "../commands/test-io.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { scratchFolder } from "../support/scratch.ts";
import { deadUrl } from "../support/unavailable.ts";

const cleanup = useCleanup();
const folder = scratchFolder(afterAll);

/** What `headgate check` prints on standard error for these lines. */
async function warnings(yaml: string): Promise<string[]> {
  writeFileSync(join(folder, "c.yaml"), yaml === "" ? "{}" : yaml);
  const io = testIo({ cwd: folder });
  expect([await run({ file: "c.yaml", overrides: [] }, io), io.errText()]).toEqual([0, io.errText()]);
  return io.errText().split("\n").slice(0, -1);
}

const policies = (...lines: string[]): string => ["policies:", ...lines.map((line) => `  - { ${line} }`)].join("\n");

/** Where nothing is to be said of a restart. */
const kept = `counters: { snapshot: { path: ${join(folder, "counters")} } }`;
const byClient = "name: by-client, limit: 100, window: 60s";
const ports = [
  "extAuth:",
  "  trustedCallers: [127.0.0.1]",
  "  http: { enabled: true }",
  "  grpc: { enabled: true }",
].join("\n");

const notAll = (routes: string): string =>
  `warning: not all requests under ${routes} are limited: no enforcing policy without charge is about all of them`;
const otherMethods = (routes: string, methods: string): string =>
  `warning: requests under ${routes} with other methods than ${methods} are not limited: no enforcing policy without charge is about them`;
const tooLoose = (name: string, parts: string, rate: string): string =>
  `warning: policy ${name}: a client that invents values of its key (${parts}) is not limited; lower the limit of policy by-client, which admits ${rate}, over 100 times as much as one key may get in that time`;
const invented = (name: string, parts: string): string =>
  `warning: policy ${name}: a client that invents values of its key (${parts}) is not limited; add an enforcing policy by client over the same requests`;

describe("limits for verified requests and for others", () => {
  const auth = "auth: { mode: tokens, tokensFile: tokens.txt }";
  const others = "name: others, limit: 100, window: 60s, who: others";
  const partners = "name: partners, limit: 1000, window: 60s, who: verified, key: [subject]";
  const refused = (routes: string): string =>
    `warning: requests under ${routes} with a refused token are not limited: all policies about them need a verified one, so add one by client`;

  test.each([
    ["both", [others, partners], []],
    ["only verified ones", [partners], [refused("/v1/ and /v2/")]],
    ["only others", [others], [notAll("/v1/ and /v2/")]],
    ["others under one route", [`${others}, match: { paths: [/v1/] }`, partners], [refused("/v2/")]],
    ["a key that others invent", [`${others}, key: [token]`, partners], [invented("others", "token")]],
    ["a key that verified ones cannot invent", [others, partners.replace("subject", "token")], []],
    [
      "a header, which verified ones can invent",
      [others, partners.replace("subject", "header:x")],
      [invented("partners", "header:x")],
    ],
    ["one counter for all behind both", [others, partners, "name: all, limit: 5000, window: 60s, key: []"], []],
    [
      "one counter for all behind one of them",
      [others, "name: all, limit: 5000, window: 60s, key: []"],
      [
        "warning: policy all: one client can use up its limit for all; add an enforcing policy by client over the same requests, with a lower limit",
      ],
    ],
  ])("%s", async (_, list, expected) => {
    writeFileSync(join(folder, "tokens.txt"), `${"ab".repeat(32)}  # acme\n`);
    expect(await warnings([kept, auth, policies(...list)].join("\n"))).toEqual(expected);
  });

  test("a token can be invented on the paths where nobody verifies it", async () => {
    writeFileSync(join(folder, "tokens.txt"), `${"ab".repeat(32)}  # acme\n`);
    const rules = auth.replace(" }", ", rules: [{ paths: [/v1/login], mode: off }] }");
    const byToken = "name: by-token, limit: 10, window: 60s, key: [token]";
    const anonymous =
      "warning: policy by-token: requests without a token are counted too: each address that sends none has 10 requests in 1m";
    expect(await warnings([kept, rules, policies(byToken)].join("\n"))).toEqual([
      refused("/v1/ and /v2/"),
      invented("by-token", "token"),
      anonymous,
    ]);
    expect(await warnings([kept, rules, policies(byToken, others)].join("\n"))).toEqual([anonymous]);
    const elsewhere = policies(`${byToken}, match: { paths: [/v2/] }`, others, partners);
    expect(await warnings([kept, rules, elsewhere].join("\n"))).toEqual([]);
  });
});

describe("overrides that can have no effect", () => {
  const idle = (i: number, rate = "100 requests in 1m"): string =>
    `warning: policy partners: overrides.${i} has no effect: policy by-client admits only ${rate} of the same requests; remove the override, or that policy`;
  const tokens = `auth: { mode: tokens, tokensFile: tokens.txt }`;
  const partners = (override: string, more = "", key = "client"): string =>
    `name: partners, limit: 100, window: 60s, key: [${key}], overrides: [{ ${override} }]${more}`;
  const one = "client: 192.0.2.1, limit: 1000";

  test.each([
    ["the same key and window", byClient, partners(one), [idle(0)]],
    ["a longer window", "name: by-client, limit: 100, window: 1h", partners(one), [idle(0, "100 requests in 1h")]],
    ["a cost", "name: by-client, limit: 500, window: 60s, cost: 5", partners(one), [idle(0)]],
    ["a part of the requests", byClient, partners(one, ", match: { paths: [/v2/me] }"), [idle(0)]],
    ["a key with a part more", byClient, partners(one, "", "client, method"), [idle(0)]],
    ["a pair of client and token", byClient, partners("token: acme, limit: 1000", "", "client, token"), [idle(0)]],
  ])("%s", async (_, other, policy, expected) => {
    writeFileSync(join(folder, "tokens.txt"), `${"ab".repeat(32)}  # acme\n`);
    expect(await warnings([kept, tokens, policies(other, policy)].join("\n"))).toEqual(expected);
  });

  test.each([
    ["a token that comes from many clients", byClient, partners("token: acme, limit: 1000", "", "token")],
    ["a limit between the two", "name: by-client, limit: 500, window: 60s", partners(one)],
    ["an override that lowers the limit", byClient, partners("client: 192.0.2.1, limit: 5")],
    ["a shorter window", "name: by-client, limit: 100, window: 1s", partners(one)],
    ["other requests", `${byClient}, match: { paths: [/v1/] }`, `${partners(one)}`],
    ["a shadow", `${byClient}, mode: shadow`, partners(one)],
    ["an exempt network", `${byClient}, exempt: [192.0.2.0/24]`, partners(one)],
    ["an override of its own", `${byClient}, overrides: [{ ${one} }]`, partners(one)],
    ["another kind", "name: by-client, concurrency: 5", partners(one)],
  ])("%s is no reason for a warning", async (_, other, policy) => {
    writeFileSync(join(folder, "tokens.txt"), `${"ab".repeat(32)}  # acme\n`);
    expect(await warnings([kept, tokens, policies(other, policy)].join("\n"))).toEqual([]);
  });
});

describe("requests that no enforcing policy covers", () => {
  test.each([
    ["a shadow alone", policies(`${byClient}, mode: shadow`), [notAll("/v1/ and /v2/")]],
    ["one route only", policies(`${byClient}, match: { paths: [/V2/] }`), [notAll("/v1/")]],
    ["a part of a route", policies(`${byClient}, match: { paths: [/v1/, /v2/me, "/v2/*"] }`), [notAll("/v2/")]],
    ["a charge alone", policies(`${byClient}, charge: { statuses: [401] }`), [notAll("/v1/ and /v2/")]],
    ["some methods", policies(`${byClient}, match: { methods: [POST] }`), [otherMethods("/v1/ and /v2/", "POST")]],
    [
      "different methods of different routes",
      policies(
        `${byClient}, match: { paths: [/v1/], methods: [GET] }`,
        `name: b, limit: 1, window: 1s, match: { methods: [POST] }`,
      ),
      [otherMethods("/v1/", "GET and POST"), otherMethods("/v2/", "POST")],
    ],
    [
      "enforcement is off for all",
      "enforcement: shadow",
      ["warning: enforcement is shadow: no policy refuses a request"],
    ],
    [
      "everybody is exempt",
      policies(`${byClient}, exempt: ["::/0"]`),
      [
        "warning: policy by-client: exempt contains every IPv4 address: clients there are not limited by it",
        notAll("/v1/ and /v2/"),
      ],
    ],
    [
      "everybody is exempt, in two halves",
      policies(`${byClient}, exempt: [0.0.0.0/1, 128.0.0.0/1]`),
      [
        "warning: policy by-client: exempt contains every IPv4 address: clients there are not limited by it",
        notAll("/v1/ and /v2/"),
      ],
    ],
  ])("%s", async (_, yaml, lines) => {
    expect(await warnings(yaml)).toEqual(lines);
  });
});

describe("keys that a client can invent, without a policy by client", () => {
  const perHeader = 'name: per-plan, limit: 10, window: 1s, key: ["header:X-Plan"]';
  const perToken = "name: per-token, limit: 10, window: 1s, key: [token, route]";
  const anonymous = expect.stringContaining("policy per-token: requests without a token are counted too");
  const tokens = "auth: { mode: tokens, tokensFile: tokens.txt }";
  writeFileSync(join(folder, "tokens.txt"), `${"ab".repeat(32)}\n`);

  test.each([
    ["a header", policies(perHeader), [invented("per-plan", "header:x-plan")]],
    ["a token that is only present", policies(perToken), [invented("per-token", "token"), anonymous]],
    [
      "a token that is not checked",
      `auth: { mode: off }\n${policies(perToken)}`,
      [invented("per-token", "token"), anonymous],
    ],
    [
      "a header beside the client",
      policies(`${perHeader.replace("[", "[client, ")}`),
      [invented("per-plan", "header:x-plan")],
    ],
    [
      "the policy by client is a shadow",
      policies(`${byClient}, mode: shadow`, perHeader),
      [invented("per-plan", "header:x-plan")],
    ],
    [
      "the policy by client is about other requests",
      policies(`${byClient}, match: { paths: [/v1/] }`, perHeader),
      [invented("per-plan", "header:x-plan")],
    ],
    [
      "the policy by client is about fewer methods",
      policies(`${byClient}, match: { methods: [GET] }`, perHeader),
      [invented("per-plan", "header:x-plan")],
    ],
    [
      "the policy by client is one that limits nobody",
      policies("name: by-client, limit: 1000000000, window: 60s", perHeader),
      [
        expect.stringContaining("policy by-client: 1000000000 requests in 1m is more than 10000 a second"),
        invented("per-plan", "header:x-plan"),
      ],
    ],
    [
      "the policy by client admits over 100 times as much",
      policies("name: by-client, limit: 60001, window: 60s", perHeader),
      [tooLoose("per-plan", "header:x-plan", "60001 requests in 1m")],
    ],
    [
      "the policies by client admit over 100 times as many at once",
      policies("name: by-client, concurrency: 101", "name: a, concurrency: 1, key: [token]"),
      [tooLoose("a", "token", "101 requests at once")],
    ],
    [
      "the policy by client bounds only what is under way",
      policies("name: at-once, concurrency: 5", perHeader),
      [invented("per-plan", "header:x-plan")],
    ],
  ])("%s", async (_, yaml, lines) => {
    expect(await warnings(yaml)).toEqual(lines);
  });

  test.each([
    ["a policy by client over the same requests", policies(byClient, perHeader)],
    ["a policy by client that admits 100 times as much", policies("name: c, limit: 60000, window: 60s", perHeader)],
    ["a policy by client over a longer time", `${kept}\n${policies("name: c, limit: 1000000, per: month", perHeader)}`],
    [
      "a policy by client over a shorter time",
      `${kept}\n${policies(byClient, `${perHeader.replace("10, window: 1s", "1, per: month")}`)}`,
    ],
    ["one counter for all", policies(`${byClient}, key: []`, perHeader)],
    ["a token that is verified", `${tokens}\n${policies(perToken, `${byClient}, charge: { statuses: [401] }`)}`],
    ["a shadow, which refuses nothing", policies(byClient, `${perHeader}, mode: shadow`)],
    [
      "a policy by client over more than the same paths",
      policies(
        "name: all, limit: 1000, window: 1s, key: []",
        `${byClient}, key: [client, method, route], match: { paths: ["/v1/*/"], methods: [GET, PUT] }`,
        `${perHeader}, match: { paths: [/v1/X/y, /v1/a/b/], methods: [PUT] }`,
      ),
    ],
  ])("none with %s", async (_, yaml) => {
    expect((await warnings(yaml)).filter((line) => line.includes("invents"))).toEqual([]);
  });

  test.each([
    ["token", "charge: { statuses: [401] }, key: [token]", "token"],
    ["header", 'charge: { statuses: [429, 403] }, key: [client, "header:x-user"]', "header:x-user"],
  ])("a policy about failed attempts is told, also beside one by client: %s", async (_, rest, part) => {
    const lines = await warnings(policies(byClient, `name: guesses, limit: 10, window: 15m, ${rest}`));
    expect(lines).toContain(
      `warning: policy guesses: each guess with another ${part} has a counter of its own; use key: [client]`,
    );
  });

  test("none about attempts that are counted by client, by a verified token, or for another reason", async () => {
    const guesses = "name: guesses, limit: 10, window: 15m";
    const verified = `${tokens}\n${policies(byClient, `${guesses}, charge: { statuses: [403] }, key: [token]`)}`;
    expect(await warnings(verified)).toEqual([]);
    expect(await warnings(policies(byClient, `${guesses}, charge: { statuses: [401] }`))).toEqual([]);
    expect(await warnings(policies(byClient, `${guesses}, charge: { statuses: [201] }, key: ["header:x"]`))).toEqual(
      [],
    );
  });
});

describe("a counter that all clients share", () => {
  const shared = (name: string): string =>
    `warning: policy ${name}: one client can use up its limit for all; add an enforcing policy by client over the same requests, with a lower limit`;
  const all = "name: all, limit: 5000, window: 1s";
  const onV1 = `${byClient}, match: { paths: [/v1/] }`;

  test.each<[claim: string, yaml: string, lines: string[]]>([
    ["alone", policies(`${all}, key: []`), [shared("all")]],
    ["of a route and a method", policies(`${all}, key: [route, method]`), [shared("all")]],
    ["of requests at once", policies("name: all, concurrency: 100, key: []"), [shared("all")]],
    ["beside a policy by client about other requests", policies(onV1, `${all}, key: []`), [shared("all")]],
    ["beside a shadow by client", policies(`${byClient}, mode: shadow`, `${all}, key: []`), [shared("all")]],
  ])("is told: %s", async (_, yaml, lines) => {
    expect(await warnings(yaml)).toEqual(lines);
  });

  test.each([
    ["beside a policy by client", policies(byClient, `${all}, key: []`)],
    ["about the requests of a policy by client", policies(byClient, `${all}, key: [], match: { paths: [/v1/] }`)],
    ["in a shadow", policies(byClient, `${all}, key: [], mode: shadow`)],
  ])("is not told %s", async (_, yaml) => {
    expect(await warnings(yaml)).toEqual([]);
  });
});

describe("quotas by token, where requests may have none", () => {
  const perToken = "name: monthly, limit: 10000, per: month, key: [token]";
  const counted =
    "warning: policy monthly: requests without a token are counted too: each address that sends none has 10000 requests per month";

  test.each([
    ["off", perToken],
    ["presence", perToken],
    ["off", perToken.replace("[token]", "[token, route]")],
  ])("in mode %s, %s also counts addresses", async (mode, policy) => {
    expect(await warnings(`${kept}\nauth: { mode: ${mode} }\n${policies(byClient, policy)}`)).toEqual([counted]);
  });

  test.each([
    ["of verified tokens", "mode: tokens, tokensFile: tokens.txt", perToken],
    ["that refuses nothing", "mode: off", `${perToken}, mode: shadow`],
    ["of requests at once", "mode: off", "name: a, concurrency: 20, key: [token]"],
    ["by client", "mode: off", perToken.replace("token", "client")],
  ])("a policy %s does not", async (_, auth, policy) => {
    expect(await warnings(`${kept}\nauth: { ${auth} }\n${policies(byClient, policy)}`)).toEqual([]);
  });
});

describe("limits that refuse nobody", () => {
  const tooHigh = (rate: string, unit = "a second"): string =>
    `warning: policy by-client: ${rate} is more than 10000 ${unit}, which limits nobody; lower the limit`;

  test.each<[yaml: string, rate: string, unit?: string]>([
    ["limit: 1000000000, window: 60s", "1000000000 requests in 1m"],
    ["limit: 600001, window: 60s", "600001 requests in 1m"],
    ["limit: 1001, window: 100ms", "1001 requests in 100ms"],
    ["limit: 600001, per: minute", "600001 requests per minute"],
    ["limit: 1000000000, per: day", "1000000000 requests per day"],
    ["concurrency: 10001", "10001 requests at once", "at once"],
    ["limit: 100, window: 60s, overrides: [{ client: 0.0.0.0/0, limit: 600001 }]", "600001 requests in 1m"],
  ])("%s is told, and counts as no limit", async (rate, described, unit) => {
    expect(await warnings(`${kept}\n${policies(`name: by-client, ${rate}`)}`)).toEqual([
      tooHigh(described, unit),
      notAll("/v1/ and /v2/"),
    ]);
  });

  test.each([
    ["limit: 600000, window: 60s"],
    ["limit: 1000000000, per: month"],
    ["limit: 1000000000, window: 2d"],
    ["limit: 1200000, window: 60s, cost: 2"],
    ["concurrency: 10000"],
    ["limit: 1000000000, window: 60s, mode: shadow"],
    ["limit: 100, window: 60s, overrides: [{ client: 203.0.113.0/24, limit: 1000000000 }]"],
  ])("%s is not", async (rate) => {
    const beside = "name: beside, limit: 101, window: 60s";
    expect(await warnings(`${kept}\n${policies(`name: a, ${rate}`, beside)}`)).toEqual([]);
  });

  test("one about refused tokens alone limits no guesses", async () => {
    const guesses = "name: by-client, limit: 10000, window: 100ms, charge: { statuses: [401] }";
    const perToken = "name: per-token, limit: 10, window: 1s, key: [token]";
    const yaml = `auth: { mode: tokens, tokensFile: tokens.txt }\n${policies(guesses, perToken)}`;
    expect(await warnings(yaml)).toEqual([
      tooHigh("10000 requests in 100ms"),
      expect.stringContaining("with a refused token are not limited"),
    ]);
  });
});

describe("counts that a restart gives back", () => {
  const givenBack = (spent: string): string =>
    `warning: policy long: a restart gives back what clients have spent of its ${spent}; set counters.snapshot.path, or counters.store to redis`;
  const long = (rate: string): string => policies(byClient, `name: long, limit: 1000, ${rate}`);

  test.each([
    ["per: month", "1000 requests per month"],
    ["per: day", "1000 requests per day"],
    ["per: hour", "1000 requests per hour"],
    ["window: 31d", "1000 requests in 31d"],
    ["window: 1h", "1000 requests in 1h"],
    ["window: 90m", "1000 requests in 90m"],
  ])("%s is told", async (rate, spent) => {
    expect(await warnings(long(rate))).toEqual([givenBack(spent)]);
  });

  test.each([["per: minute"], ["window: 59m"], ["per: month, mode: shadow"]])("%s is not", async (rate) => {
    expect(await warnings(long(rate))).toEqual([]);
  });

  test("nor is one that a snapshot or a store keeps", async () => {
    expect(await warnings(`${kept}\n${long("per: month")}`)).toEqual([]);
    const store = "counters: { store: redis, redis: { url: redis://127.0.0.1:1 } }";
    expect(await warnings(`${store}\n${long("per: month")}`)).toEqual([]);
  });
});

test("paths under no route that are forwarded without a token are told, unless no path needs one", async () => {
  expect(await warnings("unmatched: proxy")).toEqual([
    "warning: unmatched is proxy: paths under no route are forwarded without a token and without a limit; add paths that need either of them to routes",
  ]);
  expect(await warnings("unmatched: proxy\nauth: { mode: off }")).toEqual([]);
});

describe("refused tokens that no policy counts", () => {
  const perToken = "name: per-token, limit: 10, window: 1s, key: [token]";
  const tokens = (...lines: string[]): string =>
    `auth: { mode: tokens, tokensFile: tokens.txt }\n${policies(...lines)}`;
  const guesses = (routes: string): string =>
    `warning: requests under ${routes} with a refused token are not limited: all policies about them need a verified one, so add one by client`;

  test("are told, unless a policy is asked before the token check", async () => {
    expect(await warnings(tokens(perToken))).toEqual([guesses("/v1/ and /v2/")]);
    const narrow = `${byClient}, match: { paths: [/v1/] }`;
    expect(await warnings(tokens(perToken, narrow))).toEqual([guesses("/v2/")]);
    expect(await warnings(tokens(perToken, `${byClient}, charge: { statuses: [403] }`))).toHaveLength(1);
    expect(await warnings(tokens(perToken, `${byClient}, mode: shadow`))).toHaveLength(1);
  });

  test("none with a policy by client, or one about 401 alone", async () => {
    expect(await warnings(tokens(perToken, byClient))).toEqual([]);
    expect(await warnings(tokens(perToken, `${byClient}, charge: { statuses: [401] }`))).toEqual([]);
  });
});

describe("policies that an ext-auth listener leaves out", () => {
  const held = ["name: at-once, concurrency: 5", "name: guesses, limit: 10, window: 15m, charge: { statuses: [401] }"];

  test("each is named, with the ports and the reason", async () => {
    expect(await warnings(`${ports}\n${policies(byClient, ...held)}`)).toEqual([
      "warning: policy at-once is not asked on extAuth.http and extAuth.grpc: an ingress does not tell when a request ends (concurrency)",
      "warning: policy guesses is not asked on extAuth.http and extAuth.grpc: an ingress does not tell the status of the response (charge)",
    ]);
  });

  test("one port is named alone", async () => {
    const [line] = await warnings(`${ports.replace(/\n.*grpc.*/, "")}\n${policies(byClient, ...held)}`);
    expect(line).toContain("is not asked on extAuth.http: ");
  });

  test("none without a port, or without such a policy", async () => {
    expect(await warnings(policies(byClient, ...held))).toEqual([]);
    expect(await warnings(`${ports}\n${policies(byClient)}`)).toEqual([]);
  });
});

describe("overrides of tokens that are not listed", () => {
  const listed = "ab".repeat(32);
  writeFileSync(join(folder, "names.txt"), `${listed}  # acme\n${"cd".repeat(32)}\n`);
  const withOverrides = (...overrides: string[]): string =>
    [
      "auth: { mode: tokens, tokensFile: names.txt }",
      ...["policies:", `  - { ${byClient} }`],
      ...["  - name: per-token", "    limit: 9", "    window: 1s", "    key: [token, subject]", "    overrides:"],
      ...overrides.map((override) => `      - { ${override}, limit: 5 }`),
    ].join("\n");

  test("are told with their place, and without the value", async () => {
    const token = "x".repeat(43);
    const yaml = withOverrides(`token: ${token}`, `token: ${"ef".repeat(32)}`, "subject: acne");
    expect(await warnings(yaml)).toEqual([
      "c.yaml:9:18: policies.1.overrides.0.token: warning: auth.tokensFile has no token of this name or digest, so this override applies to nobody",
      "c.yaml:10:18: policies.1.overrides.1.token: warning: auth.tokensFile has no token of this name or digest, so this override applies to nobody",
      "c.yaml:11:20: policies.1.overrides.2.subject: warning: auth.tokensFile has no token of this name, so this override applies to nobody",
    ]);
  });

  test("none for listed ones", async () => {
    expect(await warnings(withOverrides("token: acme", `token: ${listed.toUpperCase()}`, "subject: acme"))).toEqual([]);
  });
});

describe("scopes that no listed token has", () => {
  writeFileSync(join(folder, "scopes.txt"), `${"ab".repeat(32)} scopes=read\n${"cd".repeat(32)} scopes=export,write\n`);
  const withRules = (...scopes: string[]): string =>
    [
      "auth:",
      "  mode: tokens",
      "  tokensFile: scopes.txt",
      "  rules:",
      ...scopes.map((each, i) => `    - { paths: [/v1/${i}], mode: tokens, scopes: [${each}] }`),
    ].join("\n");

  test("are told with their place", async () => {
    expect(await warnings(withRules("read", "exprot", "read, export"))).toEqual(
      [1, 2].map(
        (i) =>
          `c.yaml:${5 + i}:47: auth.rules.${i}.scopes: warning: auth.tokensFile has no token with all of these scopes, so every listed token is answered 403 here`,
      ),
    );
  });

  test("none where a token has all of them, more included", async () => {
    expect(await warnings(withRules("read", "write", "export, write"))).toEqual([]);
  });
});

describe("tokens that end within 14 days, or have ended", () => {
  const digests = ["ab", "bc", "cd", "de"].map((pair) => pair.repeat(32));
  const end = (days: number): string => writtenEnd(Date.now() + days * 86_400_000);
  const listed = async (lines: readonly string[]): Promise<string[]> => {
    writeFileSync(join(folder, "ends.txt"), lines.map((line, i) => `${digests[i]} ${line}\n`).join(""));
    return warnings("auth: { mode: tokens, tokensFile: ends.txt }");
  };

  test("are named with their ends", async () => {
    const [gone, soon, later] = [end(-1), end(13), end(15)];
    expect(await listed([`expires=${gone} # bob`, `expires=${soon}`, `expires=${later} # carol`, "# dave"])).toEqual([
      `c.yaml:1:35: auth.tokensFile: ends.txt: warning: listed tokens end soon, or have ended: "bob" (${gone}) and one without a name (${soon})`,
    ]);
  });

  test("none without such a token", async () => {
    expect(await listed([`expires=${end(15)} # carol`, "# dave"])).toEqual([]);
  });
});

describe("browsers' preflights", () => {
  const origins = "origins: [https://app.example]";
  const gap = "policies: [{ name: a, limit: 9, window: 1m, match: { methods: [GET] } }]";

  test.each([
    [`cors: { ${origins} }`, "; for preflights set cors.preflights to answer"],
    [`cors: { ${origins}, preflights: answer }`, ""],
    ["", ""],
  ])("a policy that leaves OPTIONS out, with %s", async (yaml, remedy) => {
    expect(await warnings(`${gap}\n${yaml}`)).toEqual([otherMethods("/v1/ and /v2/", "GET") + remedy]);
  });

  test("nobody's are answered without origins, and an ingress' checks answer none", async () => {
    expect(await warnings("cors: { preflights: answer }")).toEqual([
      "warning: cors.preflights is answer, and cors.origins is empty: no preflight is answered; list the origins",
    ]);
    expect(
      await warnings(
        `cors: { ${origins}, preflights: answer }\nextAuth: { trustedCallers: [10.0.0.1], http: { enabled: true } }`,
      ),
    ).toEqual([
      "warning: cors.preflights is answer, but on extAuth.http preflights spend quota; answer them at the ingress",
    ]);
    expect(await warnings(`cors: { ${origins}, preflights: answer }`)).toEqual([]);
  });
});

test("the packaged configuration has no warnings", async () => {
  expect(await warnings("")).toEqual([]);
  const io = testIo();
  expect(await run({ file: undefined, overrides: [] }, io)).toBe(0);
  expect(io.errText()).toBe("");
});

test("the start of the gateway logs each warning, and none for sound policies", async () => {
  const logged = async (mode: "enforce" | "shadow"): Promise<unknown[]> => {
    const overrides = { policies: [slidingPolicy({ limit: 5, windowMs: 1_000, mode })] };
    const { close, logLines } = await startTestGateway({ upstreamUrl: deadUrl, overrides });
    await close();
    return logLines
      .filter(({ msg }) => msg === "configuration warning")
      .map(({ level, detail }) => ({ level, detail }));
  };
  expect(await logged("enforce")).toEqual([]);
  expect(await logged("shadow")).toEqual([
    { level: "warn", detail: notAll("/v1/ and /v2/").slice("warning: ".length) },
  ]);
});

test("so does the Fastify plugin, which cannot keep counts", async () => {
  const lines: string[] = [];
  const app = cleanup(fastify({ logger: { stream: { write: (line: string) => void lines.push(line) } } }));
  const monthly = { name: "b", limit: 1, per: "month", match: { paths: ["/b"] } } as const;
  await app.register(headgate, { policies: [{ name: "a", limit: 1, window: "1s", mode: "shadow" }, monthly] });
  await app.ready();
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { msg: "configuration warning", detail: expect.stringContaining("not all requests under / are limited") },
    { detail: "policy b: a restart gives back what clients have spent of its 1 request per month" },
    { msg: "limited paths without a verified token", open: [], unverified: ["/"] },
  ]);
});

test.each([
  ["host: 0.0.0.0", 1],
  ["host: admin.internal", 1],
  ["host: 10.0.0.1, tls: { cert: tls.crt, key: tls.key }", 0],
  ["host: 127.0.0.1", 0],
  ["host: localhost", 0],
  ["host: '::1'", 0],
])("tokens of the admin API in plain text on %s: %i warning", async (admin, count) => {
  const settings = loadedWith(`admin: { ${admin}, tokensFile: admin.txt }`);
  const about = configurationWarnings(settings).filter((warning) => warning.startsWith("admin.tokensFile is set"));
  expect(about).toHaveLength(count);
  expect(configurationWarnings(loadedWith(`admin: { ${admin} }`)).join()).not.toContain("admin");
});

function loadedWith(yaml: string): Settings {
  writeFileSync(join(folder, "admin.yaml"), yaml);
  const loaded = loadSettings({ file: "admin.yaml", env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error("the configuration is not valid");
  return loaded.settings;
}
