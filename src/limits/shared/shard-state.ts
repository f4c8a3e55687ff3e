// Whether a shard of the store is asked: the breaker that every call passes. It is drawn in docs/shared-counters.md.
//
//   up ── an answer is overdue ──► slow ── it comes ──► up
//   up, slow ── the connection or the answer is lost ──► away ── a probe is answered ──► returned ── told ──► up
//   up, slow, away ── the store has forgotten ──► returned, for two heartbeats at least
import type { Clock } from "../../core/clock.ts";
import type { CallFailure, StateCause, StateChange, StoreState, Timers } from "../../core/shared-store.ts";
import { afterStoreTime } from "./store-time.ts";

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

export interface StateParts {
  readonly clock: Clock;
  readonly timers: Timers;
}

/** What the state makes happen. */
export interface ShardActions {
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
  readonly #parts: StateParts;
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

  constructor(shard: number, parts: StateParts, actions: ShardActions) {
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
