// What a table keeps where requests cost several units, units are given back, and the limit of a key changes.
import { describe, expect, test } from "vitest";
import { type Asking, askSliding } from "./asking.ts";
import { justBefore } from "./float.ts";
import { keyOf, smallTable } from "./small-table.ts";

const windowMs = 100;
const slot = 0;

function create(limit = 10, window = windowMs, table = smallTable()) {
  const rulesFor = (limitNow: number, windowNow: number) =>
    ({ kind: "sliding", windowMs: windowNow, limit: limitNow, cost: 1 }) as const;
  return {
    table,
    counters: askSliding(table, slot, rulesFor(limit, window)),
    /** The counters after a reload. */
    reloaded: (previous: Asking, limitNow: number, windowNow: number) =>
      askSliding(table, slot, rulesFor(limitNow, windowNow), previous),
    figures: () => table.figures().bySlot[slot],
  };
}

function ask(counters: Asking, text: string, limit: number, units: number, nowMs: number): boolean {
  const key = keyOf(text);
  counters.select(key, key);
  return counters.ask(limit, units, nowMs);
}

/** Admits or refuses, as a limiter does. */
function take(counters: Asking, text: string, limit: number, units: number, nowMs: number): boolean {
  const fits = ask(counters, text, limit, units, nowMs);
  if (fits) counters.charge();
  return fits;
}

function peek(counters: Asking, text: string, limit: number, nowMs: number): [remaining: number, resetMs: number] {
  counters.peek(keyOf(text), keyOf(text), limit, nowMs);
  return [counters.remaining, counters.resetMs];
}

describe("units", () => {
  test("a request that can never fit is refused, with an empty table too, and leaves nothing", () => {
    const { counters, figures } = create(5);
    expect(take(counters, "a", 5, 6, 0)).toBe(false);
    expect(counters.resetMs).toBe(windowMs);
    expect(figures()?.keys).toBe(0);
  });

  test("asking without charging leaves nothing", () => {
    const { counters, figures } = create(5);
    for (let i = 0; i < 10; i += 1) expect(ask(counters, "a", 5, 5, i)).toBe(true);
    expect(figures()?.keys).toBe(0);
  });

  test("an instant before the newest one of the key counts as the newest", () => {
    const { counters } = create(3);
    expect(take(counters, "a", 3, 1, 50)).toBe(true);
    expect(ask(counters, "a", 3, 1, 40)).toBe(true);
    expect(counters.charge()).toBe(50);
    counters.giveBack(keyOf("a"), keyOf("a"), 3, 1, 50);
    expect(peek(counters, "a", 3, 149)[0]).toBe(2);
    expect(peek(counters, "a", 3, 150)[0]).toBe(3);
  });

  test("a key whose units were all given back takes no memory", () => {
    const { counters, figures, table } = create(5);
    // With quota left, and exhausted.
    for (const [units, atMs] of [
      [1, 0],
      [5, 1000],
    ] as const) {
      expect(take(counters, "a", 5, units, atMs)).toBe(true);
      expect(figures()?.keys).toBe(1);
      counters.giveBack(keyOf("a"), keyOf("a"), 5, units, atMs);
      expect(figures()?.keys).toBe(0);
      expect(table.figures().usedBytes).toBe(0);
    }
  });
});

describe("a limit or window that a reload has changed", () => {
  test("60 of 100, then a limit of 50: refused until the eleventh expires; back to 100: 40 left", () => {
    const { counters } = create(100, 1000);
    for (let i = 0; i < 60; i += 1) expect(take(counters, "a", 100, 1, i)).toBe(true);
    expect(take(counters, "a", 50, 1, 100)).toBe(false);
    expect([counters.remaining, counters.resetMs]).toEqual([0, 1010]);
    expect(peek(counters, "a", 50, 100)).toEqual([0, 1010]);
    expect(peek(counters, "a", 100, 100)[0]).toBe(40);
    expect(take(counters, "a", 50, 1, justBefore(1010))).toBe(false);
    expect(take(counters, "a", 50, 1, 1010)).toBe(true);
  });

  test("a longer window: what was exhausted stays so for longer, and nothing expires too early", () => {
    const { counters, reloaded } = create(2, 100);
    for (const atMs of [0, 10]) expect(take(counters, "exhausted", 2, 1, atMs)).toBe(true);
    const longer = reloaded(counters, 2, 1000);
    expect(take(longer, "exhausted", 2, 1, 999)).toBe(false);
    expect(take(longer, "exhausted", 2, 1, 1000)).toBe(true);
  });
});
