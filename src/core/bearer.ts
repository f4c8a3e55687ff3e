// Reads the Authorization field (RFC 6750, 2.1). Says what was given, never whether it is good: that is for `auth/`.
import type { HeaderList } from "./header-list.ts";

export type BearerCredential =
  | { readonly kind: "token"; readonly token: string }
  /** No Authorization field, another scheme, or the scheme alone. */
  | { readonly kind: "missing" }
  /** Something was given as a token and cannot be one: not a b64token, too long, or given more than once. */
  | { readonly kind: "malformed" };

const maxFieldBytes = 8192;
const missing: BearerCredential = { kind: "missing" };
const malformed: BearerCredential = { kind: "malformed" };

/** The scheme is compared without regard to case (RFC 9110, 11.1). */
export function readBearer(rawHeaders: HeaderList): BearerCredential {
  const fields = authorizationFields(rawHeaders);
  const given = fields.map(afterScheme).find((text) => text !== undefined);
  if (given === undefined) return missing;
  // Two of them: the gateway and the upstream could each believe another one.
  if (fields.length > 1 || (fields[0] ?? "").length > maxFieldBytes) return malformed;
  return /^[A-Za-z0-9\-._~+/]+=*$/.test(given) ? { kind: "token", token: given } : malformed;
}

function authorizationFields(rawHeaders: HeaderList): string[] {
  const fields: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name?.length === 13 && name.toLowerCase() === "authorization") fields.push(rawHeaders[i + 1] ?? "");
  }
  return fields;
}

/** What is given as a token; undefined for another scheme, or the scheme alone. */
function afterScheme(field: string): string | undefined {
  return /^bearer +([^ ].*)$/is.exec(field)?.[1];
}
