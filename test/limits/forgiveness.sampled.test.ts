// What is forgiven is forgotten: the whole limit is there again, once, and nothing that is given back later comes out of what
// was charged after it. Against a model that keeps every charge in a list.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import { Ask, type Charged, type LocalCounters } from "../../src/limits/counters.ts";
import { createCounters } from "../../src/limits/policies.ts";
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import { heldSlotOf } from "../../src/limits/table/layout.ts";
import { FakeClock } from "../support/clock.ts";
import { slidingPolicy } from "../support/policy.ts";
import { runs, scaled } from "../support/runs.ts";
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

  mayEndSoon(client: string): boolean {
    const ask = this.#askOf(client);
    this.counters.select(ask);
    this.table.locks.within(() => this.counters.ask(ask, this.clock.nowMs));
    return ask.mayEndSoon;
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

  test("gets back nothing of a later request when one of before is given back, in the same millisecond", () => {
    const one = new OnePolicy(failures);
    const before = takeAll(one, me);
    one.forgive(me);
    takeAll(one, me);
    for (const each of before) one.counters.giveBack(each);
    expect(one.used(me)).toBe(4);
    expect(one.take(me)).toBeNull();
  });

  test("gets back nothing of a later request in the same cell", () => {
    const one = new OnePolicy(slidingPolicy({ limit: 20_000, windowMs, cost: 5_000, chargeStatuses: [401] }));
    // The beginning of a cell of 14 ms.
    one.clock.advance(14 - (one.clock.nowMs % 14));
    const before = takeAll(one, me);
    one.clock.advance(3);
    one.forgive(me);
    one.clock.advance(3);
    takeAll(one, me);
    for (const each of before) one.counters.giveBack(each);
    expect(one.used(me)).toBe(20_000);
  });

  test("is told soon to come again only because of what later requests hold", () => {
    const one = new OnePolicy(failures);
    const before = takeAll(one, me);
    one.forgive(me);
    const after = takeAll(one, me);
    for (const each of before) one.counters.keep(each);
    expect(one.mayEndSoon(me)).toBe(true);
    for (const each of after) one.counters.keep(each);
    expect(one.mayEndSoon(me)).toBe(false);
  });

  test("has the whole limit in the next period too", () => {
    const one = new OnePolicy({ ...failures, rate: perMinute });
    const before = takeAll(one, me);
    one.forgive(me);
    one.clock.advance(windowMs);
    expect(takeAll(one, me)).toHaveLength(4);
    for (const each of before) one.counters.giveBack(each);
    expect(one.take(me)).toBeNull();
  });
});

interface ModelCharge {
  readonly atMs: number;
  readonly charged: Charged;
  counts: boolean;
}

/** Of two networks. */
const clients = [me, "192.0.2.9", "198.51.100.1"];
const someClient = fc.nat({ max: clients.length - 1 });
const steps = fc.oneof(
  { weight: 6, arbitrary: fc.record({ does: fc.constant("take"), who: someClient, times: fc.nat({ max: 5 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({ does: fc.constantFrom("keep", "give back"), who: someClient, times: fc.nat({ max: 9 }) }),
  },
  { weight: 2, arbitrary: fc.record({ does: fc.constant("forgive"), who: someClient, times: fc.constant(0) }) },
  // The last one is longer than a window and a cell.
  {
    weight: 3,
    arbitrary: fc.record({
      does: fc.constant("wait"),
      who: fc.constant(0),
      times: fc.constantFrom(0.5, 1, 4, 20, 61_000),
    }),
  },
);
const scenarios = fc.record({
  rate: fc.constantFrom({ kind: "sliding", windowMs } as const, perMinute),
  limitAndCost: fc.constantFrom([4, 1] as const, [7, 2] as const, [20_000, 4_000] as const),
  chargeStatuses: fc.constantFrom([401], [401], null),
  script: fc.array(steps, { minLength: 5, maxLength: 40, size: "max" }),
});

test("counts what was charged since the last forgiveness and not given back, whatever ends later", () => {
  let forgivenUnits = 0;
  fc.assert(
    fc.property(scenarios, ({ rate, limitAndCost: [limit, cost], chargeStatuses, script }) => {
      const one = new OnePolicy({ ...slidingPolicy({ limit, cost, windowMs, chargeStatuses }), rate });
      const charges = clients.map((): ModelCharge[] => []);
      const open = clients.map((): ModelCharge[] => []);
      const isCounted = ({ atMs, counts }: ModelCharge): boolean =>
        counts &&
        (rate.kind === "sliding"
          ? one.clock.nowMs < atMs + windowMs
          : Math.floor((atMs + one.clock.wallOffsetMs) / windowMs) === Math.floor(one.clock.wallMs() / windowMs));
      const usedBy = (who: number): number => cost * (charges[who] as ModelCharge[]).filter(isCounted).length;
      for (const { does, who, times } of script) {
        const client = clients[who] as string;
        if (does === "wait") one.clock.advance(times);
        if (does === "forgive") {
          const used = usedBy(who);
          expect(one.forgive(client).units).toBe(used);
          forgivenUnits += used;
          for (const charge of charges[who] as ModelCharge[]) charge.counts = false;
        }
        for (let i = 0; i < times && does === "take"; i += 1) {
          const fits = usedBy(who) + cost <= limit;
          const charged = one.take(client);
          expect(charged !== null).toBe(fits);
          if (charged === null) break;
          const atMs = rate.kind === "sliding" ? Math.ceil(one.clock.nowMs) : one.clock.nowMs;
          const charge = { atMs, charged, counts: true };
          charges[who]?.push(charge);
          if (chargeStatuses !== null) open[who]?.push(charge);
        }
        if (does === "keep" || does === "give back") {
          const [charge] = open[who]?.splice(times % Math.max(1, open[who]?.length ?? 0), 1) ?? [];
          if (charge === undefined) continue;
          if (does === "keep") one.counters.keep(charge.charged);
          else one.counters.giveBack(charge.charged);
          // Of another period or window, nothing of it counts anyway.
          if (does === "give back") charge.counts = false;
        }
        for (const [i, each] of clients.entries()) expect(one.used(each)).toBe(usedBy(i));
      }
    }),
    runs(5_000, 50),
  );
  expect(forgivenUnits).toBeGreaterThan(scaled(5_000, 50));
});
