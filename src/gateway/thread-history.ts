// What each thread tells the history of the last minutes about itself.
import { getHeapStatistics } from "node:v8";
import { worstState } from "../core/store-link.ts";
import type { Store } from "../limits/store/store.ts";
import type { HistoryRow } from "../telemetry/recent/history.ts";

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
