// Says what an answer of a gateway lacks that a command could not show. Loaded only then, because the library of the schemas takes
// 20 MiB. What an answer has beside its schema is no flaw.
import type { TSchema } from "typebox";
import { Value } from "typebox/value";
import * as schemas from "../../admin/schemas.ts";
import type { GatewayAnswer } from "./admin-client.ts";

/** One sentence about the first flaw. Null: all are as their schemas say. */
export function flawOfAnswers(answers: readonly GatewayAnswer[]): string | null {
  for (const { schema, call, json } of answers) {
    const flaw = firstFlaw(byName[schema], json);
    if (flaw !== null) return `the gateway's answer to ${call.split("?", 1)[0]} has no ${flaw}`;
  }
  return null;
}

const byName: Readonly<Record<GatewayAnswer["schema"], TSchema>> = schemas;

/** What is missing, and where. */
function firstFlaw(schema: TSchema, json: unknown): string | null {
  for (const { keyword, instancePath, params } of Value.Errors(schema, json)) {
    const flaw = missingBy(keyword, instancePath.slice(1).replaceAll("/", "."), params);
    if (flaw !== null) return flaw;
  }
  return null;
}

/** Null for a keyword that another error explains. `path`: dotted; "" is the whole answer. */
function missingBy(keyword: string, path: string, params: object): string | null {
  switch (keyword) {
    case "required": {
      const [missing = ""] = (params as { readonly requiredProperties: readonly string[] }).requiredProperties;
      return `"${path === "" ? "" : `${path}.`}${missing}"`;
    }
    case "type": {
      const type = String((params as { readonly type: unknown }).type);
      return `${types.get(type) ?? type}${path === "" ? "" : ` at "${path}"`}`;
    }
    case "enum":
      return `known value at "${path}"`;
    default:
      return null;
  }
}

const types = new Map([
  ["string", "text"],
  ["integer", "whole number"],
  ["boolean", "true or false"],
  ["array", "list"],
]);
