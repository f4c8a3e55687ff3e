// The kinds of values that the schemas of the admin API are made of, and the patterns of texts with what they mean in words.
// The types are those of typebox, and the values are plain JSON Schema: importing typebox takes 100 ms and 15 MiB at a start.
import type { TProperties, TSchema, TStringOptions, Type as TypeBox } from "typebox";

const optional = new WeakSet<object>();

const builders = {
  Array: (items: object, options?: object) => ({ type: "array", items, ...options }),
  Boolean: (options?: object) => ({ type: "boolean", ...options }),
  Enum: (values: readonly string[], options?: object) => ({ enum: values, ...options }),
  Integer: (options?: object) => ({ type: "integer", ...options }),
  Null: () => ({ type: "null" }),
  Number: (options?: object) => ({ type: "number", ...options }),
  Object(properties: Readonly<Record<string, object>>, options?: object) {
    const required = Object.keys(properties).filter((key) => !optional.has(properties[key] as object));
    return { type: "object", ...(required.length > 0 ? { required } : {}), properties, ...options };
  },
  Optional(schema: object) {
    const copy = { ...schema };
    optional.add(copy);
    return copy;
  },
  Record: ({ pattern = "^.*$" }: { readonly pattern?: string }, value: object, options?: object) => ({
    ...{ type: "object", patternProperties: { [pattern]: value }, ...options },
  }),
  String: (options?: object) => ({ type: "string", ...options }),
  Union: (anyOf: readonly object[], options?: object) => ({ anyOf, ...options }),
  Unknown: (options?: object) => ({ ...options }),
};

/** Makes the same JSON Schema as the functions of typebox with these names. */
export const Type = builders as unknown as Pick<typeof TypeBox, keyof typeof builders>;

/** An object without other keys. */
export function object<P extends TProperties>(properties: P, description = "") {
  return Type.Object(properties, { additionalProperties: false, ...(description === "" ? {} : { description }) });
}

export function orNull<S extends TSchema>(schema: S) {
  return Type.Union([schema, Type.Null()]);
}

export function text(description: string, options: TStringOptions = {}) {
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
export const stepsPattern = "^([1-9]|[1-9]\\d|1[0-7]\\d|180)$";
export const requestIdPattern = "^[!-~]+$";

/** What text that must fit a pattern is, in words. */
export const expectedByPattern: ReadonlyMap<string, string> = new Map([
  [keyPattern, "client, token, subject or key, then a colon and a value"],
  [durationPattern, 'a duration such as "1h"'],
  [ruleIdPattern, "1 to 64 letters, digits, dots, underscores or hyphens"],
  [methodPattern, "the name of a method"],
  [pageLimitPattern, "a whole number from 1 to 1000"],
  [refusalLimitPattern, "a whole number from 1 to 200"],
  [stepsPattern, "a whole number from 1 to 180"],
  [requestIdPattern, "visible ASCII characters"],
]);
