// The shards of the store, as one thread sees them: which server has which data, what its clock shows, and whether it is
// asked. A heartbeat asks each of them once a second.
import type { Clock } from "../../core/clock.ts";
import type { CallFailure, StateChange, StoreIdentity, StoreLink, Timers } from "../../core/shared-store.ts";
import { ClockWatch } from "./clock-watch.ts";
import type { Item, ScriptAnswer } from "./script-call.ts";
import { heartbeatMs, ShardState } from "./shard-state.ts";
import type { StoreCounts } from "./store-figures.ts";
import type { StoreItems } from "./store-items.ts";
import { afterStoreTime } from "./store-time.ts";

/** A gateway that is silent for longer is not counted any more. */
const silenceMs = 30_000;
/** One that ends is counted for so much longer, unless another thread of it is heard. */
const leavingMs = 5_000;

export interface ShardParts {
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
