// The two text formats of a scrape. A registry of prom-client has one content type; for OpenMetrics it renames its
// counters permanently, so that later scrapes in the other format are wrong. Therefore the families are always written
// in 0.0.4, and OpenMetrics is made from that text.
import { once } from "./families.ts";
import { type FamilyFigures, familyText } from "./figures.ts";

export interface Exposition {
  readonly contentType: string;
  readonly body: string;
}

const textType = "text/plain; version=0.0.4; charset=utf-8";
const openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/** After this many characters the event loop handles other events. With 64 routes, a scrape has 250,000. */
const portionLength = 50_000;
/** A scrape costs about 10 µs for each 1,000 characters. With this pause after it, scrapes take a tenth of the time. */
const lengthPerRestMs = 10_000;

/**
 * Writes one scrape at a time; requests that arrive meanwhile share it. Pauses between two scrapes, so that a client
 * that scrapes continuously does not keep the event loop busy.
 */
export function exposer(families: () => AsyncIterable<FamilyFigures>): (openMetrics: boolean) => Promise<Exposition> {
  let collecting: ReturnType<typeof collect> | null = null;
  let rest: Promise<void> | null = null;
  const collect = async () => {
    await rest;
    const plain = await textOf(families());
    rest = delay(plain.length / lengthPerRestMs);
    return { plain, openMetrics: once(() => toOpenMetrics(plain)) };
  };
  return async (openMetrics) => {
    collecting ??= collect().finally(() => {
      collecting = null;
    });
    const texts = await collecting;
    return openMetrics
      ? { contentType: openMetricsType, body: texts.openMetrics() }
      : { contentType: textType, body: texts.plain };
  };
}

async function textOf(families: AsyncIterable<FamilyFigures>): Promise<string> {
  const texts: string[] = [];
  let length = 0;
  for await (const family of families) {
    const text = familyText(family);
    texts.push(text);
    length += text.length;
    if (length < portionLength) continue;
    length = 0;
    await new Promise((resolve) => void setImmediate(resolve));
  }
  return `${texts.join("\n\n")}\n`;
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

/** OpenMetrics 1.0 names a counter's family without `_total`, has no empty lines, and ends with `# EOF`. */
export function toOpenMetrics(text: string): string {
  // Only counters end in `_total`: the conformance tests run promtool, which checks that.
  return `${text.replace(/\n\n+/g, "\n").replace(/^(# (?:HELP|TYPE) \S+?)_total /gm, "$1 ")}# EOF\n`;
}
