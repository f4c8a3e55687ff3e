// Counts what one policy has admitted at all gateways: a request needs units that the store has granted, and room in
// the table, where this gateway counts its own. While the store is not there, the table decides alone.
import type { CounterKey } from "../../core/counter-key.ts";
import type { Policy } from "../../core/policy.ts";
import type { Ask, Charged, LocalCounters } from "../counters.ts";
import type { CounterTable } from "../table/counter-table.ts";
import { networkKey } from "../table/eviction.ts";
import { alone, type Grant } from "./call-batch.ts";
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
import { storeTagOf } from "./script-call.ts";
import type { Lease, PolicySource, SharedKey, StorePolicy } from "./shared-key.ts";
import type { Store } from "./store.ts";

/** `unknown`: the store has to be asked. `unavailable`: it is not there, and nothing is admitted without it. */
type StoreVerdict = "fits" | "refused" | "unknown" | "unavailable";

/** What a request asks of a policy whose units are in the store, and what it knows so far. */
export class SharedAsk {
  readonly ask: Ask;
  verdict: StoreVerdict = "refused";
  /** The store's answer; null: the store was not asked yet, or has to be asked again. */
  grant: Grant | null = null;
  /** Whether it asks again after a refusal. */
  hasAskedAgain = false;
  /** What this thread knows of the key; undefined if it has not asked for it yet. */
  key: SharedKey | undefined;
  /** Whether the table has room for what was asked; `open` admits without it. */
  fitsLocally = false;
  /** Whether this gateway counts no other request of the key. */
  isNewcomer = false;
  /** Whether it is decided without the store. */
  isAlone = false;
  /** Whether that is because an answer is late. */
  isLate = false;
  /** Whether the store was asked. A request that the table refuses asks only once for how long. */
  wasAsked = false;

  readonly counters: StoreCounters;

  constructor(ask: Ask, counters: StoreCounters) {
    this.ask = ask;
    this.counters = counters;
  }

  /** Whether what is unknown now is refused until `resetMs`, as far as the table or the store has said. */
  get isProbablyRefused(): boolean {
    const { ask, fitsLocally, key } = this;
    if (!fitsLocally || key === undefined || key.rules.item === "concurrency") return !fitsLocally;
    return key.last.fullUntilMs > ask.nowMs;
  }

  /** The store has answered, or has not in time. */
  granted(grant: Grant | undefined): void {
    this.grant = grant ?? null;
    this.wasAsked = true;
  }

  /** The store is not asked again. */
  decideAlone(): void {
    if (this.verdict === "unknown") this.grant = alone;
  }

  /**
   * Reserves units that are held, for a request that is about to spend them, or has to wait for so long for those of another
   * policy. Units that may be over by then are asked for with the others, once: the store may have none but those.
   */
  reserve(waitMs: number): void {
    const { units, nowMs } = this.ask;
    if (this.verdict !== "fits" || this.isAlone || this.grant?.kind === "granted") return;
    const lease = this.key?.held.take(units, this.wasAsked ? nowMs : nowMs + waitMs);
    if (lease !== undefined) this.grant = { kind: "granted", lease, units };
    else this.verdict = "unknown";
  }

  /** The request is refused: it does not spend what was granted. */
  release(): void {
    const { grant } = this;
    this.grant = null;
    if (grant?.kind !== "granted") return;
    const { store } = this.counters;
    store.release(grant.lease, grant.units);
    // The table has no room for them: others may have.
    if (!this.fitsLocally) store.endAll(grant.lease.key);
  }
}

export class StoreCounters {
  /** What this gateway has admitted. */
  readonly local: LocalCounters;
  readonly #policy: Policy;
  readonly store: Store;
  readonly #ofStore: StorePolicy;
  readonly #isByRequest: boolean;
  /** The charges that are neither given back nor kept yet, by what `charge` has returned: of the table, and of the store. */
  readonly #charges = new Map<number, { readonly local: number; readonly lease: Lease | null }>();
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
    this.store = store;
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

  /** Finds what is known of the key, and whether what was granted may still be spent. Returns the rules of the key. */
  #lookUp(shared: SharedAsk): CounterRules {
    const { key, limit, nowMs } = shared.ask;
    key.storeTag ||= storeTagOf(key);
    const rules = this.#rulesFor(key.storeTag, limit, nowMs);
    shared.key = this.#find(shared.ask, rules);
    if (shared.key?.replaceRules(rules)) this.store.endAll(shared.key);
    const { grant } = shared;
    const isOver = grant?.kind === "granted" && (nowMs >= grant.lease.endsMs || grant.lease.key !== shared.key);
    if (isOver) shared.release();
    if (grant?.kind === "spared" || this.#isRefusedInVain(shared)) shared.grant = null;
    return rules;
  }

  /** Whether the request was refused for units that this thread is about to return; then it asks once more. */
  #isRefusedInVain(shared: SharedAsk): boolean {
    const { grant, key, hasAskedAgain } = shared;
    const isInVain =
      grant?.kind === "refused" && !hasAskedAgain && !this.#isByRequest && key?.held.isReturning === true;
    if (isInVain) shared.hasAskedAgain = true;
    return isInVain;
  }

  /**
   * Answers by what is known, and charges nothing. The key must be selected and the table's locks held. A grant that cannot be
   * spent any more is released.
   */
  ask(shared: SharedAsk, nowMs: number): void {
    shared.ask.nowMs = nowMs;
    shared.verdict = this.#verdictOn(shared);
    shared.ask.fits = shared.verdict === "fits";
  }

  #verdictOn(shared: SharedAsk): StoreVerdict {
    const rules = this.#lookUp(shared);
    const { ask, grant, key: known } = shared;
    const { key, units, nowMs } = ask;
    shared.isAlone = false;
    // What is held may be spent while the store is away: the store counts it.
    const has = grant?.kind === "granted" || known?.held.has(units, nowMs) === true;
    const isRefused = grant?.kind === "refused" || known?.isRefused(nowMs) === true;
    const mayAsk = grant?.kind !== "alone" && this.store.mayAsk(known?.tag ?? key.storeTag, known);
    const isOpen = this.store.settings.onFailure === "open";
    if (!has && !mayAsk && (isOpen || !isRefused)) return this.#askAlone(shared);
    return this.#askTogether(shared, rules, { has, isRefused, canAsk: mayAsk && grant === null });
  }

  /** Decides by the table, and by what is known of all gateways. `has`: whether the units are there. */
  #askTogether(
    shared: SharedAsk,
    rules: CounterRules,
    { has, isRefused, canAsk }: Readonly<Record<"has" | "isRefused" | "canAsk", boolean>>,
  ): StoreVerdict {
    const { ask, grant, key: known } = shared;
    const { limit, units, nowMs } = ask;
    shared.fitsLocally = this.local.ask(ask, nowMs);
    shared.isNewcomer = shared.fitsLocally && ask.remaining + units >= limit;
    if (!shared.fitsLocally) {
      // What is held is there when the table has room.
      if (!has || rules.item !== "sliding") ask.resetMs = this.#resetInStore(shared, rules);
      return canAsk && !has && !shared.wasAsked && this.#mayRefuseForLonger(shared) ? "unknown" : "refused";
    }
    if (known === undefined) return canAsk ? "unknown" : "refused";
    this.#showLeft(ask, known, { has, isKept: grant?.kind === "granted", isRefused });
    if (has) return "fits";
    if (canAsk && !isRefused) return "unknown";
    if (grant === null) this.store.counts.refusedFromMemory += 1;
    return "refused";
  }

  /** Has the ask say what is left over all gateways. `has`: whether the units are there; `isKept`: for this request already. */
  #showLeft(
    ask: Ask,
    known: SharedKey,
    { has, isKept, isRefused }: Readonly<Record<"has" | "isKept" | "isRefused", boolean>>,
  ): void {
    const { units, nowMs } = ask;
    const { last, held, rules } = known;
    const free = last.free + held.free(nowMs);
    ask.remaining = has
      ? Math.min(ask.remaining, Math.max(0, isKept ? free : free - units))
      : Math.min(ask.remaining + units, free);
    const isFull = !has && (isRefused || nowMs < last.fitsMs);
    const fitsMs = Math.max(nowMs + 1, last.fitsMs);
    if (rules.item === "sliding") ask.resetMs = isFull ? fitsMs : last.resetMs > nowMs ? last.resetMs : ask.resetMs;
    else if (isFull) {
      ask.resetMs = this.#resetInStore({ ask, key: known }, rules);
      if (rules.item === "calendar" && this.#isByRequest) ask.resetMs = Math.min(ask.resetMs, fitsMs);
    }
  }

  /** Charges what fits. The locks must have been held since `ask`. Returns what `giveBack` needs. */
  charge(shared: SharedAsk): number {
    const { ask } = shared;
    const { units, nowMs } = ask;
    const local = shared.fitsLocally ? this.local.charge(ask) : noCharge;
    let lease: Lease | null = null;
    if (!shared.isAlone) {
      shared.reserve(0);
      if (shared.grant?.kind === "granted") lease = shared.grant.lease;
      if (lease !== null) this.store.spend(lease, units, nowMs);
    } else if (!this.#isByRequest && (shared.key !== undefined || shared.isLate))
      this.store.admittedAlone(shared.key ?? this.create(shared));
    shared.grant = null;
    if (!this.#isByRequest) return 0;
    this.#lastCharge += 1;
    this.#charges.set(this.#lastCharge, { local, lease });
    return this.#lastCharge;
  }

  peek(ask: Ask, nowMs: number): void {
    const { key, limit } = ask;
    this.local.peek(ask, nowMs);
    const known = this.#ofStore.keys.get(this.#ofStore.nameOf(key.storeTag || storeTagOf(key), limit));
    if (known === undefined || nowMs >= known.last.resetMs) return;
    const { last, held, rules } = known;
    ask.remaining = Math.min(ask.remaining, Math.max(0, last.free + held.free(nowMs)));
    if (rules.item === "sliding") ask.resetMs = Math.max(last.resetMs, last.refusedUntilMs);
  }

  giveBack(charged: Charged): void {
    this.#endCharge(charged, "giveBack");
  }

  keep(charged: Charged): void {
    this.#endCharge(charged, "keep");
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
    if (this.#ofStore.keysOf(network).length > 0) tags.push(network);
    for (const tag of tags) this.store.forgive(this.#ofStore, tag, this.#rulesFor(tag, limit, nowMs), seq);
  }

  /** Gives back what is held of all keys. */
  endLeases(): void {
    this.store.endLeases(this.#ofStore.keys.values());
  }

  /** Forgets what is known and held of a policy that is gone. */
  retire(): void {
    this.store.book.retire(this.#ofStore);
  }

  #endCharge(charged: Charged, how: "giveBack" | "keep"): void {
    const charge = this.#charges.get(charged.charged);
    if (charge === undefined) return;
    this.#charges.delete(charged.charged);
    if (!Number.isNaN(charge.local)) this.local[how]({ ...charged, charged: charge.local });
    if (charge.lease !== null) this.store[how](charge.lease);
    // The store was not told of the charge as long as it could be given back.
    else if (how === "keep") {
      const { key, client, limit } = charged;
      const nowMs = this.store.clock.monotonicMs();
      this.store.admittedAlone(this.#keyAt(key.storeTag || storeTagOf(key), key, client, limit, nowMs));
    }
  }

  /** Decides by what this gateway has admitted itself. */
  #askAlone(shared: SharedAsk): StoreVerdict {
    const { settings, replicas } = this.store;
    const { onFailure } = settings;
    const { ask } = shared;
    const { limit, units } = ask;
    shared.isAlone = true;
    shared.isLate = this.store.decidesAlone(ask.key.storeTag, shared.key);
    // At least one request, whatever it costs.
    if (onFailure === "local") ask.limit = Math.max(units, Math.floor(limit / replicas.value));
    shared.fitsLocally = this.local.ask(ask, ask.nowMs);
    ask.limit = limit;
    if (onFailure === "closed") return "unavailable";
    return shared.fitsLocally || onFailure === "open" ? "fits" : "refused";
  }

  /** Whether only the store can say how long a request waits that the table refuses: a reload has lowered the limit. */
  #mayRefuseForLonger({ ask, key }: SharedAsk): boolean {
    if (this.#policy.rate.kind !== "sliding" || ask.mayEndSoon) return false;
    return key === undefined || key.last.fitsMs <= ask.nowMs;
  }

  /** When a request fits that the table refuses. */
  #resetInStore({ ask, key }: Pick<SharedAsk, "ask" | "key">, { spendMs, windowUs }: CounterRules): number {
    const { mayEndSoon, resetMs, nowMs } = ask;
    if (mayEndSoon) return resetMs;
    // The store counts by a clock of its own, in a cluster by that of a shard.
    if (this.#periods !== null)
      return Math.max(resetMs, nowMs + this.#inPeriod("untilResetMs", ask.key.storeTag, nowMs)) + borderErrorMs;
    const fitsMs = key?.last.fitsMs ?? 0;
    // With its last unit, the store has said when there is room again; beside units that are held, only when to ask again.
    if (fitsMs > nowMs && !this.#isByRequest) return Math.max(resetMs, fitsMs);
    return Math.max(fitsMs, resetMs + spendMs + windowUs * clockError);
  }

  #find({ key, client, limit, nowMs }: Ask, rules: CounterRules): SharedKey | undefined {
    const own = this.#ofStore.find(key.storeTag, rules);
    if (own !== undefined || this.#ofStore.networks === 0) return own;
    const tag = networkTagOf(networkKey(client));
    const network = this.#ofStore.find(tag, this.#rulesFor(tag, limit, nowMs));
    return network === undefined || nowMs >= network.untold.knownUntilMs ? undefined : network;
  }

  /** Begins to ask for a key; for its network, if too many new keys are made. */
  create({ ask, isNewcomer }: SharedAsk): SharedKey {
    const { key, client, limit, nowMs } = ask;
    const { newKeys } = this.#ofStore;
    if (!isNewcomer || newKeys.hasRoom(nowMs)) return this.#keyAt(key.storeTag, key, client, limit, nowMs);
    const network = networkKey(client);
    const known = this.#keyAt(networkTagOf(network), network, network, limit, nowMs);
    known.untold.knownUntilMs = nowMs + longestCountMs(this.#policy);
    this.store.counts.coarse += 1;
    return known;
  }

  /** Returns what is known of a key, or begins to remember it. */
  #keyAt(tag: string, key: CounterKey, client: CounterKey, limit: number, nowMs: number): SharedKey {
    const rules = this.#rulesFor(tag, limit, nowMs);
    return this.#ofStore.find(tag, rules) ?? this.store.book.create(this.#ofStore, tag, key, client, rules);
  }

  #rulesFor(tag: string, limit: number, nowMs: number): CounterRules {
    const untilMs = this.#inPeriod("endMs", tag, nowMs);
    if (this.#rules.limit !== limit || this.#rules.untilUs !== untilMs * 1000) {
      const isByRequest = this.#isByRequest;
      this.#rules = counterRulesOf(this.#policy, { limit, isByRequest, untilMs }, this.store.settings);
    }
    return this.#rules;
  }

  /** Calendar: by the clock of the shard that has the key; else 0. */
  #inPeriod(what: "endMs" | "untilResetMs", tag: string, nowMs: number): number {
    if (this.#periods === null) return 0;
    const shard = this.store.shards.of(tag);
    return this.#periods[what](shard?.number ?? -1, shard?.watch.wallMs(nowMs) ?? null, nowMs);
  }
}

/** What the store calls a network that is counted as one. */
function networkTagOf(network: CounterKey): string {
  return `n${storeTagOf(network)}`;
}

/** What `charge` of the table returns where nothing was charged. */
const noCharge = Number.NaN;
