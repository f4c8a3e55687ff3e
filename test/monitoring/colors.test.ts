// The colours of the dashboard: a name has the same colour in every panel, a colour has one meaning, and its tone says
// whether that is good. The names of the lines are taken from a scrape of the gateway's metrics.
import { beforeAll, describe, expect, test } from "vitest";
import { refusalColors } from "../../deploy/grafana/source/colors.ts";
import { metricsOf, scrape, storeOf, twoAddresses } from "../telemetry/scrape.ts";
import { colorDistance, hueOf } from "./color-distance.ts";
import { type DashboardPanel, fixedColorOf, panelsOf, shippedDashboard } from "./dashboard-queries.ts";

interface Drawn {
  readonly panel: string;
  /** `reason=throttled`, or the line's name if it stands for no label value. */
  readonly meaning: string;
  readonly color: string | undefined;
}

/** Labels whose values differ from one deployment to the next. They take Grafana's palette. */
const openLabels = /\{\{(?:instance|route|version)\}\}/;

const success = [
  "status_class=2xx",
  "outcome=admitted",
  "outcome=accepted",
  "state=up",
  "state=available",
  "result=applied",
  "outcome=confirmed",
  "result=answered",
];
const throttled = ["reason=throttled", "outcome=throttled"];
/** What clients get most of it is 429. */
const yellow = [...throttled, "status_class=4xx"];
/** Neither good nor bad. A value in none of these lists is a failure, so a new value is one until it is listed. */
const neutral = [
  ...["status_class=1xx", "status_class=3xx", "status_class=none", "outcome=observed", "outcome=skipped"],
  ...["outcome=would_throttle", "outcome=exempt", "result=unchanged"],
  ...["reason=idle", "reason=expired", "reason=sampled"],
  ...["state=unknown", "state=active", "state=idle", "state=opening", "state=open"],
  ...["state=used", "state=free", "state=returned"],
  ...["fate=granted", "fate=spent", "fate=returned"],
  ...["action=exempt", "action=limit", "part=refusals", "part=keys", "part=history"],
];
const failingLines = ["ejections", "failed lookups", "blocked requests"];
/** Two names for one thing. */
const sameMeaning = [
  success,
  throttled,
  ["outcome=unavailable", "reason=store_unavailable"],
  ["outcome=missing", "reason=no_token"],
  ["outcome=invalid", "reason=invalid_token"],
  ["outcome=expired", "reason=expired_token"],
  ["outcome=internal", "reason=internal"],
  ["outcome=malformed", "reason=malformed"],
  ["outcome=overloaded", "reason=overloaded"],
  ["reason=idle", "state=idle"],
  ["state=down", "state=ejected", "state=away", "ejections"],
  ["state=slow", "result=late", "result=overdue"],
  ["reason=unreachable", "result=unreachable"],
  ["reason=refused", "result=refused"],
  ["reason=blocked", "action=block", "blocked requests"],
  ["outcome=exempt", "action=exempt"],
];

/** Why requests are refused while nothing is attacked, and in an outage. */
const everyDay = [
  ...(["throttled", "no_token", "invalid_token", "malformed", "no_route", "body_too_large", "overloaded"] as const),
  ...(["client_share", "upstream_failed", "upstream_timeout", "ambiguous_path", "bad_host", "blocked"] as const),
];

const charts = panelsOf(shippedDashboard()).filter(({ type }) => type === "timeseries");
const stats = panelsOf(shippedDashboard()).filter(({ type }) => type === "stat");
let drawn: readonly Drawn[];

beforeAll(async () => {
  const series = [...(await scrape(metricsOf({ store: storeOf(), upstreamAddresses: twoAddresses }))).keys()];
  drawn = charts.flatMap((panel) => linesOf(panel, series));
});

test("every line has a fixed colour, except those of instances, routes and versions", () => {
  expect(drawn.length).toBeGreaterThan(100);
  expect(drawn.filter(({ color }) => !/^#[0-9a-f]{6}$/.test(color ?? "")).map(describeLine)).toEqual([]);
});

test("a name has the same colour in every panel", () => {
  for (const [meaning, lines] of Map.groupBy(drawn, ({ meaning }) => meaning)) {
    expect([...new Set(lines.map(({ color }) => color))].length, meaning).toBe(1);
  }
});

test("no colour has two meanings", () => {
  const labelled = drawn.filter(({ meaning }) => isLabelled(meaning));
  for (const [color, lines] of Map.groupBy(labelled, ({ color }) => color)) {
    expect(
      [...new Set(lines.map(({ meaning }) => canonical(meaning)))].length,
      `${color}: ${lines.map(describeLine)}`,
    ).toBe(1);
  }
});

test("two lines of a panel are easy to tell apart, and two meanings differ visibly in all panels", () => {
  const close: string[] = [];
  for (const [i, a] of drawn.entries()) {
    for (const b of drawn.slice(0, i)) {
      if (canonical(a.meaning) === canonical(b.meaning) || a.color === undefined || b.color === undefined) continue;
      const least = a.panel === b.panel ? 0.06 : isLabelled(a.meaning) && isLabelled(b.meaning) ? 0.03 : 0;
      if (colorDistance(a.color, b.color) < least) close.push(`${describeLine(a)} and ${describeLine(b)}`);
    }
  }
  expect(close).toEqual([]);
});

test("the reasons that a gateway has every day cannot be mistaken for each other in one legend", () => {
  const close: string[] = [];
  for (const [i, a] of everyDay.entries()) {
    for (const b of everyDay.slice(0, i))
      if (colorDistance(refusalColors[a], refusalColors[b]) < 0.12) close.push(`${a} ${b}`);
  }
  expect(close).toEqual([]);
});

describe("the tone says what it means", () => {
  test.each([
    ["failure", "pink, red or orange", (hue: number) => hue >= 315 || hue <= 46],
    ["throttled", "yellow", (hue: number) => hue > 46 && hue <= 60],
    ["success", "green", (hue: number) => hue > 75 && hue < 165],
    ["neutral", "blue or purple", (hue: number) => hue >= 190 && hue <= 290],
  ])("%s: %s", (tone, _, isRight) => {
    const lines = drawn.filter(({ meaning }) => toneOf(meaning) === tone);
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.filter(({ color }) => !isRight(hueOf(color ?? "#00ff00"))).map(describeLine)).toEqual([]);
  });

  test("numbers and words have the colours of success, warning and failure", () => {
    const of = (meaning: string) => drawn.find((line) => line.meaning === meaning)?.color;
    const [well, failed] = [of("state=up"), of("state=down")];
    for (const { title, fieldConfig } of stats) {
      const steps = (fieldConfig?.defaults.thresholds?.steps ?? []).map(({ color }) => color);
      expect(steps.length === 1 ? steps : [steps[0], steps.at(-1)], title).toEqual(
        steps.length === 1 ? ["text"] : [well, failed],
      );
      for (const color of steps.slice(1, -1)) expect(drawn.map((line) => line.color)).not.toContain(color);
      const words = Object.values(fieldConfig?.defaults.mappings?.[0]?.options ?? {});
      for (const { text, color } of words) {
        const expected = { up: well, current: well, down: failed, stale: failed }[text] ?? of("state=unknown");
        expect(color, `${title}: ${text}`).toBe(expected);
      }
    }
  });
});

function linesOf(panel: DashboardPanel, series: readonly string[]): Drawn[] {
  return (panel.targets ?? [])
    .filter(({ legendFormat }) => !openLabels.test(legendFormat))
    .flatMap(({ expr, legendFormat }) => {
      const [, before = "", label] = /^(.*)\{\{(\w+)\}\}$/.exec(legendFormat) ?? [];
      if (label === undefined) {
        return [{ panel: panel.title, meaning: legendFormat, color: fixedColorOf(panel, legendFormat) }];
      }
      const prefix = before.replaceAll(/\{\{\w+\}\}/g, "any");
      return valuesOf(label, expr, series).map((value) => ({
        panel: panel.title,
        meaning: `${label}=${value}`,
        color: fixedColorOf(panel, prefix + value),
      }));
    });
}

/** The values that a label has in the series a query asks for. */
function valuesOf(label: string, expr: string, series: readonly string[]): string[] {
  const [metric = ""] = /\b(?:headgate|nodejs|process)_\w+/.exec(expr) ?? [];
  const values = series
    .filter((each) => each.startsWith(`${metric}{`))
    .flatMap((each) => new RegExp(`[{,]${label}="([^"]*)"`).exec(each)?.[1] ?? []);
  expect(values.length, `${metric} has ${label}`).toBeGreaterThan(1);
  return [...new Set(values)];
}

function isLabelled(meaning: string): boolean {
  return meaning.includes("=") || failingLines.includes(meaning);
}

function canonical(meaning: string): string {
  return sameMeaning.find((names) => names.includes(meaning))?.[0] ?? meaning;
}

function toneOf(meaning: string): string {
  if (success.includes(meaning)) return "success";
  if (yellow.includes(meaning)) return "throttled";
  if (/^(?:method|kind)=/.test(meaning) || neutral.includes(meaning) || !isLabelled(meaning)) return "neutral";
  return "failure";
}

function describeLine({ panel, meaning, color }: Drawn): string {
  return `${meaning} ${color} (${panel})`;
}
