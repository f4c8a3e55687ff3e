// The parts that queries are built from. `gateway` and `requests` contain the dashboard's variables, so that no panel
// ignores what the user chose.
import { lines } from "./colors.ts";
import type { Query } from "./panel.ts";

/** Selects the chosen gateways. */
export const gateway = 'job=~"$job", instance=~"$instance"';

/** Selects the chosen routes of the chosen gateways, for metrics with a route label. */
export const requests = `${gateway}, route=~"$route"`;

/** Events per second. */
export function rate(metric: string, labels: string): string {
  return `rate(${metric}{${labels}}[$__rate_interval])`;
}

/** Events per second in all series together, or for each value of the labels in `by`. */
export function sumRate(metric: string, labels: string, by = ""): string {
  return by === "" ? `sum(${rate(metric, labels)})` : `sum by (${by}) (${rate(metric, labels)})`;
}

/** Requests and checks that were decided, each once: every policy that applies makes a decision of its own. */
export const decided = sumRate("headgate_auth_total", gateway);

/** From 0 to 1. It is 0 while both are 0, and has no value while one of them has none: no number stands in for it. */
export function share(part: string, whole: string): string {
  return `${part} / (${whole} > 0) or ${part} + ${whole} == 0`;
}

/**
 * Leaves out the other programs that have such a metric: a job like `kubernetes-pods` has them among its targets.
 * `own`: a label that the target does not have.
 */
export function ofGateways(expr: string, own = ""): string {
  return `${expr} and ${own === "" ? "" : `ignoring (${own}) `}headgate_draining{${gateway}}`;
}

/** The median, the 90th and the 99th percentile of a histogram, as p50, p90 and p99. */
export function quantiles(histogram: string, labels: string): Query[] {
  return [
    { expr: quantile(0.5, histogram, labels), legend: "p50", color: lines.first },
    { expr: quantile(0.9, histogram, labels), legend: "p90", color: lines.second },
    { expr: quantile(0.99, histogram, labels), legend: "p99", color: lines.third },
  ];
}

/** Quantile `q`, from 0 to 1. `histogram`: the name without `_bucket`. */
export function quantile(q: number, histogram: string, labels: string, by = ""): string {
  const kept = by === "" ? "le" : `${by}, le`;
  return `histogram_quantile(${q}, sum by (${kept}) (${rate(`${histogram}_bucket`, labels)}))`;
}
