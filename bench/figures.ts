// Figures as text, and rows as a table of Markdown.

/** NaN if there is no figure. */
export function median(values: readonly number[]): number {
  const sorted = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** NaN if there is none. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}

export function isPresent(value: number): boolean {
  return !Number.isNaN(value);
}

export function shown(value: number, digits: number, unit = ""): string {
  return isPresent(value) ? value.toFixed(digits) + unit : "–";
}

export function mebibytes(bytes: number): string {
  return shown(bytes / 2 ** 20, 0, " MiB");
}

/** Nothing if there are no rows. */
export function table(title: string, head: string, rows: readonly string[]): string[] {
  if (rows.length === 0) return [];
  return [[`### ${title}`, "", head, head.replaceAll(/[^|]+/g, "---"), ...rows, ""].join("\n")];
}

/** In the order of their first appearance. */
export function namesOf(all: readonly { readonly contender: string }[]): string[] {
  return [...new Set(all.map(({ contender }) => contender))];
}
