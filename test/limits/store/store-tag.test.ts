// The name of a key in the store, on which gateways of different releases have to agree.
import { expect, test } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import { storeTagOf } from "../../../src/limits/store/script-call.ts";

test("an address and a hash are written in hexadecimal, each word in eight digits", () => {
  expect(storeTagOf(new CounterKey(0, 0, 0xffff, 0xcb007107, true))).toBe("a00000000000000000000ffffcb007107");
  expect(storeTagOf(new CounterKey(-1, 1, 0x80000000, 0xabc, false))).toBe("hffffffff000000018000000000000abc");
});
