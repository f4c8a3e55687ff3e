// What is done with each header of a response. Nearly all names can be told from the special ones by their length and
// first letter.
import { hopByHopNames } from "../core/headers.ts";
import { gatewayResponseFields } from "../core/response-fields.ts";

/** `kept` headers are passed on, `removed` ones are not; the others are read. */
export type HeaderKind =
  | "kept"
  | "removed"
  | "date"
  | "length"
  | "coding"
  | "connection"
  | "keep-alive"
  | "retry-after";

const kinds: ReadonlyMap<string, HeaderKind> = new Map([
  ...[...gatewayResponseFields, ...hopByHopNames].map((name) => [name, "removed"] as const),
  ["date", "date"],
  ["content-length", "length"],
  ["transfer-encoding", "coding"],
  ["connection", "connection"],
  ["keep-alive", "keep-alive"],
  ["retry-after", "retry-after"],
]);

const maxSpecialLength = Math.max(...[...kinds.keys()].map(({ length }) => length));

/** Whether a special name has this length and this first letter. */
const maybeSpecial = new Uint8Array((maxSpecialLength + 1) * 32);
for (const name of kinds.keys()) maybeSpecial[slotOf(name, 0, name.length)] = 1;

/** Returns the kind of the header whose name begins at `from` and ends before `to`. */
export function headerKind(text: string, from: number, to: number): HeaderKind {
  if (to - from > maxSpecialLength || maybeSpecial[slotOf(text, from, to)] === 0) return "kept";
  return kinds.get(text.slice(from, to).toLowerCase()) ?? "kept";
}

/** Upper and lower case have the same slot. */
function slotOf(text: string, from: number, to: number): number {
  return (to - from) * 32 + (text.charCodeAt(from) & 31);
}
