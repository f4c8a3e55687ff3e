// The period of a calendar that threads share.
import { expect, test } from "vitest";
import type { CalendarPeriod } from "../../../src/limits/table/counter-table.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../../src/limits/table/layout.ts";
import { placeSecret } from "../small-table.ts";

const hourMs = 3_600_000;
const memory = createTableMemory(minTableBytes);
const [first, second] = [1, 2].map((thread) =>
  new CounterTable(memory, { secret: placeSecret, thread, isShared: true }).periodOf(9),
);

const read = (period: CalendarPeriod | undefined) => [period?.number, period?.endMs, period?.dueMs, period?.lastMs];

test("of two threads that see one period end, one begins the next", () => {
  expect(read(first)).toEqual([0, 0, 0, 0]);
  const seenEndMs = first?.endMs ?? -1;
  const endMs = 500_000 * hourMs;
  first?.setEnd({ endMs, dueMs: hourMs, lastMs: 2 * hourMs }, seenEndMs, true);
  second?.setEnd({ endMs, dueMs: hourMs, lastMs: 2 * hourMs }, seenEndMs, true);
  for (const period of [first, second]) expect(read(period)).toEqual([1, endMs, hourMs, 2 * hourMs]);
  // Another calendar has the same period with another end.
  second?.setEnd({ endMs: endMs - hourMs, dueMs: -hourMs, lastMs: 0 }, endMs, false);
  expect(read(first)).toEqual([1, endMs - hourMs, -hourMs, 0]);
});

test("an end in whole seconds is never before the border, also beyond 2038", () => {
  const before = second?.endMs ?? -1;
  const endMs = Date.UTC(2090, 0) + 1;
  second?.setEnd({ endMs, dueMs: 0, lastMs: 0 }, before, true);
  expect(first?.endMs).toBe(Date.UTC(2090, 0) + 1000);
});
