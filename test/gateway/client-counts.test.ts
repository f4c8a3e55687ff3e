import { expect, test } from "vitest";
import { addressKey } from "../../src/core/counter-key.ts";
import { parseIpAddress } from "../../src/core/ip-address.ts";
import { controlOf, Stage } from "./clients-stage.ts";

function control(refused: readonly string[]) {
  const stage = new Stage({});
  const keys = refused.map((address, i) => {
    return { key: addressKey(parseIpAddress(address) ?? [], 64), count: 10 - i, error: 0, seen: null };
  });
  return controlOf(stage, { recent: { refused: () => ({ keys, sinceMs: stage.clock.wallMs() }) } });
}

test.each([
  { limit: 2, isComplete: true },
  { limit: 1, isComplete: false },
])("of 2 refused clients $limit are wanted: complete is $isComplete", async ({ limit, isComplete }) => {
  const { list } = control(["203.0.113.7", "2001:db8::1"]);
  const listed = await list({ policy: null, sort: "refused", search: null, limit });
  if (!listed.ok) throw new Error("the list was refused");
  const answer = listed.value;
  expect(answer.isComplete).toBe(isComplete);
  const keys = ["client:203.0.113.7", "client:2001:db8::/64"].slice(0, limit);
  expect(answer.clients.map(({ key, refused }) => [key, refused?.count])).toEqual(keys.map((key, i) => [key, 10 - i]));
});
