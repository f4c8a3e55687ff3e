// Reads what is left of the caller's own quota, where Headgate answers it (`quota.path` in its configuration). Asking spends
// none of it.
import { httpUrl } from "./address.ts";
import { ApiError, isObject, parsed, refusal } from "./api-error.ts";
import { createRetryingFetch } from "./retrying-fetch.ts";
import { checkToken } from "./token.ts";

export interface QuotaOptions {
  /** The address of the quota, such as https://api.example/quota. */
  readonly url: string | URL;
  /** The bearer token. Without it, the answer is about the caller's address alone. */
  readonly token?: string | undefined;
  /** Default: createRetryingFetch(). */
  readonly fetch?: typeof fetch | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Quota {
  /** Whether the token was verified: then the policies for verified tokens are among `policies`. */
  readonly isVerified: boolean;
  /** Whether several gateways share the counters: what the others have admitted last may be missing. */
  readonly isShared: boolean;
  readonly policies: readonly PolicyQuota[];
}

/** One counter of a policy. */
export interface PolicyQuota {
  readonly name: string;
  /** `exhausted`: the next request of this policy is refused. `unknown`: the gateway does not tell. */
  readonly state: "open" | "exhausted" | "exempt" | "unknown";
  readonly limit: number;
  /** Null if the state is `exempt` or `unknown`. */
  readonly used: number | null;
  readonly remaining: number | null;
  /** In how many seconds more becomes available; null if nothing is used, or if nobody knows. */
  readonly resetSeconds: number | null;
  /** What one request spends. */
  readonly cost: number;
  readonly rate:
    | { readonly kind: "sliding"; readonly windowSeconds: number }
    | { readonly kind: "calendar"; readonly per: string; readonly timezone: string }
    | { readonly kind: "concurrency" };
  /** What requests that are counted together have in common, such as "client" or "header:x-tenant". */
  readonly key: readonly string[];
  /** The requests that the policy is about; an empty list means all. */
  readonly match: { readonly paths: readonly string[]; readonly methods: readonly string[] };
  /** Of a policy that counts each of them by itself; else null. */
  readonly method: string | null;
  readonly route: string | null;
}

/**
 * Rejects with ApiError for a refusal or an answer of another form, with the signal's reason when aborted, and with what
 * fetch rejects with when the connection fails. Rejects with a TypeError that names the option, before any request.
 */
export async function readQuota(options: QuotaOptions): Promise<Quota> {
  const { token, signal, fetch = createRetryingFetch() } = options;
  const url = httpUrl("url", options.url);
  if (token !== undefined) checkToken(token);
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(url, {
    headers: { accept: "application/json", ...authorization },
    signal: signal ?? null,
  });
  const text = await response.text();
  if (!response.ok) throw refusal(response.status, text, token ?? null);
  const quota = parsed(text);
  if (isQuota(quota)) return quota;
  throw new ApiError(response.status, "The answer is not that of a quota; is url the gateway's quota.path?");
}

function isQuota(value: unknown): value is Quota {
  if (!isObject(value)) return false;
  const { isVerified, isShared, policies } = value;
  return (
    typeof isVerified === "boolean" &&
    typeof isShared === "boolean" &&
    Array.isArray(policies) &&
    policies.every(isPolicy)
  );
}

const states: readonly unknown[] = ["open", "exhausted", "exempt", "unknown"];

function isPolicy(value: unknown): value is PolicyQuota {
  if (!isObject(value)) return false;
  const { name, state, limit, cost, used, remaining, resetSeconds, rate, key, match, method, route } = value;
  return (
    typeof name === "string" &&
    states.includes(state) &&
    [limit, cost].every(Number.isFinite) &&
    [used, remaining, resetSeconds].every((count) => count === null || Number.isFinite(count)) &&
    [method, route].every((part) => part === null || typeof part === "string") &&
    isRate(rate) &&
    isTexts(key) &&
    isObject(match) &&
    [match["paths"], match["methods"]].every(isTexts)
  );
}

function isRate(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { kind, windowSeconds, per, timezone } = value;
  switch (kind) {
    case "sliding":
      return Number.isFinite(windowSeconds);
    case "calendar":
      return typeof per === "string" && typeof timezone === "string";
    default:
      return kind === "concurrency";
  }
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((text) => typeof text === "string");
}
