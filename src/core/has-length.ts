// Whether a message says how long its body is. The fields have been judged or are our own: a length in them is a good one.
import type { HeaderList } from "./header-list.ts";

export function hasLength(fields: HeaderList): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]?.length === 14 && fields[i]?.toLowerCase() === "content-length") return true;
  }
  return false;
}
