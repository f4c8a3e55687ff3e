// The lines of a scrape, in the text format 0.0.4. The name and the labels of a series do not change and are written
// once; with thousands of series, a scrape then costs a tenth.

export type Labels = Readonly<Record<string, string>>;

/** Returns the part of a line before its value. */
export function linePrefix(name: string, labels: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escaped(value).replaceAll('"', '\\"')}"`);
  return pairs.length === 0 ? `${name} ` : `${name}{${pairs.join(",")}} `;
}

/** Escapes a help text; in the value of a label, quotation marks have to be escaped too. */
export function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
