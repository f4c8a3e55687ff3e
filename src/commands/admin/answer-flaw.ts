// Says what an answer of a gateway lacks that a command could not show. Loaded only then, because the library of the schemas takes
// 20 MiB. What an answer has beside its schema is no flaw.
import type { TSchema } from "typebox";
import { Value } from "typebox/value";
import * as schemas from "../../admin/schemas.ts";
import type { GatewayAnswer } from "./admin-client.ts";

/** One sentence about the first flaw. Null: all are as their schemas say. */
export function flawOfAnswers(answers: readonly GatewayAnswer[]): string | null {
  for (const { method, path, json } of answers) {
    const [place = ""] = path.split("?", 1);
    const schema = schemaOf(method, place);
    const flaw = schema === null ? null : firstFlaw(schema, json);
    if (flaw !== null) return `the gateway's answer to ${method} ${place} has no ${flaw}`;
  }
  return null;
}

const fixed: ReadonlyMap<string, TSchema> = new Map<string, TSchema>([
  ["GET /api/status", schemas.Status],
  ["GET /api/policies", schemas.PolicyList],
  ["GET /api/config", schemas.Config],
  ["GET /api/clients", schemas.ClientList],
  ["GET /api/requests", schemas.RefusalList],
  ["GET /api/rules", schemas.RuleList],
  ["POST /api/reload", schemas.ReloadAnswer],
  ["POST /api/reload/confirm", schemas.ConfirmAnswer],
  ["POST /api/reload/take-back", schemas.ReloadAnswer],
  ["POST /api/drain", schemas.DrainAnswer],
]);

function schemaOf(method: string, path: string): TSchema | null {
  if (path.startsWith("/api/clients/")) return method === "DELETE" ? schemas.Forgiven : schemas.ClientState;
  if (path.startsWith("/api/requests/")) return schemas.RequestAnswer;
  if (path.startsWith("/api/rules/")) return schemas.Rule;
  return fixed.get(`${method} ${path}`) ?? null;
}

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
