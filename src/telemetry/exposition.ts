// The two text formats of a scrape. A registry of prom-client has one content type; for OpenMetrics it renames its counters
// permanently, so that later scrapes in the other format are wrong. Therefore the registry always writes 0.0.4, and
// OpenMetrics is made from that text.
import type { Registry } from "prom-client";

export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

const textType = "text/plain; version=0.0.4; charset=utf-8";
const openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/** Overlapping scrapes share one collection, because collecting resets the event loop figures. */
export function exposer(registry: Registry): (openMetrics: boolean) => Promise<Exposition> {
  let collecting: Promise<string> | null = null;
  return async (openMetrics) => {
    collecting ??= registry.metrics().finally(() => {
      collecting = null;
    });
    const text = await collecting;
    return openMetrics
      ? { contentType: openMetricsType, body: toOpenMetrics(text) }
      : { contentType: textType, body: text };
  };
}

/** OpenMetrics 1.0 names a counter's family without `_total`, has no empty lines, and ends with `# EOF`. */
export function toOpenMetrics(text: string): string {
  const lines = text.split("\n").filter((line) => line !== "");
  return `${lines.map(withoutSuffix).join("\n")}\n# EOF\n`;
}

// Only counters end in `_total`: the conformance tests run promtool, which checks that.
function withoutSuffix(line: string): string {
  return line.startsWith("# ") ? line.replace(/^(# (?:HELP|TYPE) \S+?)_total /, "$1 ") : line;
}
