// Which policy goes on with the counters of which one before.
import type { KeyPart, Policy } from "./policy.ts";

/** What says which policy a counter belongs to. */
export type PolicyIdentity = Pick<Policy, "name" | "key"> & {
  readonly rate: { readonly kind: Policy["rate"]["kind"] };
};

/** Returns whether what was counted for the policy before also counts for the new one. */
export function isContinued(policy: PolicyIdentity, before: PolicyIdentity): boolean {
  return policy.name === before.name && policy.rate.kind === before.rate.kind && isSameKey(policy.key, before.key);
}

function isSameKey(a: readonly KeyPart[], b: readonly KeyPart[]): boolean {
  const textOf = (part: KeyPart | undefined): string => JSON.stringify(part);
  return a.length === b.length && a.every((part, i) => textOf(part) === textOf(b[i]));
}
