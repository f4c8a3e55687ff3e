// The shards of the store, as one thread sees them: which server has which data, what its clock shows, and whether it is
// asked. A heartbeat asks each of them once a second.
import type { Clock } from "../../core/clock.ts";
import {
  type CallFailure,
  type StateCause,
  type StateChange,
  type StoreCounts,
  type StoreIdentity,
  type StoreLink,
  type StoreState,
  storeStates,
  type Timers,
} from "../../core/store-link.ts";
import type { StoreItems } from "./items.ts";
import type { Item, ScriptAnswer } from "./script-call.ts";
import { afterStoreTime, ClockWatch } from "./store-clock.ts";

/** A gateway that is silent for longer is not counted any more. */
const silenceMs = 30_000;
/** One that ends is counted for so much longer, unless another thread of it is heard. */
const leavingMs = 5_000;

/** What a shard asks of the store that it is part of. */
export interface ShardStore {
  readonly link: StoreLink;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly items: StoreItems;
  readonly counts: StoreCounts;
  /** Sends items that no request waits for. `answered`: null if there is no answer that counts. */
  send(shard: Shard, items: readonly Item[], answered: (answer: ScriptAnswer | null) => void): void;
  /** Reads the secret that hashes keys, unless it is known. Calls `done` if it is known then. */
  readSecret(done: () => void): void;
  /** Tells the shard what it does not know, then calls `told`. `all`: it may have lost what it had acknowledged. */
  tell(shard: Shard, all: boolean, told: () => void): void;
  seen(gateways: number): void;
  /** From `away` to `away`: a probe was refused. */
  changed(change: StateChange): void;
  identified(shard: number, identity: StoreIdentity): void;
}

// Whether a shard of the store is asked: the breaker that every call passes. It is drawn in docs/inside/shared-counters.md.
//
//   up ── an answer is overdue ──► slow ── it comes ──► up
//   up, slow ── the connection or the answer is lost ──► away ── a probe is answered ──► returned ── told ──► up
//   up, slow, away ── the store has forgotten ──► returned, for two heartbeats at least

/** A gateway tells a shard this often that it is there. */
export const heartbeatMs = 1000;
/** A shard that owes an answer for longer is away. */
const giveUpMs = 1000;
/** Before the first probe, which comes at once after a connection was made, and between the others. */
const firstPauseMs = 50;
const longestPauseMs = 1000;
/** After a store has forgotten, all gateways have so much time to tell it what they have admitted. */
const tellingMs = 2 * heartbeatMs;
/** Errors of single calls, one after the other, that mean that the shard cannot do what it is asked. */
const mostFailed = 3;

export class Shard {
  state: StoreState = "away";
  /** Rises with each absence and each loss, after which keys have to be told: what was found out before is void. */
  incident = 0;
  /** When the shard was up last; at the start, the start. */
  leftMs: number;
  /** When the shard was told what it may not know, and came up. What was admitted later is known there, or to its thread. */
  toldMs = Number.POSITIVE_INFINITY;
  readonly watch = new ClockWatch();
  /** Calls whose answers are overdue. */
  owed = 0;
  readonly number: number;
  readonly #store: ShardStore;
  #sinceMs: number;
  /** Since when it is in this state, by the wall clock. */
  sinceWallMs: number;
  #timer: { cancel(): void } | null = null;
  #pauseMs = firstPauseMs;
  /** Whether the store has forgotten and was not told all since, perhaps because it was lost again. */
  #owesAll = false;
  #isConnected = false;
  #isProbing = false;
  #failed = 0;
  #isClosed = false;
  /** What the server has said last of itself. */
  #identity: StoreIdentity | null = null;
  /** Why the store may have forgotten, until that is acted upon: it can be lost before it is listed. */
  #suspicion: string | null = null;
  /** The origin of the list of gateways; null before it was read. */
  #origin: string | null = null;
  #heartbeat: { cancel(): void } | null = null;
  /** Runs if the server has not said within a heartbeat what it is. */
  #silence: { cancel(): void } | null = null;
  /** Number of the connection: an answer of an earlier one does not count. */
  #connection = 0;

  constructor(number: number, store: ShardStore) {
    this.number = number;
    this.#store = store;
    this.#sinceMs = store.clock.monotonicMs();
    this.leftMs = this.#sinceMs;
    this.sinceWallMs = store.clock.wallMs();
    this.#beatLater();
  }

  connected(): void {
    this.#connection += 1;
    this.#isConnected = true;
    this.#pauseMs = firstPauseMs;
    if (this.state === "away") this.#probe();
  }

  disconnected(failure: CallFailure): void {
    this.#connection += 1;
    this.#isConnected = false;
    this.#isProbing = false;
    this.#leave(failure.kind, failure.detail);
  }

  /** A call has no answer in time. */
  overdue(): void {
    if (this.state !== "up") return;
    this.#become("slow", "overdue");
    this.#giveUpAfter(() => {
      this.#leave("overdue", "no answer");
      this.#store.link.reconnect(this.number);
    });
  }

  /** Every call that was sent has its answer. */
  caughtUp(): void {
    if (this.state !== "slow") return;
    this.#become("up", "answered");
  }

  /** A call was answered as it should be. */
  answered(): void {
    this.#failed = 0;
  }

  failed({ kind, detail }: CallFailure): void {
    this.#failed += 1;
    if (this.state === "away") {
      // Other calls were sent before.
      if (!this.#isProbing) return;
      if (kind !== "unreachable") this.#store.changed(this.#changeTo("away", kind, detail));
      this.#pause();
      return;
    }
    // One counter may have something else under its key.
    if (kind !== "failed" || this.#failed >= mostFailed) this.#leave(kind, detail);
  }

  /** The store may have lost what it had acknowledged. */
  forgot(detail: string): void {
    this.#store.counts.forgot += 1;
    this.#return(true, "forgot", detail);
  }

  /** Looks at the store's clock, which each answer shows. */
  observe(sentMs: number, timeUs: number): void {
    const step = this.watch.observe(sentMs, this.#store.clock.monotonicMs(), timeUs);
    if (step === "steady") return;
    this.#store.counts.clockSteps += 1;
    if (step === "forward") this.forgot("the clock of the store was set forward");
  }

  /** Tells the store that this thread ends. */
  leave(): void {
    const { link, items } = this.#store;
    this.#heartbeat?.cancel();
    // What the server says of itself from now on is not followed by a heartbeat.
    this.#connection += 1;
    const tag = link.anyTagOf(this.number);
    if (tag === null || this.state !== "up") return;
    this.#store.send(this, [items.listing(tag, silenceMs, silenceMs - leavingMs)], () => {});
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#heartbeat?.cancel();
    this.#silence?.cancel();
  }

  #leave(cause: StateCause, detail: string): void {
    if (this.#isClosed || this.state === "away") return;
    this.incident += 1;
    this.#pauseMs = firstPauseMs;
    this.#become("away", cause, detail);
    this.#pause();
  }

  /** Waits before the next probe. */
  #pause(): void {
    this.#isProbing = false;
    this.#after(this.#pauseMs, () => this.#probe());
    this.#pauseMs = Math.min(longestPauseMs, 2 * this.#pauseMs);
  }

  #probe(): void {
    // Without a connection there is nobody to ask; `connected` comes back here.
    if (!this.#isConnected) return;
    this.#isProbing = true;
    this.#giveUpAfter(() => {
      this.#pause();
      this.#store.link.reconnect(this.number);
    });
    this.#ask();
  }

  #return(hasForgotten: boolean, cause: StateCause, detail: string): void {
    if (this.#isClosed) return;
    this.incident += 1;
    const incident = this.incident;
    this.#become("returned", cause, detail);
    this.#owesAll ||= hasForgotten;
    let isTold = false;
    let isOver = !this.#owesAll;
    const comeUp = (): void => {
      if (!isTold || !isOver || this.incident !== incident || this.state !== "returned") return;
      this.#owesAll = false;
      this.toldMs = this.#store.clock.monotonicMs();
      this.#become("up", "told");
    };
    this.#after(tellingMs, () => {
      // What is not told by then is told key by key, as they are asked for.
      isTold = true;
      isOver = true;
      comeUp();
    });
    this.#store.tell(this, this.#owesAll, () => {
      isTold = true;
      comeUp();
    });
  }

  #become(to: StoreState, cause: StateCause, detail = ""): void {
    const change = this.#changeTo(to, cause, detail);
    const nowMs = this.#store.clock.monotonicMs();
    this.#timer?.cancel();
    this.#timer = null;
    this.#failed = 0;
    this.#isProbing = false;
    if (this.state === "up") this.leftMs = nowMs;
    this.state = to;
    this.#sinceMs = nowMs;
    this.sinceWallMs = this.#store.clock.wallMs();
    this.#store.changed(change);
  }

  #changeTo(to: StoreState, cause: StateCause, detail: string): StateChange {
    return {
      shard: this.number,
      from: this.state,
      to,
      cause,
      detail,
      lastedMs: this.#store.clock.monotonicMs() - this.#sinceMs,
    };
  }

  #after(ms: number, run: () => void): void {
    this.#timer?.cancel();
    this.#timer = this.#isClosed ? null : this.#store.timers.after(ms, run);
  }

  #giveUpAfter(run: () => void): void {
    this.#timer?.cancel();
    this.#timer = this.#isClosed ? null : afterStoreTime(this.#store, giveUpMs, run);
  }

  // The heartbeat.

  #beatLater(): void {
    this.#heartbeat = this.#store.timers.after(heartbeatMs, () => {
      this.#beatLater();
      const { state } = this;
      if (state === "up" || state === "returned") this.#ask();
    });
  }

  /** Asks the server what it is, then whether its list of gateways is the same. */
  #ask(): void {
    const { link } = this.#store;
    const connection = this.#connection;
    // Where no request asks for anything, nothing else shows that the server is silent.
    this.#silence ??= afterStoreTime(this.#store, heartbeatMs, () => this.overdue());
    link.identify(this.number, (identity, failure) => {
      this.#silence?.cancel();
      this.#silence = null;
      if (connection !== this.#connection) return;
      if (identity === null) {
        if (failure !== null) this.failed(failure);
        return;
      }
      this.#store.identified(this.number, identity);
      this.#suspicion = this.#changeOf(identity) ?? this.#suspicion;
      this.#list();
    });
  }

  /** Returns what has changed since the server was asked last; null if nothing has. */
  #changeOf(identity: StoreIdentity): string | null {
    const before = this.#identity;
    this.#identity = identity;
    if (before === null) return null;
    if (identity.epoch !== before.epoch) {
      // Another server has a clock of its own.
      this.watch.forget();
      return "another server answers, or it was restarted";
    }
    return identity.evictedKeys > before.evictedKeys ? "it has removed keys for want of memory" : null;
  }

  #list(): void {
    const { link, items } = this.#store;
    const tag = link.anyTagOf(this.number);
    if (tag === null) return;
    this.#store.send(this, [items.listing(tag, silenceMs, 0)], (answer) => {
      const first = answer?.items[0];
      if (first?.item !== "gateways") return;
      this.#store.seen(first.gateways);
      if (first.origin !== (this.#origin ?? first.origin)) this.#suspicion ??= "it has lost its list of gateways";
      this.#origin = first.origin;
      this.#store.readSecret(() => {
        const reason = this.#suspicion;
        this.#suspicion = null;
        if (reason !== null) this.forgot(reason);
        else if (this.state === "away") this.#return(false, "answered", "");
      });
    });
  }
}

// All shards of the store that are known, by number.

export class ShardMap {
  readonly #link: StoreLink;
  readonly #store: ShardStore;
  readonly #shards = new Map<number, Shard>();
  #onReached: (() => void) | null = null;

  /** `onGone`: the shard exists no more. */
  constructor(store: ShardStore, onGone: (shard: number) => void) {
    this.#store = store;
    this.#link = store.link;
    this.#link.events = {
      onConnected: (number) => this.#at(number).connected(),
      onDisconnected: (number, failure) => this.#at(number).disconnected(failure),
      onGone: (number) => {
        this.#shards.get(number)?.close();
        this.#shards.delete(number);
        onGone(number);
      },
    };
  }

  /** Returns the shard of a tag; undefined if it is not known. */
  of(tag: string): Shard | undefined {
    return this.#shards.get(this.#link.shardOf(tag));
  }

  /** What the clock of the middle shard shows, as far as this thread knows; null before the first answer. */
  wallMs(nowMs: number): number | null {
    const known = [...this.#shards.values()].flatMap(({ watch }) => watch.wallMs(nowMs) ?? []);
    return known.sort((a, b) => a - b)[Math.floor(known.length / 2)] ?? null;
  }

  /** Resolves once every shard that is known can be asked. */
  reached(): Promise<void> {
    return new Promise((resolve) => {
      this.#onReached = resolve;
    });
  }

  /** A shard has another state. */
  changed(): void {
    if ([...this.#shards.values()].every(({ state }) => state === "up")) this.#onReached?.();
  }

  states(): Readonly<Record<StoreState, number>> {
    const shards = Object.fromEntries(storeStates.map((each) => [each, 0])) as Record<StoreState, number>;
    for (const { state } of this.#shards.values()) shards[state] += 1;
    return shards;
  }

  /** Since when the first of those in this state is, by the wall clock; null if none is. */
  sinceMs(wanted: StoreState): number | null {
    const since = [...this.#shards.values()].flatMap(({ state, sinceWallMs }) => (state === wanted ? sinceWallMs : []));
    return since.length === 0 ? null : Math.min(...since);
  }

  /** Tells all shards that this thread ends. */
  leave(): void {
    for (const shard of this.#shards.values()) shard.leave();
  }

  close(): void {
    for (const shard of this.#shards.values()) shard.close();
  }

  #at(number: number): Shard {
    const known = this.#shards.get(number);
    if (known !== undefined) return known;
    const shard = new Shard(number, this.#store);
    this.#shards.set(number, shard);
    return shard;
  }
}
