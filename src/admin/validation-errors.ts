// Says in words what is wrong with a request that does not fit its schema: the place and what is expected there. Shows no
// value of the request, because any may be a secret in the wrong place; of keys, at most some characters.

import type { FastifySchemaValidationError } from "fastify";
import { enumerate } from "../core/enumerate.ts";
import { expectedByPattern } from "./schema-kinds.ts";

/** With `verbose`, the validator adds the schema and the value. */
interface VerboseError extends FastifySchemaValidationError {
  readonly parentSchema?: Readonly<Record<string, unknown>>;
  readonly data?: unknown;
}

const maxErrors = 10;

/** `part`: of the request, such as `body`. One line for each error, the first ten. */
export function explainValidation(part: string, errors: readonly FastifySchemaValidationError[]): string[] {
  const lines = [...new Set(errors.flatMap((error) => explain(part, error)))];
  if (lines.length <= maxErrors) return lines;
  return [...lines.slice(0, maxErrors), `${lines.length - maxErrors} more errors`];
}

function explain(part: string, error: VerboseError): string[] {
  const { keyword, instancePath, params, parentSchema = {}, data } = error;
  const place = [part, ...instancePath.split("/").slice(1).map(unescaped)].map(shownKey).join(".");
  const keys = Object.keys((parentSchema["properties"] as object | undefined) ?? {});
  switch (keyword) {
    case "additionalProperties": {
      const key = shownKey(String(params["additionalProperty"]));
      return [`${place}.${key}: unknown key, expected ${keys.length === 0 ? "none" : enumerate(keys)}`];
    }
    case "required":
      return [`${place}.${shownKey(String(params["missingProperty"]))}: found nothing, expected a value`];
    case "propertyNames":
      return [];
    default:
      return [`${place}: found ${kindOf(data)}, expected ${expectation(keyword, parentSchema)}`];
  }
}

function expectation(keyword: string, schema: Readonly<Record<string, unknown>>): string {
  const { pattern, minimum, maximum, exclusiveMaximum, minLength = 0, maxLength, maxProperties } = schema;
  const type = expectedTypes.get(String(schema["type"])) ?? "another value";
  switch (keyword) {
    case "enum":
      return enumerate((schema["enum"] as readonly unknown[]).map(String));
    case "pattern":
      return expectedByPattern.get(String(pattern)) ?? type;
    case "minimum":
    case "maximum":
    case "exclusiveMaximum":
      return `${type} from ${minimum} to ${maximum ?? `below ${exclusiveMaximum}`}`;
    case "minLength":
    case "maxLength":
      return `${minLength} to ${maxLength} characters`;
    case "maxProperties":
      return `at most ${maxProperties} keys`;
    default:
      return type;
  }
}

const expectedTypes = new Map([
  ["string", "text"],
  ["integer", "a whole number"],
  ["number", "a number"],
  ["boolean", "true or false"],
  ["array", "a list"],
  ["object", "an object"],
]);

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (typeof value === "string")
    return value === "" ? "empty text" : `text of ${value.length} character${value.length === 1 ? "" : "s"}`;
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : typeof value === "boolean" ? String(value) : "a number";
}

const maxShown = 60;

function shownKey(key: string): string {
  return /^[\w-]{1,60}$/.test(key) ? key : JSON.stringify(key.slice(0, maxShown));
}

/** In a JSON pointer (RFC 6901). */
function unescaped(part: string): string {
  return part.replaceAll("~1", "/").replaceAll("~0", "~");
}
