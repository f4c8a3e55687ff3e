// The limiter of the configured policies, with counters in a table of this process. A reload makes another one from
// it, which goes on with the counters of the policies that it continues.
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type Clock, systemClock } from "../core/clock.ts";
import type { CounterFigures, Limiter, QuotaLimiter } from "../core/limiter.ts";
import type { Policy } from "../core/policy.ts";
import { needsIdentity } from "../core/policy.ts";
import { isContinued } from "../core/restart-keys.ts";
import { noPeriod } from "./calendar.ts";
import { createCounters } from "./counters.ts";
import { assignSlots, type PolicySlot } from "./policy-slots.ts";
import { holdsUntilEnd, type OutcomeCounts, PolicyState } from "./policy-state.ts";
import { type PolicySet, PolicySteps } from "./policy-steps.ts";
import { QuotaQuestions } from "./quota-questions.ts";
import { createKeyLimits, createKeyReader, createPolicyMatcher, TokenDigests } from "./request-keys.ts";
import type { SharedStore } from "./store/store.ts";
import { SharedCounters } from "./store/store-counters.ts";
import { CounterTable, createTableMemory } from "./table/counter-table.ts";
import { rulesOf } from "./table/eviction.ts";
import { minTableBytes } from "./table/layout.ts";
import { SipHash } from "./table/sip-hash.ts";

/** Each has a default that suits a gateway without a base path, verified tokens and structured fields. */
export interface PolicyLimiterOptions {
  /** Its wall clock says when a period of the calendar is over. */
  readonly clock?: Clock;
  readonly basePath?: string;
  readonly tokensAreVerified?: boolean;
  /** `shadow`: no policy refuses anything. */
  readonly enforcement?: "on" | "shadow";
  /** Whether decisions list all enforcing policies that apply. */
  readonly listAll?: boolean;
  /** Hashes the parts of keys. Default: that of `previous`, or one with a random key. */
  readonly hash?: SipHash;
  /** Where the units are counted. Default: the table of `previous`, or a small one. */
  readonly table?: CounterTable;
  /** The slots of the policies in the table. Default: those of `previous`, and free ones for new policies. */
  readonly slots?: readonly PolicySlot[];
  /** Where gateways count together. Default: that of `previous`, or none. */
  readonly store?: SharedStore | null;
  /** The limiter before a reload. Nothing of it changes until the new one is asked. */
  readonly previous?: PolicyLimiter | null;
}

export class PolicyLimiter extends PolicySteps {
  readonly #set: PolicySet;
  readonly #hash: SipHash;
  readonly #table: CounterTable;
  readonly #store: SharedStore | null;
  readonly #choosesSlots: boolean;
  /** In the order of the policies. */
  readonly slots: readonly PolicySlot[];

  /** `policies`: 1 to 32. Throws a RangeError if the runtime does not know a time zone. */
  constructor(policies: readonly Policy[], options: PolicyLimiterOptions = {}) {
    const { previous = null } = options;
    const hash = options.hash ?? (previous === null ? new SipHash(randomBytes(16)) : previous.#hash);
    const table = options.table ?? (previous === null ? smallTable() : previous.#table);
    const slotsBefore = previous === null ? [] : previous.slots;
    // At a start, keys that are there already are those of a snapshot, which was restored to the first slots.
    const isFree = (slot: number): boolean => previous === null || table.isSlotFree(slot);
    const slots = options.slots ?? assignSlots(policies, slotsBefore, isFree);
    const before = previous === null ? [] : previous.#set.states;
    const store = options.store ?? (previous === null ? null : previous.#store);
    const set = createSet({ ...options, hash, table, slots, store }, before);
    super(set, allPolicies);
    this.#set = set;
    this.#hash = hash;
    this.#table = table;
    this.#store = store;
    this.#choosesSlots = options.slots === undefined;
    this.slots = slots;
  }

  /** Tells the table what the policies count, before the first request does: for a thread that decides nothing. */
  comeIntoForce(): void {
    for (const { policy, slot } of this.slots) this.#table.configure(slot, rulesOf(policy));
  }

  /** What the policies have in the table. */
  counterFigures(): CounterFigures {
    const { usedBytes, freeBytes, bySlot } = this.#table.figures();
    const policies = this.slots.flatMap(({ policy, slot }) => {
      const figures = bySlot[slot];
      return figures === undefined ? [] : [{ policy: policy.name, ...figures }];
    });
    return { usedBytes, freeBytes, policies };
  }

  /**
   * Must be called when `next` has replaced this one: gives back what changed policies have leased, because another reload
   * may bring their rules back, and gives up the slots of policies that it does not continue. Only the thread that chooses
   * the slots ends their periods, since another one may be so late that a slot has a new policy.
   */
  replacedBy(next: PolicyLimiter): void {
    for (const { policy, shared } of this.#set.states) {
      const continued = next.slots.find((each) => isContinued(each.policy, policy));
      if (continued !== undefined && !isDeepStrictEqual(continued.policy, policy)) shared?.endLeases();
    }
    const gone = this.slots.filter(({ slot }) => !next.slots.some((each) => each.slot === slot));
    for (const { slot, policy } of gone) {
      this.#set.states.find((state) => state.policy === policy)?.shared?.retire();
      this.#table.retire(slot);
      if (this.#choosesSlots) this.#table.periodOf(slot).restore(0, noPeriod);
    }
  }

  /** The same for checks, which do not tell when an exchange ends: without the policies for which that matters. */
  forChecks(): Limiter {
    return this.#forChecks();
  }

  /** The same for questions about a quota alone. */
  forQuotas(): QuotaLimiter {
    return new QuotaQuestions(this.#set, this.#askedByChecks(), this.#forChecks());
  }

  #forChecks(): PolicySteps {
    return new PolicySteps(this.#set, this.#askedByChecks());
  }

  #askedByChecks(): number {
    return maskOf(this.#set.states, ({ policy }) => !holdsUntilEnd(policy));
  }
}

const allPolicies = -1;

function smallTable(): CounterTable {
  return new CounterTable(createTableMemory(minTableBytes), { secret: randomBytes(16) });
}

function createSet(options: SetOptions, before: readonly PolicyState[]): PolicySet {
  const {
    basePath = "/",
    tokensAreVerified = false,
    listAll = false,
    clock = systemClock,
    table,
    slots,
    store,
  } = options;
  const policies = slots.map(({ policy }) => policy);
  const tokens = new TokenDigests();
  return {
    locks: table.locks,
    // With a store, a request may be charged long after it was read.
    clock: table.isShared || store !== null ? clock : null,
    waitMs: store === null ? null : store.settings.waitMs,
    states: slots.map((slot) => createState(slot, { ...options, tokens }, before)),
    tokens,
    match: createPolicyMatcher(policies, basePath),
    identified: maskOf(policies, (policy) => needsIdentity(policy, tokensAreVerified)),
    listAll,
  };
}

interface SetOptions extends PolicyLimiterOptions {
  readonly hash: SipHash;
  readonly table: CounterTable;
  readonly slots: readonly PolicySlot[];
  readonly store: SharedStore | null;
}

interface StateOptions extends SetOptions {
  readonly tokens: TokenDigests;
}

function createState(
  { policy, slot }: PolicySlot,
  { clock = systemClock, enforcement = "on", hash, table, tokens, store }: StateOptions,
  before: readonly PolicyState[],
): PolicyState {
  // The store's clock says for all gateways when a period of the calendar is over.
  const storeMs = (): number | null => store?.shards.wallMs(clock.monotonicMs()) ?? null;
  const wallMs = (): number => storeMs() ?? clock.wallMs();
  const isGuess = (): boolean => storeMs() === null;
  const counted = store === null ? clock : { ...clock, monotonicMs: () => clock.monotonicMs(), wallMs, isGuess };
  const continued = before.find((state) => isContinued(policy, state.policy));
  // Metrics know a policy by its name.
  const named = before.find((state) => state.policy.name === policy.name);
  const previous = continued === undefined ? null : (continued.shared?.local ?? continued.counters);
  const local = createCounters(policy, table, slot, counted, previous);
  const isByRequest = holdsUntilEnd(policy);
  const continues = continued !== undefined;
  const shared =
    store === null ? null : new SharedCounters({ policy, slot, local, store, isByRequest, wallMs, continues });
  return new PolicyState({
    policy,
    isShadow: enforcement === "shadow" || policy.mode === "shadow",
    counters: shared ?? local,
    shared,
    outcomes: named === undefined ? noOutcomes() : named.outcomes,
    readKey: createKeyReader(policy, hash, tokens),
    readLimit: createKeyLimits(policy, tokens),
  });
}

function noOutcomes(): OutcomeCounts {
  return { admitted: 0, throttled: 0, would_throttle: 0, exempt: 0, observed: 0, unavailable: 0 };
}

function maskOf<T>(list: readonly T[], isIn: (one: T) => boolean): number {
  return list.reduce((mask, one, i) => (isIn(one) ? mask | (1 << i) : mask), 0);
}
