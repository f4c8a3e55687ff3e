// Reads a check from each of the three protocols over HTTP: nginx' auth_request, the forward-auth of Caddy and Traefik (and of
// the Lua script for HAProxy), and ext_authz of Envoy and Istio. Only the path of the call tells which one it is, because a
// client can write any field that its ingress does not set.
import { trimBlanks } from "../../core/blanks.ts";
import { type HeaderList, headerValues } from "../../core/header-list.ts";
import type { Check } from "../check.ts";
import { type CheckProblem, checkProblems } from "../check-problems.ts";

export interface HttpCheck {
  readonly method: string;
  readonly target: string;
  /** As they came. */
  readonly rawHeaders: HeaderList;
}

export type HttpCheckReading =
  | { readonly ok: true; readonly check: Check }
  | { readonly ok: false; readonly problem: CheckProblem };

export const extAuthzPrefix = "/ext-authz";

/** The fields that name the client's request, by the path of the call. */
const namedBy: Readonly<Record<string, { readonly method: string; readonly target: string }>> = {
  "/auth-request": { method: "x-original-method", target: "x-original-uri" },
  "/forward-auth": { method: "x-forwarded-method", target: "x-forwarded-uri" },
};

const methodToken = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;

export function readHttpCheck({ method, target, rawHeaders }: HttpCheck): HttpCheckReading {
  if (target.startsWith(`${extAuthzPrefix}/`)) {
    return withClient(rawHeaders, method, target.slice(extAuthzPrefix.length));
  }
  const path = target.split("?", 1)[0] ?? "";
  const named = Object.hasOwn(namedBy, path) ? namedBy[path] : undefined;
  if (named === undefined) return { ok: false, problem: checkProblems.noEndpoint };
  const methods = headerValues(rawHeaders, named.method);
  const targets = headerValues(rawHeaders, named.target);
  const [askedMethod = "", askedTarget = ""] = [methods[0], targets[0]];
  const isNamed = methods.length === 1 && targets.length === 1 && askedTarget !== "" && methodToken.test(askedMethod);
  return isNamed ? withClient(rawHeaders, askedMethod, askedTarget) : { ok: false, problem: checkProblems.noTarget };
}

/**
 * The ingress writes the last entry of X-Forwarded-For, the address of its peer; the entries before it came from that peer.
 * No other field is used, whatever `clientAddress.header` is: an ingress passes a client's own Forwarded on.
 */
function withClient(rawHeaders: HeaderList, method: string, target: string): HttpCheckReading {
  const line = headerValues(rawHeaders, "x-forwarded-for").join(",");
  const lastComma = line.lastIndexOf(",");
  const peerAddress = trimBlanks(line.slice(lastComma + 1));
  const fields = rawHeaders.filter((_, i) => rawHeaders[i - (i % 2)]?.toLowerCase() !== "x-forwarded-for");
  if (lastComma !== -1) fields.push("X-Forwarded-For", line.slice(0, lastComma));
  return { ok: true, check: { peerAddress, method, target, rawHeaders: fields } };
}
