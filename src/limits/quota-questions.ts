// Decides about several requests together, by all policies that they name or that apply: all are charged or none. And
// says what is left to a caller, without a charge.

import type { Identity } from "../core/authentication.ts";
import type { CounterKey } from "../core/counter-key.ts";
import type { CallerQuota, CallerQuotaState, QuotaLimiter, QuotaRequest } from "../core/limiter.ts";
import { type Decision, isMoreUrgent, type KeyPart, type Outcome, type Policy } from "../core/policy.ts";
import type { ParsedRequest, RequestHead } from "../core/request-head.ts";
import { keysOfRequests, type NamedKey } from "./named-keys.ts";
import {
  chargedAt,
  decideWithStore,
  limitOf,
  PolicyAsk,
  type PolicyRow,
  type PolicySet,
  peekAt,
  rowsIn,
  shownOf,
  unspent,
} from "./policies.ts";
import type { Pass } from "./store/store-counters.ts";

/** What a call asks of one key: one sum, so that requests which share a key cannot exceed its limit. */
class SumAsk extends PolicyAsk {
  /** Of all its requests. More than the limit never fit: then the next unit alone is asked for. */
  sum = 0;

  override put(nowMs: number, pass: Pass): void {
    this.units = this.sum > this.limit ? 1 : this.sum;
    super.put(nowMs, pass);
    if (!this.fits || this.units === this.sum) return;
    this.fits = false;
    this.remaining += this.units;
  }
}

/** One request with the asks that it is part of. */
interface AskedQuota {
  readonly asked: QuotaRequest;
  readonly asks: readonly SumAsk[];
  readonly isExempt: boolean;
}

interface Observer {
  observe(client: string, key: CounterKey, nowMs: number): Decision;
}

export class QuotaQuestions implements QuotaLimiter {
  readonly policyNames: readonly string[];
  readonly #set: PolicySet;
  /** A set of policies: those that are asked. */
  readonly #included: number;
  readonly #steps: Observer;

  /** `steps`: decides with the same policies about one request after the other. */
  constructor(set: PolicySet, included: number, steps: Observer) {
    this.#set = set;
    this.#included = included;
    this.#steps = steps;
    this.policyNames = rowsIn(set, included).map(({ policy }) => policy.name);
  }

  decideAll(requests: readonly QuotaRequest[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]> {
    const byKey = new Map<string, SumAsk>();
    const quotas = requests.map((request) => this.#select(request, byKey));
    this.#set.tokens.forget();
    const asks = [...byKey.values()];
    const conclude = (pass: Pass): readonly Decision[] | null => {
      const isCharged = this.#charge(asks, pass, nowMs);
      return isCharged === null ? null : quotas.map((quota) => this.#decisionOn(quota, isCharged, nowMs));
    };
    return conclude("first") ?? decideWithStore(this.#set, asks, nowMs, conclude);
  }

  observe({ client, counterKey }: ParsedRequest, nowMs: number): Decision {
    return this.#steps.observe(client, counterKey, nowMs);
  }

  /** Charges all, or none if an enforcing policy refuses. Returns whether they are charged; null: the store is asked first. */
  #charge(asks: readonly SumAsk[], pass: Pass, nowMs: number): boolean | null {
    for (const ask of asks) ask.select();
    return this.#set.locks.within(() => {
      const atMs = chargedAt(this.#set, nowMs);
      for (const ask of asks) ask.put(atMs, pass);
      if (asks.some(({ refuses }) => refuses)) return false;
      if (asks.some(({ isUnknown }) => isUnknown)) return null;
      for (const ask of asks) if (ask.fits) ask.row.counters.charge(ask);
      return true;
    });
  }

  /** Adds what the request charges to that of the others. */
  #select(asked: QuotaRequest, byKey: Map<string, SumAsk>): AskedQuota {
    const { request, head, policy: named, hits } = asked;
    const { rows, match, identified, ofVerified, ofOthers } = this.#set;
    if (request.route === null) return { asked, asks: [], isExempt: false };
    const applies = this.#included & match(request, head) & ~(asked.isVerified ? ofOthers : ofVerified);
    const asks: SumAsk[] = [];
    let isExempt = false;
    for (const [i, row] of rows.entries()) {
      const { policy } = row;
      if ((applies & (1 << i)) === 0 || (named !== null && named !== policy.name)) continue;
      const identity = (identified & (1 << i)) === 0 ? null : asked.identity;
      const limit = limitOf(row, request, head, identity);
      if (limit === 0) {
        row.outcomes.exempt += 1;
        isExempt ||= !row.isShadow;
        continue;
      }
      const key = row.readKey(request, head, identity);
      const id = `${i} ${key.a} ${key.b} ${key.c} ${key.d}`;
      const ask = byKey.get(id) ?? Object.assign(new SumAsk(row), { key, client: request.counterKey, limit });
      ask.sum += hits * policy.cost;
      byKey.set(id, ask);
      asks.push(ask);
    }
    return { asked, asks, isExempt };
  }

  #decisionOn({ asked: { request, policy }, asks, isExempt }: AskedQuota, isCharged: boolean, nowMs: number): Decision {
    for (const ask of asks) ask.row.outcomes[outcomeOf(ask, isCharged)] += 1;
    const enforcing = asks.filter(({ row }) => !row.isShadow);
    const list = enforcing.map((ask) => {
      const outcome = outcomeOf(ask, isCharged);
      const decision = ask.decision(outcome, null, null);
      return outcome === "observed" ? { ...decision, remaining: ask.remaining + ask.sum } : decision;
    });
    const [first] = list;
    if (first !== undefined) {
      const others = this.#set.listAll && list.length > 1 ? list : null;
      return { ...list.reduce((a, b) => (isMoreUrgent(b, a) ? b : a), first), others };
    }
    if (request.route === null) return this.#steps.observe(request.client, request.counterKey, nowMs);
    const shown = shownOf(this.#set, this.#included, policy);
    return unspent(shown, isExempt ? "exempt" : "observed", nowMs, null);
  }
}

function outcomeOf({ row: { isShadow }, fits, isUnavailable }: PolicyAsk, isCharged: boolean): Outcome {
  if (isUnavailable) return "unavailable";
  if (!fits) return isShadow ? "would_throttle" : "throttled";
  return isCharged ? "admitted" : "observed";
}

// What is left to a caller of each policy that can apply to it, read from its own request, which is under no route. It
// sees only counters of its own: those of its address and its token, and those that all callers share. Charges nothing.

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
    const asked = { ...caller, identity, client: caller.request.counterKey };
    const keys = isOwn(policy) ? keysOfRequests(row, [asked], routes, Math.max(1, left)) : null;
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
  if (limit === 0) {
    const { limit: usual } = row.policy;
    return { isExempt: true, limit: usual, used: 0, remaining: usual, resetMs: nowMs };
  }
  const { remaining } = peekAt(row, key, client, limit, nowMs);
  // After the limit was lowered, more than the limit may be used. A store may know of more than was counted here.
  const used = Math.max(row.ask.counted, limit - remaining);
  return { isExempt: false, limit, used, remaining, resetMs: row.ask.knownResetMs };
}

/** Anybody can send any value of a header, so a key of nothing else could be that of another caller. */
function isOwn({ key }: Policy): boolean {
  return !key.some(({ kind }) => kind === "header") || key.some(({ kind }) => ownKinds.has(kind));
}

const ownKinds: ReadonlySet<KeyPart["kind"]> = new Set(["client", "token", "subject", "claim"]);
