// Reads the Authorization field (RFC 6750, 2.1). Says what was given, never whether it is good: that is for `auth/`.

export type BearerCredential =
  | { readonly kind: "token"; readonly token: string }
  /** No Authorization field, another scheme, or the scheme alone. */
  | { readonly kind: "missing" }
  /** Something was given as a token and cannot be one: not a b64token, too long, or given more than once. */
  | { readonly kind: "malformed" };

const maxFieldBytes = 8192;
const missing: BearerCredential = { kind: "missing" };
const malformed: BearerCredential = { kind: "malformed" };

/** `rawFields` alternates names and values, as they came. The scheme is compared in any case (RFC 9110, 11.1). */
export function readBearer(rawFields: readonly string[]): BearerCredential {
  let field: string | undefined;
  for (let i = 0; i < rawFields.length; i += 2) {
    const name = rawFields[i];
    if (name === undefined || name.length !== 13 || name.toLowerCase() !== "authorization") continue;
    // Two of them: the gateway and the upstream could each believe another one.
    if (field !== undefined) return malformed;
    field = rawFields[i + 1] ?? "";
  }
  if (field === undefined) return missing;
  const match = /^bearer(?: +(.*))?$/is.exec(field);
  if (match === null || match[1] === undefined || match[1] === "") return missing;
  if (field.length > maxFieldBytes || !/^[A-Za-z0-9\-._~+/]+=*$/.test(match[1])) return malformed;
  return { kind: "token", token: match[1] };
}
