// The metrics of the store that gateways share. A gateway without one does not have them.
import {
  type CallFailureKind,
  callFailureKinds,
  type SharedRulesFigures,
  type SharedStoreFigures,
  StoreCounts,
  type StoreHealth,
} from "../core/store-link.ts";
import { type Families, ofProcess } from "./families.ts";

export interface StoreSources {
  /** What this thread has done. */
  readonly figures: () => SharedStoreFigures;
  /** As the whole process sees the store. */
  readonly health: () => StoreHealth;
  /** Of the log of rules, which the process reads once. Null: another thread reads it. */
  readonly rules: (() => Pick<SharedRulesFigures, "state" | "untold">) | null;
}

/** The events that are counted. */
export interface StoreEventCounts {
  /** A call of the script was answered after this time, in time or late. */
  storeAnswered(seconds: number): void;
  /** A request has waited so long for the store, with or without an answer. */
  storeWaited(seconds: number): void;
  /** An attempt to connect has failed. */
  storeConnectFailed(reason: CallFailureKind): void;
}

export const withoutStore: StoreEventCounts = { storeAnswered() {}, storeWaited() {}, storeConnectFailed() {} };

/** Of a thread that does not use the store: the main thread beside workers. */
export const unusedStore: SharedStoreFigures = {
  ...new StoreCounts(),
  ...{ state: "away", shards: { up: 0, slow: 0, away: 0, returned: 0 }, replicas: 1, sinceMs: null },
  ...{ heldUnits: 0, heldLeases: 0 },
};

/** Returns only these values, because they are copied between threads. */
export function healthOf({ state, shards, replicas, sinceMs }: StoreHealth): StoreHealth {
  return { state, shards, replicas, sinceMs };
}

/** What is read at the scrape. */
export function storeMetrics(families: Families, sources: StoreSources): void {
  healthMetrics(families, oncePerTurn(sources.health));
  if (sources.rules !== null) rulesMetrics(families, oncePerTurn(sources.rules));
  threadMetrics(families, oncePerTurn(sources.figures));
}

export function storeEvents(families: Families): StoreEventCounts {
  const took = "From sending a call of the store's script to its answer.";
  const call = families.histogram("headgate_store_call_duration_seconds", took, secondsBounds).series();
  const waited = "Time that each request waited for an answer of the store.";
  const wait = families.histogram("headgate_store_wait_seconds", waited, secondsBounds).series();
  const failed = "Attempts to connect to the store that failed, by reason.";
  return {
    storeAnswered: (seconds) => call.observe(seconds),
    storeWaited: (seconds) => wait.observe(seconds),
    storeConnectFailed: families.counterBy("headgate_store_connect_failures_total", failed, "reason", callFailureKinds),
  };
}

/** The figures are of all keys that have leases, and one scrape reads them many times. */
function oncePerTurn<Read>(read: () => Read): () => Read {
  let last: Read | null = null;
  return () => {
    if (last === null) {
      setImmediate(() => {
        last = null;
      }).unref();
      last = read();
    }
    return last;
  };
}

const secondsBounds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];

const byState = { label: "state", ...ofProcess } as const;

function healthMetrics(families: Families, health: () => StoreHealth): void {
  const state = "1 for the state of the store, which is that of its shard that is worst off, 0 for the others.";
  const none = { up: 0, slow: 0, away: 0, returned: 0 };
  families.gauge("headgate_store_state", state, () => ({ ...none, [health().state]: 1 }), byState);
  const shards = "Shards of the store by state; a store that is no cluster is one.";
  families.gauge("headgate_store_shards", shards, () => ({ ...none, ...health().shards }), byState);
  const replicas = "Gateways that share the store, as this one counts them, or as configured.";
  families.gauge("headgate_store_replicas", replicas, () => health().replicas, ofProcess);
}

function rulesMetrics(families: Families, figures: NonNullable<StoreSources["rules"]>): void {
  const state = "1 for the state of the log of rules and forgiveness that gateways share, 0 for the others.";
  const none = { read: 0, unread: 0, away: 0 };
  families.gauge("headgate_shared_rules_state", state, () => ({ ...none, [figures().state]: 1 }), byState);
  const untold = "Rules, removals and forgivenesses that hold at this gateway alone, until the store can be told.";
  families.gauge("headgate_shared_rules_untold", untold, () => figures().untold, ofProcess);
}

/** What this thread has done. */
function threadMetrics(families: Families, figures: () => SharedStoreFigures): void {
  const calls = "Calls of the store's script by result; late: answered when nobody waited any more.";
  families.total("headgate_store_calls_total", calls, () => figures().calls, { label: "result" });
  families.total("headgate_store_items_total", "Counters that these calls were about.", () => figures().items);
  const waited = "Requests that waited for an answer of the store: it came, or was overdue.";
  families.total("headgate_store_waited_total", waited, () => figures().waited, { label: "result" });
  const alone = "Requests that were decided without the store, because it was not there, by how.";
  families.total("headgate_store_alone_total", alone, () => figures().alone, { label: "mode" });
  const late = "Requests that were decided without the store's answer, because it was late.";
  families.total("headgate_store_late_total", late, () => figures().late);
  const memory = "Requests that were refused without asking the store, because it had refused shortly before.";
  families.total("headgate_store_refused_from_memory_total", memory, () => figures().refusedFromMemory);
  const forgot = "Times a thread found that the store may have lost counts.";
  families.total("headgate_store_forgot_total", forgot, () => figures().forgot);
  const steps = "Times a thread found that the clock of the store had been set.";
  families.total("headgate_store_clock_steps_total", steps, () => figures().clockSteps);
  const units = "Units that the store granted, that were spent, and that were returned or ran out.";
  families.total("headgate_store_units_total", units, () => figures().units, { label: "fate" });
  families.gauge("headgate_store_held_units", "Units neither spent nor returned.", () => figures().heldUnits);
  families.gauge("headgate_store_held_leases", "Leases that have units for requests.", () => figures().heldLeases);
  const coarse = "Clients that were counted with their network, because too many new keys were made.";
  families.total("headgate_store_coarse_total", coarse, () => figures().coarse);
}
