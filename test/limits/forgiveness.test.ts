// What is forgiven is forgotten: the whole limit is there again, once, and nothing that is given back later comes out of what
// was charged after it. policy-model.sampled.test.ts forgives at any time.
import { describe, expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import { Ask, type Charged, type LocalCounters } from "../../src/limits/counters.ts";
import { createCounters } from "../../src/limits/policies.ts";
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import { heldSlotOf } from "../../src/limits/table/layout.ts";
import { FakeClock } from "../support/clock.ts";
import { slidingPolicy } from "../support/policy.ts";
import { keyOf, reusedTable } from "./small-table.ts";

const slot = 7;
const windowMs = 60_000;
const perMinute = { kind: "calendar", per: "minute", timezone: "UTC" } as const;

class OnePolicy {
  readonly clock = new FakeClock();
  readonly table: CounterTable;
  readonly counters: LocalCounters;
  readonly #policy: Policy;

  constructor(policy: Policy, table = reusedTable()) {
    this.table = table;
    this.#policy = policy;
    this.counters = createCounters(policy, table, slot, this.clock);
    this.counters.comeIntoForce(this.clock.nowMs, false);
  }

  /** Null if it is refused. */
  take(client: string): Charged | null {
    const ask = this.#askOf(client);
    this.counters.select(ask);
    return this.table.locks.within(() => {
      if (!this.counters.ask(ask, this.clock.nowMs)) return null;
      const charged = this.counters.charge(ask);
      const { key, client, limit, units, marks } = ask;
      return { key, client, limit, units, charged, marks };
    });
  }

  used(client: string): number {
    const ask = this.#askOf(client);
    this.counters.peek(ask, this.clock.nowMs);
    return this.#policy.limit - ask.remaining;
  }

  forgive(client: string) {
    return this.counters.forgive(keyOf(client), keyOf(client), this.clock.nowMs);
  }

  #askOf(client: string): Ask {
    const key = keyOf(client);
    return Object.assign(new Ask(), { key, client: key, limit: this.#policy.limit, units: this.#policy.cost });
  }
}

function takeAll(one: OnePolicy, client: string): Charged[] {
  const charged: Charged[] = [];
  for (let taken = one.take(client); taken !== null; taken = one.take(client)) charged.push(taken);
  return charged;
}

const failures = slidingPolicy({ limit: 4, windowMs, chargeStatuses: [401] });
const me = "192.0.2.1";

describe("a client that is forgiven", () => {
  test.each([
    ["a window", slidingPolicy({ limit: 3, windowMs })],
    ["a window of cells", slidingPolicy({ limit: 20_000, windowMs, cost: 5_000 })],
    ["a period", { ...slidingPolicy({ limit: 3, windowMs }), rate: perMinute }],
    ["units that are held", slidingPolicy({ limit: 3, windowMs, chargeStatuses: [401] })],
  ])("has its whole limit again, once, and nobody else has: %s", (_, policy) => {
    const one = new OnePolicy(policy);
    const all = policy.limit / policy.cost;
    for (const client of [me, "192.0.2.2"]) expect(takeAll(one, client)).toHaveLength(all);
    expect(one.forgive(me)).toEqual({ units: policy.limit, keys: 1, coarse: null });
    expect(one.used(me)).toBe(0);
    const heldKeys = policy.chargeStatuses === null ? 0 : 1;
    expect(one.table.figures().bySlot[heldSlotOf(slot)]?.keys).toBe(heldKeys);
    expect(takeAll(one, me)).toHaveLength(all);
    expect(one.take("192.0.2.2")).toBeNull();
    expect(one.table.figures().bySlot[slot]).toMatchObject({ keys: 2, forgiven: 1, evictedLive: 0 });
  });

  test("has nothing more than that if it had used nothing", () => {
    const one = new OnePolicy(failures);
    expect(one.forgive(me)).toEqual({ units: 0, keys: 0, coarse: null });
    expect(takeAll(one, me)).toHaveLength(4);
    expect(one.table.figures().bySlot[slot]?.forgiven).toBe(0);
  });

  test("keeps its slots", () => {
    const one = new OnePolicy({ ...slidingPolicy({ limit: 2, windowMs }), rate: { kind: "concurrency" } });
    const [first] = takeAll(one, me);
    expect(one.forgive(me)).toEqual({ units: 0, keys: 0, coarse: null });
    expect(one.take(me)).toBeNull();
    if (first !== undefined) one.counters.giveBack(first);
    expect(takeAll(one, me)).toHaveLength(1);
  });
});
