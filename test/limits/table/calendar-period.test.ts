// The period of a calendar that threads share.
import { expect, test } from "vitest";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../../src/limits/table/layout.ts";
import { placeSecret } from "../small-table.ts";

const hourMs = 3_600_000;
const memory = createTableMemory(minTableBytes);
const [first, second] = [1, 2].map((thread) =>
  new CounterTable(memory, { secret: placeSecret, thread, isShared: true }).periodOf(9),
);

test("of two threads that see one period end, one begins the next", () => {
  expect([first?.number, first?.endMs]).toEqual([0, 0]);
  const seenEndMs = first?.endMs ?? -1;
  const endMs = 500_000 * hourMs;
  first?.setEnd(endMs, seenEndMs, true);
  second?.setEnd(endMs, seenEndMs, true);
  for (const period of [first, second]) expect([period?.number, period?.endMs]).toEqual([1, endMs]);
  // Another calendar has the same period with another end.
  second?.setEnd(endMs - hourMs, endMs, false);
  expect([first?.number, first?.endMs]).toEqual([1, endMs - hourMs]);
});

test("an end in whole seconds is never before the border, also beyond 2038", () => {
  const before = second?.endMs ?? -1;
  const endMs = Date.UTC(2090, 0) + 1;
  second?.setEnd(endMs, before, true);
  expect(first?.endMs).toBe(Date.UTC(2090, 0) + 1000);
});
