import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { MinRateTimeout, overdueMs } from "../../src/upstream/min-rate-timeout.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const kib16 = 16 * 1024;

function timeoutOf(bodyTimeoutMs: number) {
  const beganMs = performance.now();
  const exhaustedAfterMs: number[] = [];
  const nowMs = (): number => performance.now() - beganMs;
  const timeout = new MinRateTimeout({ bodyTimeoutMs, nowMs }, { cancel: () => void exhaustedAfterMs.push(nowMs()) });
  return { timeout, exhaustedAfterMs };
}

test("a client that does nothing is waited for as long as the timeout says", () => {
  const { timeout, exhaustedAfterMs } = timeoutOf(60_000);
  timeout.begin();
  vi.advanceTimersByTime(59_999);
  expect(exhaustedAfterMs).toEqual([]);
  vi.advanceTimersByTime(2);
  expect(exhaustedAfterMs).toEqual([60_000]);
});

test("one byte a second does not buy a second", () => {
  const { timeout, exhaustedAfterMs } = timeoutOf(60_000);
  timeout.begin();
  for (let second = 0; second < 70; second += 1) {
    vi.advanceTimersByTime(1_000);
    timeout.moved(1);
  }
  expect(exhaustedAfterMs[0]).toBeGreaterThanOrEqual(60_000);
  expect(exhaustedAfterMs[0]).toBeLessThan(60_010);
});

test("16 KiB a second is waited for without end", () => {
  const { timeout, exhaustedAfterMs } = timeoutOf(5_000);
  timeout.begin();
  for (let second = 0; second < 600; second += 1) {
    vi.advanceTimersByTime(1_000);
    timeout.moved(kib16);
  }
  expect(exhaustedAfterMs).toEqual([]);
  vi.advanceTimersByTime(5_001);
  expect(exhaustedAfterMs).toHaveLength(1);
});

test("what moved fast before is no credit for standing still later", () => {
  const { timeout, exhaustedAfterMs } = timeoutOf(5_000);
  timeout.begin();
  timeout.moved(1024 * kib16);
  vi.advanceTimersByTime(5_001);
  expect(exhaustedAfterMs).toHaveLength(1);
});

test("the time in which something else is waited for does not count", () => {
  const { timeout, exhaustedAfterMs } = timeoutOf(5_000);
  timeout.begin();
  vi.advanceTimersByTime(4_000);
  timeout.pause();
  vi.advanceTimersByTime(60_000);
  timeout.begin();
  vi.advanceTimersByTime(999);
  expect(exhaustedAfterMs).toEqual([]);
  vi.advanceTimersByTime(2);
  expect(exhaustedAfterMs).toHaveLength(1);
});

test("after its end nothing happens any more", () => {
  const { timeout, exhaustedAfterMs } = timeoutOf(5_000);
  timeout.begin();
  timeout.end();
  vi.advanceTimersByTime(60_000);
  expect(exhaustedAfterMs).toEqual([]);
  expect(vi.getTimerCount()).toBe(0);
});

test("a transfer is idle for as long as its client is waited for, less a second for each 256 KiB", () => {
  const { timeout } = timeoutOf(60_000);
  expect(timeout.idleMs()).toBe(0);
  timeout.begin();
  vi.advanceTimersByTime(3_000);
  expect(timeout.idleMs()).toBe(3_000);
  timeout.moved(512 * 1024);
  expect(timeout.idleMs()).toBe(1_000);
  timeout.pause();
  vi.advanceTimersByTime(5_000);
  expect(timeout.idleMs(), "the client is not waited for").toBe(0);
  timeout.begin();
  expect(timeout.idleMs()).toBe(1_000);
  timeout.end();
  expect(timeout.idleMs()).toBe(0);
});

test.each([
  ["at 256 KiB a second is never idle for half a second", 64 * 1024, false],
  ["a little slower is, in the end", 62 * 1024, true],
])("a transfer %s", (_, bytes, isIdle) => {
  const { timeout } = timeoutOf(60_000);
  timeout.begin();
  let longestMs = 0;
  for (let quarter = 0; quarter < 400; quarter += 1) {
    vi.advanceTimersByTime(250);
    longestMs = Math.max(longestMs, timeout.idleMs());
    timeout.moved(bytes);
  }
  expect(longestMs >= 500).toBe(isIdle);
});

test("a response is overdue ten seconds after its bytes would have passed at 256 KiB a second", () => {
  expect(overdueMs(null, 60_000, 0), "it has not begun").toBe(0);
  expect([overdueMs(5, 5, 0), overdueMs(5, 10_005, 0), overdueMs(5, 10_006, 0)]).toEqual([0, 0, 1]);
  expect([overdueMs(0, 14_000, 1024 * 1024), overdueMs(0, 14_100, 1024 * 1024)]).toEqual([0, 100]);
});
