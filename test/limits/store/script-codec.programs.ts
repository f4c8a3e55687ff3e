// What a reply must be to be read, whatever a server or something between sends.
import { describe, expect, test } from "vitest";
import type { Item } from "../../../src/limits/store/script-call.ts";
import { decodeAnswer, encodeCall, leaseIdOf } from "../../../src/limits/store/script-call.ts";
import { itemOf } from "./real-script.ts";

const items: readonly Item[] = [
  itemOf({}),
  { item: "gateways", key: "{0}:gateways", gateway: "a", silenceUs: 1, ageUs: 0 },
  { item: "secret", key: "{0}:secret", proposed: "ff" },
];
const reply: readonly unknown[] = [1_800_000_000_000_000, 1, 1, 3, 4, -1, 5, 0, "one", 5, "ff"];
const answer = {
  timeUs: 1_800_000_000_000_000,
  items: [
    {
      item: "counter",
      isInPeriod: true,
      isForeign: false,
      isVoid: false,
      granted: 1,
      askedGranted: 1,
      ahead: 0,
      free: 3,
      resetUs: 4,
      fitsUs: -1,
      leasedUs: 5,
      isNew: false,
    },
    { item: "gateways", origin: "one", gateways: 5 },
    { item: "secret", value: "ff" },
  ],
  requests: [],
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
    ["a number for the origin", reply.with(8, 1)],
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
  expect(args.join(" ")).toBe("s1 3 15001 new 1 60000000 0 1 lease 2 1 10 1 20 0");
});

test("most items are six arguments, and equal requests of several counters come behind them", () => {
  const counters = [itemOf({ id: "a", asked: 0 }), itemOf({ id: "b", asked: 0, step: 2 })];
  expect(encodeCall([itemOf({ id: "a" })]).args.join(" ")).toBe("S1 3 15000 a 1 60000000");
  const needs = [
    { item: 0, units: 1 },
    { item: 1, units: 2 },
  ];
  expect(
    encodeCall(counters, [
      { count: 1, needs },
      { count: 3, needs: needs.slice(1) },
    ])
      .args.slice(12)
      .join(" "),
  ).toBe("1 2 0 1 1 2 3 1 1 2");
});

test("of the units of a counter, those of each kind are told apart", () => {
  const counters = [itemOf({ asked: 2, step: 3, ahead: 30 }), itemOf({ asked: 0, step: 2 })];
  const request = {
    count: 2,
    needs: [
      { item: 0, units: 3 },
      { item: 1, units: 2 },
    ],
  };
  const times = [-1, 0, -1, 0];
  const { items: answers, requests } = decodeAnswer([1, 1, 1, 15, 3, ...times, 1, 2, 0, ...times], counters, [request]);
  expect(requests).toEqual([1]);
  expect(answers).toMatchObject([
    { granted: 15, askedGranted: 2, ahead: 6, free: 3 },
    { granted: 2, askedGranted: 0, ahead: 0, free: 0 },
  ]);
});

test("the ids of the leases of a call differ, and say what the id of the call says", () => {
  const ids = ["gateway-aaaathread-aaa1", "gateway-aaaathread-aaa1~"].map((id) =>
    [0, 1, 12].map((i) => leaseIdOf(id, i)),
  );
  expect(ids).toEqual([
    ["gateway-aaaathread-aaa1", "gateway-aaaathread-aaa1.1", "gateway-aaaathread-aaa1.12"],
    ["gateway-aaaathread-aaa1~", "gateway-aaaathread-aaa1.1~", "gateway-aaaathread-aaa1.12~"],
  ]);
});
