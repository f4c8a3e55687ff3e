// The limiter beside its model, whatever the policies are and whatever happens: requests come, are shown what is left, end and
// are forgiven, questions come together, time passes, people set rules, and reloads change the limits.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { QuotaRequest } from "../../src/core/limiter.ts";
import type { Decision, Held, KeyPart, Policy } from "../../src/core/policy.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { SipHash } from "../../src/limits/table/sip-hash.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { askedRequest, clientOf, identityOf, limitedRequest } from "../support/limited-request.ts";
import { ruleOf } from "../support/rule.ts";
import { runs, scaled } from "../support/runs.ts";
import { justBefore } from "./float.ts";
import { type Answer, type ModelQuestion, type ModelRequest, PolicyModel, type Told, unitsIn } from "./policy-model.ts";
import { type Scenario, type Step, scenarios, tokens } from "./policy-steps.ts";
import { reusedTable } from "./small-table.ts";

/** The same in each run: of many keys, a few share the marks by which the table knows what was forgiven. */
const hash = new SipHash(Buffer.alloc(16, 7));
const names = { ipv6Prefix: 64, listed: null, routes: ["/v2/"] };

/** What must have happened in many scenarios. */
const seen = { refused: 0, waits: 0, promises: 0, forgiven: 0, questions: 0, charged: 0 };

/** The limiter and the model side by side. */
class Trial {
  readonly #clock = new FakeClock();
  readonly #model = new PolicyModel();
  readonly #runtimeRules = new RulesInForce();
  readonly #open: { readonly held: Held; readonly exchange: number }[] = [];
  readonly #largest = new Map<string, number>();
  readonly #options: Pick<Scenario, "tokensAreVerified" | "enforcement">;
  /** Sums with the wall clock are exact in steps of 1/64 ms only. */
  readonly #isByCalendar: boolean;
  /** Instants that are close together are one. */
  readonly #isInCells: boolean;
  #limiter: PolicyLimiter;
  #resetMs = 0;
  #client = "192.0.2.1";

  constructor({ policies, startMs, ...options }: Omit<Scenario, "script">) {
    this.#options = options;
    this.#isByCalendar = policies.some(({ rate }) => rate.kind === "calendar");
    this.#isInCells = policies.some(({ limit }) => limit > 10_000);
    if (!this.#isByCalendar) this.#clock.nowMs = startMs;
    const isSecond = ({ kind }: KeyPart) =>
      kind === "subject" || kind === "claim" || (kind === "token" && options.tokensAreVerified);
    this.#model.isSecond = ({ key }) => key.some(isSecond);
    this.#model.isShadow = ({ mode }) => mode === "shadow" || options.enforcement === "shadow";
    this.#model.policies = policies;
    this.#limiter = this.#create(policies, null);
  }

  async do(step: Step): Promise<void> {
    switch (step.kind) {
      case "request":
        this.#client = step.request.client;
        for (let i = 1; i < step.times; i += 1) this.#request(step.request);
        return this.#waitFor(step.request, this.#request(step.request), step.waits);
      case "end":
        return this.#end(step.which, step.status);
      case "endAll":
        while (this.#open.length > 0) this.#end(0, step.status);
        return;
      case "gap":
        return this.#pass(step.ms);
      case "show":
        this.#client = step.client;
        return;
      case "quota":
        return this.#askAll(step.questions);
      case "forgive":
        return await this.#forgive(step.client);
      case "rule":
        return this.#setRule(step);
      case "reload":
        return this.#reload(step);
    }
  }

  #request(request: ModelRequest): Answer {
    const now = this.#now;
    const decision = this.#decide(request, now.nowMs);
    const answer = this.#model.take(request, now);
    this.#same(toldOf(decision), answer.shown);
    this.#resetMs = answer.shown.resetMs;
    const all = decision.others?.map(toldOf) ?? [];
    if (answer.all.length > 1) for (const [i, told] of answer.all.entries()) this.#same(all[i], told);
    else if (decision.others !== null) throw new Error("a list of one policy");
    this.#keepsBounds();
    this.#counts();
    if (answer.refusing.length > 0) seen.refused += 1;
    if (answer.mayEndSoon) seen.promises += 1;
    if ((decision.held !== null) !== this.#model.holds(answer.exchange)) throw new Error("held for another exchange");
    if (decision.held !== null) this.#open.push({ held: decision.held, exchange: answer.exchange });
    return answer;
  }

  #end(which: number, status: number): void {
    const [exchange] = this.#open.splice(which, 1);
    if (exchange === undefined) return;
    exchange.held.end(status);
    this.#model.end(exchange.exchange, status);
  }

  #pass(gap: Extract<Step, { kind: "gap" }>["ms"]): void {
    const clock = this.#clock;
    if (typeof gap === "string") {
      if (this.#isInCells || this.#resetMs <= clock.nowMs) return;
      const before = this.#isByCalendar ? this.#resetMs - 1 / 64 : justBefore(this.#resetMs);
      clock.nowMs = Math.max(clock.nowMs, gap === "to the reset" ? this.#resetMs : before);
      return;
    }
    const rate = this.#model.policies.find((each) => each.rate.kind === "sliding")?.rate;
    const ms = typeof gap === "number" ? gap : gap.ofWindow * (rate?.kind === "sliding" ? rate.windowMs : 60_000);
    // At the end of a window, nobody knows which instant of a cell expires.
    if (this.#isInCells && ms !== 7_000 && ms !== 61_000) clock.advance(ms % 5);
    else clock.advance(this.#isByCalendar ? Math.round(64 * ms) / 64 : ms);
  }

  /** What the last client is shown. */
  looks(): void {
    const now = this.#now;
    this.#same(toldOf(this.#limiter.show(clientOf(this.#client), now.nowMs)), this.#model.show(this.#client, now));
  }

  #askAll(questions: readonly ModelQuestion[]): void {
    const now = this.#now;
    const quotas = this.#limiter.forQuotas();
    const asked = questions.filter(({ policy }) => policy === null || quotas.policyNames.includes(policy));
    if (asked.length === 0 || quotas.policyNames.length === 0) return;
    const decisions = decidedAll(quotas.askAll(asked.map(quotaOf), now.nowMs));
    const refused = this.#model.askAll(asked, now);
    expect(decisions.map(({ outcome }) => outcome === "throttled")).toEqual(refused);
    for (const [i, { policy, outcome, remaining }] of decisions.entries()) {
      const { request } = asked[i] as ModelQuestion;
      const isAsked = outcome === "admitted" || outcome === "throttled";
      if (isAsked && !this.#model.isShadow(policy)) expect(remaining).toBe(this.#model.leftOf(policy, request, now));
    }
    this.#keepsBounds();
    this.#counts();
    seen.questions += 1;
    if (!refused.includes(true)) seen.charged += 1;
  }

  /** Not of several keys beside units that are held: those of another key may share their marks, and stay charged. */
  async #forgive(client: string): Promise<void> {
    const { policies } = this.#model;
    if (policies.length > 1 && policies.some(({ chargeStatuses }) => chargeStatuses !== null)) return;
    const expected = this.#model.forgive(client, this.#now);
    const forgiven = await this.#limiter.forgive({ kind: "client", value: client }, names);
    for (const { policy, units } of forgiven?.policies ?? []) {
      const { rate } = this.#model.policies.find(({ name }) => name === policy) as Policy;
      // What a period that is over has counted is forgotten, too.
      if (rate.kind === "sliding") expect([policy, units]).toEqual([policy, expected.get(policy)]);
      if (units > 0) seen.forgiven += 1;
    }
  }

  #setRule({ client, which, limit }: Extract<Step, { kind: "rule" }>): void {
    const name = `policy ${which}`;
    const id = `${name} ${client}`;
    if (limit === null) {
      this.#model.rules.delete(id);
      this.#runtimeRules.apply({ set: [], removed: [id] });
      return;
    }
    this.#model.rules.set(id, limit);
    const rule = ruleOf(id, { kind: "client", value: client }, { action: "limit", policy: name, limit });
    this.#runtimeRules.apply({ set: [rule], removed: [] });
  }

  #reload({ spare, isShorter }: Extract<Step, { kind: "reload" }>): void {
    const policies = this.#model.policies.map((policy, i): Policy => {
      const { rate, cost } = policy;
      const isChanged = isShorter && rate.kind === "sliding" && !this.#isInCells;
      return {
        ...policy,
        limit: this.#isInCells ? policy.limit : cost + (spare[i] ?? 0),
        // What has expired by a longer window may be forgotten.
        rate: isChanged ? { ...rate, windowMs: Math.max(1, rate.windowMs / 2) } : rate,
      };
    });
    this.#model.policies = policies;
    this.#limiter = this.#create(policies, this.#limiter);
  }

  /** Waits as long as the refusal has told, if one policy alone has refused. */
  #waitFor(request: ModelRequest, { refusing, shown, mayEndSoon }: Answer, waits: boolean): void {
    const [policy] = refusing;
    if (!waits || policy === undefined || refusing.length > 1 || mayEndSoon || this.#isInCells) return;
    if (policy.rate.kind === "concurrency" || shown.limit < policy.cost) return;
    seen.waits += 1;
    this.#clock.nowMs = policy.rate.kind === "sliding" ? justBefore(shown.resetMs) : shown.resetMs - 1 / 64;
    const early = this.#request(request);
    if (early.refusing.length === 0) throw new Error(`admitted before ${shown.resetMs}`);
    this.#clock.nowMs = shown.resetMs;
    const late = this.#request(request);
    if (late.refusing.includes(policy)) throw new Error(`refused at ${shown.resetMs}`);
    // A refusal in the second step has charged the first, which may refuse now.
    if (!this.#model.isSecond(policy) && !late.refusing.every(this.#model.isSecond))
      throw new Error("refused by another");
  }

  #decide(parts: ModelRequest, nowMs: number): Decision {
    const { request, head, identity } = requestOf(parts);
    const first = decided(this.#limiter.ask(askedRequest(request, head, nowMs), "anonymous"));
    if (first.outcome === "throttled") return first;
    return decided(this.#limiter.ask(askedRequest(request, head, nowMs, identity, first), "identified"));
  }

  /** In every window that ends now, counted over the whole past: those that end elsewhere hold no more than one before. */
  #keepsBounds(): void {
    const now = this.#now;
    for (const policy of this.#model.policies) {
      const ruled = [...this.#model.rules].flatMap(([id, limit]) => (id.startsWith(`${policy.name} `) ? [limit] : []));
      const limits = [policy.limit, ...policy.overrides.map(({ limit }) => limit), ...ruled];
      const most = Math.max(this.#largest.get(policy.name) ?? 0, ...limits);
      this.#largest.set(policy.name, most);
      const charges = this.#model.charges.get(policy.name) ?? [];
      const last = charges.at(-1);
      if (last === undefined) continue;
      const used = unitsIn(this.#model.counted(policy, last.key, now));
      if (used > most) throw new Error(`${used} units of ${most}`);
      const { rate } = policy;
      if (rate.kind !== "sliding") continue;
      const young = charges.filter(
        (each) => each.key === last.key && !each.isGone && now.nowMs < each.nowMs + rate.windowMs,
      );
      if (unitsIn(young) > most) throw new Error(`${unitsIn(young)} units of ${most} in the window that ends now`);
    }
  }

  #counts(): void {
    for (const { policy, outcomes } of this.#limiter.stats()) {
      const counted = this.#model.outcomes.get(policy.name);
      for (const [outcome, count] of Object.entries(outcomes)) {
        if (count !== ((counted as Record<string, number>)?.[outcome] ?? 0)) expect(outcomes).toEqual(counted);
      }
    }
  }

  /** Compared by hand: a million calls of expect() would take longer than everything else. */
  #same(actual: Told | undefined, expected: Told): void {
    const isSame =
      actual !== undefined &&
      actual.outcome === expected.outcome &&
      actual.name === expected.name &&
      actual.limit === expected.limit &&
      actual.remaining === expected.remaining &&
      (actual.resetMs === expected.resetMs || (this.#isInCells && Math.abs(actual.resetMs - expected.resetMs) <= 15));
    if (!isSame) expect(actual).toEqual(expected);
  }

  get #now() {
    return { nowMs: this.#clock.nowMs, wallMs: this.#clock.wallMs() };
  }

  #create(policies: readonly Policy[], previous: PolicyLimiter | null): PolicyLimiter {
    const options = { ...this.#options, clock: this.#clock, listAll: true, hash, previous };
    if (previous === null) {
      return new PolicyLimiter(policies, { ...options, table: reusedTable(), runtimeRules: this.#runtimeRules });
    }
    const next = new PolicyLimiter(policies, options);
    previous.replacedBy(next);
    return next;
  }
}

test("equals the model, whatever the policies are and whatever happens", async () => {
  await fc.assert(
    fc.asyncProperty(scenarios, async ({ script, ...scenario }) => {
      const trial = new Trial(scenario);
      for (const step of script) {
        await trial.do(step);
        trial.looks();
      }
    }),
    runs(20_000, 80),
  );
  expect(seen.refused).toBeGreaterThan(scaled(100_000, 80));
  expect(seen.waits).toBeGreaterThan(scaled(8_000, 80));
  expect(seen.promises).toBeGreaterThan(scaled(20_000, 80));
  expect(seen.forgiven).toBeGreaterThan(scaled(6_000, 80));
  expect(seen.questions - seen.charged).toBeGreaterThan(scaled(5_000, 80));
  expect(seen.charged).toBeGreaterThan(scaled(10_000, 80));
});

function requestOf({ client, method, target, token, plan, subject }: ModelRequest) {
  const authorization = token === null ? [] : ["Authorization", `Bearer ${tokens.get(token)}`];
  const rawHeaders = [...authorization, ...(plan === null ? [] : ["X-Plan", plan])];
  const claims = new Map(subject === null ? [] : [["org", subject]]);
  const identity = token === null ? null : identityOf({ tokenDigest: token, subject, claims });
  return { ...limitedRequest({ client, method, target, rawHeaders }), identity };
}

function quotaOf({ request: parts, policy, hits }: ModelQuestion): QuotaRequest {
  const { request: parsed, head, identity } = requestOf(parts);
  return { parsed, head, identity, isVerified: identity !== null, policy, hits };
}

/** The counters of this process answer at once. */
function decidedAll<T>(decisions: readonly T[] | Promise<readonly T[]>): readonly T[] {
  if (decisions instanceof Promise) throw new Error("the decisions come later");
  return decisions;
}

function toldOf({ outcome, policy: { name }, limit, remaining, resetMs }: Decision): Told {
  return { outcome, name, limit, remaining, resetMs };
}
