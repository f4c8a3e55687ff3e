// The shards of the store, as one thread sees them: which server has which data, what its clock shows, and whether it is
// asked. A heartbeat asks each of them once a second.
import type { Clock } from "../../core/clock.ts";
import {
  type CallFailure,
  type StateCause,
  type StateChange,
  type StoreIdentity,
  type StoreLink,
  type StoreState,
  storeStates,
  type Timers,
} from "../../core/store-link.ts";
import type { StoreCounts, StoreItems } from "./items.ts";
import type { Item, ScriptAnswer } from "./script-call.ts";
import { afterStoreTime, ClockWatch, type Timing } from "./store-clock.ts";

/** A gateway that is silent for longer is not counted any more. */
const silenceMs = 30_000;
/** One that ends is counted for so much longer, unless another thread of it is heard. */
const leavingMs = 5_000;

interface ShardParts {
  readonly link: StoreLink;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly items: StoreItems;
  readonly counts: StoreCounts;
  /** Sends items that no request waits for. `answered`: null if there is no answer that counts. */
  send(shard: Shard, items: readonly Item[], answered: (answer: ScriptAnswer | null) => void): void;
  /** Reads the secret that hashes keys, unless it is known. Calls `done` if it is known then. */
  readSecret(done: () => void): void;
  tell(shard: Shard, all: boolean, told: () => void): void;
  /** The store has lost what it granted. */
  dropLeases(shard: Shard): void;
  seen(gateways: number): void;
  onChange(change: StateChange): void;
  onIdentity(identity: StoreIdentity): void;
}

export class Shard {
  readonly number: number;
  readonly state: ShardState;
  readonly watch = new ClockWatch();
  /** Calls whose answers are overdue. */
  overdue = 0;
  readonly #parts: ShardParts;
  #epoch: string | null = null;
  #evictedKeys = 0;
  /** Why the store may have forgotten, until that is acted upon: it can be lost before it is listed. */
  #suspicion: string | null = null;
  /** When the server was told last that this gateway is there. */
  #listedMs = Number.NEGATIVE_INFINITY;
  #timer: { cancel(): void } | null = null;
  /** Runs if the server has not said within a heartbeat what it is. */
  #silence: { cancel(): void } | null = null;
  /** Number of the connection: an answer of an earlier one does not count. */
  #connection = 0;

  constructor(number: number, parts: ShardParts) {
    this.number = number;
    this.#parts = parts;
    this.state = new ShardState(number, parts, {
      probe: () => this.#ask(),
      tell: (all, told) => {
        if (all) parts.dropLeases(this);
        parts.tell(this, all, told);
      },
      reconnect: () => parts.link.reconnect(number),
      changed: (change) => parts.onChange(change),
    });
    this.#beatLater();
  }

  connected(): void {
    this.#connection += 1;
    this.state.connected();
  }

  disconnected(failure: CallFailure): void {
    this.#connection += 1;
    this.state.disconnected(failure);
  }

  /** Looks at the store's clock, which each answer shows. */
  observe(sentMs: number, timeUs: number): void {
    const step = this.watch.observe(sentMs, this.#parts.clock.monotonicMs(), timeUs);
    if (step === "steady") return;
    this.#parts.counts.clockSteps += 1;
    if (step === "forward") this.forgot("the clock of the store was set forward");
  }

  forgot(detail: string): void {
    this.#parts.counts.forgot += 1;
    this.state.forgot(detail);
  }

  /** Tells the store that this thread ends. */
  leave(): void {
    const { link, items, send } = this.#parts;
    this.#timer?.cancel();
    // What the server says of itself from now on is not followed by a heartbeat.
    this.#connection += 1;
    const tag = link.anyTagOf(this.number);
    if (tag === null || this.state.state !== "up") return;
    send(this, [items.listing(tag, silenceMs, silenceMs - leavingMs)], () => {});
  }

  close(): void {
    this.#timer?.cancel();
    this.#silence?.cancel();
    this.state.close();
  }

  #beatLater(): void {
    this.#timer = this.#parts.timers.after(heartbeatMs, () => {
      this.#beatLater();
      const { state } = this.state;
      if (state === "up" || state === "returned") this.#ask();
    });
  }

  /** Asks the server what it is, then whether this gateway is still in its list. */
  #ask(): void {
    const { link } = this.#parts;
    const connection = this.#connection;
    // Where no request asks for anything, nothing else shows that the server is silent.
    this.#silence ??= afterStoreTime(this.#parts, heartbeatMs, () => this.state.overdue());
    link.identify(this.number, (identity, failure) => {
      this.#silence?.cancel();
      this.#silence = null;
      if (connection !== this.#connection) return;
      if (identity === null) {
        if (failure !== null) this.state.failed(failure);
        return;
      }
      this.#parts.onIdentity(identity);
      this.#suspicion = this.#changeOf(identity) ?? this.#suspicion;
      this.#list();
    });
  }

  /** Returns what has changed since the server was asked last; null if nothing has. */
  #changeOf({ epoch, evictedKeys }: StoreIdentity): string | null {
    const before = this.#epoch;
    const evictedBefore = this.#evictedKeys;
    this.#epoch = epoch;
    this.#evictedKeys = evictedKeys;
    if (before === null) return null;
    if (epoch !== before) {
      // Another server has a clock of its own.
      this.watch.forget();
      return "another server answers, or it was restarted";
    }
    return evictedKeys > evictedBefore ? "it has removed keys for want of memory" : null;
  }

  #list(): void {
    const { link, clock, items, send } = this.#parts;
    const tag = link.anyTagOf(this.number);
    if (tag === null) return;
    const sentMs = clock.monotonicMs();
    const isExpected = sentMs - this.#listedMs < silenceMs / 2;
    send(this, [items.listing(tag, silenceMs, 0)], (answer) => {
      const first = answer?.items[0];
      if (first?.item !== "gateways") return;
      this.#listedMs = sentMs;
      this.#parts.seen(first.gateways);
      const reason = this.#suspicion ?? (isExpected && !first.wasListed ? "it has lost its list of gateways" : null);
      this.#parts.readSecret(() => {
        this.#suspicion = null;
        if (reason !== null) this.forgot(reason);
        else this.state.probed();
      });
    });
  }
}

// Whether a shard of the store is asked: the breaker that every call passes. It is drawn in docs/shared-counters.md.
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

/** What the state makes happen. */
interface ShardActions {
  /** Asks the server what it is. Must call `probed`, `forgot` or `failed`, unless the connection is dropped. */
  probe(): void;
  /** Tells the store what it does not know, then calls `told`. `all`: what was admitted before the incident too. */
  tell(all: boolean, told: () => void): void;
  /** Drops the connection: its answers will not come. */
  reconnect(): void;
  /** From `away` to `away`: a probe was refused. */
  changed(change: StateChange): void;
}

export class ShardState {
  readonly shard: number;
  readonly #parts: Timing;
  readonly #actions: ShardActions;
  #state: StoreState = "away";
  #sinceMs: number;
  #leftMs: number;
  #toldMs = Number.POSITIVE_INFINITY;
  /** Number of the incident: whatever was found out in an earlier one is void. */
  #incident = 0;
  #timer: { cancel(): void } | null = null;
  #pauseMs = firstPauseMs;
  /** Whether the store has forgotten and was not told all since, perhaps because it was lost again. */
  #owesAll = false;
  #isConnected = false;
  #isProbing = false;
  #failed = 0;
  #isClosed = false;

  constructor(shard: number, parts: Timing, actions: ShardActions) {
    this.shard = shard;
    this.#parts = parts;
    this.#actions = actions;
    this.#sinceMs = parts.clock.monotonicMs();
    this.#leftMs = this.#sinceMs;
  }

  get state(): StoreState {
    return this.#state;
  }

  /** Rises with each absence and each loss, after which keys have to be told. */
  get incident(): number {
    return this.#incident;
  }

  /** When the shard was up last; at the start, the start. */
  get leftMs(): number {
    return this.#leftMs;
  }

  /** When the shard was told what it may not know, and came up. What was admitted later is known there, or to its thread. */
  get toldMs(): number {
    return this.#toldMs;
  }

  connected(): void {
    this.#isConnected = true;
    this.#pauseMs = firstPauseMs;
    if (this.#state === "away") this.#probe();
  }

  disconnected(failure: CallFailure): void {
    this.#isConnected = false;
    this.#isProbing = false;
    this.#leave(failure.kind, failure.detail);
  }

  /** A call has no answer in time. */
  overdue(): void {
    if (this.#state !== "up") return;
    this.#become("slow", "overdue");
    this.#giveUpAfter(() => {
      this.#leave("overdue", "no answer");
      this.#actions.reconnect();
    });
  }

  /** Every call that was sent has its answer. */
  caughtUp(): void {
    if (this.#state !== "slow") return;
    this.#become("up", "answered");
  }

  /** A call was answered as it should be. */
  answered(): void {
    this.#failed = 0;
  }

  failed({ kind, detail }: CallFailure): void {
    this.#failed += 1;
    if (this.#state === "away") {
      // Other calls were sent before.
      if (!this.#isProbing) return;
      if (kind !== "unreachable") this.#actions.changed(this.#changeTo("away", kind, detail));
      this.#pause();
      return;
    }
    // One counter may have something else under its key.
    if (kind !== "failed" || this.#failed >= mostFailed) this.#leave(kind, detail);
  }

  /** The probe was answered, and the store is the one from before. */
  probed(): void {
    if (this.#state === "away") this.#return(false, "answered", "");
  }

  /** The store may have lost what it had acknowledged. */
  forgot(detail: string): void {
    this.#return(true, "forgot", detail);
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  #leave(cause: StateCause, detail: string): void {
    if (this.#isClosed || this.#state === "away") return;
    this.#incident += 1;
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
      this.#actions.reconnect();
    });
    this.#actions.probe();
  }

  #return(hasForgotten: boolean, cause: StateCause, detail: string): void {
    if (this.#isClosed) return;
    this.#incident += 1;
    const incident = this.#incident;
    this.#become("returned", cause, detail);
    this.#owesAll ||= hasForgotten;
    let isTold = false;
    let isOver = !this.#owesAll;
    const conclude = (): void => {
      if (!isTold || !isOver || this.#incident !== incident || this.#state !== "returned") return;
      this.#owesAll = false;
      this.#toldMs = this.#parts.clock.monotonicMs();
      this.#become("up", "told");
    };
    this.#after(tellingMs, () => {
      // What is not told by then is told key by key, as they are asked for.
      isTold = true;
      isOver = true;
      conclude();
    });
    this.#actions.tell(this.#owesAll, () => {
      isTold = true;
      conclude();
    });
  }

  #become(to: StoreState, cause: StateCause, detail = ""): void {
    const change = this.#changeTo(to, cause, detail);
    const nowMs = this.#parts.clock.monotonicMs();
    this.#timer?.cancel();
    this.#timer = null;
    this.#failed = 0;
    this.#isProbing = false;
    if (this.#state === "up") this.#leftMs = nowMs;
    this.#state = to;
    this.#sinceMs = nowMs;
    this.#actions.changed(change);
  }

  #changeTo(to: StoreState, cause: StateCause, detail: string): StateChange {
    return {
      shard: this.shard,
      from: this.#state,
      to,
      cause,
      detail,
      lastedMs: this.#parts.clock.monotonicMs() - this.#sinceMs,
    };
  }

  #after(ms: number, run: () => void): void {
    this.#timer?.cancel();
    this.#timer = this.#isClosed ? null : this.#parts.timers.after(ms, run);
  }

  #giveUpAfter(run: () => void): void {
    this.#timer?.cancel();
    this.#timer = this.#isClosed ? null : afterStoreTime(this.#parts, giveUpMs, run);
  }
}

// All shards of the store that are known, by number.

interface ShardMapParts extends Omit<ShardParts, "onIdentity"> {
  onIdentity(shard: number, ...identity: Parameters<ShardParts["onIdentity"]>): void;
  /** The shard exists no more. */
  onGone(shard: number): void;
}

export class ShardMap {
  readonly #link: StoreLink;
  readonly #parts: ShardMapParts;
  readonly #shards = new Map<number, Shard>();
  #onUp: (() => void) | null = null;

  constructor(parts: ShardMapParts) {
    this.#parts = parts;
    this.#link = parts.link;
    parts.link.events = {
      onConnected: (number) => this.#at(number).connected(),
      onDisconnected: (number, failure) => this.#at(number).disconnected(failure),
      onGone: (number) => {
        this.#shards.get(number)?.close();
        this.#shards.delete(number);
        parts.onGone(number);
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
      this.#onUp = () => {
        if ([...this.#shards.values()].every(({ state }) => state.state === "up")) resolve();
      };
    });
  }

  states(): Readonly<Record<StoreState, number>> {
    const shards = Object.fromEntries(storeStates.map((each) => [each, 0])) as Record<StoreState, number>;
    for (const { state } of this.#shards.values()) shards[state.state] += 1;
    return shards;
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
    const { onIdentity, onChange } = this.#parts;
    const shard = new Shard(number, {
      ...this.#parts,
      onIdentity: (identity) => onIdentity(number, identity),
      onChange: (change) => {
        onChange(change);
        if (change.to === "up") this.#onUp?.();
      },
    });
    this.#shards.set(number, shard);
    return shard;
  }
}
