// Families of metrics whose series are bound to their labels once and are plain numbers from then on. prom-client
// hashes and validates labels on every inc() and observe(), which takes about 2.6 µs for the seven that a request
// needs. Counters and histograms write their labels as text once.
import { Counter, Gauge, type Metric, type Registry } from "prom-client";
import { type Labels, linePrefix, metricText, type TextMetric } from "./series-text.ts";

/** One value, or a value for each value of a label. */
export type Reading = number | Readonly<Record<string, number>>;

/** How a reading is labelled: `label` names the label of a reading with several values, `fixed` are the others. */
export interface Labelling {
  readonly label?: string;
  readonly fixed?: Labels;
}

export interface LabelledReading {
  readonly labels: Labels;
  readonly value: number;
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
  counter(name: string, help: string): { series(labels: Labels): CounterSeries } {
    const members: { readonly prefix: string; readonly series: CounterSeries }[] = [];
    this.#register(name, help, "counter", () => members.map(({ prefix, series }) => `${prefix}${series.value}`));
    return {
      series(labels) {
        const series = new CounterSeries();
        members.push({ prefix: linePrefix(name, labels), series });
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
    const family = this.counter(name, help);
    const byValue = new Map(values.map((value) => [value, family.series({ ...fixed, [label]: value })]));
    return (value) => byValue.get(value)?.add();
  }

  /** `bounds` are the upper bounds of the buckets, inclusive and ascending. */
  histogram(name: string, help: string, bounds: readonly number[]): { series(labels?: Labels): HistogramSeries } {
    const members: { readonly prefixes: readonly string[]; readonly series: HistogramSeries }[] = [];
    this.#register(name, help, "histogram", () =>
      members.flatMap(({ prefixes, series }) => histogramLines(prefixes, series)),
    );
    return {
      series(labels = {}) {
        const series = new HistogramSeries(bounds);
        members.push({ prefixes: histogramPrefixes(name, bounds, labels), series });
        return series;
      },
    };
  }

  #register(name: string, help: string, type: string, lines: () => string[]): void {
    const metric: TextMetric = { text: () => metricText(name, type, help, lines()) };
    // The registry keeps a metric by its name; its type asks for one of the four classes.
    this.#registry.registerMetric({ ...metric, name } as unknown as Metric);
  }

  /** A gauge that is read at the scrape. */
  gauge(name: string, help: string, read: () => Reading, labelling?: Labelling): void {
    this.gauges(name, help, labelNames(labelling), () => labelled(read(), labelling));
  }

  /** A counter whose total is kept elsewhere and read at the scrape. */
  total(name: string, help: string, read: () => Reading, labelling?: Labelling): void {
    this.totals(name, help, labelNames(labelling), () => labelled(read(), labelling));
  }

  /** Gauges with series that may come and go, read at the scrape. */
  gauges(name: string, help: string, labelNames: readonly string[], read: () => readonly LabelledReading[]): void {
    this.#readSeries(Gauge, { name, help, labelNames: [...labelNames] }, read);
  }

  /** Counters with series that may come and go, whose totals are kept elsewhere and read at the scrape. */
  totals(name: string, help: string, labelNames: readonly string[], read: () => readonly LabelledReading[]): void {
    this.#readSeries(Counter, { name, help, labelNames: [...labelNames] }, read);
  }

  #readSeries(
    Family: typeof Counter | typeof Gauge,
    family: { readonly name: string; readonly help: string; readonly labelNames: string[] },
    read: () => readonly LabelledReading[],
  ): void {
    new Family({
      ...family,
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { labels, value } of read()) this.inc(labels, value);
      },
    });
  }
}

function labelNames({ label, fixed = {} }: Labelling = {}): string[] {
  return [...Object.keys(fixed), ...(label === undefined ? [] : [label])];
}

function labelled(reading: Reading, { label = "", fixed = {} }: Labelling = {}): LabelledReading[] {
  if (typeof reading === "number") return [{ labels: fixed, value: reading }];
  return Object.entries(reading).map(([name, value]) => ({ labels: { ...fixed, [label]: name }, value }));
}

/** Returns the line prefixes of the buckets, the sum and the count. */
function histogramPrefixes(name: string, bounds: readonly number[], labels: Labels): string[] {
  return [
    ...[...bounds, "+Inf"].map((le) => linePrefix(`${name}_bucket`, { le: `${le}`, ...labels })),
    linePrefix(`${name}_sum`, labels),
    linePrefix(`${name}_count`, labels),
  ];
}

function histogramLines(prefixes: readonly string[], { counts, sum }: HistogramSeries): string[] {
  let count = 0;
  const values = Array.from(counts, (inBucket) => {
    count += inBucket;
    return count;
  });
  return [...values, sum, count].map((value, i) => `${prefixes[i]}${value}`);
}
