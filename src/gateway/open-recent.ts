// Opens what remembers the last minutes: the part of each thread that carries traffic, and the sum in the main thread.
import { getHeapStatistics } from "node:v8";
import type { Clock } from "../core/clock.ts";
import type { Settings } from "../core/settings.ts";
import { worstState } from "../core/store-link.ts";
import type { Store } from "../limits/store/store.ts";
import { keptTarget, type Logger, loggedRequestId } from "../telemetry/log.ts";
import { historyBytes as countsBytes, HistoryRow } from "../telemetry/recent/history.ts";
import { policyHistoryBytes } from "../telemetry/recent/policy-history.ts";
import { Recent } from "../telemetry/recent/recent.ts";
import { ThreadRecent } from "../telemetry/recent/thread-recent.ts";
import type { RecentBytes } from "../telemetry/scraped-metrics.ts";
import type { Carrier } from "./carrier.ts";

/** `history`: the row of the thread. Default: there is one thread. */
export function openThreadRecent({ admin }: Settings, clock: Clock, history?: HistoryRow): ThreadRecent {
  const row = history ?? new HistoryRow(HistoryRow.createMemory(), 0);
  const kept = { targetOf: keptTarget, requestIdOf: loggedRequestId };
  return new ThreadRecent({ sizes: admin.recent, clock, history: row, ...kept });
}

const historyBytes = countsBytes + policyHistoryBytes;

/** For the metrics. With workers, the main thread has the history. */
export function recentBytesOf(recent: ThreadRecent, { workers }: Settings): RecentBytes {
  return { ...recent.bytes, history: workers === 1 ? historyBytes : 0 };
}

/** For the metrics of a main thread with workers. */
export const recentBytesOfMain: RecentBytes = { refusals: 0, keys: 0, history: historyBytes };

/** A step of the history is five times as long. */
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
  readonly carrier: Pick<Carrier, "recent" | "overview">;
  readonly clock: Clock;
  readonly log: Logger;
  /** The memory of the process, as the system counts it. */
  readonly residentBytes: () => number;
}

/** Must be closed. */
export function openRecent({ counters }: Settings, { carrier, clock, log, residentBytes }: RecentSources): Recent {
  return new Recent({
    ...{ threads: carrier.recent, clock, hasStore: counters.redis !== null, residentBytes },
    policies: async () => (await carrier.overview()).policies,
    onFailure: (error) => log.error({ err: error }, "internal error"),
  });
}
