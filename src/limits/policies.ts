// The policies at work: each is a row with its counters, and what it has said so far. Their numbers in the table outlive
// reloads: a policy that a reload continues keeps its number, and that of one that is gone is not used again before its keys
// have been removed.
import type { Identity } from "../core/authentication.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import type { CounterKey } from "../core/counter-key.ts";
import type { CountedRequest, LimitedClient } from "../core/limiter.ts";
import type { Decision, Held, Outcome, Policy } from "../core/policy.ts";
import { isContinued, isTighter, needsIdentity, outlasts429 } from "../core/policy.ts";
import type { RequestHead } from "../core/request-head.ts";
import type { RulesInForce } from "../core/rules-in-force.ts";
import { CalendarCounters, type PeriodClock } from "./calendar-counters.ts";
import { Ask, type Charged, type LocalCounters, noKey, SlidingCounters } from "./counters.ts";
import {
  createAddressLimits,
  createKeyLimits,
  createKeyReader,
  isByAddress,
  type KeyLimits,
  type KeyReader,
  type PolicyMatcher,
  type TokenDigests,
} from "./request-keys.ts";
import { ChargedCounters, ConcurrencyCounters } from "./slot-counters.ts";
import type { Grant, Want } from "./store/call-batch.ts";
import type { Store } from "./store/store.ts";
import { SharedAsk, StoreCounters } from "./store/store-counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { rulesOf } from "./table/key-log.ts";
import { type Locks, policySlots } from "./table/layout.ts";
import type { SipHash } from "./table/sip-hash.ts";
import type { TableView } from "./table/table-view.ts";

export interface PolicySlot {
  readonly policy: Policy;
  readonly slot: number;
}

/**
 * Returns the slots of policies, in their order. `before`: those in force. `isFree`: whether no key of a slot is left.
 * Throws if there is no slot left.
 */
export function assignSlots(
  policies: readonly Policy[],
  before: readonly PolicySlot[],
  isFree: (slot: number) => boolean = () => true,
): readonly PolicySlot[] {
  const taken = new Set(before.map(({ slot }) => slot));
  let next = 0;
  const freeSlot = (): number => {
    while (next < policySlots && (taken.has(next) || !isFree(next))) next += 1;
    if (next === policySlots) throw new Error("the table of counters has no slot left for a new policy");
    taken.add(next);
    return next;
  };
  return policies.map((policy) => {
    const continued = before.find((each) => isContinued(policy, each.policy));
    return { policy, slot: continued === undefined ? freeSlot() : continued.slot };
  });
}

/** Returns the slots in `before` that must not be given up: `kept` may come back. `inForce`: those of the policies after it. */
export function slotsToKeep(
  before: readonly PolicySlot[],
  inForce: readonly PolicySlot[],
  kept: readonly Policy[],
): readonly PolicySlot[] {
  return before.filter(({ slot, policy }) => {
    return !inForce.some((each) => each.slot === slot) && kept.some((each) => isContinued(each, policy));
  });
}

export interface PolicyRow extends PolicySlot {
  readonly isShadow: boolean;
  /** Whether it is asked after the token check. What is asked before knows nothing of an identity. */
  readonly needsIdentity: boolean;
  /** Whether something depends on the end of the exchange. */
  readonly holds: boolean;
  /** Whether it goes on with the counters of one before a reload. */
  readonly continues: boolean;
  readonly counters: LocalCounters | StoreCounters;
  /** The counters of this process. Without a store, `counters` are the same. */
  readonly local: LocalCounters;
  /** The counters of all gateways. With a store, `counters` are the same; without one, null. */
  readonly inStore: StoreCounters | null;
  /** Says when a period of the calendar is over. */
  readonly clock: PeriodClock;
  readonly outcomes: Record<Outcome, number>;
  readonly readKey: KeyReader;
  /** Null: one limit for all keys. */
  readonly readLimit: KeyLimits | null;
  readonly runtimeRules: RulesInForce;
  /** The ask of requests that wait for nothing, made once. */
  readonly ask: PolicyAsk;
}

/** What a request asks of a policy. */
export class PolicyAsk extends Ask {
  readonly row: PolicyRow;
  /** Null: gateways share nothing. */
  readonly shared: SharedAsk | null;

  constructor(row: PolicyRow) {
    super();
    this.row = row;
    this.shared = row.inStore === null ? null : new SharedAsk(this, row.inStore);
  }

  get policy(): Policy {
    return this.row.policy;
  }

  /** Asks for what one request costs. */
  about(key: CounterKey, client: CounterKey, limit: number): this {
    this.key = key;
    this.client = client;
    this.limit = limit;
    this.units = this.row.policy.cost;
    return this;
  }

  /** Returns what is left of the key, without asking for units. */
  peek(nowMs: number): Decision {
    this.row.counters.peek(this, nowMs);
    return this.decision("observed", null, null);
  }

  /** Finds where the key is. Must be called before the table's locks are taken, of all that are asked together. */
  select(): void {
    this.row.local.select(this);
  }

  /** Asks the counters, and charges nothing. The table's locks must be held. */
  put(nowMs: number): void {
    const { shared, row } = this;
    if (shared === null) row.local.ask(this, nowMs);
    else shared.counters.ask(shared, nowMs);
  }

  /** Whether the store has to be asked before it is known if the request fits. */
  get isUnknown(): boolean {
    return this.shared?.verdict === "unknown";
  }

  /** Whether the store is not there, and nothing is admitted without it. */
  get isUnavailable(): boolean {
    return this.shared?.verdict === "unavailable";
  }

  /** Whether it refuses the request, as far as is known. */
  get refuses(): boolean {
    return !this.row.isShadow && !this.fits && !this.isUnknown;
  }

  /** Charges what was asked for and fits. Returns what is held for it, `held` included. */
  charge(held: Held | null): Held | null {
    const { row, key, client, limit, units } = this;
    const { counters, outcomes, policy } = row;
    outcomes.admitted += 1;
    const charged = this.chargeUnits();
    const { marks } = this;
    if (!row.holds) return held;
    const keptStatuses = policy.rate.kind === "concurrency" ? null : policy.chargeStatuses;
    return new Hold(counters, { key, client, limit, units, charged, marks }, keptStatuses, held);
  }

  /** Charges without counting the outcome. Returns what the counters need to give it back; questions about quotas hold nothing. */
  chargeUnits(): number {
    const { shared, row } = this;
    return shared === null ? row.local.charge(this) : shared.counters.charge(shared);
  }

  decision(outcome: Outcome, held: Held | null, others: readonly Decision[] | null): Decision {
    const { policy, key, client, limit, remaining, resetMs } = this;
    return { outcome, policy, key, client, limit, remaining, resetMs, held, lasting: null, others };
  }
}

/** The quota of a client about whom nothing is stored, where the policy is shown and has not been asked. */
export function unspent(
  { policy, local }: PolicyRow,
  outcome: "exempt" | "observed",
  nowMs: number,
  held: Held | null,
): Decision {
  const { limit } = policy;
  const resetMs = local.readingAt(nowMs).resetMs;
  const quota = { policy, key: noKey, client: noKey, limit, remaining: limit, resetMs };
  return { ...quota, outcome, held, lasting: null, others: null };
}

/** Returns `Decision.lasting`. `before`: the decision of the step before, if it has admitted the request. */
export function tightestLasting(asks: readonly PolicyAsk[], before: Decision | null): Decision | null {
  let tightest = before?.lasting ?? (before !== null && outlasts429(before.policy) ? before : null);
  for (const ask of asks) {
    if (ask.row.isShadow || !outlasts429(ask.policy)) continue;
    if (tightest === null || isTighter(ask, tightest)) tightest = ask.decision("admitted", null, null);
  }
  return tightest;
}

/** What a policy has taken for one exchange: a slot, which is always given back, or units that its status decides about. */
class Hold implements Held {
  /** Those that were charged, which other policies continue after a reload. */
  readonly #counters: Pick<LocalCounters, "giveBack" | "keep">;
  readonly #charged: Charged;
  /** The units are kept if the response has one of these statuses; null: they are always given back. */
  readonly #keptStatuses: readonly number[] | null;
  /** What other policies hold for the same exchange. */
  readonly #next: Held | null;
  #hasEnded = false;

  constructor(
    counters: Pick<LocalCounters, "giveBack" | "keep">,
    charged: Charged,
    keptStatuses: readonly number[] | null,
    next: Held | null,
  ) {
    this.#counters = counters;
    this.#charged = charged;
    this.#keptStatuses = keptStatuses;
    this.#next = next;
  }

  end(status: number): void {
    this.#release(status);
    this.#next?.end(status);
  }

  switched(status: number): Held | null {
    const next = this.#next === null ? null : this.#next.switched(status);
    if (this.#keptStatuses === null) return new Hold(this.#counters, this.#charged, null, next);
    this.#release(status);
    return next;
  }

  #release(status: number): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    // Without a response nobody knows what it would have been, so a client gains nothing by leaving early.
    const isKept = this.#keptStatuses !== null && (status === 0 || this.#keptStatuses.includes(status));
    this.#counters[isKept ? "keep" : "giveBack"](this.#charged);
  }
}

/** Returns whether the end of an exchange matters to a policy. */
export function holdsUntilEnd({ rate, chargeStatuses }: Policy): boolean {
  return rate.kind === "concurrency" || chargeStatuses !== null;
}

/** What all rows of a limiter share. */
interface RowSource {
  /** The digests of all policies together, so that each token is hashed once. */
  readonly tokens: TokenDigests;
  /** Hashes the parts of keys. */
  readonly hash: SipHash;
  /** The table in which all policies count. */
  readonly table: CounterTable;
  /** Null: gateways share nothing. */
  readonly store: Store | null;
  readonly runtimeRules: RulesInForce;
}

/** Sets of policies are masks: bit i stands for the policy at index i. */
export interface PolicySet extends RowSource {
  /** In the order of the configuration; 1 to 32. */
  readonly rows: readonly PolicyRow[];
  /** Returns the policies whose match a request fits. */
  readonly match: PolicyMatcher;
  /** The policies about requests whose token was verified, and those about all the rest. */
  readonly ofVerified: number;
  readonly ofOthers: number;
  /** Whether decisions list all enforcing policies that apply. */
  readonly listAll: boolean;
  /** The locks of the table. */
  readonly locks: Locks;
  /** Null if only one thread counts. */
  readonly clock: Clock | null;
}

/** What a request asks of the policies that apply to it. */
export class Applicable {
  readonly asks: PolicyAsk[] = [];
  /** The policies that it is exempt from. */
  readonly exempt: PolicyRow[] = [];
}

/**
 * Finds the policies that apply to a request: those of `step` whose match it fits and from which it is not exempt, each with the
 * limit and the key. `reused`: for a reader that waits for nothing, and asks about one request at a time.
 */
export function applicable(
  { rows, match, tokens }: PolicySet,
  step: number,
  { parsed, head, identity }: CountedRequest,
  reused: Applicable | null,
): Applicable {
  const found = reused ?? new Applicable();
  const { asks, exempt } = found;
  asks.length = 0;
  if (exempt.length > 0) exempt.length = 0;
  const applies = step & match(parsed, head);
  for (let i = 0; i < rows.length; i += 1) {
    if ((applies & (1 << i)) === 0) continue;
    const row = rows[i] as PolicyRow;
    const known = row.needsIdentity ? identity : null;
    const limit = limitOf(row, parsed, head, known);
    if (limit === 0) {
      exempt.push(row);
      continue;
    }
    const ask = reused === null ? new PolicyAsk(row) : row.ask;
    asks.push(ask.about(row.readKey(parsed, head, known), parsed.counterKey, limit));
  }
  tokens.forget();
  return found;
}

/**
 * Returns the limit of a client's request by a policy: that of a rule that was set while the gateway runs, or else that of the
 * configuration; 0 if the request is exempt. `identity`: null if the policy is asked before the token check.
 */
export function limitOf(
  { policy, readLimit, runtimeRules }: Pick<PolicyRow, "policy" | "readLimit" | "runtimeRules">,
  client: LimitedClient,
  head: RequestHead,
  identity: Identity | null,
): number {
  const ruled = runtimeRules.isEmpty ? undefined : runtimeRules.limitOf(policy, client.counterKey, identity);
  return ruled ?? (readLimit === null ? policy.limit : readLimit(client, head, identity));
}

/**
 * Returns the instant at which a request is charged, when the locks are held. A thread that has waited for them, or was
 * descheduled, would count at an instant before those of others, which may have expired by then.
 */
export function chargedAt({ clock }: PolicySet, nowMs: number): number {
  return clock === null ? nowMs : Math.max(nowMs, clock.monotonicMs());
}

/** How often a request asks at most: it asks again if its grant was over when this thread saw it. */
const mostAttempts = 3;

/**
 * Asks the store for what is unknown, and decides. `asks`: the policies that the request waits for. `decide`: returns null if
 * one of them is still unknown.
 */
export async function decideWithStore<T>(
  { store }: PolicySet,
  asks: readonly PolicyAsk[],
  decide: () => T | null,
): Promise<T> {
  if (store === null) throw new Error("without a store, everything is known");
  // The wait for a shadow policy that no request waits for begins after its request was decided.
  const sinceMs = store.clock.monotonicMs();
  for (let attempt = 1; attempt <= mostAttempts; attempt += 1) {
    const waitsSinceMs = attempt === 1 ? null : sinceMs;
    const groups = groupsToAsk(asks, store.settings.waitMs);
    const [only] = groups;
    // Each promise more costs each request: most have one group.
    if (groups.length === 1 && only !== undefined) take(only, await store.ask(only.map(wantOf), waitsSinceMs));
    else await askGroups(store, groups, waitsSinceMs);
    const decided = decide();
    if (decided !== null) return decided;
  }
  // A lease may end between two looks at it. Each turn, one policy more is decided alone.
  for (;;) {
    for (const { shared } of asks) shared?.decideAlone();
    const decided = decide();
    if (decided !== null) return decided;
  }
}

async function askGroups(store: Store, groups: readonly (readonly SharedAsk[])[], sinceMs: number | null) {
  await Promise.all(groups.map(async (group) => take(group, await store.ask(group.map(wantOf), sinceMs))));
}

/**
 * Returns what is asked together: the enforcing policies, of which all are granted or none, and each shadow policy alone, so that
 * it changes nothing. Reserves the units that the other policies have found here.
 */
function groupsToAsk(asks: readonly PolicyAsk[], waitMs: number): readonly (readonly SharedAsk[])[] {
  const enforcing: SharedAsk[] = [];
  const groups = [enforcing];
  for (const { shared, row } of asks) {
    if (shared === null) continue;
    shared.reserve(waitMs);
    if (shared.verdict !== "unknown") continue;
    if (row.isShadow) groups.push([shared]);
    else enforcing.push(shared);
  }
  return enforcing.length === 0 ? groups.slice(1) : groups;
}

/** Returns what has to be asked for, because an ask has found too little. */
function wantOf(shared: SharedAsk): Want {
  return { key: shared.key ?? shared.counters.create(shared), units: shared.ask.units };
}

function take(asks: readonly SharedAsk[], grants: readonly Grant[]): void {
  for (let i = 0; i < asks.length; i += 1) asks[i]?.granted(grants[i]);
}

export function rowsIn({ rows }: PolicySet, included: number): readonly PolicyRow[] {
  return rows.filter((_, i) => (included & (1 << i)) !== 0);
}

/** The policy that is shown where no enforcing one applies. */
export function shownOf(set: PolicySet, included: number, named: string | null = null): PolicyRow {
  const rows = rowsIn(set, included);
  const shown =
    rows.find(({ policy }) => policy.name === named) ??
    rows.find(({ isShadow }) => !isShadow) ??
    rows[0] ??
    set.rows[0];
  if (shown === undefined) throw new Error("the configuration has at least one policy");
  return shown;
}

export interface RowOptions {
  /** Its wall clock says when a period of the calendar is over. */
  readonly clock?: Clock;
  /** `shadow`: no policy refuses anything. */
  readonly enforcement?: "on" | "shadow";
  readonly tokensAreVerified?: boolean;
  /** Creates the counts of a new policy. `inForce`: the policies before the reload. Default: in memory of this thread alone. */
  readonly newOutcomes?: (policy: string, inForce: readonly string[]) => Record<Outcome, number>;
}

/** Makes the counters of a policy. `slot`: its number in the table. */
export function createCounters(
  policy: Policy,
  table: CounterTable,
  slot: number,
  clock: PeriodClock,
  rules = rulesOf(policy),
): LocalCounters {
  const { rate, chargeStatuses } = policy;
  if (rate.kind === "concurrency") return new ConcurrencyCounters(table, slot, rules);
  const all =
    rate.kind === "sliding"
      ? new SlidingCounters(table, slot, rules)
      : new CalendarCounters(table, slot, rules, rate, clock);
  return chargeStatuses === null ? all : new ChargedCounters(all, table, slot);
}

/** `before`: the rows of the limiter before a reload. */
export function createRow(
  { policy, slot }: PolicySlot,
  { hash, table, tokens, store, runtimeRules }: RowSource,
  options: RowOptions,
  before: readonly PolicyRow[],
): PolicyRow {
  const { clock = systemClock, enforcement = "on", tokensAreVerified = false, newOutcomes = noOutcomes } = options;
  // The store's clock says for all gateways when a period of the calendar is over.
  const storeMs = (nowMs = clock.monotonicMs()): number | null => store?.shards.wallMs(nowMs) ?? null;
  const wallMs = (): number => storeMs() ?? clock.wallMs();
  const wallMsAt = (nowMs: number): number => storeMs(nowMs) ?? clock.wallMsAt(nowMs);
  const isGuess = (): boolean => storeMs() === null;
  const counted =
    store === null ? clock : { ...clock, monotonicMs: () => clock.monotonicMs(), wallMs, wallMsAt, isGuess };
  const limits = isByAddress(policy) ? { limitOf: createAddressLimits(policy, runtimeRules) } : {};
  const local = createCounters(policy, table, slot, counted, { ...rulesOf(policy), ...limits });
  const holds = holdsUntilEnd(policy);
  const inStore = store && new StoreCounters(policy, slot, local, table, store, holds, wallMs);
  const known = before.find((each) => each.policy.name === policy.name);
  const namesBefore = before.map((each) => each.policy.name);
  const row: Omit<PolicyRow, "ask"> = {
    ...{ policy, slot, holds, local, inStore, runtimeRules },
    isShadow: enforcement === "shadow" || policy.mode === "shadow",
    needsIdentity: needsIdentity(policy, tokensAreVerified),
    continues: before.some((each) => isContinued(policy, each.policy)),
    counters: inStore ?? local,
    clock: counted,
    // Metrics know a policy by its name.
    outcomes: known?.outcomes ?? newOutcomes(policy.name, namesBefore),
    readKey: createKeyReader(policy, hash, tokens),
    readLimit: createKeyLimits(policy, tokens),
  };
  const made = row as PolicyRow;
  return Object.assign(made, { ask: new PolicyAsk(made) });
}

/** Returns a row that decides as the other one would, in a view of its table: it charges nothing and asks no store. */
export function createCheckRow(row: PolicyRow, view: TableView): PolicyRow {
  const local = createCounters(row.policy, view, row.slot, row.clock);
  const made = { ...row, counters: local, local, inStore: null, outcomes: noOutcomes() };
  return Object.assign(made, { ask: new PolicyAsk(made) });
}

export function noOutcomes(): Record<Outcome, number> {
  return { admitted: 0, throttled: 0, would_throttle: 0, exempt: 0, observed: 0, unavailable: 0 };
}
