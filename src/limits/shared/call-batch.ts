// The items that leave in one call: what requests of one turn of the event loop need of one shard. What a turn needs beyond
// one call is in batches of its own, so that many requests are decided in portions.
import type { KeyCredits } from "./key-credits.ts";
import type { Conclusion, Question } from "./question.ts";

export interface BatchItem {
  readonly credits: KeyCredits;
  /** Units that requests wait for. */
  needed: number;
}

export interface SentCall {
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
