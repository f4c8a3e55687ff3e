// What failed at the upstream is counted by reason and address, however many there are of either.
import { expect, test } from "vitest";
import { FailureCounts } from "../../../src/telemetry/recent/upstream-failures.ts";

const reset = { reason: "reset", address: "10.0.0.1:80", count: 1 } as const;
const refused = { reason: "refused", address: null, count: 3 } as const;

test("of too many addresses, the failures of the others are told together by their reason", () => {
  const failures = new FailureCounts();
  for (const each of [reset, reset]) failures.add(each);
  expect(failures.all).toEqual([{ ...reset, count: 2 }]);
  for (let i = 0; i < 200; i += 1) failures.add({ ...reset, address: `10.0.1.${i}:80` });
  failures.add(refused);
  expect(failures.all).toHaveLength(66);
  expect(failures.all.slice(64)).toEqual([{ ...reset, address: null, count: 137 }, refused]);
});
