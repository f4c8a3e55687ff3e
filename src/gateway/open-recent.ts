// Opens what remembers the last minutes: the part of each thread that carries traffic, and the sum in the main thread.
import { getHeapStatistics } from "node:v8";
import type { Clock } from "../core/clock.ts";
import type { PolicyStats } from "../core/limiter.ts";
import type { Settings } from "../core/settings.ts";
import { worstState } from "../core/store-link.ts";
import type { Store } from "../limits/store/store.ts";
import { createErrorLog, keptTarget, type Logger, loggedRequestId } from "../telemetry/log.ts";
import { HistoryRow } from "../telemetry/recent/history.ts";
import { Recent, type RecentThreads } from "../telemetry/recent/recent.ts";
import type { RecentMemory } from "../telemetry/recent/recent-memory.ts";
import { ThreadRecent } from "../telemetry/recent/thread-recent.ts";

/** `history`: the row of the thread. Default: there is one thread. */
export function openThreadRecent({ admin }: Settings, clock: Clock, history?: HistoryRow): ThreadRecent {
  const row = history ?? new HistoryRow(HistoryRow.createMemory(), 0);
  const forms = { clock, targetOf: keptTarget, requestIdOf: loggedRequestId };
  return new ThreadRecent({ sizes: admin.recent, history: row, ...forms });
}

/** How often a thread tells the main thread. A step of the history is five times as long. */
const reportMs = 1_000;

/** Tells the history what the thread sees of its memory and of the store, until the returned function is called. */
export function reportRegularly(history: HistoryRow, store: Store | null): () => void {
  const report = (): void => {
    const { used_heap_size, external_memory } = getHeapStatistics();
    history.memorySeen(used_heap_size, external_memory);
    if (store !== null) history.storeSeen(worstState(store.shards.states()), store.counts.late);
  };
  report();
  const timer = setInterval(report, reportMs).unref();
  return () => clearInterval(timer);
}

interface RecentSources {
  readonly workers: {
    readonly settings: Settings;
    readonly serving: {
      readonly recent: RecentThreads;
      /** What each policy in force has said since the start, in all threads. */
      policyStats(): readonly PolicyStats[];
    };
  };
  readonly recentMemory: RecentMemory;
  readonly clock: Clock;
  readonly log: Logger;
  /** The memory of the process, as the system counts it. */
  readonly residentBytes: () => number;
}

/** Must be closed. */
export function openRecent({ workers, log, ...sources }: RecentSources): Recent {
  return new Recent({
    ...sources,
    threads: workers.serving.recent,
    sizes: () => workers.settings.admin.recent,
    policies: () => workers.serving.policyStats().map(({ policy, outcomes }) => ({ policy: policy.name, outcomes })),
    onFailure: createErrorLog(log),
  });
}
