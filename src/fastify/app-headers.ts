// The headers that an app gives with the head of a response, in the forms that Node takes them, and the headgate's put in
// the place of the app's own of the same names.
import type { OutgoingHttpHeaders } from "node:http";
import { gatewayResponseFields } from "../core/fields.ts";
import type { HeaderList } from "../core/header-list.ts";

/** As writeHead takes them: an object, or a list of names and values. */
export type AppHeaders = OutgoingHttpHeaders | readonly (string | number | readonly string[])[];

/** What headgate sends itself, and the app may not: in lower case. */
export interface Replaced {
  readonly status: number;
  /** The connection ends behind the response. */
  readonly isLast: boolean;
}

export function isReplaced(lower: string, { status, isLast }: Replaced): boolean {
  if (lower === "connection") return isLast;
  return gatewayResponseFields.has(lower) || (lower === "retry-after" && status === 429);
}

/** writeHead also takes a list of pairs. */
export function appHeaders(given: unknown): AppHeaders {
  if (typeof given !== "object" || given === null) return {};
  if (!Array.isArray(given)) return given as OutgoingHttpHeaders;
  return Array.isArray(given[0]) ? given.flat(1) : given;
}

/** `own` goes behind what is left of the app's headers. */
export function replaceHeaders(given: AppHeaders, own: HeaderList, replaced: Replaced): AppHeaders {
  if (isList(given)) {
    const kept = given.filter((_, i) => !isReplaced(String(given[i - (i % 2)]).toLowerCase(), replaced));
    return [...kept, ...own];
  }
  const headers: OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(given)) {
    if (!isReplaced(name.toLowerCase(), replaced)) headers[name] = value;
  }
  for (let i = 0; i < own.length; i += 2) headers[own[i] ?? ""] = own[i + 1];
  return headers;
}

/** All values of a header in lower case. */
export function valuesIn(given: AppHeaders, lower: string): string[] {
  const values: string[] = [];
  const add = (name: unknown, value: unknown): void => {
    if (String(name).toLowerCase() === lower) values.push(...[value].flat().map(String));
  };
  if (isList(given)) for (let i = 0; i < given.length; i += 2) add(given[i], given[i + 1]);
  else for (const [name, value] of Object.entries(given)) add(name, value);
  return values;
}

/** Lines of one name become one entry with a list of values, in the spelling of the first. */
export function groupByName(list: HeaderList): OutgoingHttpHeaders {
  const spellings = new Map<string, string>();
  const grouped: Record<string, string[]> = {};
  for (let i = 0; i < list.length; i += 2) {
    const name = list[i] ?? "";
    const spelling = spellings.get(name.toLowerCase()) ?? name;
    spellings.set(name.toLowerCase(), spelling);
    grouped[spelling] ??= [];
    grouped[spelling].push(list[i + 1] ?? "");
  }
  return grouped;
}

export function isList(headers: AppHeaders): headers is Extract<AppHeaders, readonly unknown[]> {
  return Array.isArray(headers);
}
