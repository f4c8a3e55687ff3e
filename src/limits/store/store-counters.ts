// Counts what one policy has admitted at all gateways: a request needs units that the store has granted, and room in
// the table, where this gateway counts its own. While the store is not there, the table decides alone.
import type { CounterKey } from "../../core/counter-key.ts";
import type { Policy } from "../../core/policy.ts";
import { Ask, type Charged, type LocalCounters } from "../counters.ts";
import type { CounterTable } from "../table/counter-table.ts";
import { networkKey } from "../table/eviction.ts";
import { Claim } from "./call-batch.ts";
import {
  borderErrorMs,
  CalendarPeriods,
  type CounterRules,
  clockError,
  counterRulesOf,
  longestCountMs,
  longestStayMs,
  policyText,
} from "./counter-rules.ts";
import type { KeyCredits, Lease, PolicySource, StorePolicy } from "./credits.ts";
import { storeTagOf } from "./script-call.ts";
import type { Store } from "./store.ts";

/**
 * What is known when a request asks. `first`: the store can be asked. `answered`: it has been, and may be asked again.
 * `final`: it has been, and is not asked again. `alone`: it has not answered in time.
 */
export type Pass = "first" | "answered" | "final" | "alone";

/** `unknown`: the store has to be asked. `unavailable`: it is not there, and nothing is admitted without it. */
type StoreVerdict = "fits" | "refused" | "unknown" | "unavailable";

/** What a request asks of a policy whose units are in the store. A request that waits keeps its own. */
export class StoreAsk extends Ask {
  verdict: StoreVerdict = "refused";
  /** What this thread holds of the key; undefined if it has not asked for it yet. */
  credits: KeyCredits | undefined;
  /** Whether the table has room for what was asked, and what it has left; `open` admits without it. */
  fitsLocally = false;
  leftLocally = 0;
  /** Whether it is the first that this gateway has of the key. */
  isNewcomer = false;
  /** Whether it is admitted without the store's units; because an answer is late. */
  isAlone = false;
  isLate = false;
}

export class StoreCounters {
  /** What this gateway has admitted. */
  readonly local: LocalCounters;
  readonly #policy: Policy;
  readonly #store: Store;
  readonly #ofStore: StorePolicy;
  readonly #isByRequest: boolean;
  /** What `charge` has returned, until it is given back or kept: what the table was charged, and the leases. */
  readonly #charges = new Map<number, { readonly local: number; readonly leases: readonly Lease[] }>();
  readonly #source: PolicySource;
  readonly #periods: CalendarPeriods | null;
  #rules: CounterRules;
  #lastCharge = 0;

  /** `isByRequest`: whether units are given back when requests end. */
  constructor(
    policy: Policy,
    slot: number,
    local: LocalCounters,
    table: CounterTable,
    store: Store,
    isByRequest: boolean,
    wallMs: () => number,
  ) {
    const { limit, rate } = policy;
    this.#policy = policy;
    this.local = local;
    this.#store = store;
    this.#isByRequest = isByRequest;
    this.#rules = counterRulesOf(policy, { limit, isByRequest, untilMs: 0 }, store.settings);
    this.#source = {
      ...{ slot, limit, own: local.own.bind(local) },
      rules: (tag, nowMs) => this.#rulesFor(tag, limit, nowMs),
      periodOver: (shard, endMs, nowMs) => this.#periods?.over(shard, endMs, nowMs),
    };
    const stayMs = longestStayMs(policy, this.#rules);
    this.#ofStore = store.book.policy(policyText(policy), this.#source, longestCountMs(policy), stayMs);
    const { periods } = this.#ofStore;
    this.#periods = rate.kind === "calendar" ? new CalendarPeriods(rate, periods, table.periodOf(slot), wallMs) : null;
  }

  comeIntoForce(nowMs: number, continues: boolean): void {
    this.local.comeIntoForce(nowMs, continues);
    this.#ofStore.source = this.#source;
  }

  select(ask: StoreAsk): void {
    this.local.select(ask);
  }

  /** Answers, and charges nothing. The key must be selected and the table's locks held. */
  ask(ask: StoreAsk, nowMs: number, pass: Pass): void {
    ask.verdict = this.#verdictOn(ask, nowMs, pass);
    ask.fits = ask.verdict === "fits";
  }

  #verdictOn(ask: StoreAsk, nowMs: number, pass: Pass): StoreVerdict {
    const { key, limit, units } = ask;
    ask.nowMs = nowMs;
    ask.isAlone = false;
    key.storeTag ||= storeTagOf(key);
    const tag = key.storeTag;
    const rules = this.#rulesFor(tag, limit, nowMs);
    const credits = this.#find(ask, rules);
    if (credits?.replaceRules(rules)) this.#store.endAll(credits);
    ask.credits = credits;
    // What is held may be spent while the store is away: the store counts it.
    const held = credits === undefined ? 0 : credits.unclaimed(nowMs);
    const isRefused = credits !== undefined && nowMs < credits.refusedUntil(pass === "first", nowMs);
    const mayAsk = pass !== "alone" && this.#store.mayAsk(credits?.tag ?? tag, credits);
    const isOpen = this.#store.settings.onFailure === "open";
    if (held < units && !mayAsk && (isOpen || !isRefused)) return this.#askAlone(ask);

    ask.fitsLocally = this.local.ask(ask, nowMs);
    ask.leftLocally = ask.remaining;
    // What was granted may be over when it is seen, or be of a period that is over: then it asks again.
    const canAsk = mayAsk && (pass === "first" || pass === "answered");
    ask.isNewcomer = ask.fitsLocally && ask.remaining + units >= limit;
    if (!ask.fitsLocally) {
      // What is held is there when the table has room.
      if (held < units || rules.item !== "sliding") ask.resetMs = this.#resetInStore(ask, rules);
      return canAsk && held < units && this.#mayRefuseForLonger(ask) ? "unknown" : "refused";
    }
    if (credits === undefined) return canAsk ? "unknown" : "refused";
    ask.remaining = Math.min(ask.remaining, Math.max(0, credits.free + held - units));
    if (held >= units) {
      if (credits.resetMs > nowMs && rules.item === "sliding") ask.resetMs = credits.resetMs;
      return "fits";
    }
    ask.remaining = Math.min(ask.remaining + units, credits.free + held);
    const fitsMs = Math.max(nowMs + 1, credits.fitsMs);
    ask.resetMs = rules.item === "sliding" ? fitsMs : this.#resetInStore(ask, rules);
    if (rules.item === "calendar" && this.#isByRequest) ask.resetMs = Math.min(ask.resetMs, fitsMs);
    // A request that waits may give up what it has claimed. In a cluster, it may wait for longer.
    const mayBeGivenUp = credits.held(nowMs) >= units && (pass === "first" || !this.#store.link.isClustered);
    if (canAsk && (!isRefused || mayBeGivenUp)) return "unknown";
    if (pass === "first") this.#store.counts.refusedFromMemory += 1;
    return "refused";
  }

  /** Whether what is unknown now will be refused until `resetMs` at least: the table or the store has said so. */
  isProbablyRefused({ fitsLocally, credits, units, nowMs }: StoreAsk): boolean {
    if (!fitsLocally || credits === undefined || this.#policy.rate.kind === "concurrency") return !fitsLocally;
    // What other requests have found here they may leave.
    return credits.fullUntilMs > nowMs && credits.held(nowMs) < units;
  }

  /**
   * What a request claims that waits for the store: units that it has found, and those that it asks for, because `ask` has
   * found too few. Null: it needs none of the store's. `waitsOnly`: nothing, but what others get is waited for.
   */
  claim(ask: StoreAsk, waitsOnly = false): Claim | null {
    const { verdict, credits, units, isAlone } = ask;
    if (verdict === "unknown") return new Claim(credits ?? this.#create(ask), waitsOnly ? 0 : units);
    if (verdict !== "fits" || isAlone || credits === undefined || waitsOnly) return null;
    const found = new Claim(credits, units);
    found.hold();
    return found;
  }

  /** Charges what fits. The locks must have been held since `ask`. Returns what `giveBack` needs. */
  charge(ask: StoreAsk): number {
    const { credits, units, nowMs } = ask;
    const local = ask.fitsLocally ? this.local.charge(ask) : noCharge;
    let leases: readonly Lease[] = [];
    if (!ask.isAlone && credits !== undefined) leases = this.#store.spend(credits, units, nowMs);
    else if (!this.#isByRequest && (credits !== undefined || ask.isLate))
      this.#store.admittedAlone(credits ?? this.#create(ask));
    if (!this.#isByRequest) return 0;
    this.#lastCharge += 1;
    this.#charges.set(this.#lastCharge, { local, leases });
    return this.#lastCharge;
  }

  peek(ask: StoreAsk, nowMs: number): void {
    const { key, limit } = ask;
    this.local.peek(ask, nowMs);
    const credits = this.#ofStore.credits.get(this.#ofStore.nameOf(key.storeTag || storeTagOf(key), limit));
    if (credits === undefined || nowMs >= credits.resetMs) return;
    ask.remaining = Math.min(ask.remaining, Math.max(0, credits.free + credits.held(nowMs)));
    if (credits.rules.item === "sliding") ask.resetMs = Math.max(credits.resetMs, credits.refusedUntilMs);
  }

  giveBack(charged: Charged): void {
    this.#settle(charged, "giveBack");
  }

  keep(charged: Charged): void {
    this.#settle(charged, "keep");
  }

  unspentResetMs(nowMs: number): number {
    return this.local.unspentResetMs(nowMs);
  }

  /**
   * Forgets what this thread knows and holds of a key, because somebody has forgiven it; slots in use stay in use. What the
   * table has counted, which threads share, is not forgotten here. `client`: null if it is not known. `seq`: the place of that
   * in the log of what gateways share; 0 if it holds here alone, or if others have told the store.
   */
  forgiveHeld(key: CounterKey, client: CounterKey | null, nowMs: number, seq: number): void {
    if (this.#policy.rate.kind === "concurrency") return;
    const { limit } = this.#policy;
    const tags = [storeTagOf(key)];
    const network = client === null ? "" : networkTagOf(networkKey(client));
    // A network that is counted as one is forgiven as one.
    if (this.#ofStore.creditsOf(network).length > 0) tags.push(network);
    for (const tag of tags) this.#store.forgive(this.#ofStore, tag, this.#rulesFor(tag, limit, nowMs), seq);
  }

  /** Gives back what is held of all keys. */
  endLeases(): void {
    this.#store.endLeases(this.#ofStore.credits.values());
  }

  /** The policy is gone. */
  retire(): void {
    this.#store.book.retire(this.#ofStore);
  }

  #settle(charged: Charged, how: "giveBack" | "keep"): void {
    const charge = this.#charges.get(charged.charged);
    if (charge === undefined) return;
    this.#charges.delete(charged.charged);
    if (!Number.isNaN(charge.local)) this.local[how]({ ...charged, charged: charge.local });
    this.#store[how](charge.leases);
    // While its status was not known, the store was not told of it.
    if (how === "keep" && charge.leases.length === 0) this.#store.admittedAlone(this.#creditsAt(charged));
  }

  /** Decides by what this gateway has admitted itself. */
  #askAlone(ask: StoreAsk): StoreVerdict {
    const { settings, replicas } = this.#store;
    const { onFailure } = settings;
    const { limit, units } = ask;
    ask.isAlone = true;
    ask.isLate = this.#store.decidesAlone(ask.key.storeTag, ask.credits);
    // At least one request, whatever it costs.
    if (onFailure === "local") ask.limit = Math.max(units, Math.floor(limit / replicas.value));
    ask.fitsLocally = this.local.ask(ask, ask.nowMs);
    ask.leftLocally = ask.remaining;
    ask.limit = limit;
    if (onFailure === "closed") return "unavailable";
    return ask.fitsLocally || onFailure === "open" ? "fits" : "refused";
  }

  /** Whether only the store can say how long a request waits that the table refuses: a reload has lowered the limit. */
  #mayRefuseForLonger({ mayEndSoon, credits, nowMs }: StoreAsk): boolean {
    if (this.#policy.rate.kind !== "sliding" || mayEndSoon) return false;
    return credits === undefined || credits.fitsMs <= nowMs;
  }

  /** When a request fits that the table refuses. */
  #resetInStore(ask: StoreAsk, { spendMs, windowUs }: CounterRules): number {
    const { mayEndSoon, resetMs, nowMs, credits } = ask;
    if (mayEndSoon) return resetMs;
    // The store counts by a clock of its own, in a cluster by that of a shard.
    if (this.#periods !== null)
      return Math.max(resetMs, nowMs + this.#inPeriod("untilResetMs", ask.key.storeTag, nowMs)) + borderErrorMs;
    // With its last unit, the store has said when there is room again.
    if (credits !== undefined && credits.fitsMs > nowMs) return Math.max(resetMs, credits.fitsMs);
    return resetMs + spendMs + windowUs * clockError;
  }

  #find({ key, client, limit, nowMs }: StoreAsk, rules: CounterRules): KeyCredits | undefined {
    const own = this.#ofStore.find(key.storeTag, rules);
    if (own !== undefined || this.#ofStore.networks === 0) return own;
    const tag = networkTagOf(networkKey(client));
    const network = this.#ofStore.find(tag, this.#rulesFor(tag, limit, nowMs));
    return network === undefined || nowMs >= network.knownUntilMs ? undefined : network;
  }

  /** Begins to ask for a key; for its network, if too many new keys are made. */
  #create({ key, client, limit, nowMs, isNewcomer }: StoreAsk): KeyCredits {
    const { newKeys } = this.#ofStore;
    if (!isNewcomer || newKeys.hasRoom(nowMs)) {
      const rules = this.#rulesFor(key.storeTag, limit, nowMs);
      return this.#store.book.create(this.#ofStore, key.storeTag, key, client, rules);
    }
    const network = networkKey(client);
    const tag = networkTagOf(network);
    const rules = this.#rulesFor(tag, limit, nowMs);
    const credits =
      this.#ofStore.find(tag, rules) ?? this.#store.book.create(this.#ofStore, tag, network, network, rules);
    credits.knownUntilMs = nowMs + longestCountMs(this.#policy);
    this.#store.counts.coarse += 1;
    return credits;
  }

  #creditsAt({ key, client, limit }: Charged): KeyCredits {
    const tag = key.storeTag || storeTagOf(key);
    const rules = this.#rulesFor(tag, limit, this.#store.clock.monotonicMs());
    return this.#ofStore.find(tag, rules) ?? this.#store.book.create(this.#ofStore, tag, key, client, rules);
  }

  #rulesFor(tag: string, limit: number, nowMs: number): CounterRules {
    const untilMs = this.#inPeriod("endMs", tag, nowMs);
    if (this.#rules.limit !== limit || this.#rules.untilUs !== untilMs * 1000) {
      const isByRequest = this.#isByRequest;
      this.#rules = counterRulesOf(this.#policy, { limit, isByRequest, untilMs }, this.#store.settings);
    }
    return this.#rules;
  }

  /** Calendar: by the clock of the shard that has the key; else 0. */
  #inPeriod(what: "endMs" | "untilResetMs", tag: string, nowMs: number): number {
    if (this.#periods === null) return 0;
    const shard = this.#store.shards.of(tag);
    return this.#periods[what](shard?.number ?? -1, shard?.watch.wallMs(nowMs) ?? null, nowMs);
  }
}

/** What the store calls a network that is counted as one. */
function networkTagOf(network: CounterKey): string {
  return `n${storeTagOf(network)}`;
}

/** What `charge` of the table returns where nothing was charged. */
const noCharge = Number.NaN;
