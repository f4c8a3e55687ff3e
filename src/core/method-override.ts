// The methods that some frameworks take instead of that of the request line: from a header, or from `_method` in the query
// (Rails, Laravel, Symfony, Slim, method-override for Express). `_method` in a body is not read.
import { type HeaderList, nameFinder, trimBlanks } from "./headers.ts";

const overrideName = nameFinder(["x-http-method-override", "x-http-method", "x-method-override"]);

/** Returns the methods in upper case; most requests have none. */
export function overridingMethods(headers: HeaderList, query: string): readonly string[] {
  const methods: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    if (overrideName(headers[i] ?? "") === null) continue;
    // Of a list, method-override for Express takes the first.
    const [method = ""] = (headers[i + 1] ?? "").split(",", 1);
    methods.push(trimBlanks(method).toUpperCase());
  }
  if (/method/i.test(decoded(query))) methods.push(...methodsInQuery(query));
  return methods;
}

/** PHP also reads some other characters as the underscore, and ends a name at NUL. */
const parameterName = /^ *[_.[]method(?:\0|$)/i;

function methodsInQuery(query: string): string[] {
  return query.split(/[&;]/).flatMap((pair) => {
    const [name = "", value = ""] = pair.split("=", 2).map(decoded);
    return parameterName.test(name) ? [value.toUpperCase()] : [];
  });
}

function decoded(text: string): string {
  if (!text.includes("%") && !text.includes("+")) return text;
  const bytes = (_: string, hex: string): string => String.fromCharCode(Number.parseInt(hex, 16));
  return text.replaceAll("+", " ").replace(/%([0-9a-f]{2})/gi, bytes);
}
