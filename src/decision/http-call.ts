// What the three ways to ask over HTTP say about a request: nginx' auth_request, the forward-auth of Caddy and Traefik
// (and our Lua for HAProxy), and ext_authz of Envoy and Istio. Which one it is says the path of the call and nothing else,
// since a client may have written any field that its ingress does not set.
import { trimBlanks } from "../core/blanks.ts";
import type { DecisionCall } from "./decide-call.ts";
import { type CallProblem, callProblems } from "./problems.ts";

export interface HttpCall {
  readonly method: string;
  readonly target: string;
  /** Names and values alternating, as they came. */
  readonly rawFields: readonly string[];
}

export type HttpCallReading =
  | { readonly ok: true; readonly call: DecisionCall }
  | { readonly ok: false; readonly problem: CallProblem };

export const extAuthzPrefix = "/ext-authz";

/** The fields that name the request, by the path of the call. */
const namedBy: Readonly<Record<string, { readonly method: string; readonly target: string }>> = {
  "/auth-request": { method: "x-original-method", target: "x-original-uri" },
  "/forward-auth": { method: "x-forwarded-method", target: "x-forwarded-uri" },
};

const methodToken = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;

export function readHttpCall({ method, target, rawFields }: HttpCall): HttpCallReading {
  if (target.startsWith(`${extAuthzPrefix}/`)) {
    return withClient(rawFields, method, target.slice(extAuthzPrefix.length));
  }
  const path = target.split("?", 1)[0] ?? "";
  const named = Object.hasOwn(namedBy, path) ? namedBy[path] : undefined;
  if (named === undefined) return { ok: false, problem: callProblems.noEndpoint };
  const methods = fieldValues(rawFields, named.method);
  const targets = fieldValues(rawFields, named.target);
  const [askedMethod = "", askedTarget = ""] = [methods[0], targets[0]];
  const isNamed = methods.length === 1 && targets.length === 1 && askedTarget !== "" && methodToken.test(askedMethod);
  return isNamed ? withClient(rawFields, askedMethod, askedTarget) : { ok: false, problem: callProblems.noTarget };
}

/** Every value of a field. `name` is in lower case. */
export function fieldValues(rawFields: readonly string[], name: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawFields.length; i += 2) {
    if (rawFields[i]?.toLowerCase() === name) values.push(rawFields[i + 1] ?? "");
  }
  return values;
}

/**
 * The ingress wrote the last entry of X-Forwarded-For, which is its peer; what stands before it came from there. No other
 * field is believed, whatever `clientAddress.header` says: an ingress passes a client's own Forwarded on.
 */
function withClient(rawFields: readonly string[], method: string, target: string): HttpCallReading {
  const line = fieldValues(rawFields, "x-forwarded-for").join(",");
  const lastComma = line.lastIndexOf(",");
  const peerAddress = trimBlanks(line.slice(lastComma + 1));
  const fields = rawFields.filter((_, i) => rawFields[i - (i % 2)]?.toLowerCase() !== "x-forwarded-for");
  if (lastComma !== -1) fields.push("X-Forwarded-For", line.slice(0, lastComma));
  return { ok: true, call: { peerAddress, method, target, rawFields: fields, canShowToken: true } };
}
