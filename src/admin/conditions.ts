// The conditions of a call (RFC 9110, section 13.1): If-Match and If-None-Match, about the revision of a rule.
import type { Precondition } from "./control-plane.ts";

export function entityTag(revision: number): string {
  return `"${revision}"`;
}

/** Longer lists are no condition that a client of this API writes. */
const maxLength = 1_024;

/** Null: they are not well-formed, or there are both. A weak tag never matches (RFC 9110, section 8.8.3.2). */
export function readCondition(ifMatch: string | undefined, ifNoneMatch: string | undefined): Precondition | null {
  if (ifMatch === undefined && ifNoneMatch === undefined) return { kind: "none" };
  if (ifNoneMatch !== undefined)
    return ifMatch === undefined && ifNoneMatch.trim() === "*" ? { kind: "missing" } : null;
  if (ifMatch === undefined || ifMatch.length > maxLength) return null;
  if (ifMatch.trim() === "*") return { kind: "exists" };
  const tags = ifMatch.split(",").map((tag) => tag.trim());
  if (!tags.every((tag) => /^(?:W\/)?"[!#-~]*"$/.test(tag))) return null;
  const strong = tags.map((tag) => /^"(0|[1-9]\d{0,15})"$/.exec(tag)?.[1]);
  return { kind: "revisions", revisions: strong.flatMap((digits) => (digits === undefined ? [] : [Number(digits)])) };
}
