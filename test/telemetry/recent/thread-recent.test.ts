// What one thread remembers of an exchange, and what it never does: the query, credentials, anything of an admitted one.
import { describe, expect, test } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import type { ExchangeRecord } from "../../../src/core/exchange-record.ts";
import type { Outcome } from "../../../src/core/policy.ts";
import { keptTarget, loggedRequestId } from "../../../src/telemetry/log.ts";
import { History, HistoryRow } from "../../../src/telemetry/recent/history.ts";
import { stepMs } from "../../../src/telemetry/recent/steps.ts";
import { type RecentSizes, ThreadRecent } from "../../../src/telemetry/recent/thread-recent.ts";
import { FakeClock } from "../../support/clock.ts";
import { decisionOf } from "../../support/policy.ts";
import { type ExchangeChanges, exchangeOf, policy } from "../scrape.ts";

function open(sizes: RecentSizes = { refusals: 100, keys: 10 }) {
  const clock = new FakeClock();
  const memory = HistoryRow.createMemory();
  const recent = new ThreadRecent({
    ...{ sizes, clock, history: new HistoryRow(memory, 0) },
    ...{ targetOf: keptTarget, requestIdOf: loggedRequestId },
  });
  const history = new History(memory, false, () => 0, clock.nowMs);
  const refusal = (id: string, changes: ExchangeChanges = {}, outcome: Outcome = "throttled") => {
    const decision = decisionOf({ outcome, policy, remaining: 0, resetMs: clock.nowMs + 1_000 });
    const refused = { status: 429, problem: "throttled", dispatchedMs: null, answeredMs: null } as const;
    return exchangeOf({ id, decision, endedMs: clock.nowMs, ...refused, ...changes });
  };
  const find = (id: string) => {
    const answer = recent.answer({ kind: "last", of: { kind: "id", id }, limit: 1 });
    return answer.kind === "last" ? (answer.last.refusals[0] ?? null) : null;
  };
  const counts = () => {
    const answer = recent.answer({ kind: "refused", policy: policy.name });
    return answer.kind === "refused" ? answer.summary.keys.map(({ count }) => count) : [];
  };
  const sample = (isFirst = false) => {
    const answer = recent.answer({ kind: "sample", isFirst, limit: 10 });
    return answer.kind === "sample" ? { count: answer.refused.count, size: answer.refused.sample.length } : null;
  };
  return { clock, recent, history, refusal, find, counts, sample };
}

test("an admitted request is in the history alone, and takes no memory", () => {
  const { clock, recent, history, find, counts } = open();
  recent.finish(exchangeOf({ id: "one" }), "/v2/x");
  clock.advance(stepMs);
  history.read(clock.nowMs);
  expect(history.view(clock.nowMs, 0).steps).toMatchObject([{ admitted: 1, refused: {} }]);
  expect([find("one"), counts(), recent.bytes]).toEqual([null, [], { refusals: 0, keys: 0 }]);
});

test.each<[string, Partial<ExchangeRecord>, Outcome, number[]]>([
  ["a policy has refused it", {}, "throttled", [1]],
  ["the token is missing", { problem: "no_token", status: 401 }, "admitted", []],
  ["the upstream has failed", { problem: "upstream_failed", status: 502 }, "admitted", []],
  ["its budget is used up", { problem: "too_many_refusals" }, "observed", []],
  ["the store is away", { problem: "store_unavailable", status: 503 }, "unavailable", []],
])("a refusal is kept, and is one of the policy only if that has refused it: %s", (_, changes, outcome, expected) => {
  const { recent, refusal, find, counts } = open();
  recent.finish(refusal("one", changes, outcome), "/v2/x");
  const { problem: reason = "throttled", status = 429 } = changes;
  expect(find("one")).toMatchObject({ reason, status, target: "/v2/x", policy: policy.name });
  expect(counts()).toEqual(expected);
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
    const { recent, refusal, find } = open();
    const rawHeaders = ["Authorization", "Bearer secret", "Cookie", "secret"];
    recent.finish(refusal("parsed", { head: { target: "", rawHeaders } }), target);
    recent.finish(refusal("unread", { head: { target, rawHeaders } }), "");
    expect([find("parsed")?.target, find("unread")?.target]).toEqual([kept, kept]);
    expect(JSON.stringify([find("parsed"), find("unread")])).not.toContain("secret");
  });
});

test("0 switches off the refusals or the keys, and a reload may do so; what keeps its size keeps what it has", () => {
  const { recent, refusal, find, counts, sample } = open({ refusals: 0, keys: 10 });
  recent.finish(refusal("one"), "/v2/x");
  expect([find("one"), counts(), recent.bytes.refusals, sample()]).toEqual([null, [1], 0, { count: 0, size: 0 }]);
  recent.resize({ refusals: 5, keys: 10 });
  recent.finish(refusal("two"), "/v2/x");
  expect([find("two")?.id, counts(), sample()]).toEqual(["two", [2], { count: 1, size: 1 }]);
  recent.resize({ refusals: 5, keys: 0 });
  recent.finish(refusal("three"), "/v2/x");
  expect([find("two")?.id, find("three")?.id, counts()]).toEqual(["two", "three", []]);
  recent.resize({ refusals: 6, keys: 0 });
  expect([find("two"), recent.bytes]).toEqual([null, { refusals: 0, keys: 0 }]);
  recent.finish(refusal("four"), "/v2/x");
  expect(sample()).toEqual({ count: 1, size: 1 });
});

test("a sample is of what was refused since the one before; the first of a listener is empty", () => {
  const { recent, refusal, sample } = open();
  for (let i = 0; i < 12; i += 1) recent.finish(refusal(`${i}`), "/v2/x");
  expect([sample(true), sample()]).toEqual([
    { count: 0, size: 0 },
    { count: 0, size: 0 },
  ]);
  for (let i = 0; i < 12; i += 1) recent.finish(refusal(`${i}`), "/v2/x");
  expect([sample(), sample()]).toEqual([
    { count: 12, size: 10 },
    { count: 0, size: 0 },
  ]);
});

test("a key that is a hash is named by the subject, as it may be logged", () => {
  const { recent, refusal } = open();
  const exchange = refusal("one", { subject: "alice" });
  const decision = { ...exchange.decision, key: new CounterKey(1, 2, 3, 4, false) };
  recent.finish({ ...exchange, decision }, "/v2/x");
  expect(recent.answer({ kind: "refused", policy: policy.name })).toMatchObject({
    summary: { keys: [{ count: 1, key: { a: 1, isAddress: false }, seen: { subject: "alice", route: "/v2/" } }] },
  });
});
