// Whether a message says how long its body is. The fields have been judged or are our own: a length in them is a good one.

/** Names and values alternating. */
export function hasLength(fields: readonly string[]): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]?.length === 14 && fields[i]?.toLowerCase() === "content-length") return true;
  }
  return false;
}
