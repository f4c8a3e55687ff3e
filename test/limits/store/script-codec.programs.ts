// What a reply must be to be read, whatever a server or something between sends.
import { describe, expect, test } from "vitest";
import type { Item } from "../../../src/limits/store/script-call.ts";
import { decodeAnswer, encodeCall } from "../../../src/limits/store/script-call.ts";
import { itemOf } from "./real-script.ts";

const items: readonly Item[] = [
  itemOf({}),
  { item: "gateways", key: "{0}:gateways", gateway: "a", silenceUs: 1, ageUs: 0 },
  { item: "secret", key: "{0}:secret", proposed: "ff" },
];
const reply: readonly unknown[] = [1_800_000_000_000_000, 1, 2, 3, 4, -1, 5, 0, 1, 5, "ff"];
const answer = {
  timeUs: 1_800_000_000_000_000,
  items: [
    {
      item: "counter",
      isInPeriod: true,
      isForeign: false,
      isVoid: false,
      granted: 2,
      free: 3,
      resetUs: 4,
      fitsUs: -1,
      leasedUs: 5,
      isNew: false,
    },
    { item: "gateways", wasListed: true, gateways: 5 },
    { item: "secret", value: "ff" },
  ],
};

test("a reply is read, with integers or with texts", () => {
  expect(decodeAnswer(reply, items)).toEqual(answer);
  expect(decodeAnswer(reply.map(String), items)).toEqual(answer);
});

describe("a malformed reply is refused", () => {
  test.each<[string, unknown]>([
    ["nothing", null],
    ["a text", "OK"],
    ["an empty list", []],
    ["too short", reply.slice(0, -1)],
    ["too long", [...reply, 1]],
    ["a text for a number", reply.with(2, "many")],
    ["an empty text for a number", reply.with(2, "")],
    ["a fraction", reply.with(2, 0.5)],
    ["a number above 2^53", reply.with(0, 2 ** 53)],
    ["a list within", reply.with(2, [1])],
    ["null within", reply.with(3, null)],
    ["a number for the secret", reply.with(10, 1)],
    ["an empty secret", reply.with(10, "")],
  ])("%s", (_, malformed) => {
    expect(() => decodeAnswer(malformed, items)).toThrow(/reply/);
  });
});

test("times are rounded so that what counts does not count for too short a time", () => {
  const report = { id: "lease", granted: 2, spent: 1, ageUs: 10.9 };
  const { args } = encodeCall([
    itemOf({ id: "new", leaseUs: 15_000.1, reports: [report], told: { units: 1, ageUs: 20.9 } }),
  ]);
  expect(args).toEqual([
    "s",
    "3",
    "15001",
    "new",
    "1",
    "60000000",
    "1",
    "1",
    "1",
    "lease",
    "2",
    "1",
    "10",
    "1",
    "20",
    "0",
  ]);
});
