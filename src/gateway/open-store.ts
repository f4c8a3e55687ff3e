// Opens the store that gateways share, for the counters of one thread.
import { readRegularFile } from "../config/files.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import type { Settings } from "../core/settings.ts";
import type { Timers } from "../core/store-link.ts";
import { threadLength } from "../limits/store/script-call.ts";
import type { Store } from "../limits/store/store.ts";
import type { Timing } from "../limits/store/store-clock.ts";
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

/** Keeps the process alive: perhaps nothing else does that while it starts. */
const startTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return { cancel: () => clearTimeout(timer) };
  },
  endOfTurn: systemTimers.endOfTurn,
};
const startTiming: Timing = { clock: systemClock, timers: startTimers };

/** Connects, and waits a little for the store, so that the first requests are not decided without it. */
export async function connectStore(store: Store): Promise<void> {
  store.open();
  await inTime(store.shards.reached());
}

/**
 * Resolves at the latest after a time by which the start may be delayed. While it starts, this thread may stand still for longer: a
 * store that has answered meanwhile is there.
 */
export async function inTime(reached: Promise<void>, timing = startTiming): Promise<void> {
  const { afterStoreTime } = await import("../limits/store/store-clock.ts");
  const late = Promise.withResolvers<void>();
  const wait = afterStoreTime(timing, reachedTimeoutMs, late.resolve);
  await Promise.race([reached, late.promise]);
  wait.cancel();
}
