// Log lines about the store that gateways share: one for each change of a shard's state, and one about its server. A change
// that all threads of a process see is logged once. A store whose state keeps changing is logged a few times a minute.
import { maxThreads } from "../core/settings.ts";
import {
  badnessOf,
  type CallFailure,
  type StateChange,
  type StoreIdentity,
  type StoreState,
} from "../core/store-link.ts";
import type { Logger, Samplers } from "./log.ts";
import type { StoreEventCounts } from "./shared-store-metrics.ts";

export interface StoreLog extends Pick<StoreEventCounts, "storeAnswered" | "storeWaited"> {
  storeChanged(change: StateChange): void;
  /** May be called for each attempt: a line is written if the reason has changed. */
  storeConnectFailed(shard: number | null, failure: CallFailure): void;
  /** May be called at each heartbeat: a line is written if something has changed. */
  storeIdentified(shard: number, identity: StoreIdentity): void;
  /** The shard no longer exists. */
  storeShardGone(shard: number): void;
}

/** Servers of other versions and other warnings are not logged. */
const maxKnown = 100;

/** Of each kind of change, as many lines a minute as others have a second. */
export function createStoreLog(samplers: Samplers, metrics: StoreEventCounts, sightings: StoreSightings): StoreLog {
  const { log } = samplers;
  const passes = samplers.sampled("change", 60_000, "changes of the store's state left out");
  const known = new Set<string>();
  const isNew = (text: string): boolean => !known.has(text) && known.size < maxKnown && known.add(text).has(text);
  /** Why the last attempt to reach a shard failed, as logged. */
  const reasons = new Map<number | null, string>();
  const isNewReason = (shard: number | null, cause: StateChange["cause"]): boolean => {
    if (reasons.get(shard) === cause) return false;
    reasons.set(shard, cause);
    return sightings.isReporter(shard ?? 0) && passes("not connected");
  };
  return {
    storeChanged(change) {
      if (change.from === change.to) {
        const { shard, cause, detail } = change;
        if (isNewReason(shard, cause)) log.warn({ shard, cause, detail }, "store not usable");
        return;
      }
      if (change.to === "away") reasons.set(change.shard, change.cause);
      else for (const shard of [change.shard, null]) reasons.delete(shard);
      if (!sightings.isNews(change.shard, change.to)) return;
      if (passes(`${change.from} to ${change.to}`)) logChange(log, change);
    },
    storeConnectFailed(shard, { kind, detail }) {
      metrics.storeConnectFailed(kind);
      if (isNewReason(shard, kind)) log.warn({ shard, cause: kind, detail }, "store not connected");
    },
    storeIdentified(shard, { server, warnings }) {
      if (!sightings.isReporter(shard)) return;
      if (isNew(server)) log.info({ shard, server }, "store connected");
      for (const detail of warnings) if (isNew(detail)) log.warn({ shard, detail }, "store warning");
    },
    storeShardGone(shard) {
      reasons.delete(shard);
      sightings.gone(shard);
    },
    storeAnswered: metrics.storeAnswered,
    storeWaited: metrics.storeWaited,
  };
}

function logChange(log: Logger, { shard, from, to, cause, detail, lastedMs }: StateChange): void {
  const facts = { shard, before: from, lastedMs: Math.round(lastedMs), cause, detail: detail || undefined };
  if (cause === "forgot") log.warn(facts, "store may have lost counts");
  else if (to === "up") log.info(facts, "store up");
  else if (to === "slow") log.warn(facts, "store slow");
  else if (to === "away") log.warn(facts, "store away");
  else log.warn(facts, "store returned");
}

/** Shards with higher numbers share their places with others. */
const places = 64;
const rows = maxThreads + 1;
/** After a row for each thread: what was logged last, and the thread that says what the server is. */
const loggedRow = rows;
const reporterRow = rows + 1;

/**
 * The state in which each thread of a process sees the shards of the store, in shared memory, so that a change that all
 * threads see is logged once. If threads number the shards differently, a change may be logged twice, or not at all.
 */
export class StoreSightings {
  readonly #cells: Uint8Array;
  readonly #thread: number;

  /** `thread`: from 0 to `maxThreads`, in its memory once. */
  constructor(memory: SharedArrayBuffer, thread: number) {
    this.#cells = new Uint8Array(memory);
    this.#thread = thread;
  }

  static createMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer((rows + 2) * places);
  }

  /** The thread has ended. */
  static forget(memory: SharedArrayBuffer, thread: number): void {
    const cells = new Uint8Array(memory);
    for (let place = 0; place < places; place += 1) {
      Atomics.store(cells, at(thread, place), 0);
      Atomics.compareExchange(cells, at(reporterRow, place), thread + 1, 0);
    }
  }

  /**
   * This thread sees the shard in the state. Returns whether this is news for the process: it is the first thread that sees
   * a worse state, or the last that sees a better one. Reaching the store at the start is no news.
   */
  isNews(shard: number, state: StoreState): boolean {
    const place = shard % places;
    const seen = codeOf(state);
    const own = at(this.#thread, place);
    // The start of a thread lasts until the store is up for it.
    if (state === "returned" && Atomics.load(this.#cells, own) === 0) return false;
    Atomics.store(this.#cells, own, seen);
    let worst = this.#worst(place);
    const before = Atomics.exchange(this.#cells, at(loggedRow, place), worst);
    // Another thread may have seen a change after this one has looked.
    for (let again = this.#worst(place); again !== worst; again = this.#worst(place)) {
      worst = again;
      Atomics.store(this.#cells, at(loggedRow, place), worst);
    }
    return worst === seen && before !== worst && !(before === 0 && state === "up");
  }

  /** The shard no longer exists. */
  gone(shard: number): void {
    Atomics.store(this.#cells, at(this.#thread, shard % places), 0);
  }

  /** Whether this thread is the one that says what the shard's server is. */
  isReporter(shard: number): boolean {
    const own = this.#thread + 1;
    const before = Atomics.compareExchange(this.#cells, at(reporterRow, shard % places), 0, own);
    return before === 0 || before === own;
  }

  #worst(place: number): number {
    let worst = 0;
    for (let row = 0; row < rows; row += 1) worst = Math.max(worst, Atomics.load(this.#cells, at(row, place)));
    return worst;
  }
}

function at(row: number, place: number): number {
  return row * places + place;
}

/** 0 stands for a thread that has seen nothing. */
function codeOf(state: StoreState): number {
  return 1 + badnessOf(state);
}
