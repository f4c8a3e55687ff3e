// Decides about several requests together, by all policies that they name or that apply: all are charged or none. And
// says what is left to a caller, without a charge.

import type { CounterKey } from "../core/counter-key.ts";
import type { CallerQuota, CountedRequest, Limiter, QuotaLimiter, QuotaRequest } from "../core/limiter.ts";
import {
  type Awaitable,
  type Decision,
  isMoreUrgent,
  type KeyPart,
  type Outcome,
  type Policy,
} from "../core/policy.ts";
import { keysOfRequests, type NamedKey } from "./named-keys.ts";
import {
  applicable,
  chargedAt,
  decideWithStore,
  type PolicyAsk,
  type PolicyRow,
  type PolicySet,
  rowsIn,
  shownOf,
  unspent,
} from "./policies.ts";
import { maskOf } from "./request-keys.ts";

/** What a call asks of one key: one sum, so that requests which share a key cannot exceed its limit. */
interface AskedSum {
  readonly ask: PolicyAsk;
  /** The units of all requests of the sum. */
  units: number;
}

/** One request with the sums that it is part of. */
interface AskedQuota {
  readonly asked: QuotaRequest;
  readonly sums: readonly AskedSum[];
  readonly isExempt: boolean;
}

export class QuotaQuestions implements QuotaLimiter {
  readonly policyNames: readonly string[];
  readonly show: Limiter["show"];
  readonly #set: PolicySet;
  /** A set of policies: those that are asked. */
  readonly #included: number;

  /** `steps`: decides with the same policies about one request after the other. */
  constructor(set: PolicySet, included: number, steps: Pick<Limiter, "show">) {
    this.#set = set;
    this.#included = included;
    this.show = (...shown) => steps.show(...shown);
    this.policyNames = rowsIn(set, included).map(({ policy }) => policy.name);
  }

  askAll(requests: readonly QuotaRequest[], nowMs: number): Awaitable<readonly Decision[]> {
    const byKey = new Map<string, AskedSum>();
    const quotas = requests.map((request) => this.#select(request, byKey));
    const sums = [...byKey.values()];
    const decide = (): readonly Decision[] | null => {
      const isCharged = this.#charge(sums, nowMs);
      if (isCharged === null) return null;
      const decisions = quotas.map((quota) => this.#decisionOn(quota, isCharged, nowMs));
      if (!isCharged) for (const { ask } of sums) ask.shared?.release();
      return decisions;
    };
    const asks = sums.map(({ ask }) => ask);
    return decide() ?? decideWithStore(this.#set, asks, decide);
  }

  /** Charges all, or none if an enforcing policy refuses. Returns whether they are charged; null: the store is asked first. */
  #charge(sums: readonly AskedSum[], nowMs: number): boolean | null {
    for (const { ask } of sums) ask.select();
    return this.#set.locks.within(() => {
      const atMs = chargedAt(this.#set, nowMs);
      for (const sum of sums) putSum(sum, atMs);
      if (sums.some(({ ask }) => ask.refuses)) return false;
      if (sums.some(({ ask }) => ask.isUnknown)) return null;
      for (const { ask } of sums) {
        if (ask.fits) ask.chargeUnits();
        else ask.shared?.release();
      }
      return true;
    });
  }

  /** Adds what the request charges to that of the others. */
  #select(asked: QuotaRequest, byKey: Map<string, AskedSum>): AskedQuota {
    const { policy: named, hits } = asked;
    if (asked.parsed.route === null) return { asked, sums: [], isExempt: false };
    const { rows, ofVerified, ofOthers } = this.#set;
    const inName =
      named === null ? this.#included : this.#included & maskOf(rows, ({ policy }) => policy.name === named);
    const found = applicable(this.#set, inName & ~(asked.isVerified ? ofOthers : ofVerified), asked, null);
    for (const { outcomes } of found.exempt) outcomes.exempt += 1;
    const sums = found.asks.map((ask) => {
      const { a, b, c, d } = ask.key;
      const id = `${ask.row.slot} ${a} ${b} ${c} ${d}`;
      const sum = byKey.get(id) ?? { ask, units: 0 };
      sum.units += hits * ask.units;
      byKey.set(id, sum);
      return sum;
    });
    return { asked, sums, isExempt: found.exempt.some(({ isShadow }) => !isShadow) };
  }

  #decisionOn({ asked: { parsed, policy }, sums, isExempt }: AskedQuota, isCharged: boolean, nowMs: number): Decision {
    const list: Decision[] = [];
    for (const { ask, units } of sums) {
      const outcome = outcomeOf(ask, isCharged);
      ask.row.outcomes[outcome] += 1;
      if (ask.row.isShadow) continue;
      const decision = ask.decision(outcome, null, null);
      list.push(outcome === "observed" && ask.fits ? { ...decision, remaining: ask.remaining + units } : decision);
    }
    const [first] = list;
    if (first !== undefined) {
      const others = this.#set.listAll && list.length > 1 ? list : null;
      return { ...list.reduce((a, b) => (isMoreUrgent(b, a) ? b : a), first), others };
    }
    if (parsed.route === null) return this.show(parsed, nowMs, true);
    const shown = shownOf(this.#set, this.#included, policy);
    return unspent(shown, isExempt ? "exempt" : "observed", nowMs, null);
  }
}

/** Asks for the sum. More units than the limit never fit: then it asks for one unit, to learn when that fits. */
function putSum({ ask, units }: AskedSum, nowMs: number): void {
  ask.units = units > ask.limit ? 1 : units;
  ask.put(nowMs);
  if (!ask.fits || ask.units === units) return;
  ask.fits = false;
  ask.remaining += ask.units;
}

function outcomeOf({ row: { isShadow }, fits, isUnavailable, isUnknown }: PolicyAsk, isCharged: boolean): Outcome {
  if (isUnavailable) return "unavailable";
  if (isUnknown) return "observed";
  if (!fits) return isShadow ? "would_throttle" : "throttled";
  return isCharged ? "admitted" : "observed";
}

// What is left to a caller of each policy that can apply to it, read from its own request, which is under no route. It
// sees only counters of its own: those of its address and its token, and those that all callers share. Charges nothing.

/** Of policies with several, in one answer: bounds its size, and what it costs to make. */
const maxCounters = 64;

/** The policies in their order. Of one that counts each route or method by itself, there is a counter for each of them. */
export function quotasOfCaller(
  set: PolicySet,
  caller: CountedRequest,
  routes: readonly string[],
  nowMs: number,
): readonly CallerQuota[] {
  let left = maxCounters;
  const client = caller.parsed.counterKey;
  const applying = caller.identity === null ? ~set.ofVerified : ~set.ofOthers;
  const quotas = rowsIn(set, applying).flatMap((row): CallerQuota[] => {
    const { policy } = row;
    if (row.isShadow) return [];
    const asked = { ...caller, identity: row.needsIdentity ? caller.identity : null, client };
    const keys = isOwn(policy) ? keysOfRequests(row, [asked], routes, Math.max(1, left)) : null;
    if (keys === null) return [{ ...untold, policy, state: "unknown", limit: policy.limit, method: null, route: null }];
    if (keys.length > 1) left -= keys.length;
    return keys.map((key) => quotaOf(row, key, client, nowMs));
  });
  set.tokens.forget();
  return quotas;
}

const untold = { used: null, remaining: null, resetMs: null };

function quotaOf(row: PolicyRow, named: NamedKey, client: CounterKey, nowMs: number): CallerQuota {
  const { policy, ask } = row;
  const { key, limit, method, route } = named;
  if (limit === 0) return { ...untold, policy, state: "exempt", limit: policy.limit, method, route };
  const { remaining } = ask.about(key, client, limit).peek(nowMs);
  // After the limit was lowered, more than the limit may be used. A store may know of more than was counted here.
  const used = Math.max(ask.counted, limit - remaining);
  const state = remaining < policy.cost ? "exhausted" : "open";
  return { policy, state, limit, used, remaining, resetMs: used > 0 ? ask.knownResetMs : null, method, route };
}

/** Anybody can send any value of a header, so a key of nothing else could be that of another caller. */
function isOwn({ key }: Policy): boolean {
  return !key.some(({ kind }) => kind === "header") || key.some(({ kind }) => ownKinds.has(kind));
}

const ownKinds: ReadonlySet<KeyPart["kind"]> = new Set(["client", "token", "subject", "claim"]);
