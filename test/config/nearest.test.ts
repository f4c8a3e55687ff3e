import { expect, test } from "vitest";
import { nearest } from "../../src/config/validate.ts";

const names = ["host", "port", "connectTimeout", "responseTimeout", "maxConnections"];

test.each([
  ["prot", "port"], // a swap is one edit
  ["hosts", "host"],
  ["connect_timeout", "connectTimeout"],
  ["CONNECTTIMEOUT", "connectTimeout"],
  ["reponseTimeout", "responseTimeout"],
  ["maxConns", null],
  ["url", null],
  ["", null],
  ["x".repeat(5000), null],
])("%s: %s", (name, expected) => {
  expect(nearest(name, names)).toBe(expected);
});

test("the closest wins, not the first", () => {
  expect(nearest("ports", ["parts", "port", "ports2"])).toBe("parts");
  expect(nearest("timeou", ["time", "timeouts", "timeout"])).toBe("timeout");
});
