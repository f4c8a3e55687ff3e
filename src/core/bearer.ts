// Parses the Authorization header (RFC 6750, 2.1). Whether the token is accepted is decided in `auth/`.
import { type HeaderList, headerValues } from "./header-list.ts";

export type BearerCredential =
  | { readonly kind: "token"; readonly token: string }
  /** No Authorization header, another scheme, or the scheme alone. */
  | { readonly kind: "missing" }
  /** The token is not a b64token, too long, or given more than once. */
  | { readonly kind: "malformed" };

const maxFieldBytes = 8192;
const missing: BearerCredential = { kind: "missing" };
const malformed: BearerCredential = { kind: "malformed" };

/** Ignores the case of the scheme (RFC 9110, 11.1). */
export function readBearer(rawHeaders: HeaderList): BearerCredential {
  const fields = headerValues(rawHeaders, "authorization");
  let given: string | undefined;
  for (let i = 0; i < fields.length && given === undefined; i += 1) given = afterScheme(fields[i] ?? "");
  if (given === undefined) return missing;
  // Of two, the gateway could check one and the upstream use the other.
  if (fields.length > 1 || (fields[0] ?? "").length > maxFieldBytes) return malformed;
  return /^[A-Za-z0-9\-._~+/]+=*$/.test(given) ? { kind: "token", token: given } : malformed;
}

/** Returns the text after the scheme; undefined for another scheme, or the scheme alone. */
function afterScheme(field: string): string | undefined {
  return /^bearer +([^ ].*)$/is.exec(field)?.[1];
}
