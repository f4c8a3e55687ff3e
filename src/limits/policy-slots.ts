// The numbers of policies in the table of counters. A policy that a reload continues keeps its number. That of a policy
// that is gone is not used again before its keys have been removed.
import type { Policy } from "../core/policy.ts";
import { isContinued } from "../core/restart-keys.ts";
import { policySlots } from "./table/layout.ts";

export interface PolicySlot {
  readonly policy: Policy;
  readonly slot: number;
}

/** All slots have policies, or keys of policies that are gone. */
export class NoSlotError extends Error {}

/**
 * Returns the slots of policies, in their order. `before`: those in force. `isFree`: whether no key of a slot is left.
 * Throws a NoSlotError if there is no slot left.
 */
export function assignSlots(
  policies: readonly Policy[],
  before: readonly PolicySlot[],
  isFree: (slot: number) => boolean = () => true,
): readonly PolicySlot[] {
  const taken = new Set(before.map(({ slot }) => slot));
  let next = 0;
  const freeSlot = (): number => {
    while (next < policySlots && (taken.has(next) || !isFree(next))) next += 1;
    if (next === policySlots) throw new NoSlotError("the table of counters has no slot left for a new policy");
    taken.add(next);
    return next;
  };
  return policies.map((policy) => {
    const continued = before.find((each) => isContinued(policy, each.policy));
    return { policy, slot: continued === undefined ? freeSlot() : continued.slot };
  });
}
