// Latency by route, from the histograms of the metrics: what has been counted between two readings of their text.
import { latency } from "./format.js";

/**
 * `last`: what was read before, or null. Returns `{ countersUsed, routes, sinceMs, atMs, histograms }`: `routes` are those that have
 * answered between both readings, or ever if there is one, those with the most first, each `{ route, upstream, request }` with `count`, `p50`
 * and `p99` as texts. `sinceMs`: of the last reading; null: since the start.
 */
export function readMetrics(text, atMs, last) {
  const histograms = readHistograms(text);
  const routes = [...histograms.upstream]
    .map(([route, buckets]) => {
      const upstream = percentilesOf(buckets, last?.histograms.upstream.get(route));
      const request = percentilesOf(histograms.request.get(route) ?? [], last?.histograms.request.get(route));
      return { route, upstream, request };
    })
    .filter(({ upstream }) => upstream.count > 0)
    .sort((a, b) => b.upstream.count - a.upstream.count);
  return { countersUsed: readCountersUsed(text), routes, sinceMs: last?.atMs ?? null, atMs, histograms };
}

function readCountersUsed(text) {
  const figureOf = (name) => {
    const at = text.indexOf(`\n${name} `);
    return at === -1 ? 0 : Number.parseFloat(text.slice(at + name.length + 2));
  };
  const used = figureOf('headgate_counters_memory_bytes{state="used"}');
  const free = figureOf('headgate_counters_memory_bytes{state="free"}');
  return used / (used + free || 1);
}

const bucketLine =
  /^headgate_(upstream|request)_duration_seconds_bucket\{le="([^"]+)",route="((?:[^"\\]|\\.)*)"\} (\d+)/gm;

/** For each route its buckets: the upper bound in seconds, and how many were at most as long. */
function readHistograms(text) {
  const found = { upstream: new Map(), request: new Map() };
  for (const [, kind, bound, route, times] of text.matchAll(bucketLine)) {
    const buckets = found[kind].get(route) ?? [];
    buckets.push({ bound: bound === "+Inf" ? Number.POSITIVE_INFINITY : Number(bound), times: Number(times) });
    found[kind].set(route, buckets);
  }
  return found;
}

/** `before`: what had been counted before; a gateway that started again since then counts from zero. */
function percentilesOf(buckets, before = []) {
  const isNew = (before.at(-1)?.times ?? 0) > (buckets.at(-1)?.times ?? 0);
  const times = buckets.map((bucket, i) => bucket.times - (isNew ? 0 : (before[i]?.times ?? 0)));
  const counted = times.at(-1) ?? 0;
  // As if the values of a bucket were spread evenly, but for the first and the last.
  const at = (share) => {
    const i = times.findIndex((each) => each >= share * counted);
    const [from, to] = [buckets[i - 1]?.bound, buckets[i].bound];
    if (from === undefined) return `< ${latency(to)}`;
    if (to === Number.POSITIVE_INFINITY) return `> ${latency(from)}`;
    return latency(from + ((to - from) * (share * counted - times[i - 1])) / (times[i] - times[i - 1]));
  };
  if (counted === 0) return { count: 0, p50: "–", p99: "–" };
  return { count: counted, p50: at(0.5), p99: at(0.99) };
}
