// Latency by route, from the histograms of the metrics: what has been counted between two readings of their text.
import { latency } from "./format.js";

const bucketLine =
  /^headgate_(?<kind>upstream|request)_duration_seconds_bucket\{le="(?<bound>[^"]+)",route="(?<route>(?:[^"\\]|\\.)*)"\} (?<times>\d+)/gm;

/**
 * `last`: what was read before, or null. Returns `{ countersUsed, routes, sinceMs, atMs, histograms }`: `routes` are those that have
 * answered between both readings, or ever if there is one, those with the most first, each `{ route, upstream, request }` with
 * `count`, `p50` and `p99` as texts. `sinceMs`: of the last reading; null: since the start.
 */
export function readMetrics(text, atMs, last) {
  const lines = [...text.matchAll(bucketLine)].map(({ groups }) => groups);
  const histograms = Map.groupBy(lines, ({ kind, route }) => `${kind} ${route}`);
  const of = (name) => percentilesOf(histograms.get(name) ?? [], last?.histograms.get(name));
  const routes = [...new Set(lines.map(({ route }) => route))]
    .map((route) => ({ route, upstream: of(`upstream ${route}`), request: of(`request ${route}`) }))
    .filter(({ upstream }) => upstream.count > 0)
    .sort((a, b) => b.upstream.count - a.upstream.count);
  const [used, free] = ["used", "free"].map((state) => {
    return Number(text.split(`\nheadgate_counters_memory_bytes{state="${state}"} `)[1]?.split("\n")[0] ?? 0);
  });
  return { countersUsed: used / (used + free || 1), routes, sinceMs: last?.atMs ?? null, atMs, histograms };
}

/** `before`: what had been counted before; a gateway that started again since then counts from zero. */
function percentilesOf(buckets, before = []) {
  const isNew = Number(before.at(-1)?.times ?? 0) > Number(buckets.at(-1)?.times ?? 0);
  const times = buckets.map((bucket, i) => bucket.times - (isNew ? 0 : (before[i]?.times ?? 0)));
  const counted = times.at(-1) ?? 0;
  // As if the values of a bucket were spread evenly, but for the first and the last.
  const at = (share) => {
    const i = times.findIndex((each) => each >= share * counted);
    if (i === 0) return `< ${latency(buckets[0].bound)}`;
    const [from, to] = [Number(buckets[i - 1].bound), Number(buckets[i].bound)];
    if (buckets[i].bound === "+Inf") return `> ${latency(from)}`;
    return latency(from + ((to - from) * (share * counted - times[i - 1])) / (times[i] - times[i - 1]));
  };
  return counted === 0 ? { count: 0, p50: "–", p99: "–" } : { count: counted, p50: at(0.5), p99: at(0.99) };
}
