// What one thread remembers of the last minutes, and its answers to the main thread. An admitted request costs the counts of
// the history and a branch. Columns are made with the first refusal, so a gateway that refuses nothing has none.
import type { Clock } from "../../core/clock.ts";
import type { ExchangeRecord } from "../../core/exchange-record.ts";
import type { RefusalReason } from "../../core/local-reply.ts";
import type { HistoryRow } from "./history.ts";
import { type LastRefusals, Refusals, type RefusalsOf, type RefusalsSince } from "./refusals.ts";
import { type KeySummary, RefusedKeys } from "./sketch.ts";

/** How much is remembered; 0: nothing. */
export interface RecentSizes {
  /** Refusals of all policies together. */
  readonly refusals: number;
  /** Refused keys of each policy. */
  readonly keys: number;
}

/** What the main thread asks a thread. Each answer is bounded in size. */
export type RecentQuestion =
  /** The last `limit` refusals. */
  | { readonly kind: "last"; readonly of: RefusalsOf; readonly limit: number }
  | { readonly kind: "refused"; readonly policy: string }
  /** What was refused since the last such question; `isFirst`: nothing, only what comes from now on is wanted. */
  | { readonly kind: "sample"; readonly isFirst: boolean; readonly limit: number };

export type RecentAnswer =
  | { readonly kind: "last"; readonly last: LastRefusals }
  | { readonly kind: "refused"; readonly summary: KeySummary }
  | { readonly kind: "sample"; readonly refused: RefusalsSince };

interface ThreadRecentOptions {
  readonly sizes: RecentSizes;
  readonly clock: Clock;
  readonly history: HistoryRow;
  /** Returns the part of a request's target that may be kept: in ASCII, without query and credentials. */
  readonly targetOf: (target: string) => string;
  /** Returns the id that a request came with, as it may be kept. */
  readonly requestIdOf: (exchange: ExchangeRecord) => string | null;
}

export class ThreadRecent {
  readonly history: HistoryRow;
  readonly #options: ThreadRecentOptions;
  #sizes: RecentSizes;
  #refusals: Refusals | null = null;
  #keys: RefusedKeys | null = null;
  /** The number of the last refusal of which a sample was told. */
  #sampledTo = 0;

  constructor(options: ThreadRecentOptions) {
    this.#options = options;
    this.history = options.history;
    this.#sizes = options.sizes;
  }

  get bytes(): Readonly<Record<"refusals" | "keys", number>> {
    return { refusals: this.#refusals?.bytes ?? 0, keys: this.#keys?.bytes ?? 0 };
  }

  /** Must be called once for each exchange, when it has ended. `path`: of its target; "" if none was read. */
  finish(exchange: ExchangeRecord, path: string): void {
    this.history.finished(exchange);
    const { problem } = exchange;
    if (problem !== null) this.#refused(exchange, problem, path);
  }

  /** Empties what gets another size. */
  resize(sizes: RecentSizes): void {
    if (sizes.refusals !== this.#sizes.refusals) {
      this.#refusals = null;
      this.#sampledTo = 0;
    }
    if (sizes.keys !== this.#sizes.keys) this.#keys = null;
    this.#sizes = sizes;
  }

  answer(question: RecentQuestion): RecentAnswer {
    switch (question.kind) {
      case "last": {
        const { of, limit } = question;
        return { kind: "last", last: this.#refusals?.last(of, limit) ?? { refusals: [], isComplete: true } };
      }
      case "refused": {
        const nowMs = this.#options.clock.monotonicMs();
        return { kind: "refused", summary: this.#keys?.summary(question.policy, nowMs) ?? { keys: [], floor: 0 } };
      }
      case "sample": {
        const after = question.isFirst ? Number.POSITIVE_INFINITY : this.#sampledTo;
        const refused = this.#refusals?.since(after, question.limit) ?? { last: 0, count: 0, sample: [] };
        this.#sampledTo = refused.last;
        return { kind: "sample", refused };
      }
    }
  }

  #refused(exchange: ExchangeRecord, reason: RefusalReason, path: string): void {
    const { decision, endedMs } = exchange;
    const { refusals, keys } = this.#sizes;
    const subject = exchange.subject;
    // Other refusals were not made by a policy: their decision only says what is left.
    if (keys > 0 && decision.outcome === "throttled") {
      this.#keys ??= new RefusedKeys(keys);
      this.#keys.add(decision.policy, decision.key, decision.client, subject, exchange.route, endedMs);
    }
    if (refusals === 0) return;
    this.#refusals ??= new Refusals(refusals, this.#options.clock);
    // Without a reading of the path, the target is still what a person looks for.
    const target = this.#options.targetOf(path === "" ? exchange.head.target : path);
    this.#refusals.add(exchange, reason, target, subject, this.#options.requestIdOf(exchange) ?? "");
  }
}
