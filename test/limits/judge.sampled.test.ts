// The judge beside a naive log of what the policies before would have admitted.
import { expect, test } from "vitest";
import { localReplies, preflightReply } from "../../src/core/local-reply.ts";
import type { Decision, Policy } from "../../src/core/policy.ts";
import { findQuotaRefusal, type Verdict } from "../../src/core/request-head.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { createJudgeMemory, Judge, JudgedSample } from "../../src/limits/judge.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import { SipHash } from "../../src/limits/table/sip-hash.ts";
import { FakeClock } from "../support/clock.ts";
import { askedRequest, clientOf, identityOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { seededRandom } from "../support/random.ts";
import { spread } from "../support/runs.ts";

const windowMs = 10_000;
const secret = new Uint8Array(16).fill(7);

function stage(policies: readonly Policy[]) {
  const clock = new FakeClock();
  const table = new CounterTable(createTableMemory(minTableBytes), { secret });
  const hash = new SipHash(secret);
  const runtimeRules = new RulesInForce();
  const memory = createJudgeMemory(minTableBytes);
  const before = new PolicyLimiter(policies, { clock, table, hash, runtimeRules });
  const begin = (tried: readonly Policy[], replicas = 1) => {
    const limiter = new PolicyLimiter(tried, { clock, hash, previous: before, keep: policies });
    before.replacedBy(limiter);
    const judge = new Judge({
      before: { policies, enforcement: "on", basePath: "/", tokensAreVerified: true },
      ...{ memory, table, placeSecret: secret, hash, clock, runtimeRules, replicas },
      tried: limiter,
    });
    return { limiter, judge };
  };
  const sample = new JudgedSample(memory.sample);
  return { clock, before, begin, tally: () => sample.tally };
}

function verdictOf(parsed: Verdict["parsed"], decision: Decision, others: Partial<Verdict> = {}): Verdict {
  return { parsed, decision, auth: "skipped", identity: null, localReply: findQuotaRefusal(decision), ...others };
}

test.each(Array.from({ length: 30 }, (_, seed) => seed))("judges as a naive log does, seed %i", (seed) => {
  const random = seededRandom(seed);
  const upTo = (most: number): number => Math.floor(random() * most);
  const [limit, tried, cost] = [1 + upTo(30), 1 + upTo(30), 1];
  const { clock, before, begin, tally } = stage([slidingPolicy({ limit, windowMs })]);
  const clients = Array.from({ length: 1 + upTo(6) }, (_, i) => limitedRequest({ client: `192.0.2.${i}` }));
  const admitted = new Map<string, number[]>();
  /** Whether the policy before would have admitted it. */
  const charge = (client: string): boolean => {
    const live = (admitted.get(client) ?? []).filter((at) => clock.nowMs - at < windowMs);
    const fits = live.length + cost <= limit;
    admitted.set(client, fits ? [...live, clock.nowMs] : live);
    return fits;
  };
  const each = (count: number, ask: (one: (typeof clients)[number]) => void): void => {
    for (let i = 0; i < count; i += 1) {
      clock.advance(upTo(600));
      ask(clients[upTo(clients.length)] as (typeof clients)[number]);
    }
  };
  each(upTo(150), ({ request, head }) => {
    const { outcome } = before.ask(askedRequest(request, head, clock.nowMs), "anonymous") as Decision;
    expect(outcome === "admitted").toBe(charge(request.client));
  });
  clock.advance(1);
  const { limiter, judge } = begin([slidingPolicy({ limit: tried, windowMs })]);
  const expected = { judged: 0, refused: 0 };
  each(300, ({ request, head }) => {
    const decision = limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous") as Decision;
    judge.judge(head, verdictOf(request, decision), clock.nowMs);
    if (!charge(request.client)) return;
    expected.judged += 1;
    if (decision.outcome === "throttled") expected.refused += 1;
  });
  expect(tally()).toEqual(expected);
});

/** By client, on the paths below a folder; null: on all. */
const under = (folder: string | null, policy: Partial<Policy> & { limit: number }): Policy =>
  slidingPolicy({ windowMs, match: { paths: folder === null ? [] : [folder], methods: [] }, ...policy });

const onPay = under("/v2/pay/", { limit: 50 });
const slots: Policy = { ...under(null, { limit: 1_000, name: "slots" }), rate: { kind: "concurrency" } };
const guesses = under(null, { limit: 1_000, name: "guesses", chargeStatuses: [401] });

test.each<[string, Policy, readonly Policy[]]>([
  ["no policy matches", onPay, []],
  ["exempt by both", under(null, { limit: 50, exempt: ["198.51.100.0/24"] }), []],
  ["limited in shadow mode alone", onPay, [under(null, { limit: 1, name: "tried", mode: "shadow" })]],
  ["limited by slots alone", onPay, [slots]],
  ["limited by a charge alone", onPay, [guesses]],
])("requests that no policy limits hide no harm, however many: %s", (_, policy, others) => {
  const { clock, before, begin, tally } = stage([policy, ...others]);
  const { limiter, judge } = begin([{ ...policy, limit: 1 }, ...others]);
  const ask = (client: string, target: string): void => {
    const { request, head } = limitedRequest({ client, target });
    const decision = limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous") as Decision;
    decision.held?.end(200);
    judge.judge(head, verdictOf(request, decision), clock.nowMs);
  };
  // Many, also of one address.
  for (let i = 0; i < 1_000; i += 1) ask(`198.51.100.${i % 7}`, "/v2/open/x");
  for (let i = 0; i < 21; i += 1) ask("192.0.2.1", "/v2/pay/x");
  expect(tally()).toEqual({ judged: 21, refused: 20 });
  expect(before.slots.length).toBe(1 + others.length);
});

test("a preflight that the gateway answers is judged by no limit, and charged by none of those before", () => {
  const { clock, begin, tally } = stage([slidingPolicy({ limit: 3, windowMs })]);
  const { limiter, judge } = begin([slidingPolicy({ limit: 2, windowMs })]);
  const { request, head } = limitedRequest({ client: "192.0.2.1" });
  for (let i = 0; i < 3; i += 1) {
    const shown = limiter.show(request, clock.nowMs, true);
    judge.judge(head, verdictOf(request, shown, { localReply: preflightReply("GET", []) }), clock.nowMs);
    judge.judge(
      head,
      verdictOf(request, limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous") as Decision),
      clock.nowMs,
    );
  }
  expect(tally()).toEqual({ judged: 3, refused: 1 });
});

test.each(spread([...Array(200).keys()], 20))(
  "of any policies before and on trial, those count that limit the request, seed %i",
  (seed) => {
    const random = seededRandom(seed);
    const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
    const draw = (): Policy[] =>
      ["one", "two", "three"].slice(0, 1 + Math.floor(random() * 3)).map((name) => ({
        ...under(pick([null, "/v2/pay/", "/v2/read/"]), { name, limit: 1 + Math.floor(random() * 20) }),
        ...pick<Partial<Policy>>([
          {},
          {},
          { mode: "shadow" },
          { exempt: ["192.0.2.1"] },
          { rate: slots.rate },
          { chargeStatuses: guesses.chargeStatuses },
        ]),
      }));
    const [old, tried] = [draw(), draw()];
    const { clock, begin, tally } = stage(old);
    const { limiter, judge } = begin(tried);
    const limiting = (policies: readonly Policy[], client: string, target: string): readonly Policy[] =>
      policies.filter(
        ({ match, exempt, mode, rate, chargeStatuses }) =>
          match.paths.every((path) => target.startsWith(path)) &&
          !exempt.includes(client) &&
          ![mode, rate.kind].some((each) => each === "shadow" || each === "concurrency") &&
          chargeStatuses === null,
      );
    const admitted: { readonly key: string; readonly atMs: number }[] = [];
    const expected = { judged: 0, refused: 0 };
    for (let i = 0; i < 250; i += 1) {
      clock.advance(Math.floor(random() * 300));
      const [client, target] = [
        pick(["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
        pick(["/v2/pay/x", "/v2/read/x", "/v2/open/x"]),
      ];
      const { request, head } = limitedRequest({ client, target });
      const decision = limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous") as Decision;
      decision.held?.end(200);
      judge.judge(head, verdictOf(request, decision), clock.nowMs);
      const before = limiting(old, client, target).map(({ name, limit }) => ({ key: `${name} ${client}`, limit }));
      const used = (key: string): number =>
        admitted.filter((each) => each.key === key && clock.nowMs - each.atMs < windowMs).length;
      if (before.some(({ key, limit }) => used(key) >= limit)) continue;
      for (const { key } of before) admitted.push({ key, atMs: clock.nowMs });
      if (before.length + limiting(tried, client, target).length === 0) continue;
      expected.judged += 1;
      if (decision.outcome === "throttled") expected.refused += 1;
    }
    expect(tally()).toEqual(expected);
  },
);

test("a policy that another one has replaced is judged by what it had counted", () => {
  const { clock, before, begin, tally } = stage([slidingPolicy({ limit: 10, windowMs })]);
  const { request, head } = limitedRequest();
  for (let i = 0; i < 8; i += 1) before.ask(askedRequest(request, head, clock.nowMs), "anonymous");
  clock.advance(1);
  const { limiter, judge } = begin([{ ...slidingPolicy({ limit: 1, windowMs }), name: "other" }]);
  for (let i = 0; i < 5; i += 1) {
    judge.judge(
      head,
      verdictOf(request, limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous") as Decision),
      clock.nowMs,
    );
  }
  expect(tally()).toEqual({ judged: 2, refused: 1 });
});

test("limits of others and of the verified are judged by what the token check has found", () => {
  const bySubject: Policy = {
    ...slidingPolicy({ limit: 3, windowMs }),
    ...{ name: "by-subject", key: [{ kind: "subject" }], who: "verified" },
  };
  const ofOthers: Policy = { ...slidingPolicy({ limit: 2, windowMs }), name: "others", who: "others" };
  const { clock, begin, tally } = stage([bySubject, ofOthers]);
  const { judge } = begin([bySubject, ofOthers]);
  const { request, head } = limitedRequest();
  const decision = { ...new PolicyLimiter([bySubject]).show(clientOf("192.0.2.1"), 0), outcome: "admitted" } as const;
  const judged = (others: Partial<Verdict>, times: number): number => {
    const from = tally().judged;
    for (let i = 0; i < times; i += 1) judge.judge(head, verdictOf(request, decision, others), clock.nowMs);
    return tally().judged - from;
  };
  const identity = identityOf({ subject: "alice" });
  expect(judged({ auth: "accepted", identity }, 5)).toBe(3);
  expect(judged({ auth: "invalid", localReply: localReplies.invalidToken }, 5)).toBe(2);
  // Its token was not checked, so nobody knows which limit would have held.
  expect(judged({ auth: "skipped" }, 5)).toBe(5);
});

test("a gateway judges by its share of the limits", () => {
  const { clock, begin, tally } = stage([slidingPolicy({ limit: 10, windowMs })]);
  const { limiter, judge } = begin([slidingPolicy({ limit: 1, windowMs })], 3);
  const { request, head } = limitedRequest();
  for (let i = 0; i < 10; i += 1) {
    judge.judge(
      head,
      verdictOf(request, limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous") as Decision),
      clock.nowMs,
    );
  }
  expect(tally()).toEqual({ judged: 3, refused: 2 });
});

test("refusals for other reasons than a limit, requests outside of all routes, and what comes after the end are not judged", () => {
  const { clock, begin, tally } = stage([slidingPolicy({ limit: 10, windowMs })]);
  const { limiter, judge } = begin([slidingPolicy({ limit: 1, windowMs })]);
  const { request, head } = limitedRequest();
  const decision = limiter.ask(askedRequest(request, head, clock.nowMs), "anonymous") as Decision;
  const unavailable: Decision = { ...decision, outcome: "unavailable" };
  const ofSlots: Decision = {
    ...decision,
    outcome: "throttled",
    policy: { ...decision.policy, rate: { kind: "concurrency" } },
  };
  for (const verdict of [
    verdictOf(request, decision, { localReply: localReplies.tooManyRefusals }),
    verdictOf(request, unavailable),
    verdictOf(request, ofSlots),
    verdictOf({ ...request, route: null }, decision),
  ]) {
    judge.judge(head, verdict, clock.nowMs);
  }
  expect(tally()).toEqual({ judged: 0, refused: 0 });
  judge.judge(head, verdictOf(request, decision), clock.nowMs);
  judge.end();
  judge.judge(head, verdictOf(request, decision), clock.nowMs);
  expect(tally()).toEqual({ judged: 1, refused: 0 });
});
