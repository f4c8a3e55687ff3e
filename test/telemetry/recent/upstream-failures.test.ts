// What failed at the upstream is told for minutes, by reason and address, whatever there is of either.
import { expect, test } from "vitest";
import { stepMs } from "../../../src/telemetry/recent/steps.ts";
import { UpstreamFailures } from "../../../src/telemetry/recent/upstream-failures.ts";

const startMs = 1_000 * stepMs;
const minutesMs = 300_000;
const reset = { reason: "reset", address: "10.0.0.1:80", count: 1 } as const;
const refused = { reason: "refused", address: "10.0.0.2:80", count: 3 } as const;

test("failures of all threads are added up for as long as is asked for, the most frequent first", () => {
  const failures = new UpstreamFailures(startMs);
  failures.add([reset]);
  failures.endSteps(startMs + stepMs);
  failures.add([refused, reset]);
  expect(failures.last(minutesMs)).toEqual([refused, { ...reset, count: 2 }]);
  for (let ms = 2 * stepMs; ms <= minutesMs; ms += stepMs) failures.endSteps(startMs + ms);
  expect(failures.last(minutesMs)).toEqual([refused, { ...reset, count: 2 }]);
  failures.endSteps(startMs + minutesMs + stepMs);
  expect(failures.last(minutesMs)).toEqual([refused, reset]);
  failures.endSteps(startMs + 10 * minutesMs);
  expect(failures.last(minutesMs)).toEqual([]);
});

test("of too many addresses, the failures of the others are told together by their reason", () => {
  const failures = new UpstreamFailures(startMs);
  for (let i = 0; i < 200; i += 1) failures.add([{ ...reset, address: `10.0.0.${i}:80` }]);
  failures.add([{ ...refused, address: null }]);
  const last = failures.last(minutesMs);
  expect(last).toHaveLength(66);
  expect(last.slice(0, 2)).toEqual([
    { ...reset, address: null, count: 136 },
    { ...refused, address: null },
  ]);
});
