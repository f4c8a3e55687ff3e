// What one thread holds of the counters of the store. Of each: the leases it may spend from, and what the store has said
// last. Of all: by policy and key, in bounded memory. A key is forgotten when nothing that is known of it holds any more; what
// is held of a key that has to go earlier is returned to the store.
import type { Clock } from "../../core/clock.ts";
import type { CounterKey } from "../../core/counter-key.ts";
import type { SharedStoreSettings } from "../../core/store-link.ts";
import type { OwnCount } from "../counters.ts";
import type { CounterRules, ShardPeriods } from "./counter-rules.ts";
import { type CounterAnswer, counterStoreKey, type LeaseReport, returnUs } from "./script-call.ts";
import { certainAgeUs, drift, type Timing, TwoIntervals } from "./store-clock.ts";

/** Units that the store has granted and counts. */
export interface Lease {
  readonly id: string;
  readonly credits: KeyCredits;
  readonly granted: number;
  /** Not spent yet. */
  left: number;
  /** When the last unit was spent. */
  spentMs: number;
  /** The monotonic instant from which it must not be spent. */
  readonly endsMs: number;
  /** That of the shard when it was granted. */
  readonly incident: number;
}

/** A lease that has ended, and what became of it: reported until the store has heard of it. */
type EndedLease = Omit<LeaseReport, "ageUs"> & Pick<Lease, "spentMs">;
export type OwnReport = LeaseReport & EndedLease;

/** While units may be given back at any time, a refusal is remembered for this long. */
const heldRefusalMs = 20;
/** How long the first refusal is remembered otherwise, how much longer each that follows it, and the longest: units may come back late. */
const [firstRefusalMs, refusalGrowth, longestRefusalMs] = [100, 4, 6_400];

/** A key with something else under it is asked for again after this time. */
const foreignMs = 1_000;

/** Nothing is ever added to it. */
const none: never[] = [];

type CreditsOptions = Pick<KeyCredits, "policy" | "name" | "tag" | "storeKey" | "key" | "client" | "rules">;

export class KeyCredits {
  readonly policy: StorePolicy;
  /** Among those of the policy. */
  readonly name: string;
  readonly tag: string;
  /** In the store. */
  readonly storeKey: string;
  /** In the table, with its client. */
  readonly key: CounterKey;
  readonly client: CounterKey;
  rules: CounterRules;
  /** What the store had left for all gateways when it answered last. */
  free = 0;
  /** The monotonic instant at which something that counted then no longer does. */
  resetMs = 0;
  /** Until then the store is not asked, because it would refuse; a request fits from `fitsMs` on. */
  refusedUntilMs = 0;
  fitsMs = 0;
  /** Until then nobody can return a unit, so that no request fits. */
  fullUntilMs = 0;
  /** The incident of the shard in which the store was told about this key last. */
  toldIncident = -1;
  /** Requests that were admitted without the store's units, and how many of them it knows of. */
  admittedAlone = 0;
  toldAlone = 0;
  /**
   * Until then it is not forgotten as long as there is room: the store was told of it, or it is a network whose clients are
   * counted as one.
   */
  knownUntilMs = 0;
  /** How often it was forgiven: what was asked before says nothing any more. */
  forgiven = 0;
  /** Whether the store has not counted what it was told, until this thread has heard what was forgiven. */
  isToldVoid = false;
  /** Calls that are under way. */
  inFlight = 0;
  /** Units that requests wait for. */
  awaitedUnits = 0;
  /** Units that are held for requests which wait for other keys, or are about to be decided. */
  claimed = 0;
  /** Until when the key is not asked for again, because something else was under it; 0: nothing was. */
  #foreignUntilMs = 0;
  /** Whether the refusal was the answer to a request, about whose other policies the store was asked with it. */
  #isToRequest = false;
  /** How long the next refusal is remembered at most. */
  #patienceMs = firstRefusalMs;
  // Most keys have none, and keep no list of their own.
  #leases: readonly Lease[] = none;
  #ended: EndedLease[] = none;
  /** Units that are spent a millisecond, and those that were spent since that was found out. */
  #rate = 0;
  #spentSince = 0;
  /** When the last unit was spent. */
  #spentMs = 0;
  #rateMs = 0;

  constructor({ policy, name, tag, storeKey, key, client, rules }: CreditsOptions) {
    this.policy = policy;
    this.name = name;
    this.tag = tag;
    this.storeKey = storeKey;
    this.key = key;
    this.client = client;
    this.rules = rules;
  }

  /** Whether something that was asked for by these rules is granted or refused by those in force. */
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
    this.refusedUntilMs = this.fitsMs = this.fullUntilMs = 0;
    this.#patienceMs = firstRefusalMs;
    return true;
  }

  /** Units that may be spent at an instant. */
  held(nowMs: number): number {
    let units = 0;
    for (const { left, endsMs } of this.#leases) if (nowMs < endsMs) units += left;
    return units;
  }

  /** Those of them that nobody has claimed. */
  unclaimed(nowMs: number): number {
    return Math.max(0, this.held(nowMs) - this.claimed);
  }

  foundForeign(nowMs: number): void {
    this.#foreignUntilMs = nowMs + foreignMs;
  }

  /** Whether something else was under the key in the store a short while ago. */
  isForeign(clock: Clock): boolean {
    return this.#foreignUntilMs > 0 && clock.monotonicMs() < this.#foreignUntilMs;
  }

  /** Units of leases that have not been reported. */
  get unspent(): number {
    return this.#leases.reduce((units, { left }) => units + left, 0);
  }

  /**
   * Whether something is held that was asked for by requests, and that none of them wants any more. One that waits for a call
   * which is under way may: the answer does not count what would be returned after it.
   */
  get isLeftOver(): boolean {
    const { rules, claimed, awaitedUnits, inFlight } = this;
    return !rules.isAhead && claimed + awaitedUnits + inFlight === 0 && this.unspent > 0;
  }

  get openLeases(): number {
    return this.#leases.length;
  }

  /** Leases that have to be reported. */
  get reports(): number {
    return this.#ended.length;
  }

  /** Whether the store can be told something that it does not know. */
  get owes(): boolean {
    const mustTell = !this.isToldVoid && this.admittedAlone !== this.toldAlone;
    return this.#ended.length > 0 || (mustTell && this.inFlight === 0);
  }

  add(lease: Lease): void {
    this.#leases = this.#leases.length === 0 ? [lease] : [...this.#leases, lease];
  }

  /**
   * Whether something that was admitted before an instant may still count. To tell what was admitted later would count it
   * twice: the store counts a unit by its own clock, and for a moment less or more than the table does.
   */
  countsSince(earlierMs: number, nowMs: number): boolean {
    const { item, windowUs } = this.rules;
    return item !== "sliding" || nowMs < earlierMs + windowUs / 1000;
  }

  /** The store has said when the next request fits. `needed`: units that requests waited for. */
  answered({ granted, fitsUs, leasedUs }: CounterAnswer, needed: number, sentMs: number, nowMs: number): void {
    const { isAhead, isByRequest, spendMs, windowUs } = this.rules;
    const fitsMs = (fitsUs < 0 ? windowUs : fitsUs) / 1000;
    this.fitsMs = fitsUs === 0 ? 0 : nowMs + fitsMs;
    const isRefused = granted < needed || (fitsUs !== 0 && !isByRequest);
    // Requests may give units back at any time, and gateways return what they have not spent when the lease ends: a refusal
    // is remembered no longer than that.
    const leasedMs = leasedUs < 0 ? 0 : Math.max(0, spendMs + (returnUs - leasedUs) / 1000);
    if (!isRefused) this.#patienceMs = firstRefusalMs;
    else if (this.refusedUntilMs > 0 && sentMs >= this.refusedUntilMs)
      this.#patienceMs = Math.min(longestRefusalMs, refusalGrowth * this.#patienceMs);
    const patienceMs = isByRequest ? heldRefusalMs : isAhead ? spendMs : this.#patienceMs;
    const latestMs = leasedMs > 0 ? Math.min(patienceMs, leasedMs) : patienceMs;
    // By the earliest that the clocks allow: the client may come with the Retry-After of another gateway.
    this.refusedUntilMs = isRefused ? sentMs + Math.min(fitsMs / (1 + drift), latestMs) : 0;
    this.fullUntilMs = leasedMs > 0 ? this.refusedUntilMs : this.fitsMs;
    // What other gateways have leased ahead they may spend after the last unit was granted.
    this.#isToRequest = granted < needed || (needed > 0 && !isAhead);
  }

  /**
   * Until when a request is refused without asking. One that has asked is told what the store has said. The first that
   * would be refused because of a report asks too: its other policies may refuse it for longer.
   */
  refusedUntil(isFirst: boolean, nowMs: number): number {
    // Units that were not spent in time are given back with the next call.
    if (this.#leases.some(({ endsMs }) => nowMs >= endsMs)) return 0;
    if (!isFirst) return Math.max(this.refusedUntilMs, this.fitsMs);
    return this.#isToRequest ? this.refusedUntilMs : 0;
  }

  /** Spends units that are held. Returns the leases that they are of. */
  spend(units: number, nowMs: number): readonly Lease[] {
    const of: Lease[] = [];
    let missing = units;
    for (const lease of this.#leases) {
      if (missing === 0) break;
      if (lease.left === 0 || nowMs >= lease.endsMs) continue;
      const taken = Math.min(missing, lease.left);
      lease.left -= taken;
      lease.spentMs = nowMs;
      missing -= taken;
      of.push(lease);
    }
    this.#spentSince += units;
    this.#spentMs = nowMs;
    // What a request may give back is in use until it ends.
    if (!this.rules.isByRequest) this.policy.units.spent += units;
    this.endLeases(nowMs);
    return of;
  }

  /** Units of a request's own lease were not needed after all. */
  giveBack({ id, granted, left }: Lease, nowMs: number): void {
    this.policy.units.returned += granted - left;
    this.#addEnded({ id, granted, spent: 0, spentMs: nowMs });
  }

  /** Units of a request's own lease stay spent. `isKnown`: whether the store still has the lease, as far as is known. */
  keep({ id, granted, left, spentMs }: Lease, isKnown: boolean): void {
    this.policy.units.spent += granted - left;
    // What is held, the store was not told.
    if (!isKnown) this.admittedAlone += 1;
    // Not earlier than in the table: a client that waits as the store has said may ask another gateway.
    this.#addEnded({ id, granted, spent: granted, spentMs: Math.ceil(spentMs) });
  }

  /** Ends the leases whose time is over, or that have no units left. */
  endLeases(nowMs: number): void {
    if (this.#leases.every(({ left, endsMs }) => left > 0 && nowMs < endsMs)) return;
    for (const { id, granted, left, spentMs, endsMs } of this.#leases) {
      if (left > 0 && nowMs < endsMs) continue;
      this.policy.units.returned += left;
      // They are free again.
      if (left > 0) this.refusedUntilMs = this.fitsMs = this.fullUntilMs = 0;
      // Asked one by one, what was spent counts a little longer than it has to; a report would cost more than it brings.
      if (left > 0 || this.rules.isAhead) this.#addEnded({ id, granted, spent: granted - left, spentMs });
    }
    const open = this.#leases.filter(({ left, endsMs }) => left > 0 && nowMs < endsMs);
    this.#leases = open.length === 0 ? none : open;
  }

  /** Forgets what is known of the key, because its counts were forgiven. What is held must be returned. */
  forgive(): void {
    this.forgiven += 1;
    this.free = this.rules.limit;
    this.resetMs = 0;
    this.refusedUntilMs = this.fitsMs = this.fullUntilMs = 0;
    this.#patienceMs = firstRefusalMs;
    this.toldAlone = this.admittedAlone;
  }

  /** Ends all leases: what is left of them is not spent. */
  endAll(): void {
    this.endLeases(Number.POSITIVE_INFINITY);
  }

  /** What has to be reported, at most `most` leases; then they are forgotten, unless they have to be reported again. */
  takeReports(most: number, nowMs: number): readonly OwnReport[] {
    if (this.#ended.length === 0) return none;
    return this.#ended.splice(0, most).map((ended) => ({ ...ended, ageUs: certainAgeUs(nowMs - ended.spentMs) }));
  }

  /** Nobody knows whether the store has heard of these. It may hear of them twice. */
  reportAgain(reports: readonly EndedLease[]): void {
    for (const ended of reports) this.#addEnded(ended);
  }

  /** Forgets reports about units that do not count any more. */
  dropReports(nowMs: number): void {
    const sinceMs = nowMs - (this.rules.windowUs + this.rules.leaseUs) / 1000;
    if (this.#ended.some(({ spentMs }) => spentMs <= sinceMs))
      this.#ended = this.#ended.filter(({ spentMs }) => spentMs > sinceMs);
  }

  /** How many units to hold for the time of a lease, judged by what was spent lately; 0 if few requests would share it. */
  wantedAhead(nowMs: number): number {
    const { spendMs, step } = this.rules;
    const elapsedMs = nowMs - this.#rateMs;
    // Over less time than a lease, a single request would look like many.
    const rate = this.#spentSince / Math.max(elapsedMs, spendMs);
    if (elapsedMs >= spendMs) {
      this.#rate = Math.max(rate, (this.#rate + rate) / 2);
      this.#spentSince = 0;
      this.#rateMs = nowMs;
    } else if (rate > this.#rate) {
      // A rise is followed at once, because requests would wait.
      this.#rate = rate;
    }
    // A client that has stopped asking must not hold anything.
    if (nowMs - this.#spentMs >= spendMs) this.#rate = 0;
    const wanted = Math.ceil(this.#rate * spendMs);
    // For fewer requests, a lease and its report are more calls than asking.
    return wanted < 3 * step ? 0 : wanted;
  }

  /** Whether what is held will soon be spent. */
  isShort(nowMs: number): boolean {
    const wanted = this.wantedAhead(nowMs);
    return wanted > 0 && this.held(nowMs) <= wanted / 4;
  }

  /** Whether nothing is lost if it is forgotten. */
  isIdle(nowMs: number): boolean {
    const isEmpty = this.#leases.length + this.inFlight + this.awaitedUnits + this.#ended.length === 0;
    return isEmpty && nowMs >= this.refusedUntilMs && this.admittedAlone === this.toldAlone;
  }

  /** Whether nothing that is known of it holds any more. */
  isOver(nowMs: number): boolean {
    return this.isIdle(nowMs) && nowMs >= Math.max(this.resetMs, this.fitsMs, this.knownUntilMs);
  }

  #addEnded(ended: EndedLease): void {
    if (this.#ended === none) this.#ended = [];
    this.#ended.push(ended);
  }
}

/** What this thread has done with units, of all policies. */
type UnitCounts = Record<"spent" | "returned", number>;

/** What the policy in force says. */
export interface PolicySource {
  /** Of its slot in the table. */
  readonly slot: number;
  /** Of keys without an override. */
  readonly limit: number;
  /** As they are for a key with this tag now. */
  rules(tag: string, nowMs: number): CounterRules;
  /** A shard has said that a calendar's period is over, that was to end then. */
  periodOver(shard: number, endMs: number, nowMs: number): void;
  /** What this gateway has admitted of a key and still counts; null if nothing, or if slots are counted. */
  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null;
}

export class StorePolicy {
  /** What gateways call it. */
  readonly text: string;
  /** Of keys that this thread knows something about, by tag; of a limit that is not the policy's, by tag and limit. */
  readonly credits = new Map<string, KeyCredits>();
  readonly newKeys: NewKeys;
  /** How long its requests count. */
  readonly longestCountMs: number;
  /** How many of these are networks that are counted as one, because too many new keys were made. */
  networks = 0;
  /** Of a calendar. */
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
  creditsOf(tag: string): readonly KeyCredits[] {
    return [...this.credits.values()].filter((credits) => credits.tag === tag);
  }

  /** Returns what is known of a key in the period of the rules; undefined if nothing is. */
  find(tag: string, { limit, untilUs }: CounterRules): KeyCredits | undefined {
    const credits = this.credits.get(this.nameOf(tag, limit));
    return credits?.rules.untilUs === untilUs ? credits : undefined;
  }

  /**
   * Returns where a key is among the credits. What is held and refused by one limit says nothing about another one, which
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

/** Keys that a thread remembers, of all policies together. A key takes up to 640 bytes, so these are 16 MiB. */
export const mostCredits = 26_000;
/** Keys that are looked at for one that can be forgotten. */
const mostLooks = 8;
/** How often it is looked for keys of which nothing holds any more, and at how many in one turn of the event loop. */
const [sweepMs, sweptInTurn] = [250, 1_024];

export class CreditBook {
  readonly #timing: Timing;
  readonly #settings: Pick<SharedStoreSettings, "prefix" | "maxKeys">;
  readonly #units: UnitCounts;
  readonly #ended: (credits: KeyCredits) => void;
  readonly #policies = new Map<string, StorePolicy>();
  /** The oldest first. */
  readonly #known = new Set<KeyCredits>();
  /** Where the next sweep begins, and the next search for a key that makes room. What is gone is skipped once, not each time. */
  #swept = this.#known.values();
  #looked = this.#known.values();
  #timer: { cancel(): void } | null = null;

  /** `ended`: everything that is held of a key has to be returned. */
  constructor(
    timing: Timing,
    settings: Pick<SharedStoreSettings, "prefix" | "maxKeys">,
    units: UnitCounts,
    ended: (credits: KeyCredits) => void,
  ) {
    this.#timing = timing;
    this.#settings = settings;
    this.#units = units;
    this.#ended = ended;
  }

  get policies(): Iterable<StorePolicy> {
    return this.#policies.values();
  }

  /** Returns the policy with this text; with `source`, if it is new. `windowMs`, `stayMs`: see `StorePolicy` and `NewKeys`. */
  policy(text: string, source: PolicySource, windowMs: number, stayMs = windowMs): StorePolicy {
    const known = this.#policies.get(text);
    if (known !== undefined) return known;
    const policy = new StorePolicy(text, source, windowMs, new NewKeys(this.#settings.maxKeys, stayMs), this.#units);
    this.#policies.set(text, policy);
    return policy;
  }

  /** The policy is gone, and so is what is held for it. */
  retire(policy: StorePolicy): void {
    this.#policies.delete(policy.text);
    for (const credits of policy.credits.values()) {
      this.#known.delete(credits);
      this.#ended(credits);
    }
    policy.credits.clear();
  }

  /** Begins to remember a key. What was known of it in an earlier period is forgotten. */
  create(policy: StorePolicy, tag: string, key: CounterKey, client: CounterKey, rules: CounterRules): KeyCredits {
    if (this.#known.size >= mostCredits) this.#forgetOne();
    const storeKey = counterStoreKey(this.#settings.prefix, tag, policy.text, rules.untilUs);
    const name = policy.nameOf(tag, rules.limit);
    const before = policy.credits.get(name);
    if (before !== undefined) this.#forget(before);
    const credits = new KeyCredits({ policy, name, tag, storeKey, key, client, rules });
    if (isNetwork(credits)) policy.networks += 1;
    policy.credits.set(name, credits);
    this.#known.add(credits);
    this.#timer ??= this.#timing.timers.after(sweepMs, () => this.#sweep());
    return credits;
  }

  all(): Iterable<KeyCredits> {
    return this.#known;
  }

  close(): void {
    this.#timer?.cancel();
  }

  #forget(credits: KeyCredits): void {
    const { policy, name } = credits;
    this.#known.delete(credits);
    policy.credits.delete(name);
    if (isNetwork(credits)) policy.networks -= 1;
  }

  /** Makes room for another key: one about which nothing has to be remembered, or else the oldest. */
  #forgetOne(): void {
    const nowMs = this.#timing.clock.monotonicMs();
    for (let looked = 1; ; looked += 1) {
      let { value: credits } = this.#looked.next();
      if (credits === undefined) {
        this.#looked = this.#known.values();
        credits = this.#looked.next().value as KeyCredits;
      }
      if (looked < mostLooks && !credits.isIdle(nowMs)) continue;
      this.#forget(credits);
      // Or it would be remembered all the same, until a store that is slow was told.
      credits.toldAlone = credits.admittedAlone;
      this.#ended(credits);
      return;
    }
  }

  #sweep(): void {
    const { clock, timers } = this.#timing;
    const nowMs = clock.monotonicMs();
    for (let looked = 0; looked < sweptInTurn; looked += 1) {
      const { value: credits } = this.#swept.next();
      if (credits === undefined) {
        this.#swept = this.#known.values();
        break;
      }
      if (credits.isOver(nowMs)) this.#forget(credits);
    }
    this.#timer = this.#known.size === 0 ? null : timers.after(sweepMs, () => this.#sweep());
  }
}

/** Whether the key is a network that is counted as one. */
function isNetwork({ tag }: KeyCredits): boolean {
  return tag.startsWith("n");
}
