// The pieces that every query is made of. `gateway` and `requests` are where the dashboard's variables come in, so that
// no panel forgets one.
import { lines } from "./colors.ts";
import type { Query } from "./panel.ts";

/** The chosen gateways. */
export const gateway = 'job=~"$job", instance=~"$instance"';

/** The chosen routes of them, for the metrics that know of routes. */
export const requests = `${gateway}, route=~"$route"`;

/** Events a second. */
export function rate(metric: string, labels: string): string {
  return `rate(${metric}{${labels}}[$__rate_interval])`;
}

/** The sum of all series, or one for each value of the labels in `by`. */
export function sumRate(metric: string, labels: string, by = ""): string {
  return by === "" ? `sum(${rate(metric, labels)})` : `sum by (${by}) (${rate(metric, labels)})`;
}

/** From 0 to 1; 0 while there is nothing to take a share of, and no value while nobody tells anything. */
export function share(part: string, whole: string): string {
  return `${part} / (${whole} > 0) or 0 * ${whole}`;
}

/** The median, the 90th and the 99th percentile, each under its usual name. */
export function quantiles(histogram: string, labels: string): Query[] {
  return [
    { expr: quantile(0.5, histogram, labels), legend: "p50", color: lines.first },
    { expr: quantile(0.9, histogram, labels), legend: "p90", color: lines.second },
    { expr: quantile(0.99, histogram, labels), legend: "p99", color: lines.third },
  ];
}

/** `q` from 0 to 1, of a histogram's name without `_bucket`. */
export function quantile(q: number, histogram: string, labels: string, by = ""): string {
  const kept = by === "" ? "le" : `${by}, le`;
  return `histogram_quantile(${q}, sum by (${kept}) (${rate(`${histogram}_bucket`, labels)}))`;
}
