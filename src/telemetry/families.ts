// Families of metrics whose series are bound to their labels once and are plain numbers from then on. prom-client
// hashes and validates labels on every inc() and observe(), which takes about 2.6 µs for the seven that a request
// needs. What is counted is in cells, which other threads can read. Each family says how it is merged where several threads
// have it.
import { type CellRange, Cells, InCells } from "../core/cells.ts";
import {
  type FamilyFigures,
  type FamilyType,
  joinedSeries,
  type Labels,
  linePrefix,
  type Merge,
  type Readings,
  samplesOf,
} from "./figures.ts";

/** Reads a family as it is now. */
export type FamilyReader = () => FamilyFigures | Promise<FamilyFigures>;

/** The figures of all families, each read when it is asked for. */
export async function* figuresOf(families: Iterable<FamilyReader>): AsyncGenerator<FamilyFigures> {
  for (const read of families) yield read();
}

/** One value, a value for each value of a label, or series that may come and go. */
export type FamilyValue = number | Readonly<Record<string, number>> | Readings;

/** A number that only grows. */
export class CounterSeries extends InCells {
  add(): void {
    this.cells[this.at] = (this.cells[this.at] as number) + 1;
  }
}

/** Cells: one count per bucket (not cumulative; the last is above every bound), then the sum. */
export class HistogramSeries extends InCells {
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[], range: CellRange) {
    super(range);
    this.#bounds = bounds;
  }

  /** Observes `parts / partsOfOne`. Whole numbers keep V8 from allocating. */
  observe(parts: number, partsOfOne = 1): void {
    const value = parts / partsOfOne;
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket += 1;
    const at = this.at + bucket;
    this.cells[at] = (this.cells[at] as number) + 1;
    const sumAt = this.at + this.#bounds.length + 1;
    this.cells[sumAt] = (this.cells[sumAt] as number) + value;
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
    for (const member of shown) {
      if (type === "histogram") copyHistogram(member, values, at);
      else values[at] = member.cells[member.at] as number;
      at += member.prefixes.length;
    }
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

type CounterMerge = "sum" | "process";

interface FamilyOptions<Merges = Merge> {
  /** Default: `sum`. */
  readonly merge?: Merges;
}

/** `label` names the label of a reading with several values, `fixed` are the others. */
interface ReadOptions<Merges = Merge> extends FamilyOptions<Merges> {
  readonly label?: string;
  readonly fixed?: Labels;
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
  counter(name: string, help: string, { merge = "sum" }: FamilyOptions<CounterMerge> = {}): SeriesOf<CounterSeries> {
    const prefixes = (labels: Labels): string[] => [linePrefix(name, labels)];
    return this.#addInCells({ name, help, type: "counter", merge }, 1, prefixes, (range) => new CounterSeries(range));
  }

  /** A counter with one series for each value of the label. Returns the function that counts one. */
  counterBy<Value extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly Value[],
    options: FamilyOptions<CounterMerge> = {},
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
    const prefixes = (labels: Labels): string[] => histogramPrefixes(name, bounds, labels);
    const make = (range: CellRange): HistogramSeries => new HistogramSeries(bounds, range);
    return this.#addInCells({ name, help, type: "histogram", merge: "sum" }, bounds.length + 2, prefixes, make);
  }

  /** A gauge that is read at the scrape. */
  gauge(name: string, help: string, read: () => FamilyValue, options: ReadOptions = {}): void {
    this.#addRead(name, help, "gauge", read, options);
  }

  /** A counter whose total is kept elsewhere and read at the scrape. */
  total(name: string, help: string, read: () => FamilyValue, options: ReadOptions<CounterMerge> = {}): void {
    this.#addRead(name, help, "counter", read, options);
  }

  /** A family that is read elsewhere. */
  add(read: FamilyReader): void {
    this.all.push(read);
    this.scraped.push(read);
  }

  #addRead(name: string, help: string, type: FamilyType, read: () => FamilyValue, options: ReadOptions): void {
    const { merge = "sum" } = options;
    if (this.#isWanted(merge))
      this.add(() => ({ name, help, type, merge, ...samplesOf(name, readingsOf(read(), options)) }));
  }

  /** `count`: the cells of each series. */
  #addInCells<Series>(
    family: Omit<CellFamily, "members">,
    count: number,
    prefixesOf: (labels: Labels) => string[],
    make: (range: CellRange) => Series,
  ): SeriesOf<Series> {
    const members: CellMember[] = [];
    const inCells = { ...family, members };
    const reader = new CellFamilyReader(inCells);
    if (this.#isWanted(family.merge)) {
      this.inCells.push(inCells);
      this.all.push(() => reader.figures());
    }
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
}

interface SeriesOf<Series> {
  /** `isRare`: it is not shown before it has counted something. */
  series(labels?: Labels, isRare?: boolean): Series;
  /** Nothing is counted in the series any more. It is not shown, and another one may get its cells. */
  remove(series: Series): void;
}

function readingsOf(value: FamilyValue, { label = "", fixed = {} }: ReadOptions): Readings {
  if (typeof value === "number") return [{ labels: fixed, value }];
  if (areReadings(value)) return value;
  return Object.entries(value).map(([name, each]) => ({ labels: { ...fixed, [label]: name }, value: each }));
}

function areReadings(value: object): value is Readings {
  return Array.isArray(value);
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

/** Writes the values of its lines from `start` on. */
function copyHistogram({ cells, at, prefixes }: CellMember, into: Float64Array, start: number): void {
  const buckets = prefixes.length - 2;
  let count = 0;
  for (let i = 0; i < buckets; i += 1) {
    count += cells[at + i] as number;
    into[start + i] = count;
  }
  into[start + buckets] = cells[at + buckets] as number;
  into[start + buckets + 1] = count;
}
