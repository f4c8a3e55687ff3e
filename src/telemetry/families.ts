// Families of metrics whose series are bound to their labels once and are plain numbers from then on. prom-client
// hashes and validates labels on every inc() and observe(), which takes about 2.6 µs for the seven that a request
// needs. What is counted is in cells, which other threads can read. Each family says how it is merged where several threads
// have it.
import { type CellRange, Cells } from "../core/cells.ts";
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
export type FamilyValue = number | Readonly<Record<string, number>>;

/** How a reading is labelled: `label` names the label of a reading with several values, `fixed` are the others. */
interface Labelling {
  readonly label?: string;
  readonly fixed?: Labels;
}

type LabelledReadings = readonly { readonly labels: Labels; readonly value: number }[];

/** A number that only grows. */
export class CounterSeries {
  readonly #cells: Float64Array;
  readonly #at: number;

  constructor({ cells, at }: CellRange) {
    this.#cells = cells;
    this.#at = at;
  }

  add(): void {
    this.#cells[this.#at] = (this.#cells[this.#at] as number) + 1;
  }
}

/** Cells: one count per bucket (not cumulative; the last is above every bound), then the sum. */
export class HistogramSeries {
  readonly #cells: Float64Array;
  readonly #at: number;
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[], { cells, at }: CellRange) {
    this.#bounds = bounds;
    this.#cells = cells;
    this.#at = at;
  }

  /** Observes `parts / partsOfOne`. Whole numbers keep V8 from allocating. */
  observe(parts: number, partsOfOne = 1): void {
    const value = parts / partsOfOne;
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket += 1;
    const at = this.#at + bucket;
    this.#cells[at] = (this.#cells[at] as number) + 1;
    const sumAt = this.#at + this.#bounds.length + 1;
    this.#cells[sumAt] = (this.#cells[sumAt] as number) + value;
  }
}

/** A family whose numbers are in cells, as another thread has to know it. Structured clone does not copy the cells. */
export interface CellFamily extends Pick<FamilyFigures, "name" | "help" | "type" | "merge"> {
  readonly members: readonly CellMember[];
}

interface CellMember extends CellRange {
  /** The text before the value, of each of its lines. */
  readonly prefixes: readonly string[];
  /** It is not shown before it has counted something. */
  readonly isRare: boolean;
}

/** Reads a family that this or another thread counts in cells. */
export class CellFamilyReader {
  readonly #family: CellFamily;
  #shown: readonly CellMember[] = [];
  /** The text of those that are shown. It is made again only when they are others. */
  #series = "";

  constructor(family: CellFamily) {
    this.#family = family;
  }

  figures(): FamilyFigures {
    const { name, help, type, merge, members } = this.#family;
    const shown = members.filter((member) => !member.isRare || hasCounted(member));
    if (shown.length !== this.#shown.length || shown.some((member, i) => member !== this.#shown[i])) {
      this.#shown = shown;
      this.#series = joinedSeries(shown.flatMap(({ prefixes }) => prefixes));
    }
    const values = new Float64Array(shown.reduce((sum, { prefixes }) => sum + prefixes.length, 0));
    let at = 0;
    for (const member of shown)
      at = type === "histogram" ? copyHistogram(member, values, at) : copyCount(member, values, at);
    return { name, help, type, merge, series: this.#series, values };
  }
}

function hasCounted({ cells, at, prefixes }: CellMember): boolean {
  // A histogram has a line for each bucket, and two more.
  const counts = Math.max(1, prefixes.length - 2);
  return cells.subarray(at, at + counts).some((count) => count > 0);
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
  /** Those of `all` that are counted in cells. */
  readonly inCells: CellFamily[] = [];
  /** The others. */
  readonly scraped: FamilyReader[] = [];
  readonly #isWanted: (merge: Merge) => boolean;
  readonly #cells: Cells;

  /** A family that is not wanted can be counted and read like the others, but is not among `all`. */
  constructor(isWanted: (merge: Merge) => boolean = () => true, cells = new Cells()) {
    this.#isWanted = isWanted;
    this.#cells = cells;
  }

  /** A counter with one series, or more by `series`. Each starts at zero. */
  counter(name: string, help: string, { merge = "sum" }: CounterOptions = {}): SeriesOf<CounterSeries> {
    const members = this.#addInCells({ name, help, type: "counter", merge });
    const prefixes = (labels: Labels): string[] => [linePrefix(name, labels)];
    return this.#seriesOf(members, 1, prefixes, (range) => new CounterSeries(range));
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
    const members = this.#addInCells({ name, help, type: "histogram", merge: "sum" });
    const prefixes = (labels: Labels): string[] => histogramPrefixes(name, bounds, labels);
    return this.#seriesOf(members, bounds.length + 2, prefixes, (range) => new HistogramSeries(bounds, range));
  }

  /** A gauge that is read at the scrape. */
  gauge(name: string, help: string, read: () => FamilyValue, options: Labelling & GaugeOptions = {}): void {
    this.gauges(name, help, () => labelled(read(), options), options);
  }

  /** A counter whose total is kept elsewhere and read at the scrape. */
  total(name: string, help: string, read: () => FamilyValue, options: Labelling & CounterOptions = {}): void {
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

  /** A family that is read elsewhere. */
  add(read: FamilyReader): void {
    this.all.push(read);
    this.scraped.push(read);
  }

  #register(name: string, help: string, type: FamilyType, merge: Merge, read: () => Samples): void {
    if (this.#isWanted(merge)) this.add(() => ({ name, help, type, merge, ...read() }));
  }

  /** `count`: the cells of each series. */
  #seriesOf<Series>(
    members: CellMember[],
    count: number,
    prefixesOf: (labels: Labels) => string[],
    make: (range: CellRange) => Series,
  ): SeriesOf<Series> {
    const bySeries = new Map<Series, CellMember>();
    return {
      series: (labels = {}, isRare = false) => {
        const range = this.#cells.take(count);
        const member = { ...range, prefixes: prefixesOf(labels), isRare };
        const series = make(range);
        members.push(member);
        bySeries.set(series, member);
        return series;
      },
      remove: (series) => {
        const member = bySeries.get(series);
        if (member === undefined) return;
        bySeries.delete(series);
        members.splice(members.indexOf(member), 1);
        this.#cells.give(member, count);
      },
    };
  }

  /** Returns the list of its members. */
  #addInCells(family: Omit<CellFamily, "members">): CellMember[] {
    const members: CellMember[] = [];
    if (!this.#isWanted(family.merge)) return members;
    const inCells = { ...family, members };
    const reader = new CellFamilyReader(inCells);
    this.inCells.push(inCells);
    this.all.push(() => reader.figures());
    return members;
  }
}

interface SeriesOf<Series> {
  /** `isRare`: it is not shown before it has counted something. */
  series(labels?: Labels, isRare?: boolean): Series;
  /** Nothing is counted in the series any more. It is not shown, and another one may get its cells. */
  remove(series: Series): void;
}

function readSamples(name: string, readings: LabelledReadings): Samples {
  return {
    series: joinedSeries(readings.map(({ labels }) => linePrefix(name, labels))),
    values: Float64Array.from(readings, ({ value }) => value),
  };
}

function labelled(reading: FamilyValue, { label = "", fixed = {} }: Labelling): LabelledReadings {
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

function copyCount({ cells, at }: CellMember, into: Float64Array, start: number): number {
  into[start] = cells[at] as number;
  return start + 1;
}

/** Writes the values of its lines from `start` on. Returns where the next ones begin. */
function copyHistogram({ cells, at, prefixes }: CellMember, into: Float64Array, start: number): number {
  const buckets = prefixes.length - 2;
  let count = 0;
  for (let i = 0; i < buckets; i += 1) {
    count += cells[at + i] as number;
    into[start + i] = count;
  }
  into[start + buckets] = cells[at + buckets] as number;
  into[start + buckets + 1] = count;
  return start + prefixes.length;
}
