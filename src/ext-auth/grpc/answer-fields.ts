// Which fields of an answer go on to the client: Envoy forwards what it is given, and adds its own.
import { gatewayResponseFields } from "../../core/fields.ts";

/** Envoy sends its own with the body. */
export const lengthField: ReadonlySet<string> = new Set(["content-length"]);

/** Of an answer that lets a request pass: Date and the rate limit fields; the others speak of the answer itself. */
export function clientFields(fields: readonly string[]): string[] {
  return fields.filter((_, i) => gatewayResponseFields.has((fields[i - (i % 2)] ?? "").toLowerCase()));
}

/** `names` are in lower case. */
export function without(fields: readonly string[], names: ReadonlySet<string>): string[] {
  return fields.filter((_, i) => !names.has((fields[i - (i % 2)] ?? "").toLowerCase()));
}
