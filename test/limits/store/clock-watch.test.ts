// How a step of the store's clock is told from drift and from the time that an answer takes.
import { describe, expect, test } from "vitest";
import { ClockWatch } from "../../../src/limits/store/store-clock.ts";

/** At 0 the store's clock was exactly 1000 ms ahead. */
function watching(): ClockWatch {
  const watch = new ClockWatch();
  expect(watch.observe(0, 0, 1_000_000)).toBe("steady");
  return watch;
}

describe("an answer a second later, when 1 % of drift and 20 ms are allowed", () => {
  test.each([
    [2_030, "steady"],
    [2_031, "forward"],
    [1_970, "steady"],
    [1_969, "back"],
  ])("that shows %i ms is %s", (timeMs, step) => {
    expect(watching().observe(1_000, 1_000, timeMs * 1000)).toBe(step);
  });

  test.each([
    [2_030, "steady"],
    [2_031, "forward"],
    [1_470, "steady"],
    [1_469, "back"],
  ])("that took 500 ms of it and shows %i ms is %s", (timeMs, step) => {
    expect(watching().observe(500, 1_000, timeMs * 1000)).toBe(step);
  });
});

test("after a step it goes on from there", () => {
  const watch = watching();
  expect(watch.observe(100, 100, 61_100_000)).toBe("forward");
  expect(watch.observe(200, 200, 61_200_000)).toBe("steady");
  expect(watch.observe(300, 300, 1_300_000)).toBe("back");
  expect(watch.observe(400, 400, 1_400_000)).toBe("steady");
});

test.each([
  [1_560, "forward"],
  [1_440, "back"],
])("an answer that took long does not hide that the next one, %i ms, is a step %s", (timeMs, step) => {
  const watch = watching();
  expect(watch.observe(0, 500, 1_250_000)).toBe("steady");
  expect(watch.observe(500, 500, timeMs * 1000)).toBe(step);
});

test("another server's clock is compared with nothing", () => {
  const watch = watching();
  watch.forget();
  expect(watch.wallMs(0)).toBe(null);
  expect(watch.observe(100, 100, 9_000_000)).toBe("steady");
});

test("the time that it tells is never ahead of the store's clock", () => {
  const watch = new ClockWatch();
  expect(watch.wallMs(0)).toBe(null);
  // The clock showed 1000 at some instant from 0 to 40, at the latest when the answer came.
  watch.observe(0, 40, 1_000_000);
  expect(watch.wallMs(40)).toBe(1_000);
  expect(watch.wallMs(60)).toBe(1_020);
});
