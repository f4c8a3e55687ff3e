// What can be wrong with a list whose items are each right: overlaps, repetitions, something missing. Every wrong item
// is reported, not only the first.
import type { Flaw } from "./definition.ts";

/** A path must be under one route only. Case is ignored, because a backend may ignore it. */
export function routeFlaws(routes: readonly string[]): Flaw[] {
  const folded = routes.map((route) => route.toLowerCase());
  return folded.flatMap((route, index) => {
    const other = folded.findIndex((candidate, i) => i < index && overlaps(candidate, route));
    if (other === -1) return [];
    const relation = folded[other] === route ? "no second" : "none that overlaps";
    return [
      { index, expected: `${relation} "${routes[other]}" (routes.${other}; case is ignored); remove one of the two` },
    ];
  });
}

function overlaps(a: string, b: string): boolean {
  return a.startsWith(b) || b.startsWith(a);
}

/** An upstream address that is repeated would get twice the requests. */
export function repeatedItems(items: readonly (string | number)[]): Flaw[] {
  return items.flatMap((item, index) =>
    items.indexOf(item) < index ? [{ index, expected: `no second ${JSON.stringify(item)}; remove it` }] : [],
  );
}

/** A client that knows none of the draft's headers must still find its quota. */
export function fieldFlaws(fields: readonly string[]): Flaw[] {
  const hasPlain = fields.includes("standard") || fields.includes("legacy");
  return [
    ...repeatedItems(fields),
    ...(hasPlain ? [] : [{ index: null, expected: "standard or legacy among them; add one of the two" }]),
  ];
}
