// Parses a request target (RFC 9112, 3.2) without changing a byte that is forwarded.

export interface RequestTarget {
  /** Path and query unchanged, without scheme and authority; "*" for the asterisk form. */
  readonly original: string;
  /** The text before the first `?`. */
  readonly path: string;
  /** The authority of the absolute form, which replaces Host (RFC 9112, 3.2.2); null in the other forms. */
  readonly authority: string | null;
}

/** Returns undefined for a form that the gateway does not accept, such as the authority form of CONNECT. */
export function readTarget(target: string, method: string): RequestTarget | undefined {
  if (target.startsWith("/")) return { original: target, path: pathOf(target), authority: null };
  if (target === "*") return method === "OPTIONS" ? { original: "*", path: "*", authority: null } : undefined;
  const match = /^https?:\/\/([^/?#]*)(.*)$/is.exec(target);
  if (match === null) return undefined;
  const [, authority = "", rest = ""] = match;
  if (!isValidHost(authority)) return undefined;
  const original = rest.startsWith("/") ? rest : `/${rest}`;
  return { original, path: pathOf(original), authority };
}

function pathOf(target: string): string {
  const queryStart = target.indexOf("?");
  return queryStart === -1 ? target : target.slice(0, queryStart);
}

/**
 * Returns whether it is a host with an optional port (RFC 3986, 3.2.2): no user, no list, no white space, not empty.
 */
export function isValidHost(host: string): boolean {
  const match = /^(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+;=]|%[0-9A-Fa-f]{2})+)(?::(\d{0,5}))?$/.exec(host);
  return match !== null && Number(match[1] ?? 0) <= 65_535;
}

export interface BasePaths {
  /** The prefix of the routes for clients: "/" or "/finance". */
  readonly own: string;
  /** The prefix of the routes at the upstream. */
  readonly upstream: string;
}

/** Replaces the base path and no other byte; null if the target does not begin with the same bytes. */
export function rebase(original: string, { own, upstream }: BasePaths): string | null {
  const prefix = upstream === "/" ? "" : upstream;
  if (own === "/") return prefix + original;
  if (!original.startsWith(own)) return null;
  const rest = original.slice(own.length);
  if (rest.startsWith("/")) return prefix + rest;
  return rest === "" || rest.startsWith("?") ? `${prefix}/${rest}` : null;
}
