// The label values that are not a closed set of core: what a client can choose is mapped into one of them, so the number of
// series is fixed at the start.
import { checkRefusals } from "../core/connection-ends.ts";
import type { RefusalReason } from "../core/local-reply.ts";

/** The label of requests under no configured route. */
export const noRoute = "none";

export const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"] as const;

/** Indexed by the first digit of the status. `none`: the client left before there was a status. */
export const statusClasses = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"] as const;
export type StatusClass = (typeof statusClasses)[number];

/** A status of 600 and above counts as 5xx (RFC 9110, section 15). */
export function statusClass(status: number): StatusClass {
  return statusClasses[Math.floor(status / 100)] ?? "5xx";
}

/** `internal`: a bug, and no decision. */
export const checkOutcomes = ["admitted", "denied", "internal", ...checkRefusals] as const;

export function checkOutcome(problem: RefusalReason | null): (typeof checkOutcomes)[number] {
  if (problem === null) return "admitted";
  return problem === "internal" ? problem : "denied";
}
