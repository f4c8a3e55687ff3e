// A quota for which nobody can wait: what is shown or logged now.
import type { Decision } from "../core/policy.ts";

/** Null: it comes later. Its failure is reported, since nobody else would notice. */
export function knownQuota(quota: Decision | Promise<Decision>, onFailure: (error: unknown) => void): Decision | null {
  if (!(quota instanceof Promise)) return quota;
  quota.catch(onFailure);
  return null;
}
