// What one thread remembers of an exchange, and what it never does: the query, credentials, anything of an admitted one.
import { serialize } from "node:v8";
import { describe, expect, test } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import type { ExchangeRecord } from "../../../src/core/exchange-record.ts";
import type { Outcome } from "../../../src/core/policy.ts";
import { keptTarget, loggedRequestId } from "../../../src/telemetry/log.ts";
import { History, HistoryRow } from "../../../src/telemetry/recent/history.ts";
import { stepMs } from "../../../src/telemetry/recent/steps.ts";
import { type RecentBatch, type RecentSizes, ThreadRecent } from "../../../src/telemetry/recent/thread-recent.ts";
import { FakeClock } from "../../support/clock.ts";
import { decisionOf } from "../../support/policy.ts";
import { inFullOr } from "../../support/runs.ts";
import { type ExchangeChanges, exchangeOf, policy } from "../scrape.ts";

function open(sizes: RecentSizes = { refusals: 100, keys: 10 }) {
  const clock = new FakeClock();
  const memory = HistoryRow.createMemory();
  const forms = { clock, targetOf: keptTarget, requestIdOf: loggedRequestId };
  const recent = new ThreadRecent({ sizes, history: new HistoryRow(memory, 0), ...forms });
  const history = new History(memory, () => 0, clock.nowMs);
  const refusal = (id: string, changes: ExchangeChanges = {}, outcome: Outcome = "throttled") => {
    const decision = decisionOf({ outcome, policy, remaining: 0, resetMs: clock.nowMs + 1_000 });
    const refused = { status: 429, problem: "throttled", dispatchedMs: null, answeredMs: null } as const;
    return exchangeOf({ id, decision, endedMs: clock.nowMs, ...refused, ...changes });
  };
  const take = (): RecentBatch =>
    recent.take()[0] ?? { refusals: [], count: 0, keys: { keys: [], floor: 0 }, failures: [] };
  return { clock, recent, history, refusal, take };
}

const idsOf = ({ refusals }: RecentBatch): string[] => refusals.map(({ id }) => id);
const countsOf = ({ keys }: RecentBatch): number[] => keys.keys.map(({ count }) => count);

test("an admitted request is in the history alone, and nothing is handed over", () => {
  const { clock, recent, history } = open();
  recent.finish(exchangeOf({ id: "one" }), "/v2/x");
  clock.advance(stepMs);
  history.read(clock.nowMs);
  expect(history.view(clock.nowMs, 0).steps).toMatchObject([{ admitted: 1, refused: {} }]);
  expect(recent.take()).toEqual([]);
});

test.each<[string, Partial<ExchangeRecord>, Outcome, number[]]>([
  ["a policy has refused it", {}, "throttled", [1]],
  ["the token is missing", { problem: "no_token", status: 401 }, "admitted", []],
  ["the upstream has failed", { problem: "upstream_failed", status: 502 }, "admitted", []],
  ["its budget is used up", { problem: "too_many_refusals" }, "observed", []],
  ["the store is away", { problem: "store_unavailable", status: 503 }, "unavailable", []],
])("a refusal is kept, and is one of the policy only if that has refused it: %s", (_, changes, outcome, expected) => {
  const { recent, refusal, take } = open();
  recent.finish(refusal("one", changes, outcome), "/v2/x");
  const { problem: reason = "throttled", status = 429 } = changes;
  const batch = take();
  expect(batch.refusals).toMatchObject([{ id: "one", reason, status, target: "/v2/x", policy: policy.name }]);
  expect(countsOf(batch)).toEqual(expected);
});

describe("of a target, the path is kept as in the log", () => {
  test.each([
    ["/v2/me?token=secret", "/v2/me"],
    ["/v2/me?secret", "/v2/me"],
    ["/v2/me#secret", "/v2/me"],
    ["/v2/me;sid=secret", "/v2/me"],
    ["/v2/me%3ftoken=secret", "/v2/me"],
    ["http://user:secret@host/v2/me?secret", "/v2/me"],
    ["/v2/Bearer%20secret", "/v2/Bearer [redacted]"],
    [`/v2/${"x".repeat(300)}?secret`, `/v2/${"x".repeat(252)}`],
    ["/v2/é", "/v2/%E9"],
  ])("%s", (target, kept) => {
    const { recent, refusal, take } = open();
    const rawHeaders = ["Authorization", "Bearer secret", "Cookie", "secret"];
    recent.finish(refusal("parsed", { head: { target: "", rawHeaders } }), target);
    recent.finish(refusal("unread", { head: { target, rawHeaders } }), "");
    const batch = take();
    expect(batch.refusals.map((each) => each.target)).toEqual([kept, kept]);
    expect(JSON.stringify(batch)).not.toContain("secret");
  });
});

test("while the main thread takes nothing, no more is kept than of two seconds", () => {
  const { clock, recent, refusal, take } = open();
  const fault = { reason: "refused", code: null, address: null, id: "one" } as const;
  for (let second = 0; second < 10; second += 1) {
    for (let client = 0; client < 600; client += 1) recent.finish(refusal("refused", { client: `${client}` }), "/v2/x");
    for (let client = 0; client < 120; client += 1) {
      recent.finish(refusal("failed", { client: `${client}`, problem: "upstream_failed", fault }), "/v2/x");
    }
    clock.advance(1_000);
  }
  const batch = take();
  expect(batch.count).toBe(7_200);
  expect(idsOf(batch).filter((id) => id === "refused")).toHaveLength(1_000);
  expect(idsOf(batch).filter((id) => id === "failed")).toHaveLength(200);
  recent.finish(refusal("next"), "/v2/x");
  expect(idsOf(take())).toEqual(["next"]);
});

test("0 switches off the refusals or the keys, and a reload may do so", () => {
  const { recent, refusal, take } = open({ refusals: 0, keys: 10 });
  const taken = (id: string) => {
    recent.finish(refusal(id), "/v2/x");
    const batch = take();
    return [idsOf(batch), batch.count, countsOf(batch)];
  };
  expect(taken("one")).toEqual([[], 0, [1]]);
  recent.resize({ refusals: 5, keys: 10 });
  expect(taken("two")).toEqual([["two"], 1, [1]]);
  recent.resize({ refusals: 5, keys: 0 });
  expect(taken("three")).toEqual([["three"], 1, []]);
  recent.resize({ refusals: 0, keys: 0 });
  recent.finish(refusal("four"), "/v2/x");
  expect(recent.take()).toEqual([]);
});

test("of each client the first five in a second are kept, whenever they are taken, and all are counted", () => {
  const { clock, recent, refusal, take } = open();
  const refuse = (client: string, times: number) => {
    for (let i = 0; i < times; i += 1) recent.finish(refusal(`${client}${i}`, { client }), "/v2/x");
  };
  refuse("a", 8);
  refuse("b", 2);
  const first = take();
  expect([idsOf(first), first.count, countsOf(first)]).toEqual([["a0", "a1", "a2", "a3", "a4", "b0", "b1"], 10, [10]]);
  refuse("a", 2);
  refuse("b", 4);
  expect(idsOf(take())).toEqual(["b0", "b1", "b2"]);
  clock.advance(1_000);
  refuse("a", 1);
  expect(idsOf(take())).toEqual(["a0"]);
});

test("a million clients that are refused in a second make nothing grow, and each is counted", () => {
  const { recent, refusal, take, clock } = open();
  const exchange = refusal("one");
  const count = inFullOr(1_000_000, 100_000);
  for (let i = 0; i < count; i += 1) {
    const key = new CounterKey(0, 0, 0xffff, i, true);
    recent.finish(
      { ...exchange, client: `client-${i}`, decision: { ...exchange.decision, key, client: key } },
      "/v2/x",
    );
  }
  const batch = take();
  expect([batch.refusals.length, batch.count, batch.keys.keys.length]).toEqual([500, count, 1_000]);
  expect(batch.keys.floor).toBeLessThanOrEqual(count / 1_000);
  // A policy and a client that all have in common are posted once.
  expect(serialize(batch).length).toBeLessThan(400_000);
  clock.advance(1_000);
  recent.finish(refusal("two"), "/v2/x");
  expect(take()).toMatchObject({ refusals: [{ id: "two" }], count: 1, keys: { keys: [{ count: 1 }], floor: 0 } });
});

describe("of an upstream that fails", () => {
  const fault = { reason: "malformed", code: null, address: "10.0.0.1:80", id: "one" } as const;

  test("each failure is counted by reason and address, and requests are kept beside all that is refused", () => {
    const { recent, refusal, take } = open();
    for (let i = 0; i < 600; i += 1) recent.finish(refusal(`${i}`, { client: `client-${i}` }), "/v2/x");
    for (const address of ["10.0.0.1:80", "10.0.0.1:80", null]) recent.upstreamFailed({ ...fault, address });
    const changes = { problem: "upstream_failed", status: 502, fault, client: "client-1" } as const;
    for (let i = 0; i < 8; i += 1) recent.finish(refusal(`failed-${i}`, changes, "admitted"), "/v2/x");
    const batch = take();
    expect(batch.failures).toEqual([
      { reason: "malformed", address: "10.0.0.1:80", count: 2 },
      { reason: "malformed", address: null, count: 1 },
    ]);
    expect(idsOf(batch).slice(500)).toEqual(["failed-0", "failed-1", "failed-2", "failed-3", "failed-4"]);
    const { reason, code, address } = fault;
    expect(batch.refusals.at(-1)).toMatchObject({ reason: "upstream_failed", fault: { reason, code, address } });
    expect(recent.take()).toEqual([]);
  });

  test("a response that broke off is kept, too, and counts are handed over though nothing else is remembered", () => {
    const { recent, refusal, take } = open();
    recent.finish(refusal("one", { problem: null, status: 200, fault }, "admitted"), "/v2/x");
    expect(take().refusals).toMatchObject([{ id: "one", reason: null, status: 200, fault: { reason: "malformed" } }]);
    recent.resize({ refusals: 0, keys: 0 });
    recent.upstreamFailed(fault);
    recent.finish(refusal("two", { problem: null, status: 200, fault }, "admitted"), "/v2/x");
    expect(take()).toMatchObject({ refusals: [], count: 0, failures: [{ count: 1 }] });
  });
});

test("a key that is a hash is named by the subject, as it may be logged, and its policy by what continues it", () => {
  const { recent, refusal, take } = open();
  const exchange = refusal("one", { subject: `alice${"é".repeat(40)}` });
  const decision = { ...exchange.decision, key: new CounterKey(1, 2, 3, 4, false) };
  recent.finish({ ...exchange, decision }, "/v2/x");
  const key = { a: 1, b: 2, c: 3, d: 4, isAddress: false };
  const { a, b, c, d } = decision.client;
  const seen = { client: { a, b, c, d, isAddress: true }, subject: `alice${"é".repeat(29)}`, route: "/v2/" };
  const { name, key: parts, rate } = policy;
  const identity = { name, key: parts, rate: { kind: rate.kind } };
  expect(take().keys).toEqual({ keys: [{ policy: identity, key, count: 1, error: 0, seen }], floor: 0 });
});

test("one key of two policies is counted for each", () => {
  const { recent, refusal, take } = open();
  const exchange = refusal("one");
  const other = { ...exchange.decision, policy: { ...policy, name: "other" } };
  for (const decision of [exchange.decision, other, other]) recent.finish({ ...exchange, decision }, "/v2/x");
  expect(take().keys.keys.map(({ policy, count }) => [policy.name, count])).toEqual([
    [policy.name, 1],
    ["other", 2],
  ]);
});
