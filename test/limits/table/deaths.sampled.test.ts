// A thread may end between any two stores. Whatever it was doing, after its recovery the table is sound, no other key
// has changed, and its own key counts at least what it counted before or would count after.

import { describe, expect, test } from "vitest";
import type { Held, Policy } from "../../../src/core/policy.ts";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { assignSlots } from "../../../src/limits/policies.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { Locator } from "../../../src/limits/table/directory.ts";
import { geometryOf } from "../../../src/limits/table/layout.ts";
import type { CounterRecord } from "../../../src/limits/table/maintenance.ts";
import { SipHash } from "../../../src/limits/table/sip-hash.ts";
import { clockOf } from "../../support/clock.ts";
import { decided } from "../../support/decided.ts";
import { askedRequest, limitedRequest } from "../../support/limited-request.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { seededRandom } from "../../support/random.ts";
import { scaled } from "../../support/runs.ts";
import { EffectiveUnits, type Pair } from "./effective-units.ts";
import { MortalThread } from "./mortal-thread.ts";
import { flawsOf } from "./sound-table.ts";

/** Shards of 21 lines: full after 15 keys. */
const bytes = 32 * 1024;
const secret = new Uint8Array(16).fill(7);
const places = new Locator(geometryOf(bytes), secret);
const windowMs = 1000;
const [mainThread, mortal, survivor] = [1, 2, 3];

const byToken = [{ kind: "token" }] as const;
const worlds: Readonly<Record<string, readonly Policy[]>> = {
  "one key of many units": [slidingPolicy({ limit: 40, windowMs })],
  "keys that are exhausted at once": [slidingPolicy({ limit: 1, windowMs: 60_000 })],
  "a slot and units by status": [
    { ...slidingPolicy({ name: "slots", limit: 2, windowMs }), rate: { kind: "concurrency" } },
    slidingPolicy({ name: "failures", limit: 3, windowMs, chargeStatuses: [401] }),
  ],
  "several policies, by client and by token": [
    slidingPolicy({ name: "second", limit: 2, windowMs }),
    {
      ...slidingPolicy({ name: "minute", limit: 6, windowMs }),
      rate: { kind: "calendar", per: "minute", timezone: "UTC" },
    },
    slidingPolicy({ name: "token", limit: 3, windowMs: 5 * windowMs, key: byToken }),
  ],
};

const seeds = Array.from({ length: scaled(5, 40) }, (_, i) => i + 1);

interface Step {
  readonly client: string;
  readonly token: string;
  readonly nowMs: number;
  /** Whether the request ends at once, so that something is given back. */
  readonly ends: boolean;
}

describe.each(Object.entries(worlds))("a thread that ends at any store, with %s", (_, policies) => {
  test.each(seeds)("leaves a sound table in which nothing is forgotten (%d)", (seed) => {
    const world = new World(policies);
    const steps = historyOf(seed, policies[0]?.limit === 40 ? 8 : 1000);
    const every = Math.floor(steps.length / scaled(20, 10));
    for (const [i, step] of steps.entries()) {
      if (i % every === 0) world.dieAtEachStore(step);
      world.take(step);
    }
    expect(world.deaths).toBeGreaterThan(20);
    expect(flawsOf(world.memory, secret)).toEqual([]);
  });
});

/** `clients`: how many different ones there are, mostly of one network. */
function historyOf(seed: number, clients: number): Step[] {
  const random = seededRandom(seed);
  const upTo = (count: number): number => Math.floor(random() * count);
  let nowMs = 1_000_000;
  return Array.from({ length: 600 }, () => {
    nowMs += upTo(4) === 0 ? upTo(8) : 0;
    const one = upTo(clients);
    const client = one % 3 === 0 ? `2001:db8:${one.toString(16)}::` : `192.0.${one % 4}.${(one >> 2) % 256}`;
    return { client, token: `token-${upTo(clients)}`, nowMs, ends: upTo(3) === 0 };
  });
}

class World {
  readonly memory = createTableMemory(bytes);
  deaths = 0;
  readonly #policies: readonly Policy[];
  readonly #limiter: PolicyLimiter;
  /** A copy of the table, in which threads end. */
  readonly #copy = createTableMemory(bytes);
  readonly #main: CounterTable;
  readonly #thread: MortalThread;
  readonly #mortalLimiter: PolicyLimiter;

  constructor(policies: readonly Policy[]) {
    this.#policies = policies;
    this.#limiter = this.#limiterOf(new CounterTable(this.memory, { secret, thread: survivor, isShared: true }));
    this.#main = new CounterTable(this.#copy, { secret, thread: mainThread, isShared: true });
    this.#limiterOf(this.#main);
    this.#thread = new MortalThread(this.#copy, { secret, thread: mortal, isShared: true });
    this.#mortalLimiter = this.#limiterOf(this.#thread.table);
  }

  take(step: Step): void {
    takeStep(this.#limiter, step);
  }

  /** Lets a thread take a step, and end at each of its stores in turn, each time in a copy of the table. */
  dieAtEachStore(step: Step): void {
    const before = new EffectiveUnits(this.memory);
    const stores = this.#takeAndRecover(step, Number.POSITIVE_INFINITY);
    const keys = this.#keysOf(before, new EffectiveUnits(this.#copy), step.nowMs);
    for (let lifetime = 0; lifetime < stores; lifetime += 1) {
      this.#takeAndRecover(step, lifetime);
      this.deaths += 1;
      const what = `${JSON.stringify(step)}, ended at store ${lifetime} of ${stores}`;
      const units = new EffectiveUnits(this.#copy);
      const forgotten = keys.filter((key) => hasForgotten(key, units));
      expect([...flawsOf(this.#copy, secret, places), ...forgotten], what).toEqual([]);
    }
  }

  /** Returns the stores of the thread. */
  #takeAndRecover(step: Step, lifetime: number): number {
    new Int32Array(this.#copy).set(new Int32Array(this.memory));
    this.#thread.run(lifetime, () => takeStep(this.#mortalLimiter, step));
    this.#main.maintenance.recover(mortal);
    return this.#thread.stores;
  }

  #limiterOf(table: CounterTable): PolicyLimiter {
    const clock = clockOf(
      () => 0,
      () => 1_700_000_000_000,
    );
    const slots = assignSlots(this.#policies, []);
    return new PolicyLimiter(this.#policies, { table, hash: new SipHash(secret), slots, clock });
  }

  /** What the keys count that must not be forgotten, with and without the step. */
  #keysOf(before: EffectiveUnits, after: EffectiveUnits, nowMs: number): readonly CountedKey[] {
    const records = [...before.keys("own"), ...after.keys("own")];
    return records.flatMap(({ slot, key, isAddress }) => {
      const policy = this.#policies[slot];
      const held = unitsFrom(before.of(slot, key, key), 0);
      if (policy === undefined) return [];
      const { rate } = policy;
      const pairsIn = (units: EffectiveUnits): readonly Pair[] =>
        units
          .of(slot, key, isAddress ? key : noClient)
          .filter(([at]) => rate.kind !== "sliding" || nowMs - at < rate.windowMs);
      // A key that is not exhausted may be forgotten, also to be stored anew by the same step.
      const instants = new Set(pairsIn(after).map(([at]) => at));
      const isKept = after.has(slot, key) && pairsIn(before).every(([at]) => instants.has(at));
      if (held > 0 && held < policy.limit && !isKept) return [];
      return [{ slot, key, pairsIn, before: pairsIn(before), after: pairsIn(after) }];
    });
  }
}

interface CountedKey {
  readonly slot: number;
  readonly key: CounterRecord["key"];
  readonly pairsIn: (units: EffectiveUnits) => readonly Pair[];
  readonly before: readonly Pair[];
  readonly after: readonly Pair[];
}

/** Returns whether a key counts fewer units than it did before, and than it would have. */
function hasForgotten({ before, after, pairsIn }: CountedKey, units: EffectiveUnits): boolean {
  const now = pairsIn(units);
  return [...before, ...after].some(
    ([at]) => unitsFrom(now, at) < Math.min(unitsFrom(before, at), unitsFrom(after, at)),
  );
}

const noClient = [0, 0, 0, 0] as const;

function unitsFrom(pairs: readonly Pair[], since: number): number {
  return pairs.reduce((sum, [at, units]) => (at >= since ? sum + units : sum), 0);
}

function takeStep(limiter: PolicyLimiter, { client, token, nowMs, ends }: Step): void {
  const { request, head } = limitedRequest({ client, rawHeaders: ["authorization", `Bearer ${token}`] });
  const held: Held | null = decided(limiter.ask(askedRequest(request, head, nowMs), "anonymous")).held;
  if (ends) held?.end(500);
}
