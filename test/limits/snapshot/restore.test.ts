// What counts of a snapshot after a restart: the same instants by the wall clock, never earlier ones.
import { expect, describe as group, test } from "vitest";
import { type Policy, periodLengths } from "../../../src/core/policy.ts";
import type { SnapshotDescription } from "../../../src/limits/snapshot/format.ts";
import { Restore } from "../../../src/limits/snapshot/restore.ts";
import type { CounterRecord } from "../../../src/limits/table/maintenance.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { describe, monthly, record, sliding } from "./sample.ts";

const writtenWallMs = 1_790_000_000_000;
const windowMs = 60_000;

const perIp: Policy = slidingPolicy({ limit: 100, windowMs });

const perMonth: Policy = {
  ...perIp,
  name: "monthly",
  key: monthly.key,
  rate: { kind: "calendar", per: "month", timezone: "UTC" },
};

/** Written at 100,000.5 of the table's time; started with a table whose time is 5.25, so much later by the wall clock. */
function restored(
  passedMs: number,
  before: CounterRecord,
  {
    policies = [perIp, perMonth],
    description = describe(),
  }: { policies?: Policy[]; description?: SnapshotDescription } = {},
) {
  const inSlots = policies.map((policy, i) => ({ slot: 10 + i, policy }));
  const restore = new Restore(description, inSlots, { wallMs: writtenWallMs + passedMs, tableMs: 5.25 });
  return { record: restore.record(before), periods: restore.periods };
}

const tick = (ms: number): number => (ms | 0) >>> 0;

group("an instant of a sliding window", () => {
  // 100,000 was the newest instant that had begun; a millisecond is lost, because the wall clock reads whole ones.
  test.each([
    ["of just now", 100_001, 1, 6],
    ["of 40 s ago", 60_000, 1, 6 - 40_000],
    ["of 40 s ago, restarted after 10 s", 60_000, 10_001, 6 - 50_000],
    ["that has just not expired", 60_000, 20_000, 6 - 59_999],
    ["after the clock has gone back", 60_000, -3_600_000, 6 - 40_000],
    ["a little in the future, as another thread saw it", 100_003, 1, 6],
  ])("%s keeps its age", (_, at, passedMs, expected) => {
    const { record: after } = restored(passedMs, record({ entries: [[at, 3]] }));
    expect(after).toEqual(record({ slot: 10, entries: [[tick(expected), 3]] }));
  });

  test("is left out when its window is over", () => {
    expect(restored(20_001, record({ entries: [[60_000, 1]] })).record).toBeNull();
    const both = record({
      entries: [
        [60_000, 1],
        [70_000, 2],
      ],
    });
    expect(restored(20_001, both).record?.entries).toEqual([[tick(6 - 50_000), 2]]);
  });

  test("says that its key is exhausted for as long as the last one counts", () => {
    const entries: CounterRecord["entries"] = [
      [60_000, 1],
      [70_000, 2],
      [70_000, 0],
    ];
    const after = restored(20_001, record({ entries })).record;
    expect(after?.entries).toEqual([2, 0].map((units) => [tick(6 - 50_000), units]));
    expect(restored(30_001, record({ entries })).record).toBeNull();
  });

  test("is left out after any time that the clock of the table has no room for", () => {
    for (const days of [31, 49.71, 50, 100, 10_000]) {
      const policies = [{ ...perIp, rate: { kind: "sliding" as const, windowMs: 31 * 86_400_000 } }];
      expect(restored(days * 86_400_000 + 1, record({ entries: [[100_000, 1]] }), { policies }).record).toBeNull();
    }
  });

  test("counts by the window of today", () => {
    const policies = [{ ...perIp, rate: { kind: "sliding" as const, windowMs: 30_000 } }];
    expect(restored(1, record({ entries: [[60_000, 1]] }), { policies }).record).toBeNull();
  });

  test("of a table whose clock has turned over keeps its age", () => {
    const description = describe({ tableMs: 2 ** 32 + 1_000 });
    const { record: after } = restored(1, record({ entries: [[2 ** 32 - 1_000, 1]] }), { description });
    expect(after?.entries).toEqual([[tick(6 - 2_000), 1]]);
  });
});

group("a policy", () => {
  test.each<[string, Partial<Policy>]>([
    ["with another name", { name: "other" }],
    ["with another key", { key: [] }],
    ["of another kind", { rate: { kind: "concurrency" } }],
  ])("%s starts empty", (_, others) => {
    expect(restored(1, record(), { policies: [{ ...perIp, ...others }] }).record).toBeNull();
  });

  test("with another limit, mode and match goes on", () => {
    const policies: Policy[] = [{ ...perIp, limit: 5, mode: "shadow", match: { paths: ["/v1/"], methods: [] } }];
    expect(restored(1, record(), { policies }).record).not.toBeNull();
  });
});

group("a period of the calendar", () => {
  const entries: CounterRecord["entries"] = [[7, 40]];
  const month = record({ slot: 3, entries });
  const end = 1_800_000_000_000;

  test("goes on until its end", () => {
    for (const passedMs of [0, -86_400_000, end - writtenWallMs - 1]) {
      const { record: after, periods } = restored(passedMs, month);
      expect(after).toEqual(record({ slot: 11, entries }));
      const dueMs = 5.25 + end - writtenWallMs - Math.max(0, passedMs);
      expect(periods).toEqual([
        { slot: 11, period: 7, end: { endMs: end, dueMs, lastMs: dueMs + periodLengths.month.longestMs } },
      ]);
    }
  });

  test("is due when it was, if the clock was back when the snapshot was written", () => {
    // An hour was left by the monotonic clock then. By the wall clock, it was much more.
    const rate = { ...monthly.rate, dueTableMs: 100_000.5 + 3_600_000 };
    const description = describe({ policies: [sliding, { ...monthly, rate }] });
    const endOf = (passedMs: number) => restored(passedMs, month, { description }).periods[0]?.end;
    const dueMs = 5.25 + 3_600_000;
    // By more than the longest month: that is not waited for.
    expect(endOf(60_000)).toEqual({ endMs: end, dueMs, lastMs: dueMs });
    expect(endOf(-end)).toEqual({ endMs: end, dueMs, lastMs: dueMs });
    const later = end - writtenWallMs - 60_000;
    expect(endOf(later)).toEqual({ endMs: end, dueMs: 60_005.25, lastMs: 60_005.25 + periodLengths.month.longestMs });
  });

  test("that is over at the start is known, in case that the clock is wrong, but not by another calendar", () => {
    const { record: after, periods } = restored(end - writtenWallMs + 1_000, month);
    expect(after).toEqual(record({ slot: 11, entries }));
    const dueMs = 5.25 + end - writtenWallMs;
    expect(periods).toEqual([
      { slot: 11, period: 7, end: { endMs: end, dueMs, lastMs: dueMs + periodLengths.month.longestMs } },
    ]);
    const rate = { kind: "calendar", per: "day", timezone: "UTC" } as const;
    const others = { policies: [perIp, { ...perMonth, rate }] };
    expect(restored(end - writtenWallMs, month, others)).toEqual({ record: null, periods: [] });
  });

  test("that was over when the snapshot was written does not count", () => {
    expect(restored(0, record({ slot: 3, entries: [[6, 40]] })).record).toBeNull();
  });

  test("ends when the calendar of today says so, as after a reload", () => {
    const rate = { kind: "calendar", per: "day", timezone: "Europe/Berlin" } as const;
    const { record: after, periods } = restored(0, month, { policies: [perIp, { ...perMonth, rate }] });
    expect(after?.entries).toEqual(entries);
    // The next midnight in Berlin.
    const endMs = Date.UTC(2026, 8, 21, 22);
    const dueMs = 5.25 + endMs - writtenWallMs;
    expect(periods).toEqual([
      { slot: 11, period: 7, end: { endMs, dueMs, lastMs: dueMs + periodLengths.day.longestMs } },
    ]);
  });

  test("and a window are never taken for each other", () => {
    const description = describe({ policies: [{ ...sliding, slot: 3, name: "monthly", key: monthly.key }] });
    expect(restored(0, month, { description }).record).toBeNull();
  });
});

test("no unit expires earlier than by the clock of the wall, wherever the clocks stand", () => {
  for (let i = 0; i < 1_000; i += 1) {
    const tableMs = (i * 7919.37) % 100_000;
    const trueAge = (i * 104_729.61) % 50_000;
    const passed = (i * 15_485.863) % 9_000;
    const offset = (i * 0.618) % 1;
    const wall = (ms: number): number => Math.floor(writtenWallMs + offset + ms);
    const description = describe({ tableMs, wallMs: wall(0) });
    const restore = new Restore(description, [{ slot: 0, policy: perIp }], { wallMs: wall(passed), tableMs: i / 3 });
    const at = Math.ceil(tableMs - trueAge) >>> 0;
    const after = restore.record(record({ entries: [[at, 1]] }))?.entries[0]?.[0] ?? Number.NaN;
    const early = i / 3 - trueAge - passed - (after | 0);
    expect(early).toBeLessThanOrEqual(0);
    expect(early).toBeGreaterThan(-5);
  }
});
