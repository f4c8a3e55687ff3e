// Counters of one key, and leases, for tests of what a thread holds.
import { CounterKey } from "../../../src/core/counter-key.ts";
import type { CounterRules } from "../../../src/limits/store/counter-rules.ts";
import type { CounterAnswer } from "../../../src/limits/store/script-call.ts";
import { type Lease, NewKeys, SharedKey, StorePolicy } from "../../../src/limits/store/shared-key.ts";

const address = new CounterKey(0, 0, 0xffff, 0xc0000201, true);

/** Leased ahead for 100 ms. */
export const rulesAhead: CounterRules = {
  item: "sliding",
  limit: 1_000,
  windowUs: 10_000_000,
  untilUs: 0,
  keepUs: 0,
  leaseUs: 100_000,
  step: 1,
  spendMs: 100,
  isAhead: true,
  isByRequest: false,
};

let keys = 0;

export function someKey(rules: Partial<CounterRules> = {}): SharedKey {
  const source = {
    slot: 0,
    limit: rulesAhead.limit,
    rules: () => rulesAhead,
    own: () => null,
    periodOver() {},
  };
  const policy = new StorePolicy("s", source, 1, new NewKeys(1, 1), { spent: 0, returned: 0 });
  keys += 1;
  return new SharedKey({
    policy,
    name: "a",
    tag: "a",
    storeKey: `{a}:k${keys}`,
    key: address,
    client: address,
    rules: { ...rulesAhead, ...rules },
  });
}

export function addLease(key: SharedKey, id: string, granted: number, endsMs: number): Lease {
  const lease = { id, key, granted, left: granted, reserved: 0, spentMs: endsMs, incident: 0, endsMs };
  key.held.add(lease);
  return lease;
}

/** Spends what is held. Returns the lease. */
export function spend(key: SharedKey, units: number, nowMs: number): Lease | undefined {
  const lease = key.held.take(units, nowMs);
  if (lease !== undefined) key.spend(lease, units, nowMs);
  return lease;
}

export function answerOf(answer: Partial<CounterAnswer>): CounterAnswer {
  return {
    item: "counter",
    isInPeriod: true,
    isForeign: false,
    isVoid: false,
    granted: 0,
    askedGranted: 0,
    ahead: 0,
    free: 0,
    resetUs: 0,
    fitsUs: 0,
    leasedUs: -1,
    isNew: false,
    ...answer,
  };
}
