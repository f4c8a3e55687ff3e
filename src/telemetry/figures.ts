// The values of a thread's metrics at one moment, which can be posted to another thread, and how those of several threads
// are merged. Everything here is pure.

/**
 * How a family is merged over several threads: by the sum, the largest or the smallest value of each series. `process`: it
 * is about the process as a whole, and only the main thread has it.
 */
export type Merge = "sum" | "max" | "min" | "process";

export type FamilyType = "counter" | "gauge" | "histogram";

export interface Samples {
  /** What stands before the value in each sample's line, one in each line: one text is copied faster than many. */
  readonly series: string;
  readonly values: Float64Array;
}

export interface FamilyFigures extends Samples {
  readonly name: string;
  readonly help: string;
  readonly type: FamilyType;
  readonly merge: Merge;
}

/** Joins the parts of lines to the `series` of samples. */
export function joinedSeries(prefixes: readonly string[]): string {
  return prefixes.join("\n");
}

/** Of a histogram, `metricName` is that of a line. */
export type Readings = readonly { readonly metricName?: string; readonly labels: Labels; readonly value: number }[];

export function samplesOf(name: string, readings: Readings): Samples {
  return {
    series: joinedSeries(readings.map(({ metricName = name, labels }) => linePrefix(metricName, labels))),
    values: Float64Array.from(readings, ({ value }) => value),
  };
}

function prefixesOf({ series, values }: Samples): string[] {
  return values.length === 0 ? [] : series.split("\n");
}

/** Writes a family in the text format 0.0.4, without a line end after it. */
export function familyText(family: FamilyFigures): string {
  const { name, help, type, values } = family;
  const lines = prefixesOf(family).map((prefix, i) => prefix + valueText(values[i] as number));
  return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`, ...lines].join("\n");
}

function valueText(value: number): string {
  return Math.abs(value) === Number.POSITIVE_INFINITY ? (value > 0 ? "+Inf" : "-Inf") : `${value}`;
}

/**
 * Merges one family of several threads, in their order. A series that only some threads have is merged from these. The
 * order matters: a sum of fractions is rounded differently in another order, and a counter could seem to go back.
 */
export function mergeFamily([first, ...others]: readonly [FamilyFigures, ...FamilyFigures[]]): FamilyFigures {
  const combine = combinations[first.merge];
  let merged: Samples = first;
  for (const part of others) merged = mergeSamples(merged, part, combine);
  return { ...first, series: merged.series, values: merged.values };
}

const combinations: Readonly<Record<Merge, Combine>> = {
  sum: (a, b) => a + b,
  max: Math.max,
  min: Math.min,
  // Only one thread has it.
  process: (a) => a,
};

type Combine = (a: number, b: number) => number;

/** Series stay in the order in which they first come. */
function mergeSamples(a: Samples, b: Samples, combine: Combine): Samples {
  if (a.series === b.series && a.values.length === b.values.length) {
    return { series: a.series, values: a.values.map((value, i) => combine(value, b.values[i] as number)) };
  }
  const merged = new Map(prefixesOf(a).map((prefix, i) => [prefix, a.values[i] as number]));
  for (const [i, prefix] of prefixesOf(b).entries()) {
    const value = b.values[i] as number;
    const before = merged.get(prefix);
    merged.set(prefix, before === undefined ? value : combine(before, value));
  }
  return { series: joinedSeries([...merged.keys()]), values: Float64Array.from(merged.values()) };
}

/** Merges the families of several threads, by their names, one by one, in the order in which they first come. */
export function* mergeFamilies(threads: readonly ReadonlyMap<string, FamilyFigures>[]): Generator<FamilyFigures> {
  for (const name of new Set(threads.flatMap((thread) => [...thread.keys()]))) {
    const [first, ...others] = threads.map((thread) => thread.get(name)).filter((family) => family !== undefined);
    if (first !== undefined) yield mergeFamily([first, ...others]);
  }
}

// The name and the labels of a series do not change and are written once; with thousands of series, a scrape then costs a
// tenth.

export type Labels = Readonly<Partial<Record<string, string | number>>>;

/** Returns the part of a line before its value. */
export function linePrefix(name: string, labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([label, value]) => `${label}="${escaped(`${value}`).replaceAll('"', '\\"')}"`,
  );
  return pairs.length === 0 ? `${name} ` : `${name}{${pairs.join(",")}} `;
}

/** Escapes a help text; in the value of a label, quotation marks have to be escaped too. */
function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
