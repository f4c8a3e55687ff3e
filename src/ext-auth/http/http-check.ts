// Reads a check from each of the three protocols over HTTP: nginx' auth_request, the forward-auth of Caddy and Traefik (and of
// the Lua script for HAProxy), and ext_authz of Envoy and Istio. Only the path of the call tells which one it is, because a
// client can write any field that its ingress does not set.
import { type HeaderList, isNamed, onlyHeaderValue, trimBlanks } from "../../core/headers.ts";
import { type Check, type CheckProblem, checkProblems } from "../check.ts";

export interface HttpCheck {
  readonly method: string;
  readonly target: string;
  /** As they came. */
  readonly rawHeaders: HeaderList;
}

const extAuthzPrefix = "/ext-authz";

/** The headers that name the client's request. */
interface Named {
  readonly method: string;
  readonly target: string;
}

/** By the path of the call. */
const endpoints: ReadonlyMap<string, Named> = new Map([
  ["/auth-request", { method: "x-original-method", target: "x-original-uri" }],
  ["/forward-auth", { method: "x-forwarded-method", target: "x-forwarded-uri" }],
]);

const methodToken = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;

export function readHttpCheck({ method, target, rawHeaders }: HttpCheck): Check | CheckProblem {
  if (target.startsWith(`${extAuthzPrefix}/`)) {
    return withClient(rawHeaders, method, target.slice(extAuthzPrefix.length));
  }
  const named = endpoints.get(target) ?? endpoints.get(target.split("?", 1)[0] ?? "");
  if (named === undefined) return checkProblems.noEndpoint;
  const askedMethod = onlyHeaderValue(rawHeaders, named.method) ?? "";
  const askedTarget = onlyHeaderValue(rawHeaders, named.target) ?? "";
  const isComplete = askedTarget !== "" && methodToken.test(askedMethod);
  return isComplete ? withClient(rawHeaders, askedMethod, askedTarget) : checkProblems.noTarget;
}

/**
 * The ingress writes the last entry of X-Forwarded-For, the address of its peer; the entries before it came from that peer.
 * No other field is used, whatever `clientAddress.header` is: an ingress passes a client's own Forwarded on.
 */
function withClient(all: HeaderList, method: string, target: string): Check {
  const rawHeaders: string[] = [];
  let line = "";
  let isFirst = true;
  for (let i = 0; i < all.length; i += 2) {
    const [name = "", value = ""] = [all[i], all[i + 1]];
    if (!isNamed(name, "x-forwarded-for")) {
      rawHeaders.push(name, value);
    } else {
      line = isFirst ? value : `${line},${value}`;
      isFirst = false;
    }
  }
  const lastComma = line.lastIndexOf(",");
  if (lastComma !== -1) rawHeaders.push("X-Forwarded-For", line.slice(0, lastComma));
  return { peerAddress: trimBlanks(line, lastComma + 1), method, target, rawHeaders };
}
