// The kinds of values that the schemas of the admin API are made of, and the patterns of texts with what they mean in words.
import { Type } from "typebox";

/** An object without other keys. */
export function object<P extends Type.TProperties>(properties: P, description = "") {
  return Type.Object(properties, { additionalProperties: false, ...(description === "" ? {} : { description }) });
}

export function orNull<S extends Type.TSchema>(schema: S) {
  return Type.Union([schema, Type.Null()]);
}

export function text(description: string, options: Type.TStringOptions = {}) {
  return Type.String({ description, ...options });
}

export function count(description: string) {
  return Type.Integer({ minimum: 0, description });
}

export function flag(description: string) {
  return Type.Boolean({ description });
}

export function instant(description: string) {
  return Type.String({ format: "date-time", description });
}

export function seconds(description: string) {
  return Type.Number({ minimum: 0, description });
}

export function texts(description: string) {
  return Type.Array(Type.String(), { description });
}

/** Counts by a name of a closed set, such as the reason of a refusal. */
export function countsByName(description: string) {
  return Type.Record(Type.String(), Type.Integer({ minimum: 0 }), { description });
}

export const ruleIdPattern = "^[A-Za-z0-9._-]{1,64}$";

/** How long the value of a key may be, percent-decoded. */
export const maxKeyLength = 1024;

export const keyPattern = "^(client|token|subject|key):";
export const durationPattern = "^[0-9]{1,12}(ms|s|m|h|d)$";
export const fieldNamePattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$";
export const methodPattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$";
export const pageLimitPattern = "^([1-9][0-9]{0,2}|1000)$";
export const refusalLimitPattern = "^([1-9][0-9]?|1[0-9]{2}|200)$";
export const requestIdPattern = "^[!-~]+$";

/** What text that must fit a pattern is, in words. */
export const expectedByPattern: ReadonlyMap<string, string> = new Map([
  [keyPattern, "client, token, subject or key, then a colon and a value"],
  [durationPattern, 'a duration such as "1h"'],
  [ruleIdPattern, "1 to 64 letters, digits, dots, underscores or hyphens"],
  [methodPattern, "the name of a method"],
  [pageLimitPattern, "a whole number from 1 to 1000"],
  [refusalLimitPattern, "a whole number from 1 to 200"],
  [requestIdPattern, "visible ASCII characters"],
]);
