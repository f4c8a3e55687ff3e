// Envoy's rate limit service with several policies and several descriptors: which policies are asked, what one call
// charges, and that it charges all or nothing.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Policy } from "../../../src/core/policy.ts";
import { digestOf } from "../../auth/digest.ts";
import { useCleanup } from "../../support/cleanup.ts";
import type { Overrides } from "../../support/gateway.ts";
import { metric } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { call } from "./client.ts";
import { shouldRateLimit } from "./protocol.ts";
import { rateLimitRequest } from "./requests.ts";
import { type GrpcStage, stageGrpc } from "./stage.ts";

const cleanup = useCleanup();

type Entries = Readonly<Record<string, string>>;

interface Descriptor {
  readonly entries: Entries;
  readonly hits_addend?: { readonly value: number };
}

interface Answer {
  readonly overall_code: string;
  readonly statuses: readonly {
    readonly code: string;
    readonly current_limit: { readonly requests_per_unit: number; readonly unit: string; readonly name: string };
    readonly limit_remaining: number;
    readonly duration_until_reset: { readonly seconds: number };
  }[];
  readonly response_headers_to_add: readonly { readonly key: string; readonly value: string }[];
}

function requestOf(descriptors: readonly Descriptor[], rest: object = {}): object {
  const all = descriptors.map(({ entries, ...more }) => {
    const complete = { remote_address: "192.0.2.7", path: "/v2/me", ...entries };
    return { entries: Object.entries(complete).map(([key, value]) => ({ key, value })), ...more };
  });
  return rateLimitRequest({}, { descriptors: all, ...rest });
}

async function ask(stage: GrpcStage, descriptors: readonly Descriptor[], rest: object = {}): Promise<Answer> {
  const reply = await call<Answer>(stage.client, shouldRateLimit, requestOf(descriptors, rest));
  expect(reply).toMatchObject({ status: "OK", details: "" });
  return reply.message as Answer;
}

/** Code, policy and what is left, of each descriptor. */
const told = ({ statuses }: Answer): unknown[] =>
  statuses.map(({ code, current_limit: { name }, limit_remaining }) => [code, name, limit_remaining]);

const policy = (name: string, limit: number, more: Partial<Policy> = {}): Policy =>
  slidingPolicy({ name, limit, windowMs: 60_000, ...more });

const stageWith = (policies: readonly Policy[], overrides: Overrides = {}): Promise<GrpcStage> =>
  stageGrpc(cleanup, { policies, ...overrides });

test("without the entry policy all that apply are asked, and with it one alone", async () => {
  const writes = policy("writes", 3, { match: { paths: [], methods: ["POST"] } });
  const stage = await stageWith([policy("per-ip", 10), writes]);
  expect(told(await ask(stage, [{ entries: {} }]))).toEqual([["OK", "per-ip", 9]]);
  expect(told(await ask(stage, [{ entries: { method: "POST" } }]))).toEqual([["OK", "writes", 2]]);
  expect(told(await ask(stage, [{ entries: { policy: "per-ip", method: "POST" } }]))).toEqual([["OK", "per-ip", 7]]);
  expect(told(await ask(stage, [{ entries: { policy: "writes", method: "POST" } }]))).toEqual([["OK", "writes", 1]]);
  // It is not about this request, so nothing limits it.
  expect(told(await ask(stage, [{ entries: { policy: "writes" } }]))).toEqual([["OK", "writes", 3]]);
  expect(told(await ask(stage, [{ entries: {} }]))).toEqual([["OK", "per-ip", 6]]);
});

test.for<[string, Entries, string]>([
  ["does not exist", { policy: "weekly" }, "per-ip, writes"],
  ["counts what is in progress", { policy: "at-once" }, "per-ip, writes"],
  ["charges by status", { policy: "failed" }, "per-ip, writes"],
])("a policy that %s is refused with the names that are asked", async ([, entries, names]) => {
  const stage = await stageWith([
    policy("per-ip", 10),
    policy("writes", 5),
    policy("at-once", 5, { rate: { kind: "concurrency" } }),
    policy("failed", 5, { chargeStatuses: [401] }),
  ]);
  expect(await call(stage.client, shouldRateLimit, requestOf([{ entries }]))).toMatchObject({
    status: "INVALID_ARGUMENT",
    details: `the policy "${entries["policy"]}" is none that is asked here: ${names}`,
  });
  expect(told(await ask(stage, [{ entries: { policy: "writes" } }]))).toEqual([["OK", "writes", 4]]);
});

test("hits are multiplied by the cost, and what does not fit as a whole is refused and not charged", async () => {
  const stage = await stageWith([policy("per-ip", 10, { cost: 2 })]);
  const hits = (hits_addend: number) => ask(stage, [{ entries: {} }], { hits_addend });
  expect(told(await hits(3))).toEqual([["OK", "per-ip", 4]]);
  expect(told(await hits(3))).toEqual([["OVER_LIMIT", "per-ip", 4]]);
  expect(told(await hits(1_000_000))).toEqual([["OVER_LIMIT", "per-ip", 4]]);
  expect(told(await hits(4_294_967_295))).toEqual([["OVER_LIMIT", "per-ip", 4]]);
  // A descriptor's own number comes first.
  const own = await ask(stage, [{ entries: {}, hits_addend: { value: 2 } }], { hits_addend: 5 });
  expect(told(own)).toEqual([["OK", "per-ip", 0]]);
  stage.clock.advance(60_000);
  expect(told(await hits(5))).toEqual([["OK", "per-ip", 0]]);
});

test("descriptors are charged together or not at all, with a status for each", async () => {
  const stage = await stageWith([policy("per-ip", 10), policy("writes", 2)]);
  const entries = [{ policy: "per-ip" }, { policy: "writes" }, { policy: "per-ip", remote_address: "192.0.2.8" }];
  const all = entries.map((each) => ({ entries: each }));
  expect(told(await ask(stage, all))).toEqual([
    ["OK", "per-ip", 9],
    ["OK", "writes", 1],
    ["OK", "per-ip", 9],
  ]);
  expect((await ask(stage, all)).overall_code).toBe("OK");
  const refused = await ask(stage, all);
  expect(refused.overall_code).toBe("OVER_LIMIT");
  expect(told(refused)).toEqual([
    ["OK", "per-ip", 8],
    ["OVER_LIMIT", "writes", 0],
    ["OK", "per-ip", 8],
  ]);
  const shown = Object.fromEntries(refused.response_headers_to_add.map(({ key, value }) => [key, value]));
  expect(shown).toMatchObject({ "ratelimit-limit": "2", "ratelimit-remaining": "0", "retry-after": "60" });
  expect(told(await ask(stage, [all[0] ?? { entries: {} }]))).toEqual([["OK", "per-ip", 7]]);
  const decisions = (name: string, outcome: string) =>
    metric(stage.gateway, `headgate_decisions_total{policy="${name}",outcome="${outcome}"}`);
  expect([await decisions("per-ip", "admitted"), await decisions("per-ip", "observed")]).toEqual([5, 2]);
  expect([await decisions("writes", "admitted"), await decisions("writes", "throttled")]).toEqual([2, 1]);
  // One call is one check, however many descriptors it has.
  expect(await metric(stage.gateway, 'headgate_ext_auth_checks_total{outcome="admitted"}')).toBe(3);
});

test("descriptors that share a key cannot exceed its limit together", async () => {
  const stage = await stageWith([policy("per-ip", 5)]);
  const three = { entries: {}, hits_addend: { value: 3 } };
  const refused = await ask(stage, [three, three]);
  expect(told(refused)).toEqual([
    ["OVER_LIMIT", "per-ip", 5],
    ["OVER_LIMIT", "per-ip", 5],
  ]);
  const two = { entries: {}, hits_addend: { value: 2 } };
  expect(told(await ask(stage, [three, two]))).toEqual([
    ["OK", "per-ip", 0],
    ["OK", "per-ip", 0],
  ]);
});

test("a shadow policy refuses nothing, and counts what it would have refused", async () => {
  const stage = await stageWith([policy("per-ip", 10), policy("trial", 1, { mode: "shadow" })]);
  for (const left of [9, 8]) expect(told(await ask(stage, [{ entries: {} }]))).toEqual([["OK", "per-ip", left]]);
  const outcome = (name: string) => metric(stage.gateway, `headgate_decisions_total{policy="trial",outcome="${name}"}`);
  expect([await outcome("admitted"), await outcome("would_throttle")]).toEqual([1, 1]);
});

test("an exempt client is limited by no policy", async () => {
  const stage = await stageWith([policy("per-ip", 2, { exempt: ["192.0.2.0/24"] })]);
  for (let i = 0; i < 3; i += 1) expect(told(await ask(stage, [{ entries: {} }]))).toEqual([["OK", "per-ip", 2]]);
});

test.for<[part: string, key: Policy["key"], entry: string]>([
  ["a header", [{ kind: "header", name: "x-api-key" }], "header:X-Api-Key"],
  ["a subject", [{ kind: "subject" }], "subject"],
  ["a claim", [{ kind: "claim", name: "tenant" }], "claim:tenant"],
  ["a token", [{ kind: "token" }], "token"],
])("a policy by %s counts its values apart, and a descriptor without it by client", async ([, key, entry]) => {
  const stage = await stageWith([policy("by-part", 2, { key })]);
  const left = async (entries: Entries) => (await ask(stage, [{ entries }])).statuses[0]?.limit_remaining;
  expect(await left({ [entry]: "a" })).toBe(1);
  expect(await left({ [entry]: "a", remote_address: "192.0.2.8" })).toBe(0);
  expect(await left({ [entry]: "b" })).toBe(1);
  expect([await left({}), await left({ [entry]: "" })]).toEqual([1, 0]);
  expect(await left({ remote_address: "192.0.2.8" })).toBe(1);
});

test("a token is the same with its scheme, and in the proxy", async () => {
  const stage = await stageWith([policy("by-token", 5, { key: [{ kind: "token" }] })]);
  const left = async (token: string) => (await ask(stage, [{ entries: { token } }])).statuses[0]?.limit_remaining;
  expect([await left("abc"), await left("Bearer abc"), await left("bearer abc")]).toEqual([4, 3, 2]);
  const response = await fetch(`${stage.gateway.url}/v2/me`, { headers: { authorization: "Bearer abc" } });
  expect(response.headers.get("ratelimit-remaining")).toBe("1");
});

test("in mode tokens a listed token stands for its name, and another one for its client", async () => {
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens.txt");
  writeFileSync(tokensFile, `${digestOf("listed")} # partner\n`);
  const overrides = [{ part: "token", value: "partner", limit: 7 }] as const;
  const stage = await stageWith([policy("by-token", 5, { key: [{ kind: "token" }], overrides })], {
    auth: { mode: "tokens", tokensFile },
  });
  const limitOf = async (token: string) => (await ask(stage, [{ entries: { token } }])).statuses[0];
  expect(await limitOf("listed")).toMatchObject({ current_limit: { requests_per_unit: 7 }, limit_remaining: 6 });
  expect(await limitOf("other")).toMatchObject({ current_limit: { requests_per_unit: 5 }, limit_remaining: 4 });
  expect(await limitOf("another")).toMatchObject({ limit_remaining: 3 });
});

test("the unit is that of the policy's window or period", async () => {
  const month = { kind: "calendar", per: "month", timezone: "UTC" } as const;
  const stage = await stageWith([
    policy("monthly", 10, { rate: month }),
    policy("odd", 10, { ...policy("odd", 1), limit: 10, rate: { kind: "sliding", windowMs: 90_000 } }),
  ]);
  const answer = await ask(stage, [{ entries: { policy: "monthly" } }, { entries: { policy: "odd" } }]);
  expect(answer.statuses.map(({ current_limit: { unit } }) => unit)).toEqual(["MONTH", "UNKNOWN"]);
});

test.for<[string, readonly Descriptor[], object, string, string]>([
  [
    "33 descriptors",
    Array.from({ length: 33 }, () => ({ entries: {} })),
    {},
    "INVALID_ARGUMENT",
    "1 to 32 descriptors",
  ],
  [
    "a header that names the client",
    [{ entries: { "header:x-forwarded-for": "192.0.2.9" } }],
    {},
    "INVALID_ARGUMENT",
    "unknown",
  ],
  [
    "a header that is the token",
    [{ entries: { "header:authorization": "Bearer a" } }],
    {},
    "INVALID_ARGUMENT",
    "unknown",
  ],
  ["a header without a name", [{ entries: { "header:": "a" } }], {}, "INVALID_ARGUMENT", "unknown"],
  ["one header in two spellings", [{ entries: { "header:A": "1", "header:a": "2" } }], {}, "INVALID_ARGUMENT", "twice"],
  [
    "a second descriptor with a fault",
    [{ entries: {} }, { entries: { remote_address: "me" } }],
    {},
    "INVALID_ARGUMENT",
    "no IP address",
  ],
  [
    "a second descriptor without hits",
    [{ entries: {} }, { entries: {}, hits_addend: { value: 0 } }],
    {},
    "UNIMPLEMENTED",
    "one hit or more",
  ],
])("%s is refused in words, and charges nothing", async ([, descriptors, rest, status, details]) => {
  const stage = await stageWith([policy("per-ip", 10)]);
  const reply = await call(stage.client, shouldRateLimit, requestOf(descriptors, rest));
  expect(reply).toMatchObject({ status, details: expect.stringContaining(details) });
  expect(told(await ask(stage, [{ entries: {} }]))).toEqual([["OK", "per-ip", 9]]);
});

test("a reload changes the policies that can be named", async () => {
  const stage = await stageWith([policy("per-ip", 10)]);
  const named = requestOf([{ entries: { policy: "writes" } }]);
  expect(await call(stage.client, shouldRateLimit, named)).toMatchObject({ status: "INVALID_ARGUMENT" });
  const { settings } = stage;
  await stage.gateway.reload({ ...settings, policies: [policy("per-ip", 10), policy("writes", 5)] });
  expect(told(await ask(stage, [{ entries: { policy: "writes" } }]))).toEqual([["OK", "writes", 4]]);
});
