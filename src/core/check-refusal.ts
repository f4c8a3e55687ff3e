// Why a check got no decision: the words that `ext-auth` and `telemetry` share.

/**
 * `untrusted`: the caller is not a trusted one. `malformed`: the check cannot be parsed or lacks what a decision needs.
 * `overloaded`: the connection exceeded its bound.
 */
export const checkRefusals = ["untrusted", "malformed", "overloaded"] as const;

export type CheckRefusal = (typeof checkRefusals)[number];
