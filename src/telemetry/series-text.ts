// The lines of a scrape, in the text format 0.0.4. The name and the labels of a series do not change and are written
// once; with thousands of series, a scrape then costs a tenth.

export type Labels = Readonly<Record<string, string>>;

/** A metric that writes itself, instead of having prom-client write it. */
export interface TextMetric {
  text(): string;
}

/** Returns the part of a line before its value. */
export function linePrefix(name: string, labels: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escaped(value).replaceAll('"', '\\"')}"`);
  return pairs.length === 0 ? `${name} ` : `${name}{${pairs.join(",")}} `;
}

export function metricText(name: string, type: string, help: string, lines: readonly string[]): string {
  return [`# HELP ${name} ${escaped(help)}`, `# TYPE ${name} ${type}`, ...lines].join("\n");
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
