// The counters of all gateways in one store, as one thread uses them. Units are asked for, spent from memory, reported
// and given back. What the store counts is never less than what was admitted, as long as it keeps what it acknowledged.
// All that one turn of the event loop asks leaves together, and the wait of a request is bounded.
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
import { type BatchCounter, CallBatch, Demand, type Grant, type SentCounter, type Want } from "./call-batch.ts";
import type { CounterRules } from "./counter-rules.ts";
import { Forgets } from "./forgets.ts";
import { isOfPeriod, StoreItems, secretTag } from "./items.ts";
import { KeyBook } from "./key-book.ts";
import { ReplicaCount } from "./replica-count.ts";
import { HeldSlots, LeaseEndings, type Renewal, sendAll } from "./reports.ts";
import {
  type CounterAnswer,
  decodedOrNull,
  type EqualRequests,
  encodeCall,
  type Item,
  leaseIdOf,
  mostItems,
  mostReports,
  type ScriptAnswer,
  storeKeyOf,
} from "./script-call.ts";
import { type Shard, ShardMap, type ShardStore } from "./shard.ts";
import type { Lease, OwnReport, SharedKey, StorePolicy } from "./shared-key.ts";
import { afterStoreTime, drift, elapsed, lateMs } from "./store-clock.ts";
import type { StoreOptions } from "./store-options.ts";
import { Tellings } from "./telling.ts";

/** How long `close` waits for the answers to what it returns. */
const closingMs = 100;

export class Store implements ShardStore {
  readonly settings: SharedStoreSettings;
  readonly link: StoreLink;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly counts = new StoreCounts();
  readonly items: StoreItems;
  readonly book: KeyBook;
  /** How many gateways share the store. */
  readonly replicas: ReplicaCount;
  readonly shards: ShardMap;
  readonly #options: StoreOptions;
  readonly #endings: LeaseEndings;
  readonly #slots: HeldSlots;
  readonly #forgets: Forgets;
  readonly #tellings: Tellings;
  /** The calls that leave at the end of this turn, by shard, in a cluster by tag. All but the last one of each are full. */
  #batches = new Map<number | string, readonly CallBatch[]>();
  /** Calls without an answer. */
  #open = 0;
  #onAllAnswered: (() => void) | null = null;
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
    this.book = new KeyBook(this, settings, this.counts.units, (key) => this.endAll(key));
    this.#endings = new LeaseEndings(this, (key) => this.join(key));
    this.#slots = new HeldSlots(timers, (renewals) => this.#renew(renewals));
    this.shards = new ShardMap(this, options.onGone);
    this.#forgets = new Forgets(
      this,
      (tag) => this.shards.of(tag),
      (shard, items) => this.sendAll(items.values(), 4, async (some) => (await this.sent(shard, some)) !== null),
    );
    this.#tellings = new Tellings(this, this.#forgets, options);
  }

  /** Begins to connect. */
  open(): void {
    this.link.open();
  }

  /** Whether requests may wait for the shard of a tag. */
  mayAsk(tag: string, key: SharedKey | undefined): boolean {
    return this.shards.of(tag)?.state === "up" && key?.isForeign(this.clock) !== true;
  }

  /**
   * Asks for all that one request wants, which is granted together or not at all; in a cluster each shard judges its own keys, and
   * of too many keys for one call, each call. Resolves in the order of the wants. `sinceMs`: when the request asked for the first
   * time; null if that is now.
   */
  ask(wants: readonly Want[], sinceMs: number | null): Promise<readonly Grant[]> {
    const { isClustered } = this.link;
    if (!isClustered && wants.length <= mostWants && sinceMs === null) return this.#demand(wants).grants;
    // The keys of one tag are in one slot of a cluster.
    const calls = Map.groupBy(wants, ({ key }, i) => (isClustered ? key.tag : Math.floor(i / mostWants)));
    const demands = Array.from(calls.values(), (some) => this.#demand(some));
    return this.#askInCalls(wants, demands, sinceMs);
  }

  async #askInCalls(
    wants: readonly Want[],
    demands: readonly Demand[],
    sinceMs: number | null,
  ): Promise<readonly Grant[]> {
    const late = sinceMs === null ? null : this.#endWait(demands, sinceMs);
    const granted = new Map<Want, Grant>();
    for (const { wants: some, grants } of demands)
      for (const [i, grant] of (await grants).entries()) granted.set(some[i] as Want, grant);
    late?.cancel();
    return wants.map((want) => granted.get(want) as Grant);
  }

  /**
   * Bounds a second wait by what the first one has left. If nothing was left when this thread saw the answer, the store had
   * answered in time, and the thread was late: then the wait has its full time. The calls go on for other requests.
   */
  #endWait(demands: readonly Demand[], sinceMs: number): { cancel(): void } {
    const { waitMs } = this.settings;
    const leftMs = sinceMs + waitMs - this.clock.monotonicMs();
    return afterStoreTime(this, leftMs < -lateMs ? waitMs : Math.max(0, leftMs), () => {
      for (const demand of demands) demand.decideAlone();
    });
  }

  #demand(wants: readonly Want[]): Demand {
    const demand = new Demand(wants);
    const tag = wants[0]?.key.tag ?? "";
    const shard = this.shards.of(tag);
    // A network that is counted as one may be in a slot of the cluster that no shard has.
    if (shard === undefined) demand.decideAlone();
    else this.#batchFor(shard, tag, wants).add(demand);
    return demand;
  }

  /** Counts a request that is decided without the store. Returns whether that is because an answer is late. */
  decidesAlone(tag: string, key: SharedKey | undefined): boolean {
    const { settings, counts, shards } = this;
    counts.alone[settings.onFailure] += 1;
    const state = shards.of(tag)?.state;
    const isLate = (state === "up" || state === "slow") && key?.isForeign(this.clock) !== true;
    if (isLate) counts.late += 1;
    return isLate;
  }

  /** Spends units that are reserved for a request. */
  spend(lease: Lease, units: number, nowMs: number): void {
    const { key } = lease;
    key.spend(lease, units, nowMs);
    if (key.rules.item === "concurrency") this.#slots.add(lease);
    if (key.ahead !== null && key.calls === 0) this.#leaseAhead(key, nowMs);
  }

  /** Releases units of a request that was refused, or that came too late to spend them. */
  release(lease: Lease, units: number): void {
    const { key } = lease;
    key.release(lease, units, this.clock.monotonicMs());
    this.#reportSoon(key);
  }

  /** Counts a request that was admitted without the store, and tells the store as soon as it answers: others may ask it next. */
  admittedAlone(key: SharedKey): void {
    key.untold.requests += 1;
    this.#endings.add(key);
  }

  /** Gives back the units of a request that has a lease of its own. */
  giveBack(lease: Lease): void {
    const { key } = lease;
    this.#slots.delete(lease);
    key.giveBack(lease, this.clock.monotonicMs());
    this.#endings.add(key);
    // One item reports all that end in this turn.
    if (key.held.ended === 1) this.join(key);
  }

  /** Has the units of a request that has a lease of its own stay spent. */
  keep(lease: Lease): void {
    const { key } = lease;
    key.keep(lease, this.shards.of(key.tag)?.incident === lease.incident);
    this.#endings.add(key);
  }

  /** Gives back all units of a key that are held and not reserved. */
  endAll(key: SharedKey): void {
    key.endAll();
    this.#reportSoon(key);
  }

  /** Does the same for many keys. They are reported in portions. */
  endLeases(of: Iterable<SharedKey>): void {
    for (const key of of) {
      if (key.held.open === 0) continue;
      key.endAll();
      this.#endings.add(key);
    }
  }

  #reportSoon(key: SharedKey): void {
    if (key.held.ended === 0) return;
    this.#endings.add(key);
    this.join(key);
  }

  /**
   * Forgets what this thread knows of a key whose counts were forgiven, and has the store forget them. `seq`: the place of the
   * forgiveness in the log; 0: the store is not told.
   */
  forgive(policy: StorePolicy, tag: string, { untilUs }: CounterRules, seq: number): void {
    for (const key of policy.keysOf(tag)) {
      this.endAll(key);
      key.forgive();
    }
    if (seq === 0) return;
    this.#forgets.add(tag, this.items.forgetting(policy, tag, untilUs, seq), policy.longestCountMs);
  }

  /** Notes that this thread has forgotten all that was forgiven up to a place in the log. */
  forgivenUntil(place: number): void {
    this.items.forgivenUntil = Math.max(place, this.items.forgivenUntil);
  }

  figures(): SharedStoreFigures {
    const shards = this.shards.states();
    const state = worstState(shards);
    const known = { state, shards, replicas: this.replicas.value, sinceMs: this.shards.sinceMs(state) };
    const { granted, spent, returned } = this.counts.units;
    const held = { heldUnits: granted - spent - returned, heldLeases: this.#endings.openLeases };
    return { ...this.counts, ...held, ...known };
  }

  /** Gives back what is held and says good-bye, then closes the connections. */
  async close(): Promise<void> {
    for (const key of this.book.all()) this.endAll(key);
    this.shards.leave();
    if (this.shards.states().up > 0) await Promise.race([this.#allAnswered(), elapsed(this.timers, closingMs)]);
    this.book.close();
    this.#endings.close();
    this.#slots.close();
    this.#forgets.close();
    this.shards.close();
    await this.link.close();
  }

  // Calls.

  /** Has the next call report what there is to report of a key, and ask for what is wanted ahead of need. */
  join(key: SharedKey): void {
    const { tag } = key;
    const shard = this.shards.of(tag);
    if (shard !== undefined && this.mayAsk(tag, key)) this.#batchFor(shard, tag, [{ key }]).join(key);
  }

  /** Returns the batch of this turn that has room for keys of one call. */
  #batchFor(shard: Shard, tag: string, wants: readonly Pick<Want, "key">[]): CallBatch {
    const callOf = this.link.isClustered ? tag : shard.number;
    const batches = this.#batches.get(callOf) ?? [];
    const last = batches.at(-1);
    if (last?.hasRoomFor(wants) === true) return last;
    if (this.#batches.size === 0) this.timers.endOfTurn(() => this.#flush());
    const batch = new CallBatch(shard, this.clock.monotonicMs());
    this.#batches.set(callOf, [...batches, batch]);
    return batch;
  }

  #flush(): void {
    const batches = [...this.#batches.values()].flat();
    // A map that is cleared refers to what it holds next. Once it is old garbage, it keeps all requests behind it from
    // being collected while they are young, so each flush leaves a map of its own behind.
    this.#batches = new Map();
    for (const batch of batches) {
      if (batch.shard.state === "up") this.#sendBatch(batch);
      else {
        batch.end();
        this.#end(batch, null);
      }
    }
  }

  #sendBatch(batch: CallBatch): void {
    const { shard, counters } = batch;
    const nowMs = this.clock.monotonicMs();
    let most = mostItems * mostReports;
    const items = counters.map((counter) => {
      const sent = this.#prepare(shard, counter, most, nowMs);
      counter.sent = sent;
      most -= sent.reports.length;
      if (counter.key.held.ended > 0) this.join(counter.key);
      return sent.item;
    });
    const answered = (answer: ScriptAnswer | null, sentMs: number): void => {
      batch.end();
      if (answer === null) {
        this.#lost(batch);
        this.#end(batch, null);
        return;
      }
      batch.judge(answer);
      for (const counter of counters) this.#answered(shard, counter, sentMs);
      this.counts.waited.answered += this.#end(batch, answer);
    };
    this.send(shard, items, answered, batch.requestItems(), () => {
      this.counts.waited.overdue += this.#end(batch, null);
    });
  }

  /** Ends the wait of a batch. `answer`: null decides without the store. Returns how many requests have waited until now. */
  #end(batch: CallBatch, answer: ScriptAnswer | null): number {
    const waitedMs = this.clock.monotonicMs() - batch.sinceMs;
    let waiting = 0;
    for (const { isWaiting } of batch.demands) if (isWaiting) waiting += 1;
    for (let i = waiting; i > 0; i -= 1) this.#options.onWaited(waitedMs / 1000);
    if (answer === null) batch.decideAlone();
    else batch.settle(answer, (counter, place, units) => this.#lease(counter, place, units));
    return waiting;
  }

  /**
   * Calls the script at once. `answered`: called later, with null if there is no answer that counts. `overdue`: called before it,
   * if the answer is late.
   */
  send(
    shard: Shard,
    items: readonly Item[],
    answered: (answer: ScriptAnswer | null, sentMs: number) => void,
    requests: readonly EqualRequests[] = [],
    overdue?: () => void,
  ): void {
    const { keys, args } = encodeCall(items, requests);
    const sentMs = this.clock.monotonicMs();
    this.counts.items += items.length;
    this.#open += 1;
    let isOverdue = false;
    this.link.call(shard.number, keys, args, (reply, failure) => {
      timer.cancel();
      if (isOverdue) shard.owed -= 1;
      this.#open -= 1;
      const answer = failure === null ? decodedOrNull(reply, items, requests) : null;
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
      if (answer !== null && this.#isIdle) this.#onAllAnswered?.();
    });
    // The wait begins here, because sending may have taken this thread long.
    const timer = afterStoreTime(this, this.settings.waitMs, () => {
      isOverdue = true;
      shard.owed += 1;
      shard.overdue();
      overdue?.();
    });
  }

  #failed(shard: Shard, failure: CallFailure | null): void {
    const { kind, detail } = failure ?? { kind: "failed", detail: "an answer that is not the script's" };
    this.counts.calls[kind] += 1;
    shard.failed({ kind, detail });
  }

  /** Sends items that no request waits for. Resolves with the answer; with null if there is none. */
  sent(shard: Shard, items: readonly Item[]): Promise<ScriptAnswer | null> {
    return new Promise((resolve) => this.send(shard, items, resolve));
  }

  /** Sends many items in portions; in a cluster, each call is about one key. See `sendAll` in reports.ts. */
  sendAll<T>(
    items: Iterator<T | null, unknown>,
    mostCalls: number,
    send: (items: readonly T[]) => Promise<boolean>,
  ): Promise<boolean> {
    const bounds = { mostItems: this.link.isClustered ? 1 : mostItems, mostCalls };
    return sendAll(items, bounds, send, (run) => this.timers.endOfTurn(run));
  }

  /** Resolves when every call has its answer; never if one fails. */
  #allAnswered(): Promise<void> {
    if (this.#isIdle) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onAllAnswered = resolve;
    });
  }

  get #isIdle(): boolean {
    return this.#open + this.#batches.size === 0;
  }

  /** Prepares the item of a key. `most`: how many leases it may report. */
  #prepare(shard: Shard, { key, wanted, single }: BatchCounter, most: number, nowMs: number): SentCounter {
    const { policy, untold } = key;
    key.endLeases(nowMs);
    const isTold = shard.incident === 0 || untold.toldIncident === shard.incident;
    const reports = key.held.takeReports(most, nowMs);
    const isOwed = untold.requests > 0 || (!isTold && key.countsSince(shard.toldMs, shard.number, nowMs));
    // Units that are told before they are reported would count twice.
    const mustTell = isOwed && key.held.ended === 0;
    const own = mustTell ? policy.source.own(key.key, key.client, nowMs) : null;
    // The store may take what it grants by another call meanwhile for units that it is told.
    const isCertain = mustTell && key.calls === 1 && (own === null || isOfPeriod(own, key));
    const mostAhead = this.settings.lease.most - wanted;
    return {
      reports,
      rules: key.rules,
      forgiven: key.forgiven,
      item: this.items.counter(key, single.length, key.missingAhead(mostAhead, nowMs), reports, own),
      incident: shard.incident,
      told: isCertain ? untold.requests : null,
    };
  }

  /** Has what a lost call reported reported again, and gives back what it may have been granted. */
  #lost(batch: CallBatch): void {
    const spentMs = this.clock.monotonicMs();
    for (const counter of batch.counters) {
      const { key, sent } = counter;
      // A report about a lease that the store does not have, or that has other units, changes nothing.
      for (const [id, granted] of batch.leasesOf(counter))
        if (granted > 0) key.held.report({ id, granted, spent: 0, spentMs });
      this.reportAgain(key, sent?.reports ?? []);
    }
  }

  /** Has the reports of a lost call reported again. */
  reportAgain(key: SharedKey, reports: readonly OwnReport[]): void {
    key.held.reported(reports);
    for (const ended of reports) key.held.report(ended);
    if (key.held.ended > 0) this.#endings.add(key);
  }

  /** Takes the store's answer about a key. */
  #answered(shard: Shard, counter: BatchCounter, sentMs: number): void {
    const { key, sent, answer } = counter;
    if (sent === null) return;
    key.held.reported(sent.reports);
    if (answer === null) return;
    const nowMs = this.clock.monotonicMs();
    if (!answer.isInPeriod) {
      key.untold.requests = 0;
      key.policy.source.periodOver(this.link.shardOf(key.tag), sent.rules.untilUs / 1000, nowMs);
    } else if (answer.isForeign) {
      this.counts.calls.failed += 1;
      key.foundForeign(nowMs);
    } else this.#counted(shard, counter, sent, answer, sentMs, nowMs);
  }

  #counted(
    shard: Shard,
    counter: BatchCounter,
    { item, rules, told, forgiven, incident }: SentCounter,
    answer: CounterAnswer,
    sentMs: number,
    nowMs: number,
  ): void {
    const { key, wanted } = counter;
    // The store has forgotten what it was told before the key was forgiven.
    const isOld = forgiven !== key.forgiven;
    if (answer.isVoid) this.#tellings.tellOnceRead(key);
    else if (told !== null && !isOld) key.untold.told(told, incident, nowMs + key.policy.longestCountMs);
    if (answer.isNew && wanted + item.ahead > 0) key.policy.newKeys.add(nowMs);
    // A reload may have changed the policy since it was asked for.
    const isCurrent = !isOld && key.isBy(rules);
    if (isCurrent) key.answered(answer, wanted > 0 ? counter : null, sentMs, nowMs);
    const isUsable = isCurrent && shard.state !== "returned";
    counter.endsMs = isUsable ? sentMs + rules.spendMs / (1 + drift) : nowMs;
    this.counts.units.granted += answer.granted;
    if (answer.granted > 0 && !rules.isByRequest) counter.lease = this.#lease(counter, 0, answer.granted);
  }

  #lease({ key, sent, endsMs }: BatchCounter, place: number, granted: number): Lease {
    const { item, incident } = sent as SentCounter;
    const spentMs = this.clock.monotonicMs();
    const lease = {
      id: leaseIdOf(item.id, place),
      key,
      granted,
      left: granted,
      reserved: 0,
      spentMs,
      endsMs,
      incident,
    };
    key.held.add(lease);
    this.#endings.add(key);
    return lease;
  }

  /** Asks for more units before those that are held are spent. */
  #leaseAhead(key: SharedKey, nowMs: number): void {
    const { ahead, rules, held } = key;
    if (ahead === null || nowMs < ahead.refusedUntilMs || !this.mayAsk(key.tag, key)) return;
    const wanted = ahead.wanted(rules, nowMs);
    if (wanted === 0 || held.free(nowMs) > wanted / 4) return;
    this.join(key);
  }

  // What shards ask for.

  /** Tells a shard that was away or has forgotten what this gateway has admitted. */
  tell(shard: Shard, all: boolean, told: () => void): void {
    this.#tellings.tell(shard, all, told);
  }

  /** Renews slots. In a cluster a call is about one key, so several are under way at a time. */
  #renew(renewals: Generator<Renewal, undefined>): Promise<unknown> {
    return this.sendAll(renewals, this.link.isClustered ? 16 : 1, async (together) => {
      const shard = together[0] && this.shards.of(together[0].key.tag);
      const items = together.map(({ key, reports }) => this.items.counter(key, 0, 0, reports, null));
      if (shard?.state === "up") await this.sent(shard, items);
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
    const key = storeKeyOf(this.settings.prefix, secretTag, "secret");
    const proposed = Buffer.from(secret).toString("hex");
    this.send(shard, [{ item: "secret", key, proposed }], (answer) => {
      const first = answer?.items[0];
      if (first?.item !== "secret") return;
      this.#knowsSecret = true;
      onSecret(Uint8Array.from(Buffer.from(first.value, "hex")));
      done();
    });
  }
}

/** As many as a call has room for, beside the request. Only questions for a quota that come together may have more. */
const mostWants = mostItems - 1;
