// Counts what one policy has admitted at all gateways: a request needs units that the store has granted, and room in
// the table, where this gateway counts its own. While the store is not there, the table decides alone.
import { CounterKey } from "../../core/counter-key.ts";
import type { Policy } from "../../core/policy.ts";
import type { Counters, LocalCounters, OwnCount } from "../counters.ts";
import { networkKey } from "../table/eviction.ts";
import type { AskingPass, Question } from "./calls.ts";
import {
  borderErrorMs,
  type CounterRules,
  clockError,
  counterRulesOf,
  type KeyCredits,
  type Lease,
  longestCountMs,
} from "./credits.ts";
import { storeTagOf } from "./script-call.ts";
import type { SharedStore } from "./store.ts";
import { type CalendarPeriods, calendarOf, type PolicySource, policyText, type SharedPolicy } from "./store-policy.ts";

/** `unknown`: the store has to be asked. `unavailable`: it is not there, and nothing is admitted without it. */
type CounterVerdict = "fits" | "refused" | "unknown" | "unavailable";

/** What a request was charged, where it may be given back. */
interface Charged {
  readonly local: number;
  readonly leases: readonly Lease[];
}

interface SharedCountersOptions {
  readonly policy: Policy;
  /** In the table. */
  readonly slot: number;
  readonly local: LocalCounters;
  readonly store: SharedStore;
  /** Whether units are given back when requests end. */
  readonly isByRequest: boolean;
  readonly wallMs: () => number;
  /** Whether it begins with its first request only: it continues others, after a reload that may not happen. */
  readonly continues: boolean;
}

export class SharedCounters implements Counters {
  remaining = 0;
  resetMs = 0;
  /** Must be set before `ask`. */
  pass: AskingPass = "first";
  /** When the request was asked for first; set by `ask` then, and before it later. */
  sinceMs = 0;
  verdict: CounterVerdict = "refused";
  /** What this gateway has admitted. */
  readonly local: LocalCounters;
  readonly #policy: Policy;
  readonly #store: SharedStore;
  readonly #shared: SharedPolicy;
  readonly #isByRequest: boolean;
  /** What `charge` has returned, until it is given back or kept. */
  readonly #charges = new Map<number, Charged>();
  readonly #source: PolicySource;
  readonly #periods: CalendarPeriods | null;
  #rules: CounterRules;
  #key: CounterKey = noKey;
  #client: CounterKey = noKey;
  #units = 0;
  #limit = 0;
  #nowMs = 0;
  #credits: KeyCredits | undefined;
  #isInForce: boolean;
  #isNewcomer = false;
  /** Whether the table has room for what was asked; `open` admits without it. */
  #fitsLocally = false;
  /** Whether it is admitted without the store's units; because an answer is late. */
  #isAlone = false;
  #isLate = false;
  #lastCharge = 0;

  constructor({ policy, slot, local, store, isByRequest, wallMs, continues }: SharedCountersOptions) {
    this.#policy = policy;
    this.local = local;
    this.#store = store;
    this.#isByRequest = isByRequest;
    this.#rules = counterRulesOf(policy, { limit: policy.limit, isByRequest, untilMs: 0 }, store.settings);
    this.#source = {
      ...{ slot, limit: policy.limit, own: local.own.bind(local) },
      rules: (tag: string, nowMs: number) => this.#rulesFor(tag, policy.limit, nowMs),
      periodOver: (shard: number, endMs: number, nowMs: number) => this.#periods?.over(shard, endMs, nowMs),
    };
    this.#shared = store.book.policy(policyText(policy), this.#source, longestCountMs(policy));
    this.#periods = calendarOf(policy, local, this.#shared.periods, wallMs);
    this.#isInForce = !continues;
    if (!continues) this.#shared.continue(this.#source);
  }

  select(key: CounterKey, client: CounterKey): void {
    this.#key = key;
    this.#client = client;
    this.local.select(key, client);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    this.#limit = limit;
    this.#units = units;
    this.#nowMs = nowMs;
    this.#isAlone = false;
    if (this.pass === "first") this.sinceMs = nowMs;
    if (!this.#isInForce) this.#comeIntoForce();
    this.#key.storeTag ||= storeTagOf(this.#key);
    const tag = this.#key.storeTag;
    const rules = this.#rulesFor(tag, limit, nowMs);
    const credits = this.#find(tag, rules, nowMs);
    if (credits?.replaceRules(rules)) this.#store.endAll(credits);
    this.#credits = credits;
    // What is held may be spent while the store is away: the store counts it.
    const held = credits === undefined ? 0 : credits.held(nowMs);
    const isRefused = credits !== undefined && nowMs < credits.refusedUntil(this.pass === "first", nowMs);
    const mayAsk = this.pass !== "alone" && this.#store.mayAsk(credits?.tag ?? tag, credits);
    const isOpen = this.#store.settings.onFailure === "open";
    if (held < units && !mayAsk && (isOpen || !isRefused)) return this.#askAlone(tag);

    const fits = this.local.ask(limit, units, nowMs);
    this.#fitsLocally = fits;
    this.remaining = this.local.remaining;
    this.resetMs = this.local.resetMs;
    // What was granted may be spent by another request before all calls of this one are answered, or be of a period that
    // is over: then it asks once more.
    const canAsk = mayAsk && (this.pass === "first" || this.pass === "answered");
    this.#isNewcomer = fits && this.remaining + units >= limit;
    if (!fits) {
      this.resetMs = this.#resetInStore(rules, credits);
      const isUnknown = canAsk && held < units && this.#mayRefuseForLonger(credits);
      return this.#conclude(isUnknown ? "unknown" : "refused");
    }
    if (credits === undefined) return this.#conclude(canAsk ? "unknown" : "refused");
    this.remaining = Math.min(this.remaining, Math.max(0, credits.free + held - units));
    if (held >= units) {
      if (credits.resetMs > nowMs && credits.rules.item === "sliding") this.resetMs = credits.resetMs;
      return this.#conclude("fits");
    }
    this.remaining = Math.min(this.remaining + units, credits.free + held);
    const fitsMs = Math.max(nowMs + 1, credits.fitsMs);
    this.resetMs = rules.item === "sliding" ? fitsMs : this.#resetInStore(rules, credits);
    if (rules.item === "calendar" && this.#isByRequest) this.resetMs = Math.min(this.resetMs, fitsMs);
    if (canAsk && !isRefused) return this.#conclude("unknown");
    if (this.pass === "first") this.#store.counts.refusedFromMemory += 1;
    return this.#conclude("refused");
  }

  /** Whether what is unknown now will be refused until `resetMs` at least: the table or the store has said so. */
  get isProbablyRefused(): boolean {
    if (!this.#fitsLocally) return true;
    return this.#policy.rate.kind !== "concurrency" && (this.#credits?.fitsMs ?? 0) > this.#nowMs;
  }

  /** Whether requests that wait already may take all that the table has left for what was asked last. */
  get isCrowded(): boolean {
    return this.#credits !== undefined && this.#credits.awaitedUnits > this.local.remaining;
  }

  /** Asks the store for the units that `ask` has not found. `waitsOnly`: for none, but waits for what others get. */
  request(question: Question, waitsOnly = false): void {
    const credits = this.#credits ?? this.#create();
    if (this.pass !== "first") this.#store.limitWait(question, this.sinceMs);
    this.#store.request(credits, waitsOnly ? 0 : this.#units, question);
  }

  charge(): number {
    const credits = this.#credits;
    const local = this.#fitsLocally ? this.local.charge() : noCharge;
    let leases: readonly Lease[] = [];
    if (!this.#isAlone && credits !== undefined) leases = this.#store.spend(credits, this.#units, this.#nowMs);
    else if (credits !== undefined || this.#isLate) this.#store.admittedAlone(credits ?? this.#create());
    if (!this.#isByRequest) return 0;
    this.#lastCharge += 1;
    this.#charges.set(this.#lastCharge, { local, leases });
    return this.#lastCharge;
  }

  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number, units = 1): void {
    this.local.peek(key, client, limit, nowMs, units);
    this.remaining = this.local.remaining;
    this.resetMs = this.local.resetMs;
    const credits = this.#shared.credits.get(this.#shared.placeOf(key.storeTag || storeTagOf(key), limit));
    if (credits === undefined || nowMs >= credits.resetMs) return;
    this.remaining = Math.min(this.remaining, Math.max(0, credits.free + credits.held(nowMs)));
    if (credits.rules.item === "sliding") this.resetMs = Math.max(credits.resetMs, credits.refusedUntilMs);
  }

  giveBack(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    const charge = this.#charges.get(charged);
    if (charge === undefined) return;
    this.#charges.delete(charged);
    if (!Number.isNaN(charge.local)) this.local.giveBack(key, client, limit, units, charge.local);
    this.#store.giveBack(charge.leases);
  }

  keep(key: CounterKey, client: CounterKey, limit: number, units: number, charged: number): void {
    const charge = this.#charges.get(charged);
    if (charge === undefined) return;
    this.#charges.delete(charged);
    if (!Number.isNaN(charge.local)) this.local.keep(key, client, limit, units, charge.local);
    this.#store.keep(charge.leases);
  }

  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    return this.local.own(key, client, nowMs);
  }

  unspentResetMs(nowMs: number): number {
    return this.local.unspentResetMs(nowMs);
  }

  /** Gives back what is held of all keys. */
  endLeases(): void {
    this.#store.endLeases(this.#shared.credits.values());
  }

  /** The policy is gone. */
  retire(): void {
    this.#store.book.retire(this.#shared);
  }

  /** With the first request, because a limiter that is never used must change nothing. */
  #comeIntoForce(): void {
    this.#isInForce = true;
    this.#shared.continue(this.#source);
  }

  #conclude(verdict: CounterVerdict): boolean {
    this.verdict = verdict;
    return verdict === "fits";
  }

  /** Decides by what this gateway has admitted itself. */
  #askAlone(tag: string): boolean {
    const { onFailure } = this.#store.settings;
    this.#isAlone = true;
    this.#isLate = this.#store.decidesAlone(tag, this.#credits);
    // At least one request, whatever it costs.
    const share = Math.max(this.#units, Math.floor(this.#limit / this.#store.replicas.value));
    const fits = this.local.ask(onFailure === "local" ? share : this.#limit, this.#units, this.#nowMs);
    this.#fitsLocally = fits;
    this.remaining = this.local.remaining;
    this.resetMs = this.local.resetMs;
    if (onFailure === "closed") return this.#conclude("unavailable");
    return this.#conclude(fits || onFailure === "open" ? "fits" : "refused");
  }

  /** Whether only the store can say how long a request waits that the table refuses: a reload has lowered the limit. */
  #mayRefuseForLonger(credits: KeyCredits | undefined): boolean {
    if (this.#policy.rate.kind !== "sliding" || this.local.mayEndSoon) return false;
    return credits === undefined || credits.fitsMs <= this.#nowMs;
  }

  /** When a request fits that the table refuses. */
  #resetInStore({ spendMs, windowUs }: CounterRules, credits: KeyCredits | undefined): number {
    if (this.local.mayEndSoon) return this.resetMs;
    // The store counts by a clock of its own, in a cluster by that of a shard.
    if (this.#periods !== null) return Math.max(this.resetMs, this.#nowMs + this.#periods.untilResetMs) + borderErrorMs;
    // With its last unit, the store has said when there is room again.
    if (credits !== undefined && credits.fitsMs > this.#nowMs) return Math.max(this.resetMs, credits.fitsMs);
    return this.resetMs + spendMs + windowUs * clockError;
  }

  #find(tag: string, rules: CounterRules, nowMs: number): KeyCredits | undefined {
    const own = this.#shared.find(tag, rules);
    if (own !== undefined || this.#shared.networks.size === 0) return own;
    const network = networkKey(this.#client);
    const until = this.#shared.networks.get(storeTagOf(network));
    if (until === undefined || nowMs >= until) return undefined;
    return this.#creditsOf(network);
  }

  /** Begins to ask for a key; for its network, if too many new keys are made. */
  #create(): KeyCredits {
    const { newKeys } = this.#shared;
    if (!this.#isNewcomer || newKeys.hasRoom(this.#nowMs)) {
      return this.#store.book.create(this.#shared, this.#key.storeTag, this.#key, this.#client, this.#rules);
    }
    const network = networkKey(this.#client);
    this.#store.counts.coarse += 1;
    this.#shared.addNetwork(storeTagOf(network), this.#nowMs + longestCountMs(this.#policy));
    return this.#creditsOf(network);
  }

  #creditsOf(network: CounterKey): KeyCredits {
    const tag = `n${storeTagOf(network)}`;
    const rules = this.#rulesFor(tag, this.#limit, this.#nowMs);
    return this.#shared.find(tag, rules) ?? this.#store.book.create(this.#shared, tag, network, network, rules);
  }

  #rulesFor(tag: string, limit: number, nowMs: number): CounterRules {
    const untilMs = this.#periodEndMs(tag, nowMs);
    if (this.#rules.limit !== limit || this.#rules.untilUs !== untilMs * 1000) {
      this.#rules = counterRulesOf(
        this.#policy,
        { limit, isByRequest: this.#isByRequest, untilMs },
        this.#store.settings,
      );
    }
    return this.#rules;
  }

  /** Calendar: by the clock of the shard that has the key; else 0. */
  #periodEndMs(tag: string, nowMs: number): number {
    if (this.#periods === null) return 0;
    const shard = this.#store.shards.of(tag);
    return this.#periods.endMs(shard?.number ?? -1, shard?.watch.wallMs(nowMs) ?? null, nowMs);
  }
}

/** What `charge` of the table returns where nothing was charged. */
const noCharge = Number.NaN;
const noKey = new CounterKey(-1, -1, -1, -1, false);
