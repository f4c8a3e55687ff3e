// Decides by all policies together. Within a step, all that apply are asked before any is charged, so a refusal spends
// nothing of its step. Shadow policies are asked too, refuse nothing, and are charged where the enforcing ones admit the
// request and it fits. A single policy by client alone takes a shorter way to the same decision.
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type Clock, systemClock } from "../core/clock.ts";
import type { CounterKey } from "../core/counter-key.ts";
import type {
  AskedRequest,
  CallerQuota,
  CountedRequest,
  CounterFigures,
  LimitedClient,
  Limiter,
  LimitStep,
  PolicyStats,
  QuotaLimiter,
} from "../core/limiter.ts";
import {
  type Awaitable,
  countsOf,
  type Decision,
  type Held,
  isContinued,
  isTighter,
  type Policy,
} from "../core/policy.ts";
import type { ForgivenKey } from "../core/rules.ts";
import { RulesInForce } from "../core/rules-in-force.ts";
import { noPeriod } from "./calendar.ts";
import { type ForgivenName, forgive, forgiveHeld } from "./forgive.ts";
import { LimiterView } from "./limiter-view.ts";
import type { NameContext } from "./named-keys.ts";
import {
  Applicable,
  applicable,
  assignSlots,
  chargedAt,
  createCheckRow,
  createRow,
  decideWithStore,
  holdsUntilEnd,
  limitOf,
  type PolicyAsk,
  type PolicyRow,
  type PolicySet,
  type PolicySlot,
  type RowOptions,
  rowsIn,
  shownOf,
  slotsToKeep,
  tightestLasting,
  unspent,
} from "./policies.ts";
import { QuotaQuestions, quotasOfCaller } from "./quota-questions.ts";
import { createPolicyMatcher, maskOf, noHead, TokenDigests } from "./request-keys.ts";
import type { Store } from "./store/store.ts";
import { CounterTable, createTableMemory } from "./table/counter-table.ts";
import { rulesOf } from "./table/key-log.ts";
import { minTableBytes } from "./table/layout.ts";
import { SipHash } from "./table/sip-hash.ts";
import { TableView } from "./table/table-view.ts";

/** What a request asks of the policies of a step. */
interface Asked {
  readonly asks: readonly PolicyAsk[];
  readonly isExempt: boolean;
  /** The decision of the step before; null if there was none. */
  readonly first: Decision | null;
  readonly nowMs: number;
}

export class PolicySteps implements Limiter {
  readonly limitsOthers: boolean;
  protected readonly set: PolicySet;
  readonly #firstStep: number;
  /** After the token check: of a request with a verified identity, of one without, and of one that is refused. */
  readonly #verifiedStep: number;
  readonly #unverifiedStep: number;
  readonly #refusedStep: number;
  /** The policy that is alone and by client; null if there are several or it needs more. */
  readonly #single: PolicyRow | null;
  /** The policy that is shown, unspent, where no enforcing one applies. */
  readonly #fallback: PolicyRow;
  /** The policy whose quota is shown on requests that are not limited; null if that is not known by the client alone. */
  readonly #outside: PolicyRow | null;
  readonly #reused = new Applicable();

  /** `included`: the policies that are asked. */
  constructor(set: PolicySet, included: number) {
    this.set = set;
    const identified = maskOf(set.rows, (row) => row.needsIdentity);
    this.#firstStep = included & ~identified & ~set.ofOthers;
    this.#verifiedStep = included & identified;
    this.#refusedStep = included & set.ofOthers;
    this.#unverifiedStep = (this.#verifiedStep & ~set.ofVerified) | this.#refusedStep;
    this.limitsOthers = this.#refusedStep !== 0;
    const rows = rowsIn(set, included);
    this.#fallback = shownOf(set, included);
    this.#outside = rows.find((row) => !row.isShadow && isForEveryClient(row)) ?? null;
    const isAlone = set.store === null && set.rows.length === 1 && (this.#verifiedStep | this.#unverifiedStep) === 0;
    const first = this.#outside;
    this.#single = isAlone && first?.readLimit === null && !first.holds ? first : null;
  }

  ask(request: AskedRequest, step: LimitStep): Awaitable<Decision> {
    switch (step) {
      case "anonymous":
        if (this.#single !== null) return this.#askAlone(this.#single, request.parsed.counterKey, request.nowMs);
        return this.#ask(this.#firstStep, request);
      case "identified":
        return this.#ask(request.identity === null ? this.#unverifiedStep : this.#verifiedStep, request);
      case "refused":
        return this.#ask(this.#refusedStep, request);
      case "usedUp":
        return this.#findUsedUp(request);
    }
  }

  #ask(step: number, request: AskedRequest): Awaitable<Decision> {
    const { decision: first, nowMs } = request;
    if (step === 0 && first !== null) return first;
    // With a store, another request may come while this one waits.
    const { asks, exempt } = applicable(this.set, step, request, this.set.store === null ? this.#reused : null);
    let isExempt = first !== null && first.outcome === "exempt";
    for (const { outcomes, isShadow } of exempt) {
      outcomes.exempt += 1;
      isExempt ||= !isShadow;
    }
    const asked = { asks, isExempt, first, nowMs };
    return this.#decide(asked) ?? decideWithStore(this.set, waitedFor(asks), () => this.#decide(asked));
  }

  /** Decides by what is known. Null if the store has to be asked first. */
  #decide({ asks, isExempt, first, nowMs }: Asked): Decision | null {
    const { locks } = this.set;
    let refusing: PolicyAsk | null = null;
    let held = first === null ? null : first.held;
    for (const ask of asks) ask.select();
    // From asking to charging no other thread may charge the same keys.
    locks.acquire();
    try {
      refusing = this.#put(asks, chargedAt(this.set, nowMs));
      if (refusing === null) {
        if (asks.some((ask) => ask.isUnknown && isWaitedFor(ask))) return null;
        held = this.#charge(asks, held, nowMs);
      }
    } finally {
      locks.release();
    }
    if (refusing !== null) return this.#refuse(asks, refusing, first);
    return this.#admitted(asks, first, held) ?? unspent(this.#fallback, isExempt ? "exempt" : "observed", nowMs, held);
  }

  /** Asks all policies. Returns the enforcing one that refuses for longest; null if none does. */
  #put(asks: readonly PolicyAsk[], nowMs: number): PolicyAsk | null {
    let refusing: PolicyAsk | null = null;
    for (const ask of asks) {
      ask.put(nowMs);
      if (ask.refuses && (refusing === null || isMoreUrgentRefusal(ask, refusing))) refusing = ask;
    }
    if (refusing === null || this.set.store === null) return refusing;
    // The store is not asked then, and may have said before that a policy refuses for longer.
    for (const ask of asks) {
      const isRefusedToo = !ask.row.isShadow && ask.isUnknown && ask.shared?.isProbablyRefused === true;
      if (isRefusedToo && isMoreUrgentRefusal(ask, refusing)) refusing = ask;
    }
    return refusing;
  }

  /** Shows the policy that refuses for longest. */
  #refuse(asks: readonly PolicyAsk[], refusing: PolicyAsk, first: Decision | null): Decision {
    for (const ask of asks) {
      const { outcomes, isShadow } = ask.row;
      if (ask.fits || (ask.isUnknown && ask !== refusing)) outcomes.observed += 1;
      else if (ask.isUnavailable) outcomes.unavailable += 1;
      else if (isShadow) outcomes.would_throttle += 1;
      else outcomes.throttled += 1;
    }
    const outcome = refusing.isUnavailable ? "unavailable" : "throttled";
    // What the step before has taken is held until the exchange ends.
    const refused = refusing.decision(outcome, first === null ? null : first.held, this.#list(asks, first, false));
    if (this.set.store !== null) for (const ask of asks) ask.shared?.release();
    return refused;
  }

  /** Charges all enforcing policies, and the shadow ones that fit. Returns what is held, `held` included. */
  #charge(asks: readonly PolicyAsk[], held: Held | null, nowMs: number): Held | null {
    for (const ask of asks) {
      const { outcomes } = ask.row;
      if (ask.fits) held = ask.charge(held);
      else if (ask.isUnknown) void this.#chargeLater(ask, nowMs);
      else {
        outcomes[ask.isUnavailable ? "unavailable" : "would_throttle"] += 1;
        ask.shared?.release();
      }
    }
    return held;
  }

  /** Charges a shadow policy when the store has answered, because no request waits for it. */
  async #chargeLater(ask: PolicyAsk, nowMs: number): Promise<void> {
    await decideWithStore(this.set, [ask], () => {
      ask.select();
      return this.set.locks.within(() => {
        ask.put(chargedAt(this.set, nowMs));
        if (ask.isUnknown) return null;
        this.#charge([ask], null, nowMs);
        return true;
      });
    });
  }

  /** Shows the enforcing policy with the fewest requests left, of both steps; null if none applies. */
  #admitted(asks: readonly PolicyAsk[], first: Decision | null, held: Held | null): Decision | null {
    let shown: PolicyAsk | null = null;
    for (const ask of asks) if (!ask.row.isShadow && (shown === null || isTighter(ask, shown))) shown = ask;
    const before = first !== null && first.outcome === "admitted" ? first : null;
    const others = this.#list(asks, before, true);
    const lasting = held === null ? null : tightestLasting(asks, before);
    if (shown !== null && (before === null || isTighter(shown, before)))
      return { ...shown.decision("admitted", held, others), lasting };
    return before === null ? null : { ...before, held, lasting, others };
  }

  /**
   * Returns every enforcing policy that applies, those of the step before too, if there are several. `isCharged`: false if
   * one has refused the request.
   */
  #list(asks: readonly PolicyAsk[], first: Decision | null, isCharged: boolean): readonly Decision[] | null {
    if (!this.set.listAll) return null;
    const list: Decision[] = [];
    if (first !== null && first.outcome === "admitted") list.push(...(first.others ?? [{ ...first, held: null }]));
    for (const ask of asks) if (!ask.row.isShadow) list.push(listed(ask, isCharged));
    return list.length > 1 ? list : null;
  }

  show(of: LimitedClient | Decision, nowMs: number, isObserved = false): Decision {
    if ("outcome" in of) return this.#showAgain(of, nowMs);
    const row = this.#outside;
    if (row === null) return unspent(this.#fallback, "observed", nowMs, null);
    const { counterKey } = of;
    const limit = limitOf(row, of, noHead, null);
    if (isObserved) row.outcomes[limit === 0 ? "exempt" : "observed"] += 1;
    return limit === 0 ? unspent(row, "exempt", nowMs, null) : row.ask.about(counterKey, counterKey, limit).peek(nowMs);
  }

  #showAgain({ policy, key, client, limit, others }: Decision, nowMs: number): Decision {
    const decision = this.#rowOf(policy).ask.about(key, client, limit).peek(nowMs);
    return others === null ? decision : { ...decision, others: others.map((each) => this.#showAgain(each, nowMs)) };
  }

  /** A loop, because a closure would allocate for each request. */
  #rowOf(policy: Policy): PolicyRow {
    for (const row of this.set.rows) if (row.policy === policy) return row;
    return this.#fallback;
  }

  quotasOf(caller: CountedRequest, routes: readonly string[], nowMs: number): readonly CallerQuota[] {
    return quotasOfCaller(this.set, caller, routes, nowMs);
  }

  /** Returns what a request would ask of all policies, whatever the step. Holds until this limiter is asked again. */
  asksOf(request: CountedRequest): readonly PolicyAsk[] {
    return applicable(this.set, allPolicies, request, this.#reused).asks;
  }

  /** Of several that would refuse the request, the one that refuses for longest. */
  #findUsedUp(request: AskedRequest): Decision {
    const { nowMs, decision } = request;
    let refusing: Decision | null = null;
    for (const ask of applicable(this.set, this.#refusedStep, request, this.#reused).asks) {
      if (ask.row.isShadow) continue;
      const quota = ask.peek(nowMs);
      const isLater = refusing === null || quota.resetMs > refusing.resetMs;
      if (quota.remaining < ask.units && isLater) refusing = { ...quota, outcome: "throttled" };
    }
    return refusing ?? decision ?? unspent(this.#fallback, "observed", nowMs, null);
  }

  stats(): readonly PolicyStats[] {
    return this.set.rows.map(({ policy, outcomes }) => ({ policy, outcomes: countsOf((each) => outcomes[each]) }));
  }

  /** For a policy that is alone, has one limit unless a rule says otherwise, is keyed by client and holds nothing. */
  #askAlone(row: PolicyRow, client: CounterKey, nowMs: number): Decision {
    // Without a store. Each detour through the ask costs some nanoseconds here.
    const { ask, local, policy, outcomes, runtimeRules } = row;
    const { locks } = this.set;
    const ruled = runtimeRules.isEmpty ? undefined : runtimeRules.limitOf(policy, client, null);
    const limit = ruled ?? policy.limit;
    if (ruled === 0) {
      outcomes.exempt += 1;
      return unspent(row, "exempt", nowMs, null);
    }
    let isAdmitted = false;
    local.select(ask.about(client, client, limit));
    locks.acquire();
    try {
      isAdmitted = local.ask(ask, chargedAt(this.set, nowMs));
      if (isAdmitted) local.charge(ask);
    } finally {
      locks.release();
    }
    // An access by a computed name takes several times longer.
    if (isAdmitted) outcomes.admitted += 1;
    else outcomes.throttled += 1;
    const outcome = isAdmitted ? "admitted" : "throttled";
    const { remaining, resetMs } = ask;
    return { outcome, policy, key: client, client, limit, remaining, resetMs, held: null, lasting: null, others: null };
  }
}

function listed(ask: PolicyAsk, isCharged: boolean): Decision {
  const isSpared = ask.isUnknown && ask.shared?.isProbablyRefused !== true;
  if (!ask.fits) return ask.decision(isSpared ? "observed" : "throttled", null, null);
  const decision = ask.decision(isCharged ? "admitted" : "observed", null, null);
  return isCharged ? decision : { ...decision, remaining: ask.remaining + ask.units };
}

function waitedFor(asks: readonly PolicyAsk[]): readonly PolicyAsk[] {
  return asks.every(isWaitedFor) ? asks : asks.filter(isWaitedFor);
}

/** Whether a request waits for the store's word on a policy: on a shadow one only if something is held until its end. */
function isWaitedFor({ row: { isShadow, holds } }: PolicyAsk): boolean {
  return !isShadow || holds;
}

/** A request that nobody can decide about is told so, rather than when another policy would admit it. */
function isMoreUrgentRefusal(ask: PolicyAsk, than: PolicyAsk): boolean {
  if (ask.isUnavailable !== than.isUnavailable) return ask.isUnavailable;
  return ask.resetMs > than.resetMs;
}

/** Who is not verified yet has the quota of others. */
function isForEveryClient({ policy: { key, match, who } }: PolicyRow): boolean {
  if (who === "verified") return false;
  return key.length === 1 && key[0]?.kind === "client" && match.paths.length + match.methods.length === 0;
}

/** Each has a default that suits a gateway without a base path, verified tokens and structured fields. */
export interface PolicyLimiterOptions extends RowOptions {
  readonly basePath?: string;
  /** Whether decisions list all enforcing policies that apply. */
  readonly listAll?: boolean;
  /** Hashes the parts of keys. Default: that of `previous`, or one with a random key. */
  readonly hash?: SipHash;
  /** Where the units are counted. Default: the table of `previous`, or a small one. */
  readonly table?: CounterTable;
  /** The slots of the policies in the table. Default: those of `previous`, and free ones for new policies. */
  readonly slots?: readonly PolicySlot[];
  /** Policies that may come back: the slots of those that `previous` has stay theirs. Default: none. */
  readonly keep?: readonly Policy[];
  /** The slots that are kept, as another thread has chosen them. Default: by `keep`. */
  readonly kept?: readonly PolicySlot[];
  /** Where gateways count together. Default: that of `previous`, or none. */
  readonly store?: Store | null;
  /** Default: those of `previous`, or none. */
  readonly runtimeRules?: RulesInForce;
  /** Default: true. False: for a thread that only keeps the table. */
  readonly decides?: boolean;
  /** The limiter before a reload. Nothing of it changes until `replacedBy` is called. */
  readonly previous?: PolicyLimiter | null;
}

/**
 * The limiter of the configured policies, with counters in a table of this process. A reload makes another one from it, which
 * goes on with the counters of the policies that it continues.
 */
export class PolicyLimiter extends PolicySteps {
  readonly #clock: Clock;
  readonly #choosesSlots: boolean;
  readonly #decides: boolean;
  #view: LimiterView | null = null;
  /** In the order of the policies. */
  readonly slots: readonly PolicySlot[];
  #kept: readonly PolicySlot[];
  /** Of the policies that are kept, as far as this thread has had them in force. */
  #keptRows: readonly PolicyRow[];

  /** `policies`: 1 to 32. Throws a RangeError if the runtime does not know a time zone. */
  constructor(policies: readonly Policy[], options: PolicyLimiterOptions = {}) {
    const { previous = null, clock = systemClock, basePath = "/", listAll = false } = options;
    const setBefore = previous?.set;
    const hash = options.hash ?? setBefore?.hash ?? new SipHash(randomBytes(16));
    const table = options.table ?? setBefore?.table ?? smallTable();
    const store = options.store ?? setBefore?.store ?? null;
    const runtimeRules = options.runtimeRules ?? setBefore?.runtimeRules ?? new RulesInForce();
    const slotsBefore = previous === null ? [] : [...previous.slots, ...previous.kept];
    const rowsBefore = previous === null ? [] : [...previous.set.rows, ...previous.#keptRows];
    // At a start, keys that are there already are those of a snapshot, which was restored to the first slots.
    const isFree = (slot: number): boolean => previous === null || table.isSlotFree(slot);
    const slots = options.slots ?? assignSlots(policies, slotsBefore, isFree);
    const source = { tokens: new TokenDigests(), hash, table, store, runtimeRules };
    const rows = slots.map((slot) => createRow(slot, source, options, rowsBefore));
    const inOrder = slots.map(({ policy }) => policy);
    const set: PolicySet = {
      ...source,
      ...{ rows, listAll, locks: table.locks },
      match: createPolicyMatcher(inOrder, basePath),
      ofVerified: maskOf(inOrder, ({ who }) => who === "verified"),
      ofOthers: maskOf(inOrder, ({ who }) => who === "others"),
      // With a store, a request may be charged long after it was read.
      clock: table.isShared || store !== null ? clock : null,
    };
    super(set, allPolicies);
    this.#clock = clock;
    this.#choosesSlots = options.slots === undefined;
    this.#decides = options.decides ?? true;
    this.slots = slots;
    this.#kept = options.kept ?? slotsToKeep(slotsBefore, slots, options.keep ?? []);
    this.#keptRows = rowsBefore.filter((row) => this.#kept.some(({ slot }) => slot === row.slot));
    if (previous === null) this.comeIntoForce();
  }

  /** The slots of policies that may come back. */
  get kept(): readonly PolicySlot[] {
    return this.#kept;
  }

  /** Tells the table what the policies count, and begins to count with them. */
  comeIntoForce(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const { counters, continues, policy, slot } of this.set.rows) {
      if (this.#decides) counters.comeIntoForce(nowMs, continues);
      else this.set.table.configure(slot, rulesOf(policy));
    }
    for (const { policy, slot } of this.#kept) this.set.table.configure(slot, rulesOf(policy));
  }

  /** What the policies have in the table. */
  counterFigures(): CounterFigures {
    const { usedBytes, freeBytes, bySlot } = this.set.table.figures();
    const policies = this.slots.flatMap(({ policy, slot }) => {
      const figures = bySlot[slot];
      return figures === undefined ? [] : [{ policy: policy.name, ...figures }];
    });
    return { usedBytes, freeBytes, policies };
  }

  /**
   * Forgets what is counted of a name, from the next request on: in the table, and what this thread holds of a store. `seq`: the
   * number that the store has given the forgiveness. Resolves with null for a name that is none: no address, a network of
   * several clients, no hash.
   */
  forgive(name: ForgivenKey, context: NameContext, seq = 0): Promise<ForgivenName | null> {
    return forgive(this.set.rows, name, context, this.#clock.monotonicMs, seq);
  }

  /** Forgets what this thread holds of a store. One thread, which forgets what the table has counted, does it before. */
  forgiveHeld(name: ForgivenKey, context: NameContext, seq: number): void {
    forgiveHeld(this.set.rows, name, context, this.#clock.monotonicMs(), seq);
  }

  /** The same limiter for those who only look. */
  view(): LimiterView {
    this.#view ??= this.#createView();
    return this.#view;
  }

  #createView(): LimiterView {
    const view = new TableView(this.set.table);
    const rows = this.set.rows.map((row) => createCheckRow(row, view));
    const set = { ...this.set, rows, store: null };
    return new LimiterView(view, set, new PolicySteps(set, allPolicies));
  }

  /**
   * Puts `next` into force in place of this one: what a reload does to policies happens here. Gives back what changed ones
   * have leased, because another reload may bring their rules back, and gives up the slots of those that are neither continued
   * nor kept.
   */
  replacedBy(next: PolicyLimiter): void {
    for (const { policy, slot, inStore } of [...this.set.rows, ...this.#keptRows]) {
      const continued = next.slots.find((each) => isContinued(each.policy, policy));
      const isKept = next.kept.some((each) => each.slot === slot);
      if (isKept || (continued !== undefined && !isDeepStrictEqual(continued.policy, policy))) inStore?.endLeases();
      if (isKept || next.slots.some((each) => each.slot === slot)) continue;
      inStore?.retire();
      this.#retire(slot);
    }
    next.comeIntoForce();
  }

  /** Gives up the slots that are kept: their policies will not come back. */
  endKeeping(): void {
    for (const { inStore } of this.#keptRows) inStore?.retire();
    for (const { slot } of this.#kept) this.#retire(slot);
    this.#kept = [];
    this.#keptRows = [];
  }

  /** Only the thread that chooses the slots ends their periods, since another one may be so late that a slot has a new policy. */
  #retire(slot: number): void {
    this.set.table.retire(slot);
    if (this.#choosesSlots) this.set.table.periodOf(slot).restore(0, noPeriod);
  }

  /** The same for checks, which do not tell when an exchange ends: without the policies for which that matters. */
  forChecks(): PolicySteps {
    return new PolicySteps(this.set, this.#askedByChecks());
  }

  /** The same for questions about a quota alone. */
  forQuotas(): QuotaLimiter {
    return new QuotaQuestions(this.set, this.#askedByChecks(), this.forChecks());
  }

  #askedByChecks(): number {
    return maskOf(this.set.rows, ({ policy }) => !holdsUntilEnd(policy));
  }
}

const allPolicies = -1;

function smallTable(): CounterTable {
  return new CounterTable(createTableMemory(minTableBytes), { secret: randomBytes(16) });
}
