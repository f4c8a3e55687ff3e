// What is left to a caller of each policy that can apply to it, read from its own request, which is under no route. It sees
// only counters of its own: those of its address and its token, and those that all callers share. Charges nothing.
import type { Identity } from "../core/authentication.ts";
import type { CallerQuota, CallerQuotaState } from "../core/limiter.ts";
import type { KeyPart, Policy } from "../core/policy.ts";
import type { ParsedRequest, RequestHead } from "../core/request-head.ts";
import { keysOfCaller, type NamedKey } from "./named-keys.ts";
import { type PolicyRow, type PolicySet, peekAt } from "./policies.ts";

/** Of policies with several, in one answer: bounds its size, and what it costs to make. */
const maxCounters = 64;

interface Caller {
  readonly request: ParsedRequest;
  readonly head: RequestHead;
  /** Null: its token was not verified. */
  readonly identity: Identity | null;
}

/** The policies in their order. Of one that counts each route or method by itself, there is a counter for each of them. */
export function quotasOfCaller(
  set: PolicySet,
  caller: Caller,
  routes: readonly string[],
  nowMs: number,
): readonly CallerQuota[] {
  const quotas: CallerQuota[] = [];
  let left = maxCounters;
  const applies = caller.identity === null ? ~set.ofVerified : ~set.ofOthers;
  for (const [i, row] of set.rows.entries()) {
    const { policy } = row;
    if (row.isShadow || (applies & (1 << i)) === 0) continue;
    // As for any request: what is asked before the token check knows nothing of an identity.
    const identity = (set.identified & (1 << i)) === 0 ? null : caller.identity;
    const keys = isOwn(policy) ? keysOfCaller(row, set, { ...caller, identity }, routes, Math.max(1, left)) : null;
    if (keys === null) quotas.push({ policy, state: null, method: null, route: null });
    else quotas.push(...keys.map((key) => quotaOf(row, key, caller.request, nowMs)));
    if (keys !== null && keys.length > 1) left -= keys.length;
  }
  set.tokens.forget();
  return quotas;
}

function quotaOf(row: PolicyRow, key: NamedKey, { counterKey }: ParsedRequest, nowMs: number): CallerQuota {
  const { method, route } = key;
  return { policy: row.policy, state: stateOf(row, key, counterKey, nowMs), method, route };
}

function stateOf(
  row: PolicyRow,
  { key, limit }: NamedKey,
  client: ParsedRequest["counterKey"],
  nowMs: number,
): CallerQuotaState {
  const isExempt = limit === 0;
  if (isExempt) {
    const { limit: usual } = row.policy;
    return { isExempt, limit: usual, used: 0, remaining: usual, resetMs: nowMs };
  }
  const { remaining, resetMs } = peekAt(row, key, client, limit, nowMs);
  // After the limit was lowered, more than the limit may be used. A store may know of more than was counted here.
  return { isExempt, limit, used: Math.max(row.ask.counted, limit - remaining), remaining, resetMs };
}

/** Anybody can send any value of a header, so a key of nothing else could be that of another caller. */
function isOwn({ key }: Policy): boolean {
  return !key.some(({ kind }) => kind === "header") || key.some(({ kind }) => ownKinds.has(kind));
}

const ownKinds: ReadonlySet<KeyPart["kind"]> = new Set(["client", "token", "subject", "claim"]);
