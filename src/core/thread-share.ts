// What one of several threads may use of a bound of the process. What protects memory or the upstream is divided evenly
// and rounded down, so that all threads together stay within the bound; no share is below 1. What is counted for all
// threads together (open connections, the policies) is not divided.
import type { Settings } from "./settings.ts";

/** Threads that carry traffic, at most. They are numbered from 1. */
export const maxThreads = 64;

export function shareOf(bound: number, threads: number): number {
  return Math.max(1, Math.floor(bound / threads));
}

/**
 * The settings of each of the `workers` threads. With one thread they are the same. What `listen` bounds is whole here:
 * gateway/configuration.ts divides what is not counted for all threads.
 */
export function settingsOfThread(settings: Settings): Settings {
  const { workers, upstream, upgrade, extAuth, refusals, counters, admin } = settings;
  if (workers === 1) return settings;
  const share = (bound: number): number => shareOf(bound, workers);
  const callers = <T extends { readonly maxConnections: number }>(listener: T | null): T | null =>
    listener && { ...listener, maxConnections: share(listener.maxConnections) };
  const { redis } = counters;
  return {
    ...settings,
    admin: { ...admin, recent: withShareOfRefusals(admin.recent, workers) },
    counters: redis === null ? counters : { ...counters, redis: withShareOfKeys(redis, workers) },
    upstream: { ...upstream, maxConnections: share(upstream.maxConnections) },
    upgrade: { ...upgrade, maxTunnels: share(upgrade.maxTunnels) },
    extAuth: { ...extAuth, http: callers(extAuth.http), grpc: callers(extAuth.grpc) },
    refusals: { perSecond: share(refusals.perSecond), burst: share(refusals.burst) },
  };
}

type RecentSettings = Settings["admin"]["recent"];

/** Not of the keys: with fewer of them each count would be less exact. */
function withShareOfRefusals(recent: RecentSettings, workers: number): RecentSettings {
  return { ...recent, refusals: recent.refusals === 0 ? 0 : shareOf(recent.refusals, workers) };
}

type SharedCounters = NonNullable<Settings["counters"]["redis"]>;

function withShareOfKeys(redis: SharedCounters, workers: number): SharedCounters {
  return { ...redis, store: { ...redis.store, maxKeys: shareOf(redis.store.maxKeys, workers) } };
}
