// Sends what one turn of the event loop needs of the store, and hands on the answers. Bounds how
// long a request waits.
import type { Clock } from "../../core/clock.ts";
import type { CallFailure, StoreLink, Timers } from "../../core/store-link.ts";
import type { CounterRules, KeyCredits } from "./credits.ts";
import type { StoreCounts } from "./items.ts";
import {
  type CounterAnswer,
  type CounterItem,
  decodeAnswer,
  encodeCall,
  type Item,
  mostItems,
  type ScriptAnswer,
} from "./script-call.ts";
import type { Shard } from "./shard.ts";
import { afterStoreTime, type Timing } from "./store-clock.ts";

/** An item that was sent for a batch. */
export interface SentItem {
  readonly credits: KeyCredits;
  readonly item: CounterItem;
  /** By which it was asked. */
  readonly rules: CounterRules;
  /** In which incident of the shard, and of how many requests, the store is told by this item; null: it is not told. */
  readonly told: { readonly incident: number; readonly alone: number } | null;
}

interface CallParts {
  readonly link: StoreLink;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly counts: StoreCounts;
  readonly waitMs: number;
  /** Returns the item as it has to be sent now. */
  prepare(shard: Shard, credits: KeyCredits, needed: number, nowMs: number): SentItem;
  /** `isUsable`: false if nothing that was granted may be spent. */
  answered(sent: SentItem, answer: CounterAnswer, sentMs: number, isUsable: boolean): void;
  onAnswered(seconds: number): void;
  /** A request has waited so long, whatever came of it. */
  onWaited(seconds: number): void;
}

interface UnsentBatch {
  readonly shard: Shard;
  readonly batch: CallBatch;
}

export class StoreCalls {
  readonly #parts: CallParts;
  /** What leaves at the end of this turn: by shard, in a cluster by tag. Each batch is a call. */
  #batches = new Map<number | string, UnsentBatch>();
  /** Those that are full. */
  #full: UnsentBatch[] = [];

  /** Calls without an answer. */
  #open = 0;
  #onSettled: (() => void) | null = null;

  constructor(parts: CallParts) {
    this.#parts = parts;
  }

  /** Adds what is needed of a counter to the next call. `question`: null if no request waits. */
  add(shard: Shard, credits: KeyCredits, needed: number, question: Question | null): void {
    const { link, clock, timers } = this.#parts;
    const place = link.isClustered ? credits.tag : shard.number;
    let open = this.#batches.get(place);
    if (open === undefined) {
      open = { shard, batch: new CallBatch(clock.monotonicMs()) };
      if (this.#batches.size + this.#full.length === 0) timers.endOfTurn(() => this.#flush());
      this.#batches.set(place, open);
    }
    const { batch } = open;
    batch.add(credits, needed, question);
    if (batch.items.length < mostItems) return;
    this.#full.push(open);
    this.#batches.delete(place);
  }

  /** Sends items at once, for which no request waits. */
  send(shard: Shard, items: readonly Item[], answered: (answer: ScriptAnswer | null) => void): void {
    const call = this.#call(shard, items, (answer) => {
      timer.cancel();
      answered(answer);
    });
    const timer = afterStoreTime(this.#parts, this.#parts.waitMs, () => call.late());
  }

  /** Resolves when every call has its answer; never if one fails. */
  settled(): Promise<void> {
    if (this.#isIdle) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onSettled = resolve;
    });
  }

  get #isIdle(): boolean {
    return this.#open + this.#batches.size + this.#full.length === 0;
  }

  #flush(): void {
    const batches = [...this.#full, ...this.#batches.values()];
    // A map that is cleared refers to what it holds next. Once it is old garbage, it keeps all requests behind it from
    // being collected while they are young, so each flush leaves a map of its own behind.
    this.#batches = new Map();
    this.#full = [];
    for (const { shard, batch } of batches) {
      if (shard.state.state === "up") this.#send(shard, batch);
      else this.#conclude(batch, "alone");
    }
  }

  #send(shard: Shard, batch: CallBatch): void {
    const { clock, waitMs, prepare, answered, counts } = this.#parts;
    // From now on, because this thread may have been long about sending it.
    batch.timer = afterStoreTime(this.#parts, waitMs, () => this.#late(batch));
    const nowMs = clock.monotonicMs();
    const sent: SentItem[] = [];
    const items: CounterItem[] = [];
    for (const { credits, needed } of batch.items) {
      const each = prepare(shard, credits, needed, nowMs);
      credits.inFlight += 1;
      sent.push(each);
      items.push(each.item);
    }
    batch.call = this.#call(shard, items, (answer, sentMs) => {
      for (const [i, each] of sent.entries()) {
        each.credits.inFlight -= 1;
        const of = answer?.items[i];
        if (of?.item === "counter") answered(each, of, sentMs, shard.state.state !== "returned");
      }
      if (answer !== null) counts.waited.answered += batch.waiting;
      this.#conclude(batch, answer === null ? "alone" : "answered");
    });
  }

  /** Nobody waits for the answer to a batch any longer. */
  #late(batch: CallBatch): void {
    batch.call?.late();
    this.#parts.counts.waited.overdue += batch.waiting;
    this.#conclude(batch, "alone");
  }

  #conclude(batch: CallBatch, conclusion: Conclusion): void {
    const waitedMs = this.#parts.clock.monotonicMs() - batch.sinceMs;
    for (let i = batch.waiting; i > 0; i -= 1) this.#parts.onWaited(waitedMs / 1000);
    batch.timer?.cancel();
    batch.conclude(conclusion);
  }

  /** `answered` is called later: null if there is no answer. */
  #call(
    shard: Shard,
    items: readonly Item[],
    answered: (answer: ScriptAnswer | null, sentMs: number) => void,
  ): SentCall {
    const { link, clock, counts, onAnswered } = this.#parts;
    const { keys, args } = encodeCall(items);
    const sentMs = clock.monotonicMs();
    counts.items += items.length;
    this.#open += 1;
    let isOpen = true;
    let isOverdue = false;
    link.call(shard.number, keys, args, (reply, failure) => {
      isOpen = false;
      if (isOverdue) shard.overdue -= 1;
      this.#open -= 1;
      const answer = failure === null ? decoded(reply, items) : null;
      if (answer === null) {
        this.#failed(shard, failure);
        answered(null, sentMs);
        // One call may fail without the shard being lost.
        if (shard.overdue === 0) shard.state.caughtUp();
        return;
      }
      counts.calls[isOverdue ? "late" : "answered"] += 1;
      onAnswered((clock.monotonicMs() - sentMs) / 1000);
      shard.state.answered();
      shard.observe(sentMs, answer.timeUs);
      answered(answer, sentMs);
      if (shard.overdue === 0) shard.state.caughtUp();
      if (this.#isIdle) this.#onSettled?.();
    });
    return {
      late: () => {
        if (!isOpen || isOverdue) return;
        isOverdue = true;
        shard.overdue += 1;
        shard.state.overdue();
      },
    };
  }

  #failed(shard: Shard, failure: CallFailure | null): void {
    const { kind, detail } = failure ?? { kind: "failed", detail: "an answer that is not the script's" };
    this.#parts.counts.calls[kind] += 1;
    shard.state.failed({ kind, detail });
  }
}

/** Null if the reply is not the script's. */
function decoded(reply: unknown, items: readonly Item[]): ScriptAnswer | null {
  try {
    return decodeAnswer(reply, items);
  } catch {
    return null;
  }
}

// The items that leave in one call: what requests of one turn of the event loop need of one shard. What a turn needs beyond
// one call is in batches of its own, so that many requests are decided in portions.

interface BatchItem {
  readonly credits: KeyCredits;
  /** Units that requests wait for. */
  needed: number;
}

interface SentCall {
  /** Its answer is overdue, if it has not come. */
  late(): void;
}

export class CallBatch {
  /** When the first request began to wait. */
  readonly sinceMs: number;
  timer: { cancel(): void } | null = null;
  /** Once it is sent. */
  call: SentCall | null = null;
  readonly items: BatchItem[] = [];
  /** The items that more units of their key can join. */
  readonly #byKey = new Map<KeyCredits, BatchItem>();
  readonly #questions: Question[] = [];
  #isConcluded = false;

  constructor(sinceMs: number) {
    this.sinceMs = sinceMs;
  }

  get waiting(): number {
    return this.#isConcluded ? 0 : this.#questions.length;
  }

  /** `question`: null if no request waits; then nothing is needed. */
  add(credits: KeyCredits, needed: number, question: Question | null): void {
    // A request that needs nothing of its own waits for what others ask.
    const isOwn = credits.rules.isByRequest && (needed > 0 || question === null);
    const item = isOwn ? undefined : this.#byKey.get(credits);
    credits.awaitedUnits += needed;
    if (item === undefined) {
      const added = { credits, needed };
      this.items.push(added);
      this.#byKey.set(credits, added);
    } else {
      item.needed += needed;
    }
    if (question === null || this.#questions.at(-1) === question) return;
    question.join();
    this.#questions.push(question);
  }

  /** Only the first conclusion counts. */
  conclude(conclusion: Conclusion): void {
    if (this.#isConcluded) return;
    this.#isConcluded = true;
    for (const { credits, needed } of this.items) credits.awaitedUnits -= needed;
    for (const question of this.#questions) question.conclude(conclusion);
  }
}

// A request that waits for the store: for one call, or for several if its policies have counters in several places.

/** `answered`: every call has its answer. `alone`: one has not, and the request is decided without the store. */
export type Conclusion = "answered" | "alone";

export class Question {
  #open = 0;
  #conclusion: Conclusion = "answered";
  #onConcluded: ((conclusion: Conclusion) => void) | null;
  #timer: { cancel(): void } | null = null;

  /** `onConcluded` is called once, in another turn than the last `join`. */
  constructor(onConcluded: (conclusion: Conclusion) => void) {
    this.#onConcluded = onConcluded;
  }

  /** Must be called for all calls before one of them is concluded. */
  join(): void {
    this.#open += 1;
  }

  conclude(conclusion: Conclusion): void {
    if (conclusion === "alone") this.#conclusion = "alone";
    this.#open -= 1;
    if (this.#open === 0) this.#end(this.#conclusion);
  }

  /** Waits for the store no longer than this: its calls may, because they were begun for others. */
  endAfter(ms: number, parts: Timing): void {
    this.#timer ??= afterStoreTime(parts, ms, () => this.#end("alone"));
  }

  /** There is nobody to ask. Concluded in another turn. */
  nobodyAnswers(timers: Timers): void {
    this.join();
    timers.endOfTurn(() => this.conclude("alone"));
  }

  #end(conclusion: Conclusion): void {
    this.#timer?.cancel();
    this.#onConcluded?.(conclusion);
    this.#onConcluded = null;
  }
}
