// The headers that an app gives with the head of a response, in all forms that Node takes them, and the headers that go out
// in the place of the app's of the same names.
import type { HeaderList } from "../core/headers.ts";
import { gatewayResponseFields } from "../core/response-fields.ts";

/** Names and values alternating, one value each. Node checks them when they are written. */
export type AppHeaders = readonly unknown[];

/** `given`: an object, a list of names and values, or a list of pairs. */
export function appHeaders(given: unknown): AppHeaders {
  if (typeof given !== "object" || given === null) return [];
  const isFlat = Array.isArray(given) && !Array.isArray(given[0]);
  const pairs: unknown[] = isFlat ? pairsOf(given) : Array.isArray(given) ? given : Object.entries(given);
  return pairs.flatMap((pair) => {
    const [name, value] = pair as [unknown, unknown];
    return Array.isArray(value) ? value.flatMap((each) => [name, each]) : [name, value];
  });
}

function pairsOf(list: readonly unknown[]): unknown[] {
  return list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1]]] : []));
}

/** The names that the app's headers may not have beside `own`, in lower case: headgate's, whether they are sent or not. */
export function replacedNames(own: HeaderList): ReadonlySet<string> {
  const names = new Set(gatewayResponseFields);
  for (let i = 0; i < own.length; i += 2) names.add((own[i] ?? "").toLowerCase());
  return names;
}

export function withoutNames(given: AppHeaders, names: ReadonlySet<string>): AppHeaders {
  return given.filter((_, i) => !names.has(String(given[i - (i % 2)]).toLowerCase()));
}

/** All values of a header, whose name is in lower case. */
export function valuesIn(given: AppHeaders, lower: string): string[] {
  return given.flatMap((value, i) =>
    i % 2 === 1 && String(given[i - 1]).toLowerCase() === lower ? [String(value)] : [],
  );
}
