// Opens the store that gateways share, for the counters of one thread.
import { setTimeout as sleep } from "node:timers/promises";
import { readRegularFile } from "../config/files.ts";
import type { Clock } from "../core/clock.ts";
import type { Settings } from "../core/settings.ts";
import type { Timers } from "../core/store-link.ts";
import { threadLength } from "../limits/store/script-call.ts";
import type { Store } from "../limits/store/store.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { randomText, type ThreadCounters } from "./open-counters.ts";

export const systemTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return { cancel: () => clearTimeout(timer) };
  },
  endOfTurn(run) {
    setImmediate(run);
  },
};

/** Null if the counters are not shared. `readForgiven`: see there. What it needs is loaded here, because a gateway without a store does not need it. */
export async function createStore(
  { counters: { redis } }: Settings,
  clock: Clock,
  counters: ThreadCounters,
  telemetry: Pick<
    Telemetry,
    "storeChanged" | "storeConnectFailed" | "storeIdentified" | "storeShardGone" | "storeAnswered" | "storeWaited"
  >,
  readForgiven?: () => Promise<unknown>,
): Promise<Store | null> {
  if (redis === null) return null;
  const [{ openRedisLink }, { Store }, { storeScript }] = await Promise.all([
    import("../limits/store/redis/link.ts"),
    import("../limits/store/store.ts"),
    import("../limits/store/script.ts"),
  ]);
  const { table, owner: gateway, keySecret, keyHash } = counters;
  const link = openRedisLink(redis.connection, { script: storeScript, readFile: readRegularFile });
  const store = new Store({
    ...{ link, clock, table, gateway, timers: systemTimers, settings: redis.store },
    thread: randomText(threadLength),
    secret: keySecret,
    onSecret(secret) {
      // Keys that were counted with another secret are not found again.
      keySecret.set(secret);
      keyHash.replaceKey(secret);
    },
    onChange: telemetry.storeChanged,
    onGone: telemetry.storeShardGone,
    onIdentity: telemetry.storeIdentified,
    onAnswered: telemetry.storeAnswered,
    onWaited: telemetry.storeWaited,
    ...(readForgiven !== undefined && { readForgiven }),
  });
  // For the log and the metrics alone: for the limiter, the shard stays away.
  link.events.onConnectFailed = telemetry.storeConnectFailed;
  return store;
}

/** A store that is away delays the start by so much. */
const reachedTimeoutMs = 1_000;

/** Connects, and waits a little for the store, so that the first requests are not decided without it. */
export async function connectStore(store: Store): Promise<void> {
  store.open();
  await inTime(store.shards.reached());
}

/** Resolves at the latest after a time by which the start may be delayed. */
export async function inTime(reached: Promise<void>): Promise<void> {
  const late = new AbortController();
  await Promise.race([reached, sleep(reachedTimeoutMs, undefined, { signal: late.signal })]);
  late.abort();
}
