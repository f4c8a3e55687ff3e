// The slot of a tag, and what a cluster says of its slots.
import { describe, expect, test } from "vitest";
import { parseRedirection, parseSlots, slotOf } from "../../../../src/limits/store/redis/cluster.ts";

test("a tag is in the slot that the specification says", () => {
  // CRC16("123456789") is 0x31c3; the others are what CLUSTER KEYSLOT of Redis 7.0 answers.
  expect(slotOf("123456789")).toBe(0x31c3);
  expect(slotOf("0")).toBe(13_907);
  expect(slotOf("a0123456789abcdef0123456789abcde")).toBe(2_077);
});

const host = "asked.example";

describe("CLUSTER SLOTS", () => {
  test("names primaries and replicas, and leaves out the host that was asked", () => {
    const reply = [
      [0, 99, ["10.0.0.1", 1, "id", []], ["", 2, "id"]],
      [100, 100, [null, 3, "id"]],
      [200, 300, ["?", 4]],
    ];
    expect(parseSlots(reply, host)).toEqual([
      { first: 0, last: 99, primary: { host: "10.0.0.1", port: 1 }, replicas: [{ host, port: 2 }] },
      { first: 100, last: 100, primary: { host, port: 3 }, replicas: [] },
    ]);
  });

  test.each([[null], ["OK"], [[1]], [[["0", 1, ["h", 1]]]], [[[0, 16_384, ["h", 1]]]], [[[-1, 1, ["h", 1]]]]])(
    "%j is none",
    (reply) => {
      expect(parseSlots(reply, host)).toBeNull();
    },
  );
});

test("a redirection is read, with or without a host", () => {
  expect(parseRedirection("MOVED 3999 ::1:6381", host)).toEqual({ isAsk: false, address: { host: "::1", port: 6381 } });
  expect(parseRedirection("ASK 1 :6381", host)).toEqual({ isAsk: true, address: { host, port: 6381 } });
  expect(parseRedirection("ERR MOVED 1 h:1", host)).toBeNull();
});
