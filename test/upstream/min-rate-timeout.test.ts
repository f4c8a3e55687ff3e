import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LocalReply } from "../../src/core/local-reply.ts";
import { MinRateTimeout, responseSlowness } from "../../src/upstream/min-rate-timeout.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const kib16 = 16 * 1024;

function timeoutOf(bodyTimeoutMs: number, bodyBytesPerSecond = kib16) {
  const beganMs = performance.now();
  const exhaustedAfterMs: number[] = [];
  const details: LocalReply["detail"][] = [];
  const nowMs = (): number => performance.now() - beganMs;
  const owner = {
    cancel({ detail }: LocalReply) {
      exhaustedAfterMs.push(nowMs());
      details.push(detail);
    },
  };
  const timeout = new MinRateTimeout({ bodyTimeoutMs, bodyBytesPerSecond, nowMs }, owner);
  return { timeout, exhaustedAfterMs, details };
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

test.each([
  ["at the rate", 256, null],
  ["above the rate", 300, null],
  ["a little slower", 240, "timeouts.bodyRate 256 B/s: 15360 bytes in 65.0 s of waiting for the client"],
  ["not at all", 0, "timeouts.body 5 s: 0 bytes in 5.0 s of waiting for the client"],
])("the rate is the configured one, and the log gets the bound: %s", (_, bytes, detail) => {
  const { timeout, details } = timeoutOf(5_000, 256);
  timeout.begin();
  for (let second = 0; second < 600 && details.length === 0; second += 1) {
    vi.advanceTimersByTime(1_000);
    timeout.moved(bytes);
  }
  expect(details).toEqual(detail === null ? [] : [detail]);
});

test("a transfer that was fast and then stands still exceeds timeouts.body, not the rate", () => {
  const { timeout, details } = timeoutOf(5_000);
  timeout.begin();
  vi.advanceTimersByTime(1_000);
  timeout.moved(1024 * kib16);
  vi.advanceTimersByTime(5_001);
  expect(details).toEqual(["timeouts.body 5 s: 16777216 bytes in 6.0 s of waiting for the client"]);
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

const kib256 = 256 * 1024;

/** Lets a transfer move a piece after each quarter of a second. Returns how slow it was just before each of the last four. */
function slownessAt(bytesPerSecond: number, seconds: number): number[] {
  const { timeout } = timeoutOf(3_600_000, 256);
  const found: number[] = [];
  timeout.begin();
  for (let quarter = 0; quarter < 4 * seconds; quarter += 1) {
    vi.advanceTimersByTime(250);
    found.push(timeout.slowness());
    timeout.moved(bytesPerSecond / 4);
  }
  timeout.end();
  return found.slice(-4);
}

test("a transfer is slow when it has been idle for half a second, and its bytes make up for it at 256 KiB a second", () => {
  const { timeout } = timeoutOf(60_000);
  expect(timeout.slowness()).toBe(0);
  timeout.begin();
  vi.advanceTimersByTime(499);
  expect(timeout.slowness()).toBe(0);
  vi.advanceTimersByTime(1);
  expect(timeout.slowness(), "nothing has moved").toBe(1);
  vi.advanceTimersByTime(1_500);
  timeout.moved(kib256);
  expect(timeout.slowness(), "half of the time is made up for").toBe(0.5);
  timeout.pause();
  vi.advanceTimersByTime(5_000);
  expect(timeout.slowness(), "the client is not waited for").toBe(0);
  timeout.begin();
  expect(timeout.slowness()).toBe(0.5);
  timeout.moved(kib256);
  vi.advanceTimersByTime(400);
  expect(timeout.slowness(), "what it was before is forgotten").toBe(0);
  vi.advanceTimersByTime(600);
  expect(timeout.slowness(), "two seconds at the rate are remembered").toBe(1 / 3);
  timeout.endIdle();
  expect(timeout.slowness()).toBe(0);
  timeout.end();
  expect(timeout.slowness()).toBe(0);
});

test("a fast beginning is no credit: what counts is the rate since the transfer became slow", () => {
  const { timeout } = timeoutOf(60_000);
  timeout.begin();
  timeout.moved(100 * kib256);
  vi.advanceTimersByTime(1_000);
  expect(timeout.slowness()).toBe(1);
});

/** Sends so fast for ten seconds. */
function fastTransfer(): MinRateTimeout {
  const { timeout } = timeoutOf(60_000);
  timeout.begin();
  for (let tenth = 0; tenth < 100; tenth += 1) {
    vi.advanceTimersByTime(100);
    timeout.moved(kib256);
  }
  return timeout;
}

test.each([500, 1_000, 5_000])("a fast transfer that stands still for %d ms is not slower than a trickle", (stopMs) => {
  const timeout = fastTransfer();
  vi.advanceTimersByTime(stopMs);
  const stopped = timeout.slowness();
  timeout.end();
  expect(stopped).toBeGreaterThan(0);
  expect(stopped).toBeLessThan(Math.min(...slownessAt(4 * 1024, 5)));
});

test("its credit for that is two seconds at the busy rate, and none for what came before it had a connection", () => {
  const timeout = fastTransfer();
  vi.advanceTimersByTime(6_000);
  expect(timeout.slowness()).toBe(0.75);
  timeout.endIdle();
  vi.advanceTimersByTime(600);
  expect(timeout.slowness()).toBe(1);
  timeout.end();
});

test.each([
  ["at 256 KiB a second is never slow", kib256, false],
  ["a little slower is, in the end", (kib256 * 31) / 32, true],
])("a transfer %s", (_, bytesPerSecond, isSlow) => {
  expect(Math.max(...slownessAt(bytesPerSecond, 100)) > 0).toBe(isSlow);
});

test("the slower of two transfers gives way, whichever is older", () => {
  const rates = [4, 5, 8, 16, 64].map((kib) => kib * 1024);
  for (const [i, slower] of rates.entries()) {
    for (const faster of rates.slice(i + 1)) {
      for (const [ofSlower, ofFaster] of [
        [5, 200],
        [200, 5],
      ] as const) {
        expect(Math.min(...slownessAt(slower, ofSlower))).toBeGreaterThan(Math.max(...slownessAt(faster, ofFaster)));
      }
    }
  }
});

test("a response is slow ten and a half seconds after its bytes would have passed at 256 KiB a second", () => {
  expect(responseSlowness(null, 60_000, 0), "it has not begun").toBe(0);
  expect([responseSlowness(5, 5, 0), responseSlowness(5, 10_504, 0), responseSlowness(5, 10_505, 0)]).toEqual([
    0, 0, 1,
  ]);
  expect(responseSlowness(0, 14_499, 1024 * 1024)).toBe(0);
  expect(responseSlowness(0, 16_000, 1024 * 1024), "its bytes take four seconds").toBe(0.75);
});
