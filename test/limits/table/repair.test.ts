// A thread that ends within a call leaves at most that call undone, or units that count twice: calls are broken off at
// every store, in tables in all kinds of states.
import fc from "fast-check";
import { expect, test } from "vitest";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { geometryOf, shardAt } from "../../../src/limits/table/layout.ts";
import type { CounterRecord } from "../../../src/limits/table/records.ts";
import { repairShard } from "../../../src/limits/table/repair.ts";
import { runs, scaled } from "../../support/runs.ts";
import { LimitedTable, type WindowLimit } from "../one-limit.ts";
import { addressAt, placeSecret } from "../small-table.ts";
import { BrokenOffError, openWatched } from "../watched-memory.ts";
import { allRecords, expectSound } from "./sound-shard.ts";

/** Small, so that buckets, lines and blocks run out. */
const bytes = 48 * 1024;
const geometry = geometryOf(bytes);
const windowMs = 100;

interface Step {
  readonly client: number;
  readonly gapMs: number;
  readonly does: "acquire" | "sweep" | "give back";
}

type Records = ReadonlyMap<string, CounterRecord>;

const memory = createTableMemory(bytes);
const words = new Int32Array(memory);
const empty = words.slice();
const seen = openWatched(memory, placeSecret);

/** The last 1000 clients are of about 500 networks, the others of a few. */
function clientAt(i: number): string {
  return addressAt(i < 1000 ? i : 128 * (i - 900));
}

function repairAll(): void {
  for (let index = 0; index < geometry.shards; index += 1) repairShard(words, shardAt(index, geometry), geometry);
}

function unitsAt(record: CounterRecord | undefined, nowMs: number): number {
  return (record?.entries ?? []).reduce((sum, [at, units]) => (nowMs < at + windowMs ? sum + units : sum), 0);
}

/** Throws if a key counts less than before the call, and less than after it. */
function expectNoLoss(before: Records, after: Records, broken: Records, nowMs: number): void {
  for (const id of new Set([...before.keys(), ...after.keys(), ...broken.keys()])) {
    const [was, is, has] = [before.get(id), after.get(id), broken.get(id)];
    const instants = [was, is, has].flatMap((record) => record?.entries ?? []).map(([at]) => at + windowMs - 1);
    for (const atMs of [nowMs, ...instants]) {
      if (atMs < nowMs) continue;
      const units = unitsAt(has, atMs);
      const [unitsBefore, unitsAfter] = [unitsAt(was, atMs), unitsAt(is, atMs)];
      // Units may count twice, or as long as the newest ones.
      const most = unitsAt(was, nowMs) + unitsAt(is, nowMs);
      if (units < Math.min(unitsBefore, unitsAfter) || units > most)
        throw new Error(`${id} has ${units} at ${atMs}: ${unitsBefore} before, ${unitsAfter} after`);
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
    gapMs: fc.constantFrom(0, 0, 0, 1, 1, 3),
    does: fc.constantFrom("acquire", "acquire", "acquire", "acquire", "sweep", "give back"),
  }),
  { minLength: 3, maxLength: 8, size: "max" },
);

test("whatever call is broken off at whatever store, all other keys are as they were, and its own counts no less", () => {
  let breaks = 0;
  const scripts = fc.record({
    policy: policies,
    filled: fc.constantFrom(0, 100, 600),
    few: fc.nat({ max: 30 }),
    steps,
  });
  fc.assert(
    fc.property(scripts, ({ policy, filled, few, steps: script }) => {
      words.set(empty);
      const store = new LimitedTable(policy, new CounterTable(memory, { secret: placeSecret }));
      const watched = new LimitedTable(policy, seen.table);
      let nowMs = 0;
      for (let i = 0; i < filled; i += 1) store.acquire(addressAt(300 + i), nowMs);
      // Some clients with chains of different lengths.
      for (let i = 0; i < few * 5; i += 1) {
        nowMs += i % 2;
        store.acquire(clientAt(i % 5), nowMs);
      }
      for (const { client, gapMs, does } of script) {
        nowMs += gapMs;
        const run = (to: LimitedTable): void => {
          if (does === "sweep") to.sweep(nowMs);
          else if (does === "give back") to.giveBack(clientAt(client), nowMs);
          else to.acquire(clientAt(client), nowMs);
        };
        breaks += breakAtEveryStore(() => run(watched), nowMs);
        for (const one of [client, 0, 1, 2]) store.acquire(clientAt(one), nowMs);
        expectSound(memory);
      }
    }),
    runs(60),
  );
  expect(breaks).toBeGreaterThan(scaled(1000));
});

/** Leaves the memory as it is after the call. Returns the number of stores at which it was broken off. */
function breakAtEveryStore(call: () => void, nowMs: number): number {
  const { watch } = seen;
  const before = words.slice();
  const recordsBefore = allRecords(memory);
  watch.breaksAt = 0;
  watch.stores = 0;
  call();
  const { stores } = watch;
  const after = words.slice();
  const recordsAfter = allRecords(memory);
  expectSound(memory);
  for (let n = 1; n <= stores; n += 1) {
    words.set(before);
    watch.stores = 0;
    watch.breaksAt = n;
    expect(call).toThrow(BrokenOffError);
    repairAll();
    expectSound(memory);
    expectNoLoss(recordsBefore, recordsAfter, allRecords(memory), nowMs);
    // The call can be made again.
    watch.breaksAt = 0;
    call();
    expectSound(memory);
  }
  words.set(after);
  return stores;
}
