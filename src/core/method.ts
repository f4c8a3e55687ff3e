// All that is known of methods: which there are, which have content, and which one a backend may take a request for. Rules name
// a `Method`, and only this file makes one, so that no other compares a rule with the method of a request line.
import { type HeaderList, nameFinder, namesIn, trimBlanks } from "./headers.ts";

/** A method that a rule names. */
export type Method = Uppercase<string>;

/** `name`: in upper case. */
export function toMethod(name: string): Method {
  return name as Method;
}

/** All methods that Node knows. */
export const knownMethods = namesIn(
  "GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE ACL BIND CHECKOUT COPY LINK LOCK M-SEARCH MERGE MKACTIVITY",
  "MKCALENDAR MKCOL MOVE NOTIFY PROPFIND PROPPATCH PURGE QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE UNBIND UNLINK",
  "UNLOCK UNSUBSCRIBE",
);

/** The methods that metrics and keys of policies tell apart, and the word for all others, of which a client can invent more. */
export const toldMethods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "other"] as const;

/** CONNECT opens a tunnel, and TRACE shows the headers that proxies added, which a client must not see (RFC 9110, 9.3.8). */
export const refusedMethods: ReadonlySet<string> = new Set(["CONNECT", "TRACE"]);

/** Methods that define a meaning for content. Some servers answer 411 to a request of theirs that does not say its length. */
export const contentMethods: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH", "QUERY"]);

/** With those of WebDAV and its extensions (RFC 3253, 3744, 4791, 4918, 5323, 5689 and 5842). */
export const methodsWithBody = namesIn(
  ...contentMethods,
  "PROPFIND PROPPATCH REPORT SEARCH LOCK ACL BIND CHECKOUT MERGE MKCALENDAR MKCOL REBIND UNBIND",
);

interface MethodOfHead {
  readonly method: string;
  readonly rawHeaders: HeaderList;
}

/** A target as it was parsed; undefined if it could not be. */
type TargetRead = { readonly original: string; readonly path: string } | undefined;

/** One bit for each rule: 1 for the first, 2 for the second, and so on. */
export interface Fitting {
  /** A backend may take the request for one that the rule names. */
  readonly possibly: number;
  /** Every backend does. */
  readonly certainly: number;
}

/**
 * Finds the rules that name a request's method; one without methods names all. Methods have case, but some backends ignore it,
 * and some take the method from a header or the query.
 */
export class MethodMatcher {
  readonly #ofAny: number;
  readonly #byMethod: ReadonlyMap<string, number>;

  constructor(rules: readonly { readonly methods: readonly Method[] }[]) {
    const maskOf = (isIn: (methods: readonly Method[]) => boolean): number =>
      rules.reduce((mask, { methods }, i) => (isIn(methods) ? mask | (1 << i) : mask), 0);
    this.#ofAny = maskOf((methods) => methods.length === 0);
    const named = new Set(rules.flatMap(({ methods }) => methods));
    this.#byMethod = new Map([...named].map((name) => [name, this.#ofAny | maskOf((all) => all.includes(name))]));
  }

  possibly({ method, rawHeaders }: MethodOfHead, target: TargetRead): number {
    if (this.#byMethod.size === 0) return this.#ofAny;
    let mask = this.#inAnyCase(method);
    for (const other of overridingMethods(rawHeaders, queryOf(target))) mask |= this.#of(other);
    return mask;
  }

  fitting({ method, rawHeaders }: MethodOfHead, target: TargetRead): Fitting {
    if (this.#byMethod.size === 0) return { possibly: this.#ofAny, certainly: this.#ofAny };
    let possibly = this.#inAnyCase(method);
    let certainly = this.#of(method);
    for (const other of overridingMethods(rawHeaders, queryOf(target))) {
      possibly |= this.#of(other);
      certainly &= this.#of(other);
    }
    return { possibly, certainly };
  }

  #of(method: string): number {
    return this.#byMethod.get(method) ?? this.#ofAny;
  }

  #inAnyCase(method: string): number {
    return this.#byMethod.get(method) ?? this.#of(method.toUpperCase());
  }
}

function queryOf(target: TargetRead): string {
  return target === undefined ? "" : target.original.slice(target.path.length + 1);
}

// The methods that some frameworks take instead of that of the request line: from a header, or from `_method` in the query
// (Rails, Laravel, Symfony, Slim, method-override for Express). `_method` in a body is not read.

/** In lower case. */
export const overrideNames = ["x-http-method-override", "x-http-method", "x-method-override"] as const;
const overrideName = nameFinder(overrideNames);

/** Returns the methods that a backend may take instead of that of the request line, in upper case; most requests have none. */
export function overridingMethods(headers: HeaderList, query: string): readonly Method[] {
  const methods: Method[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    if (overrideName(headers[i] ?? "") === null) continue;
    // Of a list, method-override for Express takes the first.
    const [method = ""] = (headers[i + 1] ?? "").split(",", 1);
    methods.push(toMethod(trimBlanks(method).toUpperCase()));
  }
  if (/method/i.test(decoded(query))) methods.push(...methodsInQuery(query));
  return methods;
}

/** PHP also reads some other characters as the underscore, and ends a name at NUL. */
const parameterName = /^ *[_.[]method(?:\0|$)/i;

function methodsInQuery(query: string): Method[] {
  return query.split(/[&;]/).flatMap((pair) => {
    const [name = "", value = ""] = pair.split("=", 2).map(decoded);
    return parameterName.test(name) ? [toMethod(value.toUpperCase())] : [];
  });
}

function decoded(text: string): string {
  if (!text.includes("%") && !text.includes("+")) return text;
  const bytes = (_: string, hex: string): string => String.fromCharCode(Number.parseInt(hex, 16));
  return text.replaceAll("+", " ").replace(/%([0-9a-f]{2})/gi, bytes);
}
