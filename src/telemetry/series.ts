// Metric series that are bound to their labels once and are plain numbers from then on. prom-client hashes and validates
// labels on every inc() and observe(), about 2.6 µs for the seven that a request needs; here that happens at the scrape.
import { Counter, Gauge, type Metric, type Registry } from "prom-client";

export type Labels = Readonly<Record<string, string>>;

export interface CounterSeries {
  value: number;
}

export function add(series: CounterSeries | undefined): void {
  if (series !== undefined) series.value += 1;
}

/**
 * A counter family. `series` adds a member that starts at zero; members are never removed. `refresh` runs before each
 * scrape, for totals that are kept elsewhere.
 */
export function counterFamily(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly string[],
  refresh: () => void = () => {},
) {
  const members: { readonly labels: Labels; readonly series: CounterSeries }[] = [];
  new Counter({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      refresh();
      this.reset();
      for (const { labels, series } of members) this.inc(labels, series.value);
    },
  });
  return {
    series(labels: Labels): CounterSeries {
      const series = { value: 0 };
      members.push({ labels, series });
      return series;
    },
  };
}

/** One series for each value of the label, by that value. */
export function counterByLabel<K extends string>(
  registry: Registry,
  name: string,
  help: string,
  label: string,
  values: readonly K[],
  fixed: Labels = {},
): ReadonlyMap<K, CounterSeries> {
  const family = counterFamily(registry, name, help, [...Object.keys(fixed), label]);
  return new Map(values.map((value) => [value, family.series({ ...fixed, [label]: value })]));
}

/** A gauge that is read at the scrape. */
export function gauge(
  registry: Registry,
  name: string,
  help: string,
  labelNames: readonly string[],
  read: (set: (labels: Labels, value: number) => void) => void,
): void {
  new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      read((labels, value) => this.set(labels, value));
    },
  });
}

export class HistogramSeries {
  /** Per bucket, not cumulative. The last bucket holds the values above every bound. */
  readonly counts: Float64Array;
  sum = 0;
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] as number) + 1;
    this.sum += value;
  }
}

/** A histogram family. `bounds` are the upper bounds of the buckets, inclusive and ascending. */
export function histogramFamily(registry: Registry, name: string, help: string, bounds: readonly number[]) {
  const members: { readonly labels: Labels; readonly series: HistogramSeries }[] = [];
  const metric = {
    name,
    help,
    type: "histogram",
    get: async () => ({
      name,
      help,
      type: "histogram",
      aggregator: "sum",
      values: members.flatMap(({ labels, series }) => samples(name, bounds, labels, series)),
    }),
  };
  // The registry uses only these members of a metric; its type asks for one of the four classes.
  registry.registerMetric(metric as unknown as Metric);
  return {
    series(labels: Labels = {}): HistogramSeries {
      const series = new HistogramSeries(bounds);
      members.push({ labels, series });
      return series;
    },
  };
}

function samples(name: string, bounds: readonly number[], labels: Labels, series: HistogramSeries) {
  let count = 0;
  const buckets = Array.from(series.counts, (inBucket, i) => {
    count += inBucket;
    return { metricName: `${name}_bucket`, labels: { le: bounds[i] ?? "+Inf", ...labels }, value: count };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: series.sum },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
