// Decides about several requests together, by all policies that they name or that apply: either all are charged or none.
// What one call charges to one key of one policy is one sum, so that requests which share a key cannot exceed its limit.

import type { CounterKey } from "../core/counter-key.ts";
import type { QuotaLimiter, QuotaRequest } from "../core/limiter.ts";
import { type Decision, isMoreUrgent, type Outcome } from "../core/policy.ts";
import { chargedAt } from "./locked-table.ts";
import type { PolicyState } from "./policy-state.ts";
import { nextPass, type PolicySet, type PolicySteps } from "./policy-steps.ts";
import { type AskingPass, type Conclusion, Question } from "./store/calls.ts";

/** What a call charges to one key. */
interface Charge {
  readonly state: PolicyState;
  readonly key: CounterKey;
  readonly client: CounterKey;
  readonly limit: number;
  units: number;
  fits: boolean;
  /** Of a shared store: whether it has to be asked first, and whether it is not there. */
  isUnknown: boolean;
  isUnavailable: boolean;
  /** What is left after the call; without its units if it does not fit. */
  remaining: number;
  resetMs: number;
}

/** One request with the charges that it is part of. */
interface Asked {
  readonly request: QuotaRequest;
  readonly charges: readonly Charge[];
  readonly isExempt: boolean;
}

export class QuotaQuestions implements QuotaLimiter {
  readonly policyNames: readonly string[];
  readonly #set: PolicySet;
  /** A set of policies: those that are asked. */
  readonly #included: number;
  readonly #steps: Pick<PolicySteps, "observe">;

  /** `steps`: decides with the same policies about one request after the other. */
  constructor(set: PolicySet, included: number, steps: Pick<PolicySteps, "observe">) {
    this.#set = set;
    this.#included = included;
    this.#steps = steps;
    this.policyNames = set.states.flatMap(({ policy }, i) => ((included & (1 << i)) === 0 ? [] : [policy.name]));
  }

  acquireAll(requests: readonly QuotaRequest[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]> {
    const charges = new Map<string, Charge>();
    const asked = requests.map((request) => this.#ask(request, charges));
    this.#set.tokens.forget();
    return this.#decide(asked, [...charges.values()], "first", nowMs);
  }

  #decide(
    asked: readonly Asked[],
    charges: readonly Charge[],
    pass: AskingPass,
    nowMs: number,
  ): readonly Decision[] | Promise<readonly Decision[]> {
    const { promise, resolve } = Promise.withResolvers<Conclusion>();
    const isCharged = this.#charge(charges, pass, new Question(resolve), nowMs);
    if (isCharged !== null) return asked.map((one) => this.#conclude(one, isCharged, nowMs));
    return promise.then((conclusion) =>
      this.#decide(asked, charges, nextPass(this.#set, pass, conclusion, nowMs), nowMs),
    );
  }

  /**
   * Charges all, or none if an enforcing policy refuses. Returns whether they are charged; null if the shared store is
   * asked first.
   */
  #charge(charges: readonly Charge[], pass: AskingPass, question: Question, nowMs: number): boolean | null {
    const { locks } = this.#set;
    for (const { state, key, client } of charges) state.counters.select(key, client);
    locks.acquire();
    try {
      const atMs = chargedAt(this.#set, nowMs);
      for (const charge of charges) askFor(charge, pass, nowMs, atMs);
      const isCharged = charges.every(({ fits, isUnknown, state }) => fits || isUnknown || state.isShadow);
      const unknown = isCharged ? charges.filter(({ isUnknown }) => isUnknown) : [];
      if (unknown.length > 0) {
        // Several charges may be of one policy, which speaks of what was asked last.
        for (const charge of unknown) {
          askFor(charge, pass, nowMs, atMs);
          charge.state.shared?.request(question);
        }
        return null;
      }
      if (isCharged) for (const charge of charges) chargeFor(charge, pass, nowMs, atMs);
      return isCharged;
    } finally {
      locks.release();
    }
  }

  /** Adds what the request charges to `charges`. */
  #ask(asked: QuotaRequest, charges: Map<string, Charge>): Asked {
    const { request, head, policy: named, hits } = asked;
    const { states, match, identified } = this.#set;
    if (request.route === null) return { request: asked, charges: [], isExempt: false };
    const applies = this.#included & match(request, head);
    const own: Charge[] = [];
    let isExempt = false;
    for (const [i, state] of states.entries()) {
      const { policy } = state;
      if ((applies & (1 << i)) === 0 || (named !== null && named !== policy.name)) continue;
      const identity = (identified & (1 << i)) === 0 ? null : asked.identity;
      const limit = state.readLimit === null ? policy.limit : state.readLimit(request, head, identity);
      if (limit === 0) {
        state.outcomes.exempt += 1;
        isExempt ||= !state.isShadow;
        continue;
      }
      const key = state.readKey(request, head, identity);
      const id = `${i} ${key.a} ${key.b} ${key.c} ${key.d}`;
      const client = request.counterKey;
      const charge = charges.get(id) ?? { state, key, client, limit, ...unasked };
      charge.units += hits * policy.cost;
      charges.set(id, charge);
      own.push(charge);
    }
    return { request: asked, charges: own, isExempt };
  }

  #conclude({ request: { request, policy }, charges, isExempt }: Asked, isCharged: boolean, nowMs: number): Decision {
    for (const charge of charges) charge.state.outcomes[outcomeOf(charge, isCharged)] += 1;
    const enforcing = charges.filter(({ state }) => !state.isShadow);
    const list = enforcing.map((charge) => decisionOf(charge, isCharged));
    const [first] = list;
    if (first !== undefined) {
      const others = this.#set.listAll && list.length > 1 ? list : null;
      return { ...list.reduce(moreUrgent, first), others };
    }
    if (request.route === null) return this.#steps.observe(request.client, request.counterKey, nowMs);
    return this.#shownFor(policy).unspent(isExempt ? "exempt" : "observed", nowMs, null);
  }

  /** The policy that is shown where no enforcing one applies. */
  #shownFor(named: string | null): PolicyState {
    const states = this.#set.states.filter((_, i) => (this.#included & (1 << i)) !== 0);
    const shown =
      states.find(({ policy }) => policy.name === named) ??
      states.find(({ isShadow }) => !isShadow) ??
      this.#set.states[0];
    if (shown === undefined) throw new Error("the configuration has at least one policy");
    return shown;
  }
}

const unasked = { units: 0, fits: false, isUnknown: false, isUnavailable: false, remaining: 0, resetMs: 0 } as const;

/** Asks for all units of a charge. */
function askFor(charge: Charge, pass: AskingPass, sinceMs: number, nowMs: number): void {
  const { state, key, client, limit, units } = charge;
  const { counters, shared } = state;
  if (shared !== null) {
    shared.pass = pass;
    shared.sinceMs = sinceMs;
  }
  counters.select(key, client);
  // More than the limit never fits: then the answer is about the next unit.
  const asked = units > limit ? 1 : units;
  const fits = counters.ask(limit, asked, nowMs);
  charge.fits = fits && asked === units;
  charge.isUnknown = state.isUnknown;
  charge.isUnavailable = state.isUnavailable;
  charge.remaining = counters.remaining + (fits && asked !== units ? asked : 0);
  charge.resetMs = counters.resetMs;
}

/** Asks again, because counters charge what was asked for last. Nothing has changed in between. */
function chargeFor(charge: Charge, pass: AskingPass, sinceMs: number, nowMs: number): void {
  askFor(charge, pass, sinceMs, nowMs);
  if (charge.fits) charge.state.counters.charge();
}

function outcomeOf({ state: { isShadow }, fits, isUnavailable }: Charge, isCharged: boolean): Outcome {
  if (isUnavailable) return "unavailable";
  if (!fits) return isShadow ? "would_throttle" : "throttled";
  return isCharged ? "admitted" : "observed";
}

function decisionOf(charge: Charge, isCharged: boolean): Decision {
  const { state, key, client, limit, remaining, resetMs, units } = charge;
  const outcome = outcomeOf(charge, isCharged);
  const left = outcome === "observed" ? remaining + units : remaining;
  return { outcome, policy: state.policy, key, client, limit, remaining: left, resetMs, held: null, others: null };
}

function moreUrgent(a: Decision, b: Decision): Decision {
  return isMoreUrgent(b, a) ? b : a;
}
