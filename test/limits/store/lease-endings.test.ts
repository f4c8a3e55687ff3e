// When the leases of a thread are ended and reported.
import { expect, test, vi } from "vitest";
import { LeaseEndings } from "../../../src/limits/store/reports.ts";
import type { SharedKey } from "../../../src/limits/store/shared-key.ts";
import { ManualTimers } from "./manual-timers.ts";
import { addLease, someKey } from "./some-keys.ts";

function endingsOf(report: (key: SharedKey) => void) {
  const timers = new ManualTimers();
  const endings = new LeaseEndings({ clock: timers.clock, timers }, report);
  return { timers, endings };
}

test("what is left of a lease is returned shortly after its end, and the key is then left alone", () => {
  const report = vi.fn((key: SharedKey) => void key.held.takeReports(9, 0));
  const { timers, endings } = endingsOf(report);
  const key = someKey();
  addLease(key, "x", 5, timers.clock.nowMs + 100);
  endings.add(key);
  timers.advance(99);
  expect(report).not.toHaveBeenCalled();
  timers.advance(1);
  expect(report).toHaveBeenCalledOnce();
  expect(key.policy.units.returned).toBe(5);
  timers.advance(20);
  expect(timers.waiting).toBe(0);
});

test("what could not be reported is tried again", () => {
  const report = vi.fn();
  const { timers, endings } = endingsOf(report);
  const key = someKey();
  addLease(key, "x", 1, timers.clock.nowMs);
  endings.add(key);
  timers.advance(60);
  expect(report).toHaveBeenCalledTimes(3);
  endings.close();
  expect(timers.waiting).toBe(0);
});

test("it counts the leases of all keys", () => {
  const { timers, endings } = endingsOf(() => undefined);
  const [one, two] = [someKey(), someKey()];
  addLease(one, "x", 5, timers.clock.nowMs + 100);
  addLease(one, "y", 1, timers.clock.nowMs + 100);
  addLease(two, "z", 2, timers.clock.nowMs);
  for (const key of [one, two, one]) endings.add(key);
  expect(endings.openLeases).toBe(3);
});

test("one turn looks at a bounded number of keys, and the next ones at the others, each once", () => {
  const report = vi.fn((key: SharedKey) => void key.held.takeReports(9, 0));
  const { timers, endings } = endingsOf(report);
  for (let i = 0; i < 5_000; i += 1) {
    const key = someKey();
    addLease(key, "x", 1, timers.clock.nowMs);
    endings.add(key);
  }
  timers.advance(20);
  expect(report).toHaveBeenCalledTimes(2_048);
  timers.advance(40);
  expect([report.mock.calls.length, new Set(report.mock.calls.flat()).size]).toEqual([5_000, 5_000]);
});
