// How a shard is told what a gateway has admitted: in calls of a bounded size, a few at a time.
import { expect, test } from "vitest";
import { type Item, mostItems, type ScriptAnswer } from "../../../src/limits/store/script-call.ts";
import type { OwnKey } from "../../../src/limits/store/telling.ts";
import { type TellingParts, tell } from "../../../src/limits/store/telling.ts";
import { ManualTimers } from "./manual-timers.ts";

const answer: ScriptAnswer = { timeUs: 0, items: [] };

class Telling {
  readonly timers = new ManualTimers();
  readonly sent: number[] = [];
  /** Calls without an answer. */
  readonly open: ((answer: ScriptAnswer | null) => void)[] = [];
  told = 0;

  /** `isTold`: by the number of the key. */
  begin(keys: number, parts: Partial<TellingParts> = {}, isTold = (_: number): boolean => true): this {
    tell({
      keys: Array.from({ length: keys }, (_, at) => at as unknown as OwnKey).values(),
      mostItems,
      itemOf: (key) => (isTold(key as unknown as number) ? ({ item: "secret", key: "", proposed: "" } as Item) : null),
      send: (items, answered) => {
        this.sent.push(items.length);
        this.open.push(answered);
      },
      later: (run) => this.timers.endOfTurn(run),
      told: () => {
        this.told += 1;
      },
      ...parts,
    });
    return this;
  }

  /** Answers the oldest call. */
  answer(what: ScriptAnswer | null = answer): void {
    this.open.shift()?.(what);
  }

  /** Answers until there is nothing to do. */
  finish(): this {
    while (this.open.length > 0 || this.timers.endTurn()) this.answer();
    return this;
  }
}

test("a gateway that has admitted nothing has told it at once", () => {
  const telling = new Telling().begin(0);
  expect([telling.sent, telling.told]).toEqual([[], 1]);
});

test("keys travel together, and all have arrived before it is told", () => {
  const telling = new Telling().begin(mostItems + 1);
  expect(telling.sent).toEqual([mostItems, 1]);
  telling.answer();
  expect(telling.told).toBe(0);
  telling.answer();
  expect(telling.told).toBe(1);
});

test("in a cluster each key has a call of its own, and four are under way at once", () => {
  const telling = new Telling().begin(6, { mostItems: 1 });
  expect(telling.open).toHaveLength(4);
  telling.answer();
  expect(telling.open).toHaveLength(4);
  telling.finish();
  expect([telling.sent, telling.told]).toEqual([[1, 1, 1, 1, 1, 1], 1]);
});

test("keys that need not be told are left out", () => {
  const telling = new Telling().begin(100, {}, (key) => key % 10 === 0).finish();
  expect([telling.sent, telling.told]).toEqual([[10], 1]);
});

test("requests are served between two thousands of keys", () => {
  const telling = new Telling().begin(5_000, {}, () => false);
  let turns = 0;
  while (telling.timers.endTurn()) turns += 1;
  expect([turns, telling.told]).toEqual([4, 1]);
});

test("requests are served between two parts of a table, however few keys it has", () => {
  const keys = [0, null, null, 1, null].map((key) => key as unknown as OwnKey | null).values();
  const telling = new Telling().begin(0, { keys });
  const sent = [telling.sent.length];
  while (telling.timers.endTurn()) sent.push(telling.sent.length);
  expect(sent).toEqual([1, 1, 2, 2]);
  expect(telling.finish().told).toBe(1);
});

test("an answer does not make it look at more keys in the same turn", () => {
  const looked: number[] = [];
  const telling = new Telling().begin(5_000, {}, (key) => looked.push(key) === 1);
  telling.answer();
  expect(looked).toHaveLength(1_024);
  telling.timers.endTurn();
  expect(looked).toHaveLength(2_048);
});

test("a large table is told as a whole, once", () => {
  const telling = new Telling().begin(10_000, {}, (key) => key % 3 === 0).finish();
  expect([telling.sent.reduce((sum, items) => sum + items), telling.told]).toEqual([3_334, 1]);
});

test("a shard that is lost again is told nothing more", () => {
  const telling = new Telling().begin(10 * mostItems);
  telling.answer(null);
  telling.finish();
  expect([telling.sent.length, telling.told]).toEqual([4, 0]);
  const last = new Telling().begin(1);
  last.answer(null);
  expect(last.told).toBe(0);
});
