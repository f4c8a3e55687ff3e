// The slots of a thread that has ended come back, and those of the others are neither lost nor counted twice.

import { expect, test } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import type { SlotRules } from "../../../src/limits/table/key-log.ts";
import { type Asking, askConcurrency } from "../asking.ts";
import { MortalThread } from "./mortal-thread.ts";

const secret = new Uint8Array(16).fill(7);
const rules: SlotRules = { kind: "concurrency", windowMs: 0, limit: 10, cost: 1 };
const key = new CounterKey(1, 2, 3, 4, false);

function take(counters: Asking, { locks }: CounterTable): void {
  counters.select(key, key);
  locks.acquire();
  if (counters.ask(10, 1, 0)) counters.charge();
  locks.release();
}

function remaining(counters: Asking): number {
  counters.peek(key, key, 10, 0);
  return counters.remaining;
}

test("a thread that ends while it gives a slot back takes none of another thread, and leaves none", () => {
  let lifetime = 0;
  for (let isOver = false; !isOver; lifetime += 1) {
    const memory = createTableMemory(32 * 1024);
    const tableOf = (thread: number) => new CounterTable(memory, { secret, thread, isShared: true });
    const [main, early, late] = [tableOf(1), tableOf(3), tableOf(4)];
    const mortal = new MortalThread(memory, { secret, thread: 2, isShared: true });
    const [ofMain, ofEarly, ofMortal, ofLate] = [main, early, mortal.table, late].map((table) =>
      askConcurrency(table, 0, rules),
    ) as Asking[] as [Asking, Asking, Asking, Asking];
    take(ofEarly, early);
    mortal.run(Number.POSITIVE_INFINITY, () => take(ofMortal, mortal.table));
    take(ofLate, late);
    isOver = mortal.run(lifetime, () => ofMortal.giveBack(key, key, 10, 1, 0));
    main.maintenance.recover(2);
    expect(remaining(ofMain), `ended at store ${lifetime}`).toBe(8);
    ofEarly.giveBack(key, key, 10, 1, 0);
    ofLate.giveBack(key, key, 10, 1, 0);
    expect(remaining(ofMain), `ended at store ${lifetime}`).toBe(10);
  }
  expect(lifetime).toBeGreaterThan(6);
});
