// A key that its own limit has exhausted is not forgotten within its window, though that is below the limit of its policy: by
// an override, a rule that was set later, or a reload, after a restart too. The table is full of keys with more units.
import { expect, test } from "vitest";
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
import { askedRequest, counterKeyOf, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { inFull, spread } from "../support/runs.ts";
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
  }

  /** Each is of a network of its own, and has more units than all clients. */
  floodOfNetworks(nowMs: number): void {
    const times = clients + 1;
    for (let i = 0; i < 600; i += 1) this.#take(requestOf(`10.${i >> 8}.${i & 255}.1`, ""), times, nowMs);
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
      if (decided(this.limiter.ask(askedRequest(request, head, nowMs), "anonymous")).outcome === "admitted")
        admitted += 1;
    return admitted;
  }
}

const kinds: readonly (readonly [string, Partial<Policy>, number])[] = [
  ["a window", {}, 1],
  ["a window, several units", {}, 4],
  ["a cost", { cost: 3 }, 1],
  ["cells of a window", { limit: 100_000 }, 1],
  ["a period", { rate: { kind: "calendar", per: "day", timezone: "UTC" } }, 1],
  ["units that are held", { chargeStatuses: [401] }, 1],
];

/** Each client has asked so often, which its own limit allows and no more. Returns the gateway as it is then. */
const ways: Readonly<Record<string, (before: Policy, after: Policy, limit: number, times: number) => Stage>> = {
  "an override": (_, after, __, times) => asked(after, times),
  "a rule that was set after the last request": (before, _, limit, times) => {
    const stage = asked(before, times);
    stage.runtimeRules.apply({ set: [ruleOf(limit)], removed: [] });
    return stage;
  },
  "a reload": (before, after, _, times) => {
    const stage = asked(before, times);
    stage.reload(after);
    return stage;
  },
  "an override, after a restart from a snapshot": (_, after, __, times) => asked(after, times).restarted(after),
};

function asked(policy: Policy, times: number): Stage {
  const stage = new Stage(policy);
  expect(stage.ask(times, 0)).toBe(clients * times);
  return stage;
}

const cases = kinds.flatMap(([name, options, times]) =>
  Object.keys(ways).map((way) => ({ name, options, times, way })),
);

test.each(spread(cases, 5))("a key is kept that has used up $name by $way", ({ options, times, way }) => {
  const limit = (options.cost ?? 1) * times;
  const after = policyOf({ ...options, overrides: [lower(limit)] });
  const stage = ways[way]?.(policyOf(options), after, limit, times) as Stage;
  stage.flood(100);
  expect(stage.limiter.counterFigures().policies[0]?.evictedLive).toBeGreaterThan(200);
  expect(stage.ask(1, 200)).toBe(0);
});

test("a key that is no address is kept if its rest is less than the cost of a request", () => {
  const stage = new Stage(policyOf({ key: [{ kind: "token" }], cost: 3, overrides: [lower(4)] }));
  expect(stage.ask(1, 0)).toBe(clients);
  stage.flood(100);
  expect(stage.limiter.counterFigures().policies[0]?.evictedLive).toBeGreaterThan(200);
  expect(stage.ask(1, 200)).toBe(0);
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

test.each(inFull([1]))("the network in whose place a client that has used up %d is counted is kept, too", (limit) => {
  const used = [
    { ...lower(clients + 1), value: "10.0.0.0/8" },
    { ...lower(ofFlood), value: "198.18.0.0/15" },
  ];
  const stage = new Stage(policyOf({ overrides: [lower(limit), ...used] }));
  stage.ask(1, 0);
  // All are exhausted: those of large networks are counted as one, and then so many networks that some have to go.
  stage.flood(100);
  stage.floodOfNetworks(200);
  expect(stage.limiter.counterFigures().policies[0]?.coarse).toBeGreaterThan(30);
  expect(stage.ask(1, 300)).toBe(0);
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
