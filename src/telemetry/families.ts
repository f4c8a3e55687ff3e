// Families of metrics whose series are bound to their labels once and are plain numbers from then on. prom-client hashes and
// validates labels on every inc() and observe(), about 2.6 µs for the seven that a request needs; here that happens at the
// scrape.
import { Counter, Gauge, type Metric, type Registry } from "prom-client";

type Labels = Readonly<Record<string, string>>;

/** One value, or a value for each value of a label. */
export type Reading = number | Readonly<Record<string, number>>;

/** How a reading is labelled: `label` names the label of a reading with several values, `fixed` are the others. */
export interface Labelling {
  readonly label?: string;
  readonly fixed?: Labels;
}

/** A number that only grows. */
export class CounterSeries {
  value = 0;

  add(): void {
    this.value += 1;
  }
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

export class Families {
  readonly #registry: Registry;

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /** A counter with one series, or more by `series`. Each starts at zero and is never removed. */
  counter(name: string, help: string, labelNames: readonly string[]): { series(labels: Labels): CounterSeries } {
    const members: { readonly labels: Labels; readonly series: CounterSeries }[] = [];
    new Counter({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { labels, series } of members) this.inc(labels, series.value);
      },
    });
    return {
      series(labels) {
        const series = new CounterSeries();
        members.push({ labels, series });
        return series;
      },
    };
  }

  /** A counter with one series for each value of the label. Returns the function that counts one. */
  counterBy<Value extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly Value[],
    fixed: Labels = {},
  ): (value: Value) => void {
    const family = this.counter(name, help, [...Object.keys(fixed), label]);
    const byValue = new Map(values.map((value) => [value, family.series({ ...fixed, [label]: value })]));
    return (value) => byValue.get(value)?.add();
  }

  /** `bounds` are the upper bounds of the buckets, inclusive and ascending. */
  histogram(name: string, help: string, bounds: readonly number[]): { series(labels?: Labels): HistogramSeries } {
    const members: { readonly labels: Labels; readonly series: HistogramSeries }[] = [];
    const family = { name, help, type: "histogram", aggregator: "sum" };
    const values = () => members.flatMap(({ labels, series }) => samples(name, bounds, labels, series));
    // The registry uses only these members of a metric; its type asks for one of the four classes.
    this.#registry.registerMetric({
      ...family,
      get: async () => ({ ...family, values: values() }),
    } as unknown as Metric);
    return {
      series(labels = {}) {
        const series = new HistogramSeries(bounds);
        members.push({ labels, series });
        return series;
      },
    };
  }

  /** A gauge that is read at the scrape. */
  gauge(name: string, help: string, read: () => Reading, labelling?: Labelling): void {
    this.#readAtScrape(Gauge, name, help, read, labelling);
  }

  /** A counter whose total is kept elsewhere and read at the scrape. */
  total(name: string, help: string, read: () => Reading, labelling?: Labelling): void {
    this.#readAtScrape(Counter, name, help, read, labelling);
  }

  #readAtScrape(
    Family: typeof Counter | typeof Gauge,
    name: string,
    help: string,
    read: () => Reading,
    { label, fixed = {} }: Labelling = {},
  ): void {
    new Family({
      name,
      help,
      labelNames: [...Object.keys(fixed), ...(label === undefined ? [] : [label])],
      registers: [this.#registry],
      collect() {
        const reading = read();
        this.reset();
        if (typeof reading === "number") this.inc(fixed, reading);
        else for (const [value, n] of Object.entries(reading)) this.inc({ ...fixed, [label ?? ""]: value }, n);
      },
    });
  }
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
