// Puts together what several threads say for the admin API.
import { type Outcome, outcomes } from "../../core/policy.ts";
import type { AddressState } from "../../core/upstream.ts";
import type { PolicyOutcomes, ThreadOverview } from "../carrier.ts";

/** `names`: the policies in force, in their order. */
export function summed(threads: readonly ThreadOverview[], names: readonly string[]): ThreadOverview {
  const found = summedOutcomes(threads.flatMap(({ policies }) => policies));
  const none: Record<Outcome, number> = zeros();
  return {
    addresses: summedAddresses(threads.flatMap(({ addresses }) => addresses)),
    policies: names.map((name) => found.find(({ policy }) => policy === name) ?? { policy: name, outcomes: none }),
  };
}

export function summedOutcomes(parts: readonly PolicyOutcomes[]): PolicyOutcomes[] {
  const byName = new Map<string, Record<Outcome, number>>();
  for (const { policy, outcomes: counts } of parts) {
    const sum = byName.get(policy) ?? zeros();
    for (const outcome of outcomes) sum[outcome] += counts[outcome];
    byName.set(policy, sum);
  }
  return [...byName].map(([policy, outcomes]) => ({ policy, outcomes }));
}

function summedAddresses(parts: readonly AddressState[]): AddressState[] {
  const byAddress = new Map<string, AddressState>();
  for (const { address, isEjected, active } of parts) {
    const sum = byAddress.get(address) ?? { address, isEjected: false, active: 0 };
    byAddress.set(address, { address, isEjected: sum.isEjected || isEjected, active: sum.active + active });
  }
  return [...byAddress.values()];
}

function zeros(): Record<Outcome, number> {
  return Object.fromEntries(outcomes.map((outcome) => [outcome, 0])) as Record<Outcome, number>;
}
