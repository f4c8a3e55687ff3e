import { STATUS_CODES } from "node:http";
import { expect, test } from "vitest";
import { reasonPhrase } from "../../src/core/headers.ts";

// 418 is reserved, 509 and 510 are not in use, and Node says so of 306 by leaving it out.
const unregistered = new Set(["418", "509", "510"]);

test("every registered status has the phrase that Node gives it", () => {
  const expected = Object.entries(STATUS_CODES).filter(([status]) => !unregistered.has(status));
  expect(expected.length).toBeGreaterThan(50);
  expect(expected.map(([status]) => [status, reasonPhrase(Number(status))])).toEqual(expected);
});

test("a status that nobody registered has no phrase", () => {
  expect([0, 299, 418, 509, 510, 599, 999].map(reasonPhrase)).toEqual(["", "", "", "", "", "", ""]);
});
