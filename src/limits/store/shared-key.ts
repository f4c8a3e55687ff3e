// What one thread knows of one key whose units are in the store: what it holds, what the store has said last, and what the
// store has to be told.
import type { Clock } from "../../core/clock.ts";
import type { CounterKey } from "../../core/counter-key.ts";
import type { OwnCount } from "../counters.ts";
import { AheadOfNeed } from "./ahead-of-need.ts";
import type { CounterRules, ShardPeriods } from "./counter-rules.ts";
import { type CounterAnswer, type LeaseReport, returnUs } from "./script-call.ts";
import { certainAgeUs, drift, TwoIntervals } from "./store-clock.ts";

// What is held. Units are granted to requests, in a lease for each call; a lease of a request that may give its units back
// is its own.
//
//            granted                all spent                  (asked for: the store counts them until their end)
//   (none) ──────────► open ─────────────────────────► gone
//                       │ some were not spent, or its time is over, or it was leased ahead
//                       ▼           sent                           answered
//                     ended ─────────────────► being reported ─────────────────► gone
//                       ▲                            │ no answer
//                       └────────────────────────────┘

/** Units that the store has granted and counts. */
export interface Lease {
  readonly id: string;
  readonly key: SharedKey;
  readonly granted: number;
  /** Units that are neither spent nor reserved. */
  left: number;
  /** Units that are reserved for requests that are not decided yet. */
  reserved: number;
  /** When the last unit was spent. */
  spentMs: number;
  /** The monotonic instant from which it must not be spent. */
  endsMs: number;
  /** The incident of the shard in which it was granted. */
  readonly incident: number;
}

/** Reserves units of a lease for one request. */
export function reserve(lease: Lease, units: number): void {
  lease.left -= units;
  lease.reserved += units;
}

/** A lease that has ended, and what was spent of it. It may be reported twice. */
type EndedLease = Omit<LeaseReport, "ageUs"> & Pick<Lease, "spentMs">;
export type OwnReport = LeaseReport & EndedLease;

/** Nothing is ever added to it. */
const none: never[] = [];

function countUnspent(leases: readonly EndedLease[]): number {
  let count = 0;
  for (const { granted, spent } of leases) if (spent < granted) count += 1;
  return count;
}

export class HeldLeases {
  // Most keys have none, and keep no list of their own.
  #open: readonly Lease[] = none;
  #ended: EndedLease[] = none;
  /** Leases with units that were not spent, in reports that are not answered yet. */
  #beingReturned = 0;

  get open(): number {
    return this.#open.length;
  }

  get ended(): number {
    return this.#ended.length;
  }

  /** Units that are reserved for requests. */
  get reserved(): number {
    return this.#open.reduce((units, { reserved }) => units + reserved, 0);
  }

  /** Units that were not spent, also those that may not be spent any more. */
  get unspent(): number {
    return this.#open.reduce((units, { left, reserved }) => units + left + reserved, 0);
  }

  /** Whether one lease has so many units that a request may take at an instant. */
  has(units: number, nowMs: number): boolean {
    return this.#leaseWith(units, nowMs) !== undefined;
  }

  /** A loop, because a closure would be made for each request. */
  #leaseWith(units: number, nowMs: number): Lease | undefined {
    for (const lease of this.#open) if (lease.left >= units && nowMs < lease.endsMs) return lease;
    return undefined;
  }

  /** Units that requests may take at an instant. */
  free(nowMs: number): number {
    let units = 0;
    for (const { left, endsMs } of this.#open) if (nowMs < endsMs) units += left;
    return units;
  }

  isOver(nowMs: number): boolean {
    return this.#open.some(({ endsMs }) => nowMs >= endsMs);
  }

  add(lease: Lease): void {
    this.#open = this.#open.length === 0 ? [lease] : [...this.#open, lease];
  }

  /** Reserves units of one lease for a request. Returns the lease; undefined if none has so many. */
  take(units: number, nowMs: number): Lease | undefined {
    const lease = this.#leaseWith(units, nowMs);
    if (lease !== undefined) reserve(lease, units);
    return lease;
  }

  /**
   * Ends the leases of which nothing is reserved, if they have no units left, if their time is over, or if their units were
   * granted for requests that are decided now. Returns the units that were not spent. `isAhead`: whether later requests may
   * spend them.
   */
  end(nowMs: number, isAhead: boolean): number {
    if (this.#open.length === 0) return 0;
    const open: Lease[] = [];
    let unspent = 0;
    for (const lease of this.#open) {
      const { id, granted, left, spentMs, reserved, endsMs } = lease;
      if (reserved > 0 || (isAhead && left > 0 && nowMs < endsMs)) {
        open.push(lease);
        continue;
      }
      unspent += left;
      // Asked for by requests, what was spent counts a little longer than it has to; a report would cost more than it brings.
      if (left > 0 || isAhead) this.report({ id, granted, spent: granted - left, spentMs });
    }
    if (open.length < this.#open.length) this.#open = open.length === 0 ? none : open;
    return unspent;
  }

  /** From now on, nothing that is held may be spent. */
  expire(): void {
    for (const lease of this.#open) lease.endsMs = Number.NEGATIVE_INFINITY;
  }

  /** Adds a lease that the next call has to report. */
  report(ended: EndedLease): void {
    if (this.#ended === none) this.#ended = [];
    this.#ended.push(ended);
  }

  /** Removes and returns what has to be reported, `most` leases at most. If the call is lost, they must be added again. */
  takeReports(most: number, nowMs: number): readonly OwnReport[] {
    if (this.#ended.length === 0) return none;
    const taken = this.#ended.splice(0, most);
    this.#beingReturned += countUnspent(taken);
    return taken.map((ended) => ({ ...ended, ageUs: certainAgeUs(nowMs - ended.spentMs) }));
  }

  /** The call with reports has ended. If it was lost, they must be added again. */
  reported(reports: readonly OwnReport[]): void {
    if (reports.length > 0) this.#beingReturned -= countUnspent(reports);
  }

  /** Whether the store has counted unspent units when it sent the last answer, because their report comes later. */
  get isReturning(): boolean {
    return this.#beingReturned > 0 || countUnspent(this.#ended) > 0;
  }

  /** Forgets reports about units that do not count any more: all that were spent until an instant. */
  dropReports(untilMs: number): void {
    if (this.#ended.some(({ spentMs }) => spentMs <= untilMs))
      this.#ended = this.#ended.filter(({ spentMs }) => spentMs > untilMs);
  }
}

// The last answer of the store.
//
//              no room                                   time to ask again
//   (nothing) ─────────► refused until `refusedUntilMs` ───────────────────► asked again; a request fits from `fitsMs` on
//       ▲                    │ room, or units of this thread come back
//       └────────────────────┘

/** While units may be given back at any time, a refusal is remembered for this long. */
const heldRefusalMs = 20;
/** How long the first refusal is remembered otherwise, how much longer each that follows it, and the longest: units may come back late. */
const [firstRefusalMs, refusalGrowth, longestRefusalMs] = [100, 4, 6_400];

class LastAnswer {
  /** The units that the store had left for all gateways. */
  free = 0;
  /** The monotonic instant at which the first unit that counted then no longer does. */
  resetMs = 0;
  /** Until `refusedUntilMs` the store is not asked, because it would refuse; a request fits from `fitsMs` on. */
  refusedUntilMs = 0;
  fitsMs = 0;
  /** No unit is free before this instant; afterwards units that others held may be back. */
  fullUntilMs = 0;
  /** How long the next refusal is remembered at most. */
  #patienceMs = firstRefusalMs;

  /** `asked`: whether requests have asked, and whether one of them was refused; null: none has. */
  take(
    { free, resetUs, fitsUs, leasedUs }: CounterAnswer,
    rules: CounterRules,
    asked: { readonly isRefused: boolean } | null,
    sentMs: number,
    nowMs: number,
  ): void {
    const { isAhead, isByRequest, spendMs, windowUs } = rules;
    this.free = free;
    this.resetMs = resetUs < 0 ? nowMs : nowMs + resetUs / 1000;
    const fitsMs = (fitsUs < 0 ? windowUs : fitsUs) / 1000;
    this.fitsMs = fitsUs === 0 ? 0 : nowMs + fitsMs;
    // Gateways return what they have not spent when the lease ends.
    const leasedMs = leasedUs < 0 ? Number.POSITIVE_INFINITY : Math.max(0, spendMs + (returnUs - leasedUs) / 1000);
    // The first request after a report asks, because its other policies may refuse it for longer; so does one after the last
    // unit of what others have leased ahead, who may return it.
    const isLastTaken = fitsUs !== 0 && !isByRequest && !isAhead;
    if (asked !== null && (isLastTaken || asked.isRefused)) this.#refuse(rules, fitsMs, leasedMs, sentMs);
    else {
      this.refusedUntilMs = 0;
      if (fitsUs === 0) this.#patienceMs = firstRefusalMs;
    }
    this.fullUntilMs = leasedMs > 0 ? Math.min(this.fitsMs, sentMs + leasedMs) : this.fitsMs;
  }

  /** Remembers a refusal. `fitsMs`: for how long there is no room; `leasedMs`: until then, others may return units. */
  #refuse({ isByRequest, isAhead, spendMs }: CounterRules, fitsMs: number, leasedMs: number, sentMs: number): void {
    if (this.refusedUntilMs > 0 && sentMs >= this.refusedUntilMs)
      this.#patienceMs = Math.min(longestRefusalMs, refusalGrowth * this.#patienceMs);
    // Requests may give units back at any time.
    const patienceMs = isByRequest ? heldRefusalMs : isAhead ? spendMs : this.#patienceMs;
    // By the earliest that the clocks allow: the client may come with the Retry-After of another gateway.
    this.refusedUntilMs = sentMs + Math.min(fitsMs / (1 + drift), patienceMs, leasedMs || patienceMs);
  }

  /** Forgets a refusal: units have come back, so there may be room. */
  reopen(): void {
    this.refusedUntilMs = this.fitsMs = this.fullUntilMs = 0;
  }

  /** Forgets the answer: the counts of the key were forgiven, or other rules are in force. */
  forget(limit: number): void {
    this.reopen();
    this.free = limit;
    this.resetMs = 0;
    this.#patienceMs = firstRefusalMs;
  }
}

// What the store does not know yet: requests that were admitted without its units, and after an incident all that counts.
//
//           admitted alone            sent                 counted
//   (told) ────────────────► untold ───────► being told ─────────────► (told)
//                              ▲                 │ no answer, or void: this thread does not know yet what was forgiven
//                              └─────────────────┘

class Untold {
  /** Requests that were admitted without the store's units and that it does not know of. */
  requests = 0;
  /** The incident of the shard in which the store was told about this key last. */
  toldIncident = -1;
  /**
   * Until this instant the key is not forgotten as long as there is room: the store was told of it, or it is a network whose
   * clients are counted as one.
   */
  knownUntilMs = 0;
  /** Whether the store ignores what it is told, because this thread has not read yet what was forgiven. */
  isVoid = false;

  /** The store has counted what it was told in an incident, of so many requests. `untilMs`: for how long that counts at most. */
  told(requests: number, incident: number, untilMs: number): void {
    // Those that were admitted while the answer was overdue are still untold.
    this.requests = Math.max(0, this.requests - requests);
    this.toldIncident = incident;
    this.knownUntilMs = untilMs;
    this.isVoid = false;
  }
}

// The key.

/** A key with something else under it is asked for again after this time. */
const foreignMs = 1_000;

type KeyParts = Pick<SharedKey, "policy" | "name" | "tag" | "storeKey" | "key" | "client" | "rules">;

export class SharedKey {
  readonly policy: StorePolicy;
  /** Its name among the keys of the policy. */
  readonly name: string;
  readonly tag: string;
  /** Its name in the store. */
  readonly storeKey: string;
  /** The key and its client in the table. */
  readonly key: CounterKey;
  readonly client: CounterKey;
  rules: CounterRules;
  readonly held = new HeldLeases();
  readonly last = new LastAnswer();
  readonly untold = new Untold();
  /** How many units to hold before requests ask for them; null: units are not leased ahead. */
  ahead: AheadOfNeed | null;
  /** How often it was forgiven. An answer to a call from before is not used. */
  forgiven = 0;
  /** Calls about it that are under way or leave at the end of this turn. */
  calls = 0;
  /** Until this instant the key is not asked for, because something else was under it in the store; 0: nothing was. */
  #foreignUntilMs = 0;

  constructor({ policy, name, tag, storeKey, key, client, rules }: KeyParts) {
    this.policy = policy;
    this.name = name;
    this.tag = tag;
    this.storeKey = storeKey;
    this.key = key;
    this.client = client;
    this.rules = rules;
    this.ahead = rules.isAhead ? new AheadOfNeed() : null;
  }

  /** Whether an answer to a call by these rules holds under the rules in force. */
  isBy({ limit, windowUs, step, isByRequest }: CounterRules): boolean {
    const { rules } = this;
    const isSameLimit = limit === rules.limit && windowUs === rules.windowUs;
    return isSameLimit && step === rules.step && isByRequest === rules.isByRequest;
  }

  /**
   * Returns whether what is held was granted by rules that are not in force now, and must be given back: by another limit
   * or window, or for several requests, where now each has a lease of its own.
   */
  replaceRules(rules: CounterRules): boolean {
    const isChanged = !this.isBy(rules);
    this.rules = rules;
    if (!isChanged) return false;
    this.last.forget(rules.limit);
    this.ahead = rules.isAhead ? (this.ahead ?? new AheadOfNeed()) : null;
    return true;
  }

  foundForeign(nowMs: number): void {
    this.#foreignUntilMs = nowMs + foreignMs;
  }

  /** Whether something else was under the key in the store a short while ago. */
  isForeign(clock: Clock): boolean {
    return this.#foreignUntilMs > 0 && clock.monotonicMs() < this.#foreignUntilMs;
  }

  /**
   * Whether something that was admitted before an instant may still count in a shard. To tell what was admitted later would count
   * it twice: the store counts a unit by its own clock, and for a moment less or more than the table does, or in another period.
   */
  countsSince(earlierMs: number, shard: number, nowMs: number): boolean {
    const { item, windowUs } = this.rules;
    if (item === "calendar") return (this.policy.periods.get(shard)?.beganMs ?? earlierMs) <= earlierMs;
    return item !== "sliding" || nowMs < earlierMs + windowUs / 1000;
  }

  /** Whether requests are refused at an instant without asking. Units that were not spent in time come back with the next call. */
  isRefused(nowMs: number): boolean {
    return nowMs < this.last.refusedUntilMs && !this.held.isOver(nowMs);
  }

  /** `asked`: whether requests have asked, and whether one was refused because of this key; null: none has. */
  answered(answer: CounterAnswer, asked: { readonly isRefused: boolean } | null, sentMs: number, nowMs: number): void {
    const { last, ahead, rules } = this;
    last.take(answer, rules, asked, sentMs, nowMs);
    // What it says was true before those units came back.
    if (!rules.isByRequest && this.held.isReturning) last.reopen();
    if (ahead !== null) ahead.refusedUntilMs = answer.fitsUs === 0 ? 0 : sentMs + rules.spendMs;
  }

  /** Returns how many units to ask for ahead of need: what is missing, `most` at most. */
  missingAhead(most: number, nowMs: number): number {
    if (this.ahead === null) return 0;
    return Math.max(0, Math.min(this.ahead.wanted(this.rules, nowMs) - this.held.free(nowMs), most));
  }

  /** Spends units that are reserved for a request. */
  spend(lease: Lease, units: number, nowMs: number): void {
    lease.reserved -= units;
    lease.spentMs = nowMs;
    this.ahead?.spent(units, nowMs);
    // What a request may give back is in use until it ends.
    if (!this.rules.isByRequest) this.policy.units.spent += units;
    this.endLeases(nowMs);
  }

  /** Ends the reservation of units that a request does not need. */
  release(lease: Lease, units: number, nowMs: number): void {
    lease.reserved -= units;
    lease.left += units;
    this.endLeases(nowMs);
  }

  /** Units of a request's own lease were not needed after all. */
  giveBack({ id, granted, left }: Lease, nowMs: number): void {
    this.policy.units.returned += granted - left;
    this.held.report({ id, granted, spent: 0, spentMs: nowMs });
  }

  /** Units of a request's own lease stay spent. `isKnown`: whether the store still has the lease, as far as is known. */
  keep({ id, granted, left, spentMs }: Lease, isKnown: boolean): void {
    this.policy.units.spent += granted - left;
    // The store was not told of units that may be given back.
    if (!isKnown) this.untold.requests += 1;
    // Rounded up: units must not end earlier than in the table, since a client that waits as told may ask another gateway.
    this.held.report({ id, granted, spent: granted, spentMs: Math.ceil(spentMs) });
  }

  /** Ends the leases that nobody may spend from any more. */
  endLeases(nowMs: number): void {
    const unspent = this.held.end(nowMs, this.ahead !== null);
    this.policy.units.returned += unspent;
    // The units are free again.
    if (unspent > 0) this.last.reopen();
  }

  /** Ends all leases: neither what is left of them nor what is reserved may be spent. */
  endAll(): void {
    this.held.expire();
    this.endLeases(Number.POSITIVE_INFINITY);
  }

  /** Forgets what is known of the key, because its counts were forgiven. What is held must be returned. */
  forgive(): void {
    this.forgiven += 1;
    this.last.forget(this.rules.limit);
    this.untold.requests = 0;
  }

  /** Forgets reports about units that do not count any more. */
  dropReports(nowMs: number): void {
    this.held.dropReports(nowMs - (this.rules.windowUs + this.rules.leaseUs) / 1000);
  }

  /** Whether this thread has something to report or to tell. */
  get owes(): boolean {
    const { held, untold, calls } = this;
    return held.ended > 0 || (untold.requests > 0 && !untold.isVoid && calls === 0);
  }

  /** Whether forgetting the key loses nothing. */
  isIdle(nowMs: number): boolean {
    const { held, last, untold } = this;
    const isEmpty = held.open + held.ended + this.calls === 0;
    return isEmpty && nowMs >= last.refusedUntilMs && untold.requests === 0;
  }

  /** Whether everything that is known of the key is out of date. */
  isOver(nowMs: number): boolean {
    const { last, untold } = this;
    return this.isIdle(nowMs) && nowMs >= Math.max(last.resetMs, last.fitsMs, untold.knownUntilMs);
  }
}

// The policy.

/** Units of all policies that this thread has spent and returned. */
export type UnitCounts = Record<"spent" | "returned", number>;

/** What the store has to know of the policy in force. */
export interface PolicySource {
  /** Its number in the table. */
  readonly slot: number;
  /** The limit of keys without an override. */
  readonly limit: number;
  /** Returns the rules of a key with this tag now. */
  rules(tag: string, nowMs: number): CounterRules;
  /** Takes the word of a shard that the calendar's period which ends at `endMs` is over. */
  periodOver(shard: number, endMs: number, nowMs: number): void;
  /** Returns what this gateway has admitted of a key and what still counts; null if nothing, or if slots are counted. */
  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null;
}

export class StorePolicy {
  /** What gateways call it. */
  readonly text: string;
  /** The keys that this thread knows something about, by tag; those of an override by tag and limit. */
  readonly keys = new Map<string, SharedKey>();
  readonly newKeys: NewKeys;
  /** How long one of its requests counts at most. */
  readonly longestCountMs: number;
  /** How many of the keys are networks that are counted as one, because too many new keys were made. */
  networks = 0;
  /** The period of each shard, if the policy counts by a calendar. */
  readonly periods: ShardPeriods = new Map();
  /** The policy in force; another one may continue it. */
  source: PolicySource;
  readonly units: UnitCounts;

  constructor(text: string, source: PolicySource, longestCountMs: number, newKeys: NewKeys, units: UnitCounts) {
    this.text = text;
    this.source = source;
    this.longestCountMs = longestCountMs;
    this.newKeys = newKeys;
    this.units = units;
  }

  /** What is known of a key, by any limit and in any period. */
  keysOf(tag: string): readonly SharedKey[] {
    return [...this.keys.values()].filter((known) => known.tag === tag);
  }

  /** Returns what is known of a key in the period of the rules; undefined if nothing is. */
  find(tag: string, { limit, untilUs }: CounterRules): SharedKey | undefined {
    const known = this.keys.get(this.nameOf(tag, limit));
    return known?.rules.untilUs === untilUs ? known : undefined;
  }

  /**
   * Returns where a key is among those that are known. What is held and refused by one limit says nothing about another one, which
   * a client may have by an override that is not of the key.
   */
  nameOf(tag: string, limit: number): string {
    return limit === this.source.limit ? tag : `${tag}/${limit}`;
  }
}

/** Bounds the keys that one gateway makes in the store, because a store without memory serves nobody. */
export class NewKeys {
  readonly #most: number;
  readonly #made: TwoIntervals;

  /** `stayMs`: how long a key stays in the store at most. */
  constructor(most: number, stayMs: number) {
    this.#most = most;
    this.#made = new TwoIntervals(stayMs, true);
  }

  add(nowMs: number): void {
    this.#made.turn(nowMs);
    this.#made.current += 1;
  }

  /** Whether another one may be made. Two intervals count, so none is forgotten before it is gone. */
  hasRoom(nowMs: number): boolean {
    this.#made.turn(nowMs);
    return this.#made.current + this.#made.before < this.#most;
  }
}
