// From policies as they are written to policies as the limiter gets them, by file, environment and command line.
import { fastify } from "fastify";
import { afterAll, expect, test } from "vitest";
import { effectiveLines } from "../../src/config/effective.ts";
import { schema } from "../../src/config/schema.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { enumerate } from "../../src/core/enumerate.ts";
import { calendarPeriods, type Policy } from "../../src/core/policy.ts";
import { headgate } from "../../src/fastify/index.ts";
import { parsePluginOptions } from "../../src/fastify/plugin-options.ts";
import { useCleanup } from "../support/cleanup.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { scratchFolder } from "../support/scratch.ts";
import { stageHttp } from "../support/stage.ts";
import { type Given, loadGiven } from "./given.ts";

const cleanup = useCleanup();
const folder = scratchFolder(afterAll);

function load(given: Given) {
  const loaded = loadGiven(folder, given);
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  return loaded;
}

const policiesOf = (given: Given): readonly Policy[] => load(given).settings.policies;

const standard = slidingPolicy({ limit: 100, windowMs: 60_000 });

const all = `
policies:
  - name: a
    limit: 1000
    window: 31d
    match: { paths: [/v1/, "/v2/*/x", /V2/Me], methods: [GET, HEAD] }
    key: [client, header:X-Plan, route, method]
    cost: 5
    charge: { statuses: [401, 403] }
    mode: shadow
    who: others
    exempt: [10.0.0.0/8, "2001:db8::/48"]
    overrides:
      - { client: 192.0.2.0/24, limit: 2000 }
      - { header: gold, limit: 5 }
  - { name: b, limit: 100000, per: month, timezone: Europe/Berlin, key: [token] }
  - { name: c, limit: 5, per: day, key: [] }
  - name: d
    concurrency: 20
    key: [token]
    overrides: [{ token: ${"AB".repeat(32)}, limit: 65535 }]
`;

test("the largest limit is a thousand million, of a window and of a period", () => {
  const yaml = "policies: [{ name: a, limit: 1000000000, window: 31d }, { name: b, limit: 1000000000, per: month }]";
  expect(policiesOf({ yaml }).map(({ limit }) => limit)).toEqual([1_000_000_000, 1_000_000_000]);
});

test("without a list there is one policy, 100 per 60 s by client", () => {
  expect(policiesOf({})).toEqual([standard]);
  expect(load({}).settings.enforcement).toBe("on");
});

test("every key of a policy reaches the limiter, and what is left out has its default", () => {
  const plain = {
    cost: 1,
    match: { paths: [], methods: [] },
    who: null,
    chargeStatuses: null,
    mode: "enforce",
    exempt: [],
  };
  const rest = { ...plain, overrides: [] };
  expect(policiesOf({ yaml: all })).toEqual([
    {
      name: "a",
      rate: { kind: "sliding", windowMs: 31 * 86_400_000 },
      limit: 1000,
      cost: 5,
      key: [{ kind: "client" }, { kind: "header", name: "x-plan" }, { kind: "route" }, { kind: "method" }],
      match: { paths: ["/v1/", "/v2/*/x", "/V2/Me"], methods: ["GET", "HEAD"] },
      who: "others",
      chargeStatuses: [401, 403],
      mode: "shadow",
      exempt: ["10.0.0.0/8", "2001:db8::/48"],
      overrides: [
        { part: "client", value: "192.0.2.0/24", limit: 2000 },
        { part: "header", value: "gold", limit: 5 },
      ],
    },
    {
      ...{ ...rest, name: "b", limit: 100_000, key: [{ kind: "token" }] },
      rate: { kind: "calendar", per: "month", timezone: "Europe/Berlin" },
    },
    { ...rest, name: "c", limit: 5, key: [], rate: { kind: "calendar", per: "day", timezone: "UTC" } },
    {
      ...{ ...rest, name: "d", limit: 20, key: [{ kind: "token" }], rate: { kind: "concurrency" } },
      overrides: [{ part: "token", value: "ab".repeat(32), limit: 65_535 }],
    },
  ]);
});

test("the Fastify plugin takes the same list", () => {
  const { policies } = parsePluginOptions({
    policies: [
      { name: "a", limit: 5, per: "day", timezone: "Asia/Tokyo", key: ["header:x-plan"], match: { paths: ["/x"] } },
      { name: "b", concurrency: 2, exempt: ["10.0.0.0/8"] },
    ],
  });
  expect(policies).toMatchObject([
    { rate: { kind: "calendar", per: "day", timezone: "Asia/Tokyo" }, key: [{ name: "x-plan" }] },
    { limit: 2, rate: { kind: "concurrency" }, exempt: ["10.0.0.0/8"] },
  ]);
});

test("enforcement: shadow refuses nothing, and counts what would have been refused", async () => {
  const { settings } = load({ yaml: "policies: [{ name: a, limit: 1, window: 60s }]\nenforcement: shadow" });
  const { policies, enforcement } = settings;
  const { gateway } = await stageHttp(cleanup, undefined, { policies, enforcement });
  const ask = () => fetch(`${gateway.url}/v2/me`, { headers: { authorization: "Bearer x" } });
  expect([(await ask()).status, (await ask()).status]).toEqual([200, 200]);
  expect(await metric(gateway, 'headgate_decisions_total{policy="a",outcome="would_throttle"}')).toBe(1);
});

test("so does the Fastify plugin", async () => {
  const app = cleanup(fastify());
  await app.register(headgate, { policies: [{ name: "a", limit: 1, window: "60s" }], enforcement: "shadow" });
  app.get("/x", async () => "ok");
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  const ask = () => fetch(`${url}/x`, { headers: { authorization: "Bearer x" } });
  expect([(await ask()).status, (await ask()).status]).toEqual([200, 200]);
});

test.each<[string, Given, object]>([
  ["a variable over the default policy", { env: { HEADGATE_POLICIES_0_LIMIT: "7" } }, [{ ...standard, limit: 7 }]],
  ["--set over the default policy", { flags: ["--set", "policies.0.limit=7"] }, [{ ...standard, limit: 7 }]],
  ["--set by its name", { flags: ["--set", "policies.per-ip.limit=7"] }, [{ ...standard, limit: 7 }]],
  [
    "--set by the name of another policy",
    {
      yaml: "policies: [{ name: a, limit: 5, per: day }, { name: b, limit: 5, per: day }]",
      flags: ["--set", "policies.b.limit=7"],
    },
    [{ limit: 5 }, { limit: 7 }],
  ],
  [
    "another kind for the default policy",
    { env: { HEADGATE_POLICIES_0_WINDOW: "", HEADGATE_POLICIES_0_PER: "day" } },
    [{ ...standard, rate: { kind: "calendar", per: "day", timezone: "UTC" } }],
  ],
  [
    "a second policy beside the default one",
    { env: { HEADGATE_POLICIES_1_NAME: "b", HEADGATE_POLICIES_1_CONCURRENCY: "20" } },
    [standard, { name: "b", limit: 20, rate: { kind: "concurrency" } }],
  ],
  [
    "lists, and their items, in a policy",
    { env: { HEADGATE_POLICIES_0_MATCH_METHODS: "GET,PUT", HEADGATE_POLICIES_0_MATCH_METHODS_1: "POST" } },
    [{ match: { paths: [], methods: ["GET", "POST"] } }],
  ],
  ["no part of a key", { env: { HEADGATE_POLICIES_0_KEY: "" } }, [{ key: [] }]],
  [
    "an override of the second policy",
    {
      yaml: "policies: [{ name: a, limit: 1, window: 1s }, { name: b, limit: 1, window: 1s, overrides: [{ client: 192.0.2.1, limit: 2 }] }]",
      env: { HEADGATE_POLICIES_1_OVERRIDES_0_LIMIT: "3" },
    },
    [{ name: "a", overrides: [] }, { overrides: [{ part: "client", value: "192.0.2.1", limit: 3 }] }],
  ],
])("%s", (_, given, expected) => {
  expect(policiesOf(given)).toMatchObject(expected);
});

test("what is in effect shows what was written, and no value of a header", () => {
  const line = (given: Given): string =>
    effectiveLines(schema, load(given).raw).find((each) => each.startsWith("policies")) ?? "";
  expect(line({})).toBe("policies: [ { name: per-ip, limit: 100, window: 60s } ]");
  const yaml =
    "policies: [{ name: a, limit: 5, per: day, key: ['header:x-key'], overrides: [{ header: secret, limit: 9 }] }]";
  expect(line({ yaml })).toBe(
    'policies: [ { name: a, limit: 5, per: day, key: [ header:x-key ], overrides: [ { header: "***", limit: 9 } ] } ]',
  );
});

test("what is in effect shows the word that a reader of YAML 1.1 has written as a boolean", () => {
  const { raw } = load({ yaml: "auth: { mode: false }\nenforcement: true\nlisten: { proxyProtocol: true }" });
  const lines = effectiveLines(schema, raw);
  expect(lines.find((each) => each.startsWith("auth:"))).toMatch(/ mode: off,/);
  expect(lines.find((each) => each.startsWith("enforcement:"))).toBe("enforcement: on");
  expect(lines.find((each) => each.startsWith("listen:"))).toMatch(/ proxyProtocol: true,/);
});

test("of a policy that is wrong in several ways, everything is told, and nothing that follows from it", () => {
  const yaml = [
    "policies:",
    "  - { name: A, limit: x, window: 1s, cost: 5, overrides: [{ client: nobody, limit: 1 }] }",
    "  - { limt: 5, window: 1s, key: [ip] }",
  ].join("\n");
  expect(() => load({ yaml })).toThrow(
    [
      'c.yaml:2:13: policies.0.name: found "A", expected a name of at most 32 lower-case letters, digits and hyphens that begins with a letter',
      'c.yaml:2:23: policies.0.limit: found "x", expected a whole number from 1 to 1000000000',
      'c.yaml:2:69: policies.0.overrides.0.client: found "nobody", expected an IP address or a network such as "10.0.0.0/8"',
      "c.yaml:2:84: policies.0.overrides.0.limit: found 1, expected at least cost (5); raise it, or lower cost",
      "c.yaml:3:5: policies.1.name: found nothing, expected a name of at most 32 lower-case letters, digits and hyphens that begins with a letter",
      'c.yaml:3:7: policies.1.limt: unknown key; did you mean "policies.1.limit"?',
      'c.yaml:3:34: policies.1.key.0: found "ip", expected client',
    ].join("\n"),
  );
});

test.each([
  [
    "digits alone",
    "12345",
    "a number, expected at most 1024 printable ASCII characters without blanks at the ends, in quotes",
  ],
  [
    "a list",
    "[s3cret]",
    "[text of 6 characters], expected at most 1024 printable ASCII characters without blanks at the ends",
  ],
])("the value of a header that is %s is not shown", (_, header, message) => {
  const yaml = `policies: [{ name: a, limit: 5, per: day, key: ['header:x'], overrides: [{ header: ${header}, limit: 9 }] }]`;
  expect(() => load({ yaml })).toThrow(`c.yaml:1:84: policies.0.overrides.0.header: found ${message}`);
});

test("an override that names its part as other gateways do has one error", () => {
  const yaml =
    "policies: [{ name: a, limit: 5, per: day, overrides: [{ ip: 192.0.2.1, limit: 9 }, { name: x, max: 9 }] }]";
  const unknown = [
    'c.yaml:1:57: policies.0.overrides.0.ip: unknown key; did you mean "policies.0.overrides.0.client"?',
    'c.yaml:1:86: policies.0.overrides.1.name: unknown key; did you mean "policies.0.overrides.1.token" or "policies.0.overrides.1.subject"?',
    'c.yaml:1:95: policies.0.overrides.1.max: unknown key; did you mean "policies.0.overrides.1.limit"? See docs/move/README.md',
  ];
  expect(() => load({ yaml })).toThrow(new Error(unknown.join("\n")));
});

test.each(calendarPeriods)("a %s of the calendar is configured by its name", (per) => {
  const [policy] = policiesOf({ yaml: `policies: [{ name: a, limit: 5, per: ${per} }]` });
  expect(policy?.rate).toEqual({ kind: "calendar", per, timezone: "UTC" });
});

test("a policy whose period is wrong has one error", () => {
  const yaml = "policies: [{ name: a, limit: 100000, per: fortnight-ish }]";
  expect(() => load({ yaml })).toThrow(
    new Error(
      `c.yaml:1:43: policies.0.per: found "fortnight-ish", expected ${enumerate(calendarPeriods)} (for any other length, use window)`,
    ),
  );
});
