// A key that its own limit has exhausted is not forgotten within its window, though that is below the limit of its policy: by
// an override, a rule that was set later, or a reload, after a restart too. The table is full of keys with more units.
import { describe, expect, test } from "vitest";
import type { CounterKey } from "../../src/core/counter-key.ts";
import type { LimitOverride, Policy } from "../../src/core/policy.ts";
import type { Rule } from "../../src/core/rules.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import { rulesOf } from "../../src/limits/table/key-log.ts";
import { recordsOf } from "../../src/limits/table/maintenance.ts";
import { SipHash } from "../../src/limits/table/sip-hash.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { counterKeyOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { askSliding } from "./asking.ts";
import { addressAt, smallTable } from "./small-table.ts";

const windowMs = 60_000;
/** Room for some 700 keys. */
const bytes = 64 * 1024;
const [clients, flood, ofFlood] = [20, 1_200, 6];
const network = "203.0.113.0/24";
const lower = (limit: number): LimitOverride => ({ part: "client", value: network, limit });
const policyOf = (options: Partial<Policy> = {}): Policy => slidingPolicy({ limit: 100, windowMs, ...options });
const ruleOf = (limit: number): Rule => ({
  ...({ id: "r", about: { kind: "client", value: network }, action: "limit", policy: "per-ip", limit } as const),
  ...{ setMs: 0, endsMs: 1e9, note: "", setBy: "socket", revision: 1 },
});

const some = limitedRequest();
const requestOf = (client: string, token: string) => ({
  request: { ...some.request, client, counterKey: counterKeyOf(client) },
  head: { ...some.head, rawHeaders: ["Authorization", `Bearer ${token}`] },
});
const own = Array.from({ length: clients }, (_, i) => requestOf(`203.0.113.${i}`, `own-${i}`));
const others = Array.from({ length: flood }, (_, i) => requestOf(addressAt(i), `other-${i}`));

class Stage {
  readonly runtimeRules = new RulesInForce();
  readonly table: CounterTable;
  limiter: PolicyLimiter;
  readonly #clock = new FakeClock();
  readonly #hash: SipHash;

  constructor(policy: Policy, { table = smallTable({}, bytes), hash = new SipHash(Buffer.alloc(16, 3)) } = {}) {
    this.table = table;
    this.#hash = hash;
    const { runtimeRules } = this;
    this.limiter = new PolicyLimiter([policy], { clock: this.#clock, table, hash, runtimeRules });
  }

  /** Each client asks so often, with a token of its own. Returns how many requests were admitted. */
  ask(times: number, nowMs: number): number {
    let admitted = 0;
    for (const each of own) admitted += this.#take(each, times, nowMs);
    return admitted;
  }

  flood(nowMs: number): void {
    for (const each of others) this.#take(each, ofFlood, nowMs);
    expect(this.limiter.counterFigures().policies[0]?.evictedLive).toBeGreaterThan(200);
  }

  reload(policy: Policy): void {
    const next = new PolicyLimiter([policy], { clock: this.#clock, previous: this.limiter });
    this.limiter.replacedBy(next);
    this.limiter = next;
  }

  /** A gateway with what a snapshot of this one has. */
  restarted(policy: Policy): Stage {
    const table = smallTable({}, bytes);
    for (let i = 0; i < this.table.maintenance.shardCount; i += 1)
      for (const record of recordsOf(this.table.maintenance.copyShard(i) as Int32Array))
        expect(table.maintenance.restore(record)).toBe(true);
    return new Stage(policy, { table, hash: this.#hash });
  }

  #take({ request, head }: ReturnType<typeof requestOf>, times: number, nowMs: number): number {
    let admitted = 0;
    for (let i = 0; i < times; i += 1)
      if (decided(this.limiter.decide(request, head, nowMs)).outcome === "admitted") admitted += 1;
    return admitted;
  }
}

describe.each<[string, Partial<Policy>, number]>([
  ["a window", {}, 1],
  ["a window, several units", {}, 4],
  ["a cost", { cost: 3 }, 1],
  ["cells of a window", { limit: 100_000 }, 1],
  ["a period", { rate: { kind: "calendar", per: "day", timezone: "UTC" } }, 1],
  ["units that are held", { chargeStatuses: [401] }, 1],
])("%s", (_, options, times) => {
  const limit = (options.cost ?? 1) * times;
  const policy = policyOf(options);
  const overridden = policyOf({ ...options, overrides: [lower(limit)] });

  function expectKept(stage: Stage): void {
    stage.flood(100);
    const { outcomes } = stage.limiter.stats()[0] as { outcomes: { admitted: number } };
    const before = outcomes.admitted;
    stage.ask(1, 200);
    expect(outcomes.admitted - before).toBe(0);
  }

  test("by an override", () => {
    const stage = new Stage(overridden);
    expect(stage.ask(times, 0)).toBe(clients * times);
    expectKept(stage);
  });

  test("by a rule that was set after the last request", () => {
    const stage = new Stage(policy);
    stage.ask(times, 0);
    stage.runtimeRules.apply({ set: [ruleOf(limit)], removed: [] });
    expectKept(stage);
  });

  test("by a reload", () => {
    const stage = new Stage(policy);
    stage.ask(times, 0);
    stage.reload(overridden);
    expectKept(stage);
  });

  test("after a restart from a snapshot", () => {
    const stage = new Stage(overridden);
    stage.ask(times, 0);
    expectKept(stage.restarted(overridden));
  });
});

test("a key that is no address is kept after a restart, too", () => {
  const policy = policyOf({ key: [{ kind: "token" }], overrides: [lower(2)] });
  const stage = new Stage(policy);
  expect(stage.ask(3, 0)).toBe(2 * clients);
  const restarted = stage.restarted(policy);
  restarted.flood(100);
  expect(restarted.ask(1, 200)).toBe(0);
});

test("a key with more units than a rule leaves it is kept when some have expired", () => {
  const stage = new Stage(policyOf());
  for (let i = 0; i < 5; i += 1) stage.ask(1, i * 10_000);
  stage.runtimeRules.apply({ set: [ruleOf(3)], removed: [] });
  expect(stage.ask(1, 50_000)).toBe(0);
  stage.flood(windowMs + 5_000);
  expect(stage.ask(1, windowMs + 6_000)).toBe(0);
});

test("a key that its own limit leaves something is forgotten", () => {
  const stage = new Stage(policyOf({ overrides: [lower(3)] }));
  stage.ask(2, 0);
  stage.flood(100);
  expect(stage.ask(3, 200)).toBeGreaterThan(2 * clients);
});

test("a key is kept that has used its share, while a store that gateways share is away", () => {
  const table = smallTable({}, bytes);
  const counters = askSliding(table, 0, rulesOf(policyOf()));
  const take = (key: CounterKey, share: number): boolean => {
    counters.select(key, key);
    const fits = counters.ask(share, 1, 0);
    // What is charged counts against the whole limit when the store is back.
    counters.asked.limit = 100;
    if (fits) counters.charge();
    return fits;
  };
  const keys = own.map(({ request }) => request.counterKey);
  for (const key of keys) expect(take(key, 1)).toBe(true);
  for (const { request } of others) for (let k = 0; k < ofFlood; k += 1) take(request.counterKey, 100);
  expect(keys.filter((key) => take(key, 1))).toEqual([]);
});
