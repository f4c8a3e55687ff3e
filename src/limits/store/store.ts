// The counters of all gateways in one store, as one thread uses them. Units are asked for, spent from memory, reported
// and given back. What the store counts is never less than what was admitted, as long as it keeps what it acknowledged.
import type { Clock } from "../../core/clock.ts";
import {
  type SharedStoreFigures,
  type SharedStoreSettings,
  type StateChange,
  type StoreIdentity,
  type StoreLink,
  type Timers,
  worstState,
} from "../../core/store-link.ts";
import type { CounterTable } from "../table/counter-table.ts";
import { type Conclusion, Question, type SentItem, StoreCalls } from "./calls.ts";
import type { KeyCredits, Lease } from "./credits.ts";
import { isOfPeriod, StoreCounts, StoreItems, secretTag } from "./items.ts";
import { HeldSlots, LeaseEndings, type Renewal } from "./leases.ts";
import { type CounterAnswer, type CounterItem, mostItems, mostReports, storeTagOf } from "./script-call.ts";
import { type Shard, ShardMap } from "./shard.ts";
import { drift, lateMs, TwoIntervals } from "./store-clock.ts";
import { CreditBook } from "./store-policy.ts";
import { type OwnKey, ownKeys, tell } from "./telling.ts";

interface StoreOptions {
  readonly link: StoreLink;
  readonly settings: SharedStoreSettings;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly table: CounterTable;
  /** Random characters: `gatewayLength` for this start of the process, `threadLength` for this thread. */
  readonly gateway: string;
  readonly thread: string;
  /** 16 bytes that hash keys, if the store has none yet. */
  readonly secret: Uint8Array;
  /** The secret that all gateways use. Called before the store is asked for a counter. */
  onSecret(secret: Uint8Array): void;
  onChange(change: StateChange): void;
  onGone(shard: number): void;
  onIdentity(shard: number, identity: StoreIdentity): void;
  /** A call was answered. */
  onAnswered(seconds: number): void;
  /** A request has waited so long. */
  onWaited(seconds: number): void;
}

/** Units of a key that a request waits for. */
export interface Wanted {
  readonly credits: KeyCredits;
  readonly units: number;
}

/** How long `close` waits for the store to have heard of what is given back. */
const closingMs = 100;

export class Store {
  readonly settings: SharedStoreSettings;
  readonly counts = new StoreCounts();
  readonly book: CreditBook;
  /** How many gateways share the store. */
  readonly replicas: ReplicaCount;
  readonly #options: StoreOptions;
  readonly #items: StoreItems;
  readonly #calls: StoreCalls;
  readonly shards: ShardMap;
  readonly #endings: LeaseEndings;
  readonly #slots: HeldSlots;
  /** Gateways that hash keys with different secrets would share nothing, so it lives in the store. */
  #knowsSecret = false;

  constructor(options: StoreOptions) {
    const { link, clock, timers, settings, gateway, thread } = options;
    this.#options = options;
    this.settings = settings;
    this.replicas = new ReplicaCount(settings.replicas === "auto" ? null : settings.replicas);
    this.#items = new StoreItems(settings, gateway, thread);
    this.book = new CreditBook(clock, this.#items, settings.maxKeys, (credits) => this.endAll(credits));
    this.#calls = new StoreCalls({
      ...{ link, clock, timers, counts: this.counts, waitMs: settings.waitMs },
      prepare: (shard, credits, needed, nowMs) => this.#prepare(shard, credits, needed, nowMs),
      answered: (sent, answer, sentMs, isUsable) => this.#answered(sent, answer, sentMs, isUsable),
      ...{ onAnswered: options.onAnswered, onWaited: options.onWaited },
    });
    this.#endings = new LeaseEndings(
      options,
      (credits) => this.#join(credits),
      (units) => {
        this.counts.units.returned += units;
      },
    );
    this.#slots = new HeldSlots(timers, link.isClustered, this.#renew.bind(this));
    const send = this.#calls.send.bind(this.#calls);
    this.shards = new ShardMap({
      ...{ link, clock, timers, counts: this.counts, items: this.#items },
      send,
      readSecret: (done) => this.#readSecret(done),
      tell: this.#tell.bind(this),
      dropLeases: (shard) => this.#dropLeases(shard),
      seen: (gateways) => this.replicas.seen(gateways, clock.monotonicMs()),
      ...{ onChange: options.onChange, onGone: options.onGone, onIdentity: options.onIdentity },
    });
  }

  /** Begins to connect. */
  open(): void {
    this.#options.link.open();
  }

  /** Whether requests may wait for the shard of a tag. */
  mayAsk(tag: string, credits: KeyCredits | undefined): boolean {
    return this.shards.of(tag)?.state.state === "up" && credits?.isForeign(this.#options.clock) !== true;
  }

  /**
   * Asks for units, for one request. Resolves with "answered" when every call has its answer; with "alone" if one has not in
   * time, or if there is nobody to ask. `sinceMs`: when the request asked for the first time; null if it does now.
   */
  ask(wanted: readonly Wanted[], sinceMs: number | null): Promise<Conclusion> {
    const { clock, timers } = this.#options;
    return new Promise((resolve) => {
      const question = new Question(resolve);
      for (const { credits, units } of wanted) {
        const shard = this.shards.of(credits.tag);
        // A network that is counted as one may be in a slot that nobody has.
        if (shard === undefined) question.nobodyAnswers(timers);
        else this.#calls.add(shard, credits, units, question);
      }
      if (sinceMs === null) return;
      // The second wait has what the first one has left. If that was over when the answer was seen, the store has answered in
      // time, and this thread was late.
      const { waitMs } = this.settings;
      const leftMs = sinceMs + waitMs - clock.monotonicMs();
      question.endAfter(leftMs < -lateMs ? waitMs : Math.max(0, leftMs), this.#options);
    });
  }

  /** A request is decided without the store. Returns whether it is because an answer is late. */
  decidesAlone(tag: string, credits: KeyCredits | undefined): boolean {
    const { settings, counts, shards } = this;
    counts.alone[settings.onFailure] += 1;
    const state = shards.of(tag)?.state.state;
    const isLate = (state === "up" || state === "slow") && credits?.isForeign(this.#options.clock) !== true;
    if (isLate) counts.late += 1;
    return isLate;
  }

  /** Spends units that are held. Returns the leases they are of. */
  spend(credits: KeyCredits, units: number, nowMs: number): readonly Lease[] {
    const leases = credits.spend(units, nowMs);
    this.counts.units.spent += units;
    const { rules } = credits;
    if (rules.item === "concurrency") for (const lease of leases) this.#slots.add(lease);
    if (rules.isAhead && credits.inFlight === 0) this.#leaseAhead(credits, nowMs);
    return leases;
  }

  /** The store is told as soon as it answers, because other gateways may ask it next. */
  admittedAlone(credits: KeyCredits): void {
    credits.admittedAlone += 1;
    this.#endings.add(credits);
  }

  /** Units of leases that were made for one request are not needed any more. */
  giveBack(leases: readonly Lease[]): void {
    for (const lease of leases) {
      this.#slots.delete(lease);
      lease.credits.giveBack(lease);
      this.counts.units.returned += lease.granted;
      this.#endings.add(lease.credits);
      // The others are reported by the same item.
      if (lease.credits.reports % mostReports === 1) this.#join(lease.credits);
    }
  }

  /** Returns everything that is held of a key. */
  endAll(credits: KeyCredits): void {
    this.counts.units.returned += credits.endAll();
    if (credits.reports === 0) return;
    this.#endings.add(credits);
    this.#join(credits);
  }

  /** The same of many keys: calls report it, a part of them at a time. */
  endLeases(of: Iterable<KeyCredits>): void {
    for (const credits of of) {
      if (credits.openLeases === 0) continue;
      this.counts.units.returned += credits.endAll();
      this.#endings.add(credits);
    }
  }

  /** Units of leases that were made for one request stay spent. */
  keep(leases: readonly Lease[]): void {
    for (const lease of leases) {
      lease.credits.keep(lease);
      this.#endings.add(lease.credits);
    }
  }

  figures(): SharedStoreFigures {
    const shards = this.shards.states();
    const { units: heldUnits, leases: heldLeases } = this.#endings.held();
    const state = worstState(shards);
    return { ...this.counts, state, shards, replicas: this.replicas.value, heldUnits, heldLeases };
  }

  /** Gives back what is held and says good-bye, then closes the connections. */
  async close(): Promise<void> {
    const { timers, link } = this.#options;
    for (const credits of this.book.all()) this.endAll(credits);
    this.shards.leave();
    if (this.shards.states().up > 0) {
      const late = new Promise<void>((resolve) => timers.after(closingMs, resolve));
      await Promise.race([this.#calls.settled(), late]);
    }
    this.#endings.close();
    this.#slots.close();
    this.shards.close();
    await link.close();
  }

  #prepare(shard: Shard, credits: KeyCredits, needed: number, nowMs: number): SentItem {
    const { policy, key, client } = credits;
    const { incident } = shard.state;
    const { admittedAlone: alone } = credits;
    this.counts.units.returned += credits.endLeases(nowMs);
    const isTold = incident === 0 || credits.toldIncident === incident;
    const mustTell = alone !== credits.toldAlone || (!isTold && credits.countsSince(shard.state.toldMs, nowMs));
    const own = mustTell ? policy.own(key, client, nowMs) : null;
    // What a call that is under way is granted may be taken for what is told.
    const isCertain = mustTell && credits.inFlight === 0 && (own === null || isOfPeriod(own, credits));
    return {
      ...{ credits, rules: credits.rules },
      item: this.#items.asking(credits, needed, own, nowMs),
      told: isCertain ? { incident, alone } : null,
    };
  }

  #answered({ credits, item, rules, told }: SentItem, answer: CounterAnswer, sentMs: number, isUsable: boolean): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (!answer.isInPeriod) {
      credits.toldAlone = credits.admittedAlone;
      credits.policy.periodOver(this.#options.link.shardOf(credits.tag), item.untilUs / 1000, nowMs);
      return;
    }
    if (answer.isForeign) {
      this.counts.calls.failed += 1;
      credits.foundForeign(nowMs);
      return;
    }
    if (told !== null) {
      credits.toldIncident = told.incident;
      // Not those that were admitted while the answer was overdue.
      credits.toldAlone = told.alone;
    }
    if (answer.isNew && item.wanted > 0) credits.policy.newKeys.add(nowMs);
    // A reload may have changed the policy since it was asked for.
    const isInForce = credits.isBy(rules);
    credits.free = answer.free;
    credits.resetMs = answer.resetUs < 0 ? nowMs : nowMs + answer.resetUs / 1000;
    if (answer.granted > 0) {
      this.counts.units.granted += answer.granted;
      const endsMs = isUsable && isInForce ? sentMs + credits.rules.spendMs / (1 + drift) : nowMs;
      credits.add({ id: item.id, credits, granted: answer.granted, left: answer.granted, spentMs: nowMs, endsMs });
      this.#endings.add(credits);
    }
    if (isInForce) credits.answered(answer, item.needed, sentMs, nowMs);
  }

  /** Asks for more before what is held is spent. */
  #leaseAhead(credits: KeyCredits, nowMs: number): void {
    if (nowMs < credits.refusedUntilMs || !credits.isShort(nowMs) || !this.mayAsk(credits.tag, credits)) return;
    this.#join(credits);
    // It is asked for, until the call leaves.
    credits.inFlight += 1;
    this.#options.timers.endOfTurn(() => {
      credits.inFlight -= 1;
    });
  }

  /** Lets the next call report the leases of a key that have ended. */
  #join(credits: KeyCredits): void {
    const shard = this.shards.of(credits.tag);
    if (shard !== undefined && this.mayAsk(credits.tag, credits)) this.#calls.add(shard, credits, 0, null);
  }

  /**
   * Tells a shard that was away or has forgotten what this gateway has admitted: each key of the table that the shard may not
   * know. `all`: before it was away, too.
   */
  #tell(shard: Shard, all: boolean, told: () => void): void {
    const { link, clock, timers, table } = this.#options;
    const { incident, leftMs } = shard.state;
    const sinceMs = all ? Number.NEGATIVE_INFINITY : leftMs;
    const bySlot = new Map(Array.from(this.book.policies, (policy) => [policy.slot, policy]));
    tell({
      keys: ownKeys(
        table,
        (slot) => bySlot.get(slot),
        () => clock.monotonicMs(),
      ),
      mostItems: link.isClustered ? 1 : mostItems,
      itemOf: (own) => {
        const isNew = clock.monotonicMs() - own.ageMs >= sinceMs;
        return isNew && this.shards.of(storeTagOf(own.key)) === shard ? this.#tellingOf(own, incident) : null;
      },
      send: (items, answered) =>
        // If the shard is lost again, there will be another telling.
        this.#calls.send(shard, items, (answer) => answered(shard.state.incident === incident ? answer : null)),
      later: timers.endOfTurn.bind(timers),
      told,
    });
  }

  #tellingOf(own: OwnKey, incident: number): CounterItem {
    const { policy, key } = own;
    const tag = storeTagOf(key);
    const nowMs = this.#options.clock.monotonicMs();
    const rules = policy.rules(tag, nowMs);
    const credits = policy.find(tag, rules) ?? this.book.create(policy, tag, key, key, rules);
    credits.toldIncident = incident;
    credits.toldAlone = credits.admittedAlone;
    return this.#items.telling(credits, own, nowMs);
  }

  /** In a cluster, of one key: else there is one shard. */
  #renew(renewals: readonly Renewal[], done: () => void): boolean {
    const shard = renewals[0] && this.shards.of(renewals[0].credits.tag);
    if (shard === undefined || shard.state.state !== "up") return false;
    this.#calls.send(shard, renewals.map(this.#items.reporting, this.#items), done);
    return true;
  }

  #readSecret(done: () => void): void {
    const shard = this.shards.of(secretTag);
    if (this.#knowsSecret || shard === undefined) {
      done();
      return;
    }
    const { secret, onSecret } = this.#options;
    const proposed = Buffer.from(secret).toString("hex");
    this.#calls.send(shard, [{ item: "secret", key: this.#items.key(secretTag, "secret"), proposed }], (answer) => {
      const first = answer?.items[0];
      if (first?.item !== "secret") return;
      this.#knowsSecret = true;
      onSecret(Uint8Array.from(Buffer.from(first.value, "hex")));
      done();
    });
  }

  /** What the store has granted may be lost. */
  #dropLeases(shard: Shard): void {
    for (const credits of this.book.all()) {
      if (this.shards.of(credits.tag) !== shard) continue;
      this.counts.units.returned += credits.endAll();
      credits.refusedUntilMs = 0;
    }
  }
}

/** By then every gateway has found back. Time without an answer does not count. */
export const memoryMs = 10_000;

/**
 * How many gateways share the store: the largest number that was seen lately. After an absence of the store its list is
 * empty, until the gateways have come back one after the other.
 */
export class ReplicaCount {
  readonly #fixed: number | null;
  readonly #largest = new TwoIntervals(memoryMs, false);

  /** `fixed`: null if they are counted. */
  constructor(fixed: number | null) {
    this.#fixed = fixed;
  }

  get value(): number {
    return this.#fixed ?? Math.max(1, this.#largest.before, this.#largest.current);
  }

  seen(gateways: number, nowMs: number): void {
    this.#largest.turn(nowMs);
    this.#largest.current = Math.max(this.#largest.current, gateways);
  }
}
