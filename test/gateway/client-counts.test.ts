import { expect, test } from "vitest";
import { addressKey } from "../../src/core/counter-key.ts";
import { parseIpAddress } from "../../src/core/ip-address.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import { createClientCounts } from "../../src/gateway/control/client-counts.ts";
import { testSettings } from "../support/gateway.ts";
import { Stage } from "./clients-stage.ts";

function counts(refused: readonly string[]) {
  const { clients, clock } = new Stage({});
  const keys = refused.map((address, i) => {
    return { key: addressKey(parseIpAddress(address) ?? [], 64), count: 10 - i, error: 0, seen: null };
  });
  return createClientCounts({
    ...{ clients, wallMs: clock.wallMs, rules: new RulesInForce(), listedTokens: () => null },
    settings: () => testSettings("http://127.0.0.1:9", {}),
    recent: { refused: () => ({ keys, sinceMs: clock.wallMs() }) },
    forgive: async () => null,
  });
}

test.each([
  { limit: 2, isComplete: true },
  { limit: 1, isComplete: false },
])("of 2 refused clients $limit are wanted: complete is $isComplete", async ({ limit, isComplete }) => {
  const { list } = counts(["203.0.113.7", "2001:db8::1"]);
  const answer = await list({ policy: null, sort: "refused", search: null, limit });
  expect(answer.isComplete).toBe(isComplete);
  const keys = ["client:203.0.113.7", "client:2001:db8::/64"].slice(0, limit);
  expect(answer.clients.map(({ key, refused }) => [key, refused?.count])).toEqual(keys.map((key, i) => [key, 10 - i]));
});
