// Decides by all policies together. Within a step, all that apply are asked before any is charged, so a refusal spends
// nothing of its step. Shadow policies are asked too, refuse nothing, and are charged where the enforcing ones admit the
// request and it fits. A single policy by client alone takes a shorter way to the same decision.
import type { Identity } from "../core/authenticator.ts";
import { readPeer } from "../core/client-address.ts";
import type { CounterKey } from "../core/counter-key.ts";
import type { Limiter, PolicyStats } from "../core/limiter.ts";
import { NetworkSet } from "../core/network-set.ts";
import { type Decision, type Held, isTighter } from "../core/policy.ts";
import { type ParsedRequest, pendingVerdict, type RequestHead } from "../core/request-head.ts";
import { chargedAt, type LockedTable } from "./locked-table.ts";
import type { PolicyState } from "./policy-state.ts";
import { isCrowdedOut, mustWait } from "./policy-waits.ts";
import type { TokenDigests } from "./request-keys.ts";
import { type AskingPass, type Conclusion, Question } from "./store/calls.ts";

/** Sets of policies are masks: bit i stands for the policy at index i. */
export interface PolicySet extends LockedTable {
  /** In the order of the configuration; 1 to 32. */
  readonly states: readonly PolicyState[];
  /** Returns the policies whose match a request fits. */
  readonly match: (request: ParsedRequest, head: RequestHead) => number;
  /** Shared by the policies, so that each token is hashed once. */
  readonly tokens: TokenDigests;
  /** The policies that need a verified identity. */
  readonly identified: number;
  /** Whether decisions list all enforcing policies that apply. */
  readonly listAll: boolean;
  /** How long a decision may wait for the store in which gateways share the counters; null: they do not. */
  readonly waitMs: number | null;
}

/** A request whose policies are selected. */
interface Selected {
  readonly isExempt: boolean;
  /** The decision of the step before; null if there was none. */
  readonly first: Decision | null;
  readonly nowMs: number;
}

/** Returns what is known when a request is decided again, that has waited since an instant. */
export function nextPass(
  { waitMs, clock }: PolicySet,
  pass: AskingPass,
  conclusion: Conclusion,
  sinceMs: number,
): AskingPass {
  if (conclusion === "alone") return "alone";
  if (pass === "first") return "answered";
  // What was granted may be over, because this thread has seen it too late.
  const isLate = clock !== null && waitMs !== null && clock.monotonicMs() - sinceMs >= waitMs;
  return isLate ? "alone" : "final";
}

export class PolicySteps implements Limiter {
  readonly needsIdentity: boolean;
  readonly #set: PolicySet;
  readonly #firstStep: number;
  readonly #secondStep: number;
  /** The policy that is alone and by client; null if there are several or it needs more. */
  readonly #single: PolicyState | null;
  /** The policy that is shown, unspent, where no enforcing one applies. */
  readonly #fallback: PolicyState;
  /** The policy whose quota is shown on requests that are not limited; null if that is not known by the client alone. */
  readonly #outside: PolicyState | null;

  /** `included`: the policies that are asked. */
  constructor(set: PolicySet, included: number) {
    this.#set = set;
    this.#firstStep = included & ~set.identified;
    this.#secondStep = included & set.identified;
    this.needsIdentity = this.#secondStep !== 0;
    const states = set.states.filter((_, i) => (included & (1 << i)) !== 0);
    const fallback = states.find(({ isShadow }) => !isShadow) ?? states[0] ?? set.states[0];
    if (fallback === undefined) throw new Error("the configuration has at least one policy");
    this.#fallback = fallback;
    this.#outside = states.find((state) => !state.isShadow && isForEveryClient(state)) ?? null;
    const [first] = set.states;
    const isAlone = set.waitMs === null && set.states.length === 1 && first?.readLimit === null && !first.holds;
    this.#single = isAlone && first === this.#outside ? first : null;
  }

  acquire(request: ParsedRequest, head: RequestHead, nowMs: number): Decision | Promise<Decision> {
    if (this.#single !== null) return this.#single.take(request.counterKey, this.#set, nowMs);
    return this.#decide(this.#firstStep, request, head, null, null, nowMs);
  }

  acquireIdentified(
    request: ParsedRequest,
    head: RequestHead,
    identity: Identity | null,
    first: Decision,
    nowMs: number,
  ): Decision | Promise<Decision> {
    return this.#decide(this.#secondStep, request, head, identity, first, nowMs);
  }

  peek(client: string, key: CounterKey, nowMs: number): Decision {
    const state = this.#outside;
    if (state === null) return this.#fallback.unspent("observed", nowMs, null);
    const { readLimit, policy } = state;
    const limit = readLimit === null ? policy.limit : readLimit({ ...pendingVerdict.parsed, client }, noHead, null);
    return limit === 0 ? state.unspent("exempt", nowMs, null) : state.peek(key, key, limit, nowMs);
  }

  observe(client: string, key: CounterKey, nowMs: number): Decision {
    const decision = this.peek(client, key, nowMs);
    if (this.#outside !== null) this.#outside.outcomes[decision.outcome] += 1;
    return decision;
  }

  refresh({ policy, key, client, limit, others }: Decision, nowMs: number): Decision {
    const state = this.#set.states.find((each) => each.policy === policy) ?? this.#fallback;
    const decision = state.peek(key, client, limit, nowMs);
    return others === null ? decision : { ...decision, others: others.map((each) => this.refresh(each, nowMs)) };
  }

  stats(): readonly PolicyStats[] {
    return this.#set.states.map(({ policy, outcomes }) => ({ policy, outcomes }));
  }

  /** `first`: the decision of the step before; null if there was none. */
  #decide(
    step: number,
    request: ParsedRequest,
    head: RequestHead,
    identity: Identity | null,
    first: Decision | null,
    nowMs: number,
  ): Decision | Promise<Decision> {
    const { states, match, tokens } = this.#set;
    const applies = step & match(request, head);
    let isExempt = first !== null && first.outcome === "exempt";
    for (let i = 0; i < states.length; i += 1) {
      const state = states[i] ?? this.#fallback;
      state.isAsked = false;
      if ((applies & (1 << i)) === 0) continue;
      state.select(request, head, identity);
      if (!state.isAsked && !state.isShadow) isExempt = true;
    }
    tokens.forget();
    return this.#conclude({ isExempt, first, nowMs }, "first");
  }

  #conclude(selected: Selected, pass: AskingPass): Decision | Promise<Decision> {
    const { isExempt, first, nowMs } = selected;
    const { states, locks } = this.#set;
    let refusing: PolicyState | null = null;
    let isUnknown = false;
    let held = first === null ? null : first.held;
    // From asking to charging no other thread may charge the same keys.
    locks.acquire();
    try {
      refusing = this.#ask(chargedAt(this.#set, nowMs));
      isUnknown = refusing === null && this.#set.waitMs !== null && states.some(mustWait);
      if (refusing === null && !isUnknown) held = this.#charge(held, nowMs);
    } finally {
      locks.release();
    }
    if (refusing !== null) return this.#refuse(refusing, first);
    if (isUnknown) return this.#askStore(selected, pass);
    return this.#admitted(first, held) ?? this.#fallback.unspent(isExempt ? "exempt" : "observed", nowMs, held);
  }

  /** Asks for the units that are missing, and decides again when the store has answered, or is late. */
  #askStore(selected: Selected, pass: AskingPass): Promise<Decision> {
    const { states } = this.#set;
    // Other requests are decided meanwhile.
    const selections = states.map((state) => (state.isAsked ? state.selection() : null));
    return new Promise((resolve, reject) => {
      const question = new Question((conclusion) => {
        try {
          const next = nextPass(this.#set, pass, conclusion, selected.nowMs);
          for (const [i, state] of states.entries()) state.selectAgain(selections[i] ?? null, next);
          resolve(this.#conclude(selected, next));
        } catch (error) {
          reject(error);
        }
      });
      const waitsOnly = isCrowdedOut(states);
      for (const { isAsked, isUnknown, shared } of states) {
        if (isAsked && isUnknown) shared?.request(question, waitsOnly);
      }
    });
  }

  /** Asks all policies that are selected. Returns the enforcing one that refuses for longest; null if none does. */
  #ask(nowMs: number): PolicyState | null {
    let refusing: PolicyState | null = null;
    for (const state of this.#set.states) {
      if (!state.isAsked) continue;
      state.ask(nowMs);
      if (state.isShadow || state.fits || state.isUnknown) continue;
      if (refusing === null || isMoreUrgentRefusal(state, refusing)) refusing = state;
    }
    if (refusing === null || this.#set.waitMs === null) return refusing;
    // The store is not asked then, and may have said before that a policy refuses for longer.
    for (const state of this.#set.states) {
      const isRefusedToo = state.isAsked && !state.isShadow && state.isUnknown && state.shared?.isProbablyRefused;
      if (isRefusedToo && isMoreUrgentRefusal(state, refusing)) refusing = state;
    }
    return refusing;
  }

  /** Shows the policy that refuses for longest. */
  #refuse(refusing: PolicyState, first: Decision | null): Decision {
    for (const state of this.#set.states) {
      if (!state.isAsked) continue;
      if (state.fits || (state.isUnknown && state !== refusing)) state.outcomes.observed += 1;
      else if (state.isUnavailable) state.outcomes.unavailable += 1;
      else if (state.isShadow) state.outcomes.would_throttle += 1;
      else state.outcomes.throttled += 1;
    }
    // What the step before has taken is held until the exchange ends.
    const outcome = refusing.isUnavailable ? "unavailable" : "throttled";
    return refusing.decision(outcome, first === null ? null : first.held, this.#list(first, false));
  }

  /** Charges all enforcing policies, and the shadow ones that fit. Returns what is held, `held` included. */
  #charge(held: Held | null, nowMs: number): Held | null {
    for (const state of this.#set.states) {
      if (!state.isAsked) continue;
      if (state.fits) held = state.charge(held);
      else if (state.isUnknown) this.#chargeLater(state, nowMs);
      else if (state.isUnavailable) state.outcomes.unavailable += 1;
      else state.outcomes.would_throttle += 1;
    }
    return held;
  }

  /** Charges a shadow policy when the store has answered, because no request waits for it. */
  #chargeLater(state: PolicyState, nowMs: number): void {
    const selection = state.selection();
    const question = new Question((conclusion) => {
      const { locks } = this.#set;
      state.selectAgain(selection, conclusion === "alone" ? "alone" : "final");
      locks.acquire();
      try {
        state.ask(chargedAt(this.#set, nowMs));
        if (state.fits) state.charge(null);
        else state.outcomes[state.isUnavailable ? "unavailable" : "would_throttle"] += 1;
      } finally {
        locks.release();
      }
    });
    state.shared?.request(question);
  }

  /** Shows the enforcing policy with the fewest requests left, of both steps; null if none applies. */
  #admitted(first: Decision | null, held: Held | null): Decision | null {
    let shown: PolicyState | null = null;
    for (const state of this.#set.states) {
      if (state.isAsked && !state.isShadow && (shown === null || isTighter(state, shown))) shown = state;
    }
    const before = first !== null && first.outcome === "admitted" ? first : null;
    const others = this.#list(before, true);
    if (shown !== null && (before === null || isTighter(shown, before)))
      return shown.decision("admitted", held, others);
    return before === null ? null : { ...before, held, others };
  }

  /** Returns every enforcing policy that applies, those of the step before too, if there are several. */
  #list(first: Decision | null, isCharged: boolean): readonly Decision[] | null {
    if (!this.#set.listAll) return null;
    const list: Decision[] = [];
    if (first !== null && first.outcome === "admitted") list.push(...(first.others ?? [{ ...first, held: null }]));
    for (const state of this.#set.states) {
      if (state.isAsked && !state.isShadow) list.push(state.listed(isCharged));
    }
    return list.length > 1 ? list : null;
  }
}

/** A request that nobody can decide about is told so, rather than when another policy would admit it. */
function isMoreUrgentRefusal(state: PolicyState, than: PolicyState): boolean {
  if (state.isUnavailable !== than.isUnavailable) return state.isUnavailable;
  return state.resetMs > than.resetMs;
}

function isForEveryClient({ policy: { key, match } }: PolicyState): boolean {
  return key.length === 1 && key[0]?.kind === "client" && match.paths.length + match.methods.length === 0;
}

/** For what reads nothing but the client. */
const noHead: RequestHead = {
  peer: readPeer(undefined, { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 }),
  method: "",
  rawHeaders: [],
  target: "",
  httpVersion: "",
};
