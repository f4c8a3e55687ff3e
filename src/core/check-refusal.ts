// Why a call for a decision was answered without one: the words that `decision` and `telemetry` share.

/**
 * `untrusted`: the caller is none of those who may ask. `malformed`: it does not say what a decision needs, or cannot be
 * read. `overloaded`: its connection was one too many.
 */
export const checkRefusals = ["untrusted", "malformed", "overloaded"] as const;

export type CheckRefusal = (typeof checkRefusals)[number];
