// A thread that ends within a call leaves at most that call undone, or units that count for longer, whatever the table
// has in it; and the call can be made again. deaths.sampled.test.ts lets requests end by several policies; this one also sweeps.
import fc from "fast-check";
import { expect, test } from "vitest";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { Locator } from "../../../src/limits/table/directory.ts";
import { geometryOf, shardAt } from "../../../src/limits/table/layout.ts";
import type { CounterRecord } from "../../../src/limits/table/maintenance.ts";
import { repairShard } from "../../../src/limits/table/maintenance.ts";
import { inFullOr, runs, scaled } from "../../support/runs.ts";
import { LimitedTable, type WindowLimit } from "../one-limit.ts";
import { addressAt, placeSecret } from "../small-table.ts";
import { EffectiveUnits } from "./effective-units.ts";
import { MortalThread } from "./mortal-thread.ts";
import { flawsOf } from "./sound-table.ts";

/** Small, so that buckets, lines and blocks run out. */
const bytes = 48 * 1024;
const geometry = geometryOf(bytes);
const places = new Locator(geometry, placeSecret);
const windowMs = 100;

interface Step {
  readonly client: number;
  readonly gapMs: number;
  readonly does: "decide" | "sweep" | "give back";
}

const memory = createTableMemory(bytes);
const words = new Int32Array(memory);
const empty = words.slice();

/** The last 1000 clients are of about 500 networks, the others of a few. */
function clientAt(i: number): string {
  return addressAt(i < 1000 ? i : 128 * (i - 900));
}

function repairAll(): void {
  for (let index = 0; index < geometry.shards; index += 1) repairShard(words, shardAt(index, geometry), geometry);
}

function expectSound(): void {
  const flaws = flawsOf(memory, placeSecret, places);
  if (flaws.length > 0) expect(flaws).toEqual([]);
}

type Records = ReadonlyMap<string, CounterRecord>;

function allRecords(): Records {
  const units = new EffectiveUnits(memory);
  const records = (["own", "client", "network"] as const).flatMap((kind) => units.keys(kind));
  return new Map(records.map((record) => [`${record.kind} ${record.key.join(" ")}`, record]));
}

function unitsAt(record: CounterRecord | undefined, nowMs: number): number {
  return (record?.entries ?? []).reduce((sum, [at, units]) => (nowMs < at + windowMs ? sum + units : sum), 0);
}

/** Throws if a key counts less than before the call and less than after it, or more than both together. */
function expectNoLoss(before: Records, after: Records, broken: Records, nowMs: number): void {
  for (const id of new Set([...before.keys(), ...after.keys(), ...broken.keys()])) {
    const [was, is, has] = [before.get(id), after.get(id), broken.get(id)];
    const most = unitsAt(was, nowMs) + unitsAt(is, nowMs);
    const instants = [was, is, has].flatMap((record) => record?.entries ?? []).map(([at]) => at + windowMs - 1);
    for (const atMs of [nowMs, ...instants]) {
      if (atMs < nowMs) continue;
      const units = unitsAt(has, atMs);
      const least = Math.min(unitsAt(was, atMs), unitsAt(is, atMs));
      if (units < least || units > most) throw new Error(`${id} has ${units} at ${atMs}, not ${least} to ${most}`);
    }
  }
}

const policies: fc.Arbitrary<WindowLimit> = fc.constantFrom(
  { limit: 1, windowMs },
  { limit: 3, windowMs },
  { limit: 40, windowMs },
);
const steps = fc.array(
  fc.record<Step>({
    client: fc.oneof(fc.nat({ max: 5 }), fc.nat({ max: 999 }), fc.integer({ min: 1000, max: 1900 })),
    gapMs: fc.constantFrom(0, 0, 0, 1, 1, 3, 60),
    does: fc.constantFrom("decide", "decide", "sweep", "give back"),
  }),
  { minLength: 3, maxLength: 8, size: "max" },
);
interface Script {
  readonly policy: WindowLimit;
  /** Clients before, with one request each. */
  readonly filled: number;
  readonly few: number;
  readonly steps: readonly Step[];
}

const scripts: fc.Arbitrary<Script> = fc.record({
  policy: policies,
  filled: fc.constantFrom(0, 100, 600),
  few: fc.nat({ max: 30 }),
  steps,
});

/** Always among them: eight calls that store much, in a table that is full. */
const manyStores: Script = {
  policy: { limit: 40, windowMs },
  filled: 600,
  few: 30,
  steps: Array.from({ length: 8 }, (_, i) => ({ client: 1000 + i, gapMs: 1, does: "decide" })),
};

test("whatever call ends at whatever store, other keys are as they were, and its own counts no less", () => {
  let breaks = 0;
  fc.assert(
    fc.property(scripts, ({ policy, filled, few, steps: script }) => {
      words.set(empty);
      const store = new LimitedTable(policy, new CounterTable(memory, { secret: placeSecret }));
      let nowMs = 0;
      for (let i = 0; i < filled; i += 1) store.acquire(addressAt(300 + i), nowMs);
      // Some clients with chains of different lengths.
      for (let i = 0; i < few * 5; i += 1) {
        nowMs += i % 2;
        store.acquire(clientAt(i % 5), nowMs);
      }
      for (const { client, gapMs, does } of script) {
        nowMs += gapMs;
        breaks += endAtEveryStore(
          policy,
          (ending) => {
            if (does === "sweep") ending.sweepPortion(nowMs);
            else if (does === "give back") ending.giveBack(clientAt(client), nowMs);
            else ending.acquire(clientAt(client), nowMs);
          },
          nowMs,
        );
        for (const one of [client, 0, 1, 2]) store.acquire(clientAt(one), nowMs);
      }
    }),
    { ...runs(25), examples: [[manyStores]] },
  );
  expect(breaks).toBeGreaterThan(scaled(300));
});

/** Lets a call run until its `lifetime`-th store, by a thread that begins with it. Returns its stores. */
function runUntil(lifetime: number, policy: WindowLimit, call: (ending: LimitedTable) => void): number {
  const mortal = new MortalThread(memory, { secret: placeSecret });
  const ending = new LimitedTable(policy, mortal.table);
  expect(mortal.run(lifetime, () => call(ending))).toBe(lifetime === forever);
  return mortal.stores;
}

const forever = Number.POSITIVE_INFINITY;
/** Of more stores, some are left out. */
const mostEnds = inFullOr(40, 20);

/** Leaves the memory as it is after the call. Returns the number of stores at which it has ended. */
function endAtEveryStore(policy: WindowLimit, call: (ending: LimitedTable) => void, nowMs: number): number {
  const before = words.slice();
  const recordsBefore = allRecords();
  const stores = runUntil(forever, policy, call);
  const after = words.slice();
  const recordsAfter = allRecords();
  expectSound();
  let ends = 0;
  for (let lifetime = 0; lifetime < stores; lifetime += Math.ceil(stores / mostEnds)) {
    words.set(before);
    runUntil(lifetime, policy, call);
    repairAll();
    expectSound();
    expectNoLoss(recordsBefore, recordsAfter, allRecords(), nowMs);
    runUntil(forever, policy, call);
    expectSound();
    ends += 1;
  }
  words.set(after);
  return ends;
}
