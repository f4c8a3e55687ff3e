// What can be wrong with a list whose items are each right: routes that overlap, families of fields named twice or
// missing. Every flawed item is named, not just the first.
import type { Flaw } from "./definition.ts";

/** A path must be under one route only. Case is folded, since a backend may fold it. */
export function routeFlaws(routes: readonly string[]): Flaw[] {
  const folded = routes.map((route) => route.toLowerCase());
  return folded.flatMap((route, index) => {
    const other = folded.findIndex((candidate, i) => i < index && overlaps(candidate, route));
    if (other === -1) return [];
    const relation = folded[other] === route ? "no second" : "none that overlaps";
    return [{ index, expected: `${relation} "${routes[other]}" (routes.${other}; case is ignored)` }];
  });
}

function overlaps(a: string, b: string): boolean {
  return a.startsWith(b) || b.startsWith(a);
}

/** Twice the same would get twice the requests. */
export function addressFlaws(addresses: readonly string[]): Flaw[] {
  return addresses.flatMap((address, index) =>
    addresses.indexOf(address) < index ? [{ index, expected: `no second "${address}"` }] : [],
  );
}

/** A client that knows none of the draft's fields has to find its quota: the contract promises the plain ones. */
export function fieldFlaws(fields: readonly string[]): Flaw[] {
  const repeated = fields.flatMap((field, index) =>
    fields.indexOf(field) < index ? [{ index, expected: `no second "${field}"` }] : [],
  );
  const hasPlain = fields.includes("standard") || fields.includes("legacy");
  return hasPlain ? repeated : [...repeated, { index: null, expected: "standard or legacy among them" }];
}
