// Selects the fields of a check's answer that Envoy is to send to the client. Envoy forwards all it is given, and adds its own.
import type { HeaderList } from "../../core/headers.ts";
import { gatewayResponseFields } from "../../core/response-fields.ts";

/** Envoy sends this field itself. */
export const lengthField: ReadonlySet<string> = new Set(["content-length"]);

/** Keeps Date and the rate limit fields. The other fields of an admission describe the check's answer, not the response. */
export function clientFields(fields: HeaderList): string[] {
  return fields.filter((_, i) => gatewayResponseFields.has((fields[i - (i % 2)] ?? "").toLowerCase()));
}

/** Drops the fields with these names, which are in lower case. */
export function without(fields: HeaderList, names: ReadonlySet<string>): string[] {
  return fields.filter((_, i) => !names.has((fields[i - (i % 2)] ?? "").toLowerCase()));
}
