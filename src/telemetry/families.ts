// Families of metrics whose series are bound to their labels once and are plain numbers from then on. prom-client
// hashes and validates labels on every inc() and observe(), which takes about 2.6 µs for the seven that a request
// needs. Each family says how it is merged where several threads have it.
import {
  type FamilyFigures,
  type FamilyType,
  joinedSeries,
  type Labels,
  linePrefix,
  type Merge,
  type Samples,
} from "./figures.ts";

/** Reads a family as it is now. */
export type FamilyReader = () => FamilyFigures | Promise<FamilyFigures>;

/** The figures of all families, each read when it is asked for. */
export async function* figuresOf(families: Iterable<FamilyReader>): AsyncGenerator<FamilyFigures> {
  for (const read of families) yield read();
}

/** One value, or a value for each value of a label. */
export type Reading = number | Readonly<Record<string, number>>;

/** How a reading is labelled: `label` names the label of a reading with several values, `fixed` are the others. */
interface Labelling {
  readonly label?: string;
  readonly fixed?: Labels;
}

type LabelledReadings = readonly { readonly labels: Labels; readonly value: number }[];

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

  /** Takes a value in parts of which so many are one: V8 allocates nothing to pass whole numbers. */
  observe(parts: number, partsOfOne = 1): void {
    const value = parts / partsOfOne;
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] as number) + 1;
    this.sum += value;
  }
}

/** Makes something when it is first asked for. */
export function once<Made>(make: () => Made): () => Made {
  let made: Made | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** A family that only the main thread has, which reports it for all threads. */
export const ofProcess = { merge: "process" } as const;

interface CounterOptions {
  /** Default: `sum`. */
  readonly merge?: "sum" | "process";
}

interface GaugeOptions {
  /** Default: `sum`. */
  readonly merge?: Merge;
}

export class Families {
  readonly all: FamilyReader[] = [];
  readonly #isWanted: (merge: Merge) => boolean;

  /** A family that is not wanted can be counted and read like the others, but is not among `all`. */
  constructor(isWanted: (merge: Merge) => boolean = () => true) {
    this.#isWanted = isWanted;
  }

  /** A counter with one series, or more by `series`. Each starts at zero and is never removed. */
  counter(name: string, help: string, { merge = "sum" }: CounterOptions = {}): SeriesOf<CounterSeries> {
    const members = new Members<CounterSeries>(({ value }, into, at) => {
      into[at] = value;
      return at + 1;
    });
    this.#register(name, help, "counter", merge, () => members.samples());
    return { series: (labels = {}) => members.add(new CounterSeries(), [linePrefix(name, labels)]) };
  }

  /** A counter with one series for each value of the label. Returns the function that counts one. */
  counterBy<Value extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly Value[],
    options: CounterOptions = {},
  ): (value: Value) => void {
    const family = this.counter(name, help, options);
    const byValue = new Map(values.map((value) => [value, family.series({ [label]: value })]));
    let last: Value | null = null;
    let series: CounterSeries | undefined;
    return (value) => {
      if (value !== last) {
        last = value;
        series = byValue.get(value);
      }
      series?.add();
    };
  }

  /** `bounds` are the upper bounds of the buckets, inclusive and ascending. */
  histogram(name: string, help: string, bounds: readonly number[]): SeriesOf<HistogramSeries> {
    const members = new Members<HistogramSeries>(copyHistogram);
    this.#register(name, help, "histogram", "sum", () => members.samples());
    return {
      series: (labels = {}) => members.add(new HistogramSeries(bounds), histogramPrefixes(name, bounds, labels)),
    };
  }

  /** A gauge that is read at the scrape. */
  gauge(name: string, help: string, read: () => Reading, options: Labelling & GaugeOptions = {}): void {
    this.gauges(name, help, () => labelled(read(), options), options);
  }

  /** A counter whose total is kept elsewhere and read at the scrape. */
  total(name: string, help: string, read: () => Reading, options: Labelling & CounterOptions = {}): void {
    this.totals(name, help, () => labelled(read(), options), options);
  }

  /** Gauges with series that may come and go, read at the scrape. */
  gauges(name: string, help: string, read: () => LabelledReadings, { merge = "sum" }: GaugeOptions = {}): void {
    this.#register(name, help, "gauge", merge, () => readSamples(name, read()));
  }

  /** Counters with series that may come and go, whose totals are kept elsewhere and read at the scrape. */
  totals(name: string, help: string, read: () => LabelledReadings, { merge = "sum" }: CounterOptions = {}): void {
    this.#register(name, help, "counter", merge, () => readSamples(name, read()));
  }

  #register(name: string, help: string, type: FamilyType, merge: Merge, read: () => Samples): void {
    if (this.#isWanted(merge)) this.all.push(() => ({ name, help, type, merge, ...read() }));
  }
}

interface SeriesOf<Series> {
  series(labels?: Labels): Series;
}

/** The series of a family, and the text before their values, which is made again only when there is a new one. */
class Members<Series> {
  readonly #series: Series[] = [];
  readonly #prefixes: string[] = [];
  #text: string | null = null;
  readonly #copy: (series: Series, into: Float64Array, at: number) => number;

  /** `copy` writes the values of a series from `at` on, and returns where the next one begins. */
  constructor(copy: (series: Series, into: Float64Array, at: number) => number) {
    this.#copy = copy;
  }

  add(series: Series, prefixes: readonly string[]): Series {
    this.#series.push(series);
    this.#prefixes.push(...prefixes);
    this.#text = null;
    return series;
  }

  samples(): Samples {
    this.#text ??= joinedSeries(this.#prefixes);
    const values = new Float64Array(this.#prefixes.length);
    let at = 0;
    for (const series of this.#series) at = this.#copy(series, values, at);
    return { series: this.#text, values };
  }
}

function readSamples(name: string, readings: LabelledReadings): Samples {
  return {
    series: joinedSeries(readings.map(({ labels }) => linePrefix(name, labels))),
    values: Float64Array.from(readings, ({ value }) => value),
  };
}

function labelled(reading: Reading, { label = "", fixed = {} }: Labelling): LabelledReadings {
  if (typeof reading === "number") return [{ labels: fixed, value: reading }];
  return Object.entries(reading).map(([name, value]) => ({ labels: { ...fixed, [label]: name }, value }));
}

/** Returns the line prefixes of the buckets, the sum and the count. */
function histogramPrefixes(name: string, bounds: readonly number[], labels: Labels): string[] {
  return [
    ...[...bounds.map(boundText), "+Inf"].map((le) => linePrefix(`${name}_bucket`, { le, ...labels })),
    linePrefix(`${name}_sum`, labels),
    linePrefix(`${name}_count`, labels),
  ];
}

/** `1.0`, `5e-05`: as Prometheus 3 rewrites `le` when it ingests it. So a query finds the bucket in every version. */
function boundText(bound: number): string {
  if (Number.isInteger(bound)) return bound.toFixed(1);
  return bound < 0.0001 ? bound.toExponential().replace(/-(\d)$/, "-0$1") : `${bound}`;
}

function copyHistogram({ counts, sum }: HistogramSeries, into: Float64Array, start: number): number {
  let at = start;
  let count = 0;
  for (const inBucket of counts) {
    count += inBucket;
    into[at++] = count;
  }
  into[at++] = sum;
  into[at++] = count;
  return at;
}
