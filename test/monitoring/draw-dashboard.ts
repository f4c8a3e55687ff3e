// `npm run dashboard:draw [seconds]`: sends the mixed load to two gateways that a real Prometheus scrapes, runs the
// queries of every panel, and draws the results to docs/images/ for docs/monitoring.md. No test checks the pictures.
import { mkdirSync, writeFileSync } from "node:fs";
import { cleanupTo } from "../support/closing.ts";
import { type DashboardPanel, everything, filledIn, shippedDashboard } from "./dashboard-queries.ts";
import { type DrawnPanel, drawing, type Line } from "./drawing.ts";
import type { Prometheus, Series } from "./prometheus.ts";
import { openScene } from "./scene.ts";

const images = new URL("../../docs/images/", import.meta.url);
// Short, so that a picture of 45 s shows what an hour does.
const scrapeSeconds = 1;
const rateSeconds = 6;

interface TimeRange {
  readonly startSeconds: number;
  readonly endSeconds: number;
  readonly stepSeconds: number;
}

const seconds = Number(process.argv[2] ?? 45);
const open: (() => unknown)[] = [];
try {
  const scene = await openScene(
    cleanupTo((close) => void open.push(close)),
    scrapeSeconds,
  );
  // Before, rates are of less time than they are about.
  const startSeconds = Date.now() / 1000 + rateSeconds;
  await scene.play(seconds * 1000);
  const endSeconds = Date.now() / 1000;
  const range = { startSeconds, endSeconds, stepSeconds: Math.max(1, Math.round(seconds / 120)) };
  await drawAll(scene.prometheus, range);
} finally {
  for (const close of open.reverse()) await close();
}

async function drawAll(prometheus: Prometheus, range: TimeRange): Promise<void> {
  const { panels } = shippedDashboard();
  const pictures: [file: string, title: string, panels: readonly DashboardPanel[]][] = [
    ["dashboard.svg", "Headgate", panels.filter(({ type }) => type !== "row")],
    ...panels
      .filter(({ type }) => type === "row")
      .map(({ title, panels = [] }, i): [string, string, readonly DashboardPanel[]] => [
        `dashboard-details-${i + 1}.svg`,
        title,
        panels,
      ]),
  ];
  mkdirSync(images, { recursive: true });
  for (const [file, title, shown] of pictures) {
    const drawn: DrawnPanel[] = [];
    for (const panel of shown) drawn.push({ panel, lines: await linesOf(prometheus, panel, range) });
    writeFileSync(new URL(file, images), drawing(title, drawn, range.endSeconds - range.startSeconds));
  }
}

async function linesOf(prometheus: Prometheus, { targets = [] }: DashboardPanel, range: TimeRange): Promise<Line[]> {
  const lines: Line[] = [];
  for (const { expr, legendFormat } of targets) {
    const series = await prometheus.queryRange(filledIn(expr, everything, rateSeconds), range);
    lines.push(...series.map((each) => ({ name: named(each, legendFormat), values: valuesOf(each, range) })));
  }
  return lines;
}

function named({ metric }: Series, legend: string): string {
  return legend.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? "");
}

/** One value for each step; null for steps that Prometheus left out because they have no value. */
function valuesOf({ values }: Series, { startSeconds, endSeconds, stepSeconds }: TimeRange): (number | null)[] {
  const byStep = new Map(values.map(([at, value]) => [Math.round((at - startSeconds) / stepSeconds), Number(value)]));
  return Array.from({ length: Math.floor((endSeconds - startSeconds) / stepSeconds) + 1 }, (_, i) => {
    const value = byStep.get(i);
    return value === undefined || !Number.isFinite(value) ? null : value;
  });
}
