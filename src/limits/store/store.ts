// The counters of all gateways in one store, as one thread uses them. Units are asked for, spent from memory, reported
// and given back. What the store counts is never less than what was admitted, as long as it keeps what it acknowledged.
// What one turn of the event loop needs leaves together; how long a request waits is bounded.
import type { Clock } from "../../core/clock.ts";
import {
  type CallFailure,
  type SharedStoreFigures,
  type SharedStoreSettings,
  type StateChange,
  StoreCounts,
  type StoreIdentity,
  type StoreLink,
  type Timers,
  worstState,
} from "../../core/store-link.ts";
import { CallBatch, type Claim, type Conclusion } from "./call-batch.ts";
import type { CounterRules } from "./counter-rules.ts";
import { CreditBook, type KeyCredits, type Lease, type StorePolicy } from "./credits.ts";
import { Forgets } from "./forgets.ts";
import { isOfPeriod, leasesOf, StoreItems, secretTag, unspentOf } from "./items.ts";
import { ReplicaCount } from "./replica-count.ts";
import { HeldSlots, LeaseEndings, type OwnKey, ownKeys, type Renewal, sendAll, type Telling } from "./reports.ts";
import {
  type CounterAnswer,
  decodedOrNull,
  encodeCall,
  type Item,
  mostItems,
  mostReports,
  type ScriptAnswer,
  storeKeyOf,
  storeTagOf,
} from "./script-call.ts";
import { type Shard, ShardMap, type ShardStore } from "./shard.ts";
import { afterStoreTime, drift, elapsed, lateMs } from "./store-clock.ts";
import type { StoreOptions } from "./store-options.ts";

/** So long the telling waits until what was forgiven has been read: others tell it to a store that has forgotten. */
const mostReadingMs = 1_500;

/** How long `close` waits for the store to have heard of what is given back. */
const closingMs = 100;

/** An item that was sent for a batch. */
interface SentItem extends Telling {
  /** By which it was asked. */
  readonly rules: CounterRules;
  /** How often the key had been forgiven. */
  readonly forgiven: number;
  /** In which incident of the shard, and of how many requests, the store is told by this item; null: it is not told. */
  readonly told: { readonly incident: number; readonly alone: number } | null;
}

export class Store implements ShardStore {
  readonly settings: SharedStoreSettings;
  readonly link: StoreLink;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly counts = new StoreCounts();
  readonly items: StoreItems;
  readonly book: CreditBook;
  /** How many gateways share the store. */
  readonly replicas: ReplicaCount;
  readonly shards: ShardMap;
  readonly #options: StoreOptions;
  readonly #endings: LeaseEndings;
  readonly #slots: HeldSlots;
  readonly #forgets: Forgets;
  /** What leaves at the end of this turn: by shard, in a cluster by tag. Each batch is a call. */
  #batches = new Map<number | string, CallBatch>();
  /** Those that are full. */
  #full: CallBatch[] = [];
  /** Calls without an answer. */
  #open = 0;
  #onSettled: (() => void) | null = null;
  /** Gateways that hash keys with different secrets would share nothing, so it lives in the store. */
  #knowsSecret = false;

  constructor(options: StoreOptions) {
    const { link, clock, timers, settings, gateway, thread } = options;
    this.#options = options;
    this.settings = settings;
    this.link = link;
    this.clock = clock;
    this.timers = timers;
    this.replicas = new ReplicaCount(settings.replicas === "auto" ? null : settings.replicas);
    this.items = new StoreItems(settings, gateway, thread);
    this.book = new CreditBook(this, settings, this.counts.units, (credits) => this.endAll(credits));
    this.#endings = new LeaseEndings(this, (credits) => this.#join(credits));
    this.#slots = new HeldSlots(timers, (renewals) => this.#renew(renewals));
    this.shards = new ShardMap(this, options.onGone);
    this.#forgets = new Forgets(
      this,
      (tag) => this.shards.of(tag),
      (shard, items) => this.#sendAll(items.values(), 4, async (some) => (await this.#sent(shard, some)) !== null),
    );
  }

  /** Begins to connect. */
  open(): void {
    this.link.open();
  }

  /** Whether requests may wait for the shard of a tag. */
  mayAsk(tag: string, credits: KeyCredits | undefined): boolean {
    return this.shards.of(tag)?.state === "up" && credits?.isForeign(this.clock) !== true;
  }

  /**
   * Asks for units, for one request: on one server in one call, since what a request holds while it waits for another call is
   * missing to the others. Resolves with "answered" when every call has its answer; with "alone" if one has not in time, or if
   * there is nobody to ask. `sinceMs`: when the request asked for the first time; null if it does now.
   */
  ask(claims: readonly Claim[], sinceMs: number | null): Promise<Conclusion> {
    const batches = new Set<CallBatch>();
    let isAlone = false;
    for (const [i, claim] of claims.entries()) {
      const shard = this.shards.of(claim.credits.tag);
      // A network that is counted as one may be in a slot that nobody has.
      if (shard === undefined) isAlone = true;
      else batches.add(this.#add(shard, claim.credits, claim, claims.length - i));
    }
    for (const batch of batches) batch.waiting += 1;
    const [first] = batches;
    const concluded =
      first !== undefined && batches.size === 1 && !isAlone
        ? first.concluded
        : Promise.all(Array.from(batches, (batch) => batch.concluded)).then(
            (conclusions): Conclusion => (isAlone || conclusions.includes("alone") ? "alone" : "answered"),
          );
    if (sinceMs === null) return concluded;
    // The second wait has what the first one has left. If that was over when the answer was seen, the store has answered in
    // time, and this thread was late. The calls may wait for longer, because they were begun for others.
    const { waitMs } = this.settings;
    const leftMs = sinceMs + waitMs - this.clock.monotonicMs();
    const { promise: late, resolve } = Promise.withResolvers<Conclusion>();
    const timer = afterStoreTime(this, leftMs < -lateMs ? waitMs : Math.max(0, leftMs), () => resolve("alone"));
    return Promise.race([concluded, late]).finally(() => timer.cancel());
  }

  /** A request is decided without the store. Returns whether it is because an answer is late. */
  decidesAlone(tag: string, credits: KeyCredits | undefined): boolean {
    const { settings, counts, shards } = this;
    counts.alone[settings.onFailure] += 1;
    const state = shards.of(tag)?.state;
    const isLate = (state === "up" || state === "slow") && credits?.isForeign(this.clock) !== true;
    if (isLate) counts.late += 1;
    return isLate;
  }

  /** Spends units that are held. Returns the leases they are of. */
  spend(credits: KeyCredits, units: number, nowMs: number): readonly Lease[] {
    const leases = credits.spend(units, nowMs);
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
      lease.credits.giveBack(lease, this.clock.monotonicMs());
      this.#endings.add(lease.credits);
      if (lease.credits.reports === 1) this.#join(lease.credits);
    }
  }

  /** Returns everything that is held of a key. */
  endAll(credits: KeyCredits): void {
    credits.endAll();
    if (credits.reports === 0) return;
    this.#endings.add(credits);
    this.#join(credits);
  }

  /** The same of many keys: calls report it, a part of them at a time. */
  endLeases(of: Iterable<KeyCredits>): void {
    for (const credits of of) {
      if (credits.openLeases === 0) continue;
      credits.endAll();
      this.#endings.add(credits);
    }
  }

  /**
   * Forgets what this thread knows of a key whose counts were forgiven, and has the store forget them. `seq`: the place of
   * that in the log; 0: the store is not told.
   */
  forgive(policy: StorePolicy, tag: string, { untilUs }: CounterRules, seq: number): void {
    for (const credits of policy.creditsOf(tag)) {
      this.endAll(credits);
      credits.forgive();
    }
    if (seq === 0) return;
    this.#forgets.add(tag, this.items.forgetting(policy, tag, untilUs, seq), policy.longestCountMs);
  }

  /** This thread has forgotten all that was forgiven up to a place in the log. */
  forgivenUntil(place: number): void {
    this.items.forgivenUntil = Math.max(place, this.items.forgivenUntil);
  }

  /** Units of leases that were made for one request stay spent. */
  keep(leases: readonly Lease[]): void {
    for (const lease of leases) {
      const { credits } = lease;
      credits.keep(lease, this.shards.of(credits.tag)?.incident === lease.incident);
      this.#endings.add(credits);
    }
  }

  figures(): SharedStoreFigures {
    const shards = this.shards.states();
    const { granted, spent, returned } = this.counts.units;
    const held = { heldUnits: granted - spent - returned, heldLeases: this.#endings.openLeases };
    return { ...this.counts, ...held, state: worstState(shards), shards, replicas: this.replicas.value };
  }

  /** Gives back what is held and says good-bye, then closes the connections. */
  async close(): Promise<void> {
    for (const credits of this.book.all()) this.endAll(credits);
    this.shards.leave();
    if (this.shards.states().up > 0) await Promise.race([this.#settled(), elapsed(this.timers, closingMs)]);
    this.book.close();
    this.#endings.close();
    this.#slots.close();
    this.#forgets.close();
    this.shards.close();
    await this.link.close();
  }

  /** Sends items at once, for which no request waits. */
  send(shard: Shard, items: readonly Item[], answered: (answer: ScriptAnswer | null) => void): void {
    const late = this.#call(shard, items, (answer) => {
      timer.cancel();
      answered(answer);
    });
    const timer = afterStoreTime(this, this.settings.waitMs, late);
  }

  /** Adds a counter to the next call that has room for so many. `claim`: null if no request waits. */
  #add(shard: Shard, credits: KeyCredits, claim: Claim | null, room: number): CallBatch {
    const callOf = this.link.isClustered ? credits.tag : shard.number;
    let batch = this.#batches.get(callOf);
    if (!batch?.hasRoom(credits, room)) {
      if (this.#batches.size + this.#full.length === 0) this.timers.endOfTurn(() => this.#flush());
      if (batch !== undefined) this.#full.push(batch);
      batch = new CallBatch(shard, this.clock.monotonicMs());
      this.#batches.set(callOf, batch);
    }
    batch.add(credits, claim);
    return batch;
  }

  #flush(): void {
    const batches = [...this.#full, ...this.#batches.values()];
    // A map that is cleared refers to what it holds next. Once it is old garbage, it keeps all requests behind it from
    // being collected while they are young, so each flush leaves a map of its own behind.
    this.#batches = new Map();
    this.#full = [];
    for (const batch of batches) {
      if (batch.shard.state === "up") this.#sendBatch(batch);
      else this.#conclude(batch, "alone");
    }
  }

  #sendBatch(batch: CallBatch): void {
    const { shard } = batch;
    const nowMs = this.clock.monotonicMs();
    let reports = mostItems * mostReports;
    const sent = batch.items.map(({ credits, needed }) => {
      const item = this.#prepare(shard, credits, needed, reports, nowMs);
      reports -= item.reports.length;
      credits.inFlight += 1;
      if (credits.reports > 0) this.#join(credits);
      return item;
    });
    const items = sent.map(({ item }) => item);
    const late = this.#call(shard, items, (answer, sentMs) => {
      for (const [i, each] of sent.entries()) {
        each.credits.inFlight -= 1;
        const of = answer?.items[i];
        if (of?.item === "counter") {
          this.#answered(each, of, sentMs, shard);
          batch.granted(i, of.granted);
        } else this.#reportAgain(each);
      }
      if (answer !== null) this.counts.waited.answered += batch.waiting;
      this.#conclude(batch, answer === null ? "alone" : "answered");
    });
    // From now on, because this thread may have been long about sending it.
    batch.timer = afterStoreTime(this, this.settings.waitMs, () => {
      late();
      this.counts.waited.overdue += batch.waiting;
      this.#conclude(batch, "alone");
    });
  }

  #conclude(batch: CallBatch, conclusion: Conclusion): void {
    const waitedMs = this.clock.monotonicMs() - batch.sinceMs;
    for (let i = batch.waiting; i > 0; i -= 1) this.#options.onWaited(waitedMs / 1000);
    batch.conclude(conclusion);
  }

  /** `answered` is called later: null if there is no answer. Returns what says that the answer is overdue, if it is. */
  #call(
    shard: Shard,
    items: readonly Item[],
    answered: (answer: ScriptAnswer | null, sentMs: number) => void,
  ): () => void {
    const { keys, args } = encodeCall(items);
    const sentMs = this.clock.monotonicMs();
    this.counts.items += items.length;
    this.#open += 1;
    let isOpen = true;
    let isOverdue = false;
    this.link.call(shard.number, keys, args, (reply, failure) => {
      isOpen = false;
      if (isOverdue) shard.owed -= 1;
      this.#open -= 1;
      const answer = failure === null ? decodedOrNull(reply, items) : null;
      if (answer === null) this.#failed(shard, failure);
      else {
        this.counts.calls[isOverdue ? "late" : "answered"] += 1;
        this.#options.onAnswered((this.clock.monotonicMs() - sentMs) / 1000);
        shard.answered();
        shard.observe(sentMs, answer.timeUs);
      }
      answered(answer, sentMs);
      // One call may fail without the shard being lost.
      if (shard.owed === 0) shard.caughtUp();
      if (answer !== null && this.#isIdle) this.#onSettled?.();
    });
    return () => {
      if (!isOpen || isOverdue) return;
      isOverdue = true;
      shard.owed += 1;
      shard.overdue();
    };
  }

  #failed(shard: Shard, failure: CallFailure | null): void {
    const { kind, detail } = failure ?? { kind: "failed", detail: "an answer that is not the script's" };
    this.counts.calls[kind] += 1;
    shard.failed({ kind, detail });
  }

  /** Resolves when every call has its answer; never if one fails. */
  #settled(): Promise<void> {
    if (this.#isIdle) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onSettled = resolve;
    });
  }

  get #isIdle(): boolean {
    return this.#open + this.#batches.size + this.#full.length === 0;
  }

  #prepare(shard: Shard, credits: KeyCredits, needed: number, most: number, nowMs: number): SentItem {
    const { policy, key, client, admittedAlone: alone } = credits;
    credits.endLeases(nowMs);
    const isTold = shard.incident === 0 || credits.toldIncident === shard.incident;
    const reports = credits.takeReports(most, nowMs);
    const isOwed = alone !== credits.toldAlone || (!isTold && credits.countsSince(shard.toldMs, nowMs));
    // What is told before it is reported counts twice.
    const mustTell = isOwed && credits.reports === 0;
    const own = mustTell ? policy.source.own(key, client, nowMs) : null;
    // What a call that is under way is granted may be taken for what is told.
    const isCertain = mustTell && credits.inFlight === 0 && (own === null || isOfPeriod(own, credits));
    return {
      ...{ credits, reports, rules: credits.rules, forgiven: credits.forgiven },
      item: this.items.asking(credits, Math.ceil(needed / credits.rules.step), reports, own, nowMs),
      told: isCertain ? { incident: shard.incident, alone } : null,
    };
  }

  #answered(
    { credits, item, rules, told, forgiven }: SentItem,
    answer: CounterAnswer,
    sentMs: number,
    shard: Shard,
  ): void {
    const nowMs = this.clock.monotonicMs();
    if (!answer.isInPeriod) {
      credits.toldAlone = credits.admittedAlone;
      credits.policy.source.periodOver(this.link.shardOf(credits.tag), item.untilUs / 1000, nowMs);
      return;
    }
    if (answer.isForeign) {
      this.counts.calls.failed += 1;
      credits.foundForeign(nowMs);
      return;
    }
    // What was asked before it was forgiven, the store has forgotten.
    const isOld = forgiven !== credits.forgiven;
    if (answer.isVoid) this.#tellOnceRead(credits);
    else if (told !== null && !isOld) {
      credits.isToldVoid = false;
      credits.toldIncident = told.incident;
      credits.knownUntilMs = nowMs + credits.policy.longestCountMs;
      // Not those that were admitted while the answer was overdue.
      credits.toldAlone = told.alone;
    }
    if (answer.isNew && item.asked + item.ahead > 0) credits.policy.newKeys.add(nowMs);
    // A reload may have changed the policy since it was asked for.
    const isInForce = credits.isBy(rules);
    if (!isOld) {
      credits.free = answer.free;
      credits.resetMs = answer.resetUs < 0 ? nowMs : nowMs + answer.resetUs / 1000;
    }
    if (answer.granted > 0) {
      this.counts.units.granted += answer.granted;
      const isUsable = shard.state !== "returned" && isInForce && !isOld;
      const endsMs = isUsable ? sentMs + credits.rules.spendMs / (1 + drift) : nowMs;
      for (const { id, granted } of leasesOf(item, answer.askedGranted, answer.granted))
        credits.add({ id, credits, granted, left: granted, spentMs: nowMs, endsMs, incident: shard.incident });
      this.#endings.add(credits);
    }
    if (isInForce && !isOld) credits.answered(answer, item.asked * item.step, sentMs, nowMs);
  }

  /** Asks for more before what is held is spent. */
  #leaseAhead(credits: KeyCredits, nowMs: number): void {
    if (nowMs < credits.refusedUntilMs || !credits.isShort(nowMs) || !this.mayAsk(credits.tag, credits)) return;
    this.#join(credits);
    // It is asked for, until the call leaves.
    credits.inFlight += 1;
    this.timers.endOfTurn(() => {
      credits.inFlight -= 1;
    });
  }

  /** Lets the next call report the leases of a key that have ended. */
  #join(credits: KeyCredits): void {
    const shard = this.shards.of(credits.tag);
    if (shard !== undefined && this.mayAsk(credits.tag, credits)) this.#add(shard, credits, null, 1);
  }

  /**
   * Tells a shard that was away or has forgotten what this gateway has admitted: each key of the table that the shard may not
   * know. `all`: before it was away, too, and what it has granted may be lost.
   */
  tell(shard: Shard, all: boolean, told: () => void): void {
    const { incident } = shard;
    if (all) this.#dropLeases(shard);
    // What was forgiven meanwhile must not be told.
    void this.#readForgiven()
      .then(() => this.#forgets.tellAll(shard))
      // If the shard is lost again, there will be another telling.
      .then(
        () =>
          shard.incident === incident &&
          this.#sendAll(this.#tellings(shard, all), 4, (some) => this.#sendTellings(shard, incident, some)),
      )
      .then((isTold) => isTold && told());
  }

  async #sendTellings(shard: Shard, incident: number, tellings: readonly Telling[]): Promise<boolean> {
    const answer = await this.#sent(
      shard,
      tellings.map(({ item }) => item),
    );
    for (const [i, telling] of tellings.entries()) {
      const { credits } = telling;
      const of = answer?.items[i];
      if (of === undefined) this.#reportAgain(telling);
      if (of?.item !== "counter" || !of.isVoid) continue;
      // It is told when it is asked for.
      credits.toldIncident = -1;
      this.#tellOnceRead(credits);
    }
    return answer !== null && shard.incident === incident;
  }

  /** Resolves with the answer to items for which no request waits; with null if there is none. */
  #sent(shard: Shard, items: readonly Item[]): Promise<ScriptAnswer | null> {
    return new Promise((resolve) => this.send(shard, items, resolve));
  }

  /** Others have forgiven a key of which this thread has not heard yet. */
  #tellOnceRead(credits: KeyCredits): void {
    if (credits.isToldVoid) return;
    credits.isToldVoid = true;
    void this.#readForgiven().then(() => {
      credits.isToldVoid = false;
      if (credits.owes) this.#join(credits);
    });
  }

  /** Nothing waits for it for long: the script does not count what is told too early. */
  #readForgiven(): Promise<unknown> {
    const { readForgiven } = this.#options;
    if (readForgiven === undefined) return Promise.resolve();
    return Promise.race([readForgiven(), elapsed(this.timers, mostReadingMs)]);
  }

  *#tellings(shard: Shard, all: boolean): Generator<Telling | null> {
    const { incident, leftMs } = shard;
    const bySlot = new Map(Array.from(this.book.policies, (policy) => [policy.source.slot, policy]));
    const nowMs = (): number => this.clock.monotonicMs();
    for (const own of ownKeys(this.#options.table, (slot) => bySlot.get(slot), nowMs)) {
      if (own === null) yield null;
      else if ((all || nowMs() - own.ageMs >= leftMs) && this.shards.of(storeTagOf(own.key)) === shard)
        yield this.#tellingOf(own, incident);
    }
  }

  /** In a cluster, each call is about one key. */
  #sendAll<T>(
    items: Iterator<T | null, unknown>,
    mostCalls: number,
    send: (items: readonly T[]) => Promise<boolean>,
  ): Promise<boolean> {
    const bounds = { mostItems: this.link.isClustered ? 1 : mostItems, mostCalls };
    return sendAll(items, bounds, send, (run) => this.timers.endOfTurn(run));
  }

  #tellingOf(own: OwnKey, incident: number): Telling {
    const { policy, key } = own;
    const tag = storeTagOf(key);
    const nowMs = this.clock.monotonicMs();
    const rules = policy.source.rules(tag, nowMs);
    const credits = policy.find(tag, rules) ?? this.book.create(policy, tag, key, key, rules);
    const reports = credits.takeReports(mostReports, nowMs);
    credits.knownUntilMs = nowMs + policy.longestCountMs;
    // It is told later.
    if (credits.reports > 0) return { credits, reports, item: this.items.reporting({ credits, reports }) };
    credits.toldIncident = incident;
    credits.toldAlone = credits.admittedAlone;
    return { credits, reports, item: this.items.telling(credits, reports, own) };
  }

  /** An item has no answer: what it reported is reported again, and what it may have been granted is given back. */
  #reportAgain({ credits, item, reports }: Telling): void {
    credits.reportAgain([...reports, ...unspentOf(item, this.clock.monotonicMs())]);
    if (credits.reports > 0) this.#endings.add(credits);
  }

  /** In a cluster, a call is short, so that several are under way; else there is one shard. */
  #renew(renewals: Generator<Renewal, undefined>): Promise<unknown> {
    return this.#sendAll(renewals, this.link.isClustered ? 16 : 1, async (together) => {
      const shard = together[0] && this.shards.of(together[0].credits.tag);
      if (shard?.state === "up") await this.#sent(shard, together.map(this.items.reporting, this.items));
      return true;
    });
  }

  seen(gateways: number): void {
    this.replicas.seen(gateways, this.clock.monotonicMs());
  }

  changed(change: StateChange): void {
    this.#options.onChange(change);
    this.shards.changed();
  }

  identified(shard: number, identity: StoreIdentity): void {
    this.#options.onIdentity(shard, identity);
  }

  readSecret(done: () => void): void {
    const shard = this.shards.of(secretTag);
    if (this.#knowsSecret || shard === undefined) {
      done();
      return;
    }
    const { secret, onSecret } = this.#options;
    const proposed = Buffer.from(secret).toString("hex");
    this.send(
      shard,
      [{ item: "secret", key: storeKeyOf(this.settings.prefix, secretTag, "secret"), proposed }],
      (answer) => {
        const first = answer?.items[0];
        if (first?.item !== "secret") return;
        this.#knowsSecret = true;
        onSecret(Uint8Array.from(Buffer.from(first.value, "hex")));
        done();
      },
    );
  }

  /** What the store has granted may be lost. */
  #dropLeases(shard: Shard): void {
    for (const credits of this.book.all()) {
      if (this.shards.of(credits.tag) !== shard) continue;
      credits.endAll();
      credits.refusedUntilMs = 0;
    }
  }
}
