// How many items are sent for which no request waits: in calls of a bounded size, a few at a time.
import { expect, test } from "vitest";
import { sendAll } from "../../../src/limits/store/reports.ts";
import { mostItems } from "../../../src/limits/store/script-call.ts";
import type { StorePolicy } from "../../../src/limits/store/shared-key.ts";
import { ownKeys } from "../../../src/limits/store/telling.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../../src/limits/table/layout.ts";
import { addressAt, keyOf, placeSecret } from "../small-table.ts";
import { ManualTimers } from "./manual-timers.ts";
import { settled } from "./store-scene.ts";

class Sending {
  readonly timers = new ManualTimers();
  readonly sent: number[] = [];
  /** Calls without an answer. */
  readonly open: ((goesOn: boolean) => void)[] = [];
  /** Whether all was sent. */
  result: boolean | null = null;

  async begin(items: Iterator<number | null, unknown>, bounds = { mostItems, mostCalls: 4 }): Promise<this> {
    const send = (together: readonly number[]): Promise<boolean> => {
      this.sent.push(together.length);
      return new Promise((resolve) => this.open.push(resolve));
    };
    void sendAll(items, bounds, send, (run) => this.timers.endOfTurn(run)).then((result) => {
      this.result = result;
    });
    await settled();
    return this;
  }

  /** Answers the oldest call. */
  async answer(goesOn = true): Promise<void> {
    this.open.shift()?.(goesOn);
    await settled();
  }

  /** Answers until there is nothing to do. */
  async finish(): Promise<this> {
    while (this.open.length > 0 || this.timers.endTurn()) await this.answer();
    return this;
  }
}

function numbers(count: number): Iterator<number, unknown> {
  return Array.from({ length: count }, (_, at) => at).values();
}

test("what has nothing to send has sent it at once", async () => {
  const sending = await new Sending().begin(numbers(0));
  expect([sending.sent, sending.result]).toEqual([[], true]);
});

test("items travel together, and all have arrived before it is done", async () => {
  const sending = await new Sending().begin(numbers(mostItems + 1));
  expect(sending.sent).toEqual([mostItems, 1]);
  await sending.answer();
  expect(sending.result).toBeNull();
  await sending.answer();
  expect(sending.result).toBe(true);
});

test("in a cluster each item has a call of its own, and so many are under way at once", async () => {
  const sending = await new Sending().begin(numbers(20), { mostItems: 1, mostCalls: 16 });
  expect(sending.open).toHaveLength(16);
  await sending.answer();
  expect(sending.open).toHaveLength(16);
  await sending.finish();
  expect([sending.sent.length, sending.result]).toEqual([20, true]);
});

test("requests are served where enough was looked at, and an answer does not change that", async () => {
  const looked: number[] = [];
  const items = (function* () {
    for (let i = 0; i < 3; i += 1) {
      yield* Array.from({ length: mostItems + 1 }, (_, at) => at);
      looked.push(i);
      yield null;
    }
  })();
  const sending = await new Sending().begin(items);
  expect([looked, sending.sent]).toEqual([[0], [mostItems]]);
  await sending.answer();
  expect(looked).toEqual([0]);
  sending.timers.endTurn();
  await settled();
  expect(looked).toEqual([0, 1]);
  await sending.finish();
  expect([sending.sent.reduce((sum, count) => sum + count), sending.result]).toEqual([3 * (mostItems + 1), true]);
});

test("nothing more is sent where a call has failed", async () => {
  const sending = await new Sending().begin(numbers(10 * mostItems));
  await sending.answer(false);
  await sending.finish();
  expect([sending.sent.length, sending.result]).toEqual([4, false]);
  const paused = await new Sending().begin([1, null, 2].values(), { mostItems: 1, mostCalls: 2 });
  await paused.answer(false);
  paused.timers.endTurn();
  await settled();
  expect([paused.sent, paused.result]).toEqual([[1], false]);
  const last = await new Sending().begin(numbers(1));
  await last.answer(false);
  expect(last.result).toBe(false);
});

test("the keys of a table come with a pause after each thousand, and after each of its shards", () => {
  const table = new CounterTable(createTableMemory(4 * minTableBytes), { secret: placeSecret });
  const count = 24_000;
  for (let i = 0; i < count; i += 1) {
    const { a, b, c, d } = keyOf(addressAt(i));
    table.maintenance.restore({ slot: 0, kind: "own", key: [a, b, c, d], isAddress: true, entries: [[1, 1]] });
  }
  const source = { own: () => ({ units: 1, ageMs: 0, periodEndMs: 0 }) };
  const policy = { source } as unknown as StorePolicy;
  const runs = [0];
  for (const own of ownKeys(
    table,
    () => policy,
    () => 0,
  )) {
    if (own === null) runs.push(0);
    else runs.push((runs.pop() ?? 0) + 1);
  }
  expect([Math.max(...runs), runs.reduce((sum, keys) => sum + keys)]).toEqual([1_024, count]);
  expect(runs.length - 1).toBeGreaterThan(table.maintenance.shardCount);
});
