// For what of a shared store a request waits.
import type { PolicyState } from "./policy-state.ts";

/** Whether a request waits for the store's word on a policy: on a shadow one only if something is held until its end. */
export function mustWait({ isAsked, isUnknown, isShadow, holds }: PolicyState): boolean {
  return isAsked && isUnknown && (!isShadow || holds);
}

/**
 * Whether those that wait before a request will hardly leave it anything of a policy. It waits for what becomes of them,
 * because units that it took of other policies would be refused to others until they are given back.
 */
export function isCrowdedOut(states: readonly PolicyState[]): boolean {
  let unknown = 0;
  let isCrowded = false;
  for (const { isAsked, isUnknown, isShadow, shared } of states) {
    if (!isAsked || !isUnknown) continue;
    unknown += 1;
    isCrowded ||= !isShadow && shared?.isCrowded === true;
  }
  return isCrowded && unknown > 1;
}
