// The two text formats of a scrape. prom-client has one content type per registry and, when it is OpenMetrics, renames
// its counters for good, so that a later scrape in the other format is wrong. Therefore the registry always writes
// 0.0.4, and OpenMetrics is made from that text.
import type { Registry } from "prom-client";

export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

const textType = "text/plain; version=0.0.4; charset=utf-8";
const openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/** Scrapes that overlap share one collection: collecting resets the event loop's figures, a second would see none. */
export function exposer(registry: Registry): (openMetrics: boolean) => Promise<Exposition> {
  let underWay: Promise<string> | null = null;
  return async (openMetrics) => {
    underWay ??= registry.metrics().finally(() => {
      underWay = null;
    });
    const text = await underWay;
    return openMetrics
      ? { contentType: openMetricsType, body: toOpenMetrics(text) }
      : { contentType: textType, body: text };
  };
}

/** OpenMetrics 1.0: a counter's family is named without `_total`, no empty lines, `# EOF` at the end. */
export function toOpenMetrics(text: string): string {
  const lines = text.split("\n").filter((line) => line !== "");
  return `${lines.map(withoutSuffix).join("\n")}\n# EOF\n`;
}

// Only counters end in `_total`: promtool holds us to it, and the conformance test runs promtool.
function withoutSuffix(line: string): string {
  return line.startsWith("# ") ? line.replace(/^(# (?:HELP|TYPE) \S+?)_total /, "$1 ") : line;
}
