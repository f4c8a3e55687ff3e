// Draws panels as SVG, placed as on the dashboard and similar to what Grafana shows. Units, colours, stacking and words
// for numbers are read from the dashboard.
import { type DashboardPanel, fixedColorOf } from "./dashboard-queries.ts";
import { axisMarks, written } from "./drawing-numbers.ts";

export interface Line {
  readonly name: string;
  /** Ordered by time; null where there is no number. */
  readonly values: readonly (number | null)[];
}

export interface DrawnPanel {
  readonly panel: DashboardPanel;
  readonly lines: readonly Line[];
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly w: number;
  readonly h: number;
}

const columnPx = 50;
const rowPx = 34;
const gapPx = 6;
const timeLabelPx = 30;
/** Between two labels of an axis. */
const timeSteps = [10, 30, 60, 300, 900];
const palette = ["#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#e0b400", "#37872d"];
/** Grafana's colour `text` in its dark theme. */
const textColor = "#ccccdc";

/** `seconds`: the length of the time range. */
export function drawing(title: string, panels: readonly DrawnPanel[], seconds: number): string {
  const top = Math.min(...panels.map(({ panel }) => panel.gridPos.y));
  const bottom = Math.max(...panels.map(({ panel }) => panel.gridPos.y + panel.gridPos.h));
  const [width, height] = [24 * columnPx + gapPx, (bottom - top) * rowPx + gapPx + 34];
  const drawn = panels.map((each) => drawnPanel(each, boxOf(each.panel, top), seconds));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="Inter, Helvetica, Arial, sans-serif" font-size="11">
<title>${escaped(title)}</title>
<rect width="${width}" height="${height}" fill="#111217"/>
<text x="12" y="23" font-size="15" fill="#e6e6ee">${escaped(title)}</text>
${drawn.join("\n")}
</svg>
`;
}

function boxOf({ gridPos: { x, y, w, h } }: DashboardPanel, top: number): Box {
  return {
    x: x * columnPx + gapPx,
    y: (y - top) * rowPx + gapPx + 34,
    w: w * columnPx - gapPx,
    h: h * rowPx - gapPx,
  };
}

function drawnPanel(each: DrawnPanel, box: Box, seconds: number): string {
  const { panel, lines } = each;
  const inside =
    lines.length === 0 ? nothing(panel, box) : panel.type === "stat" ? stat(each, box) : chart(each, box, seconds);
  return `<g transform="translate(${box.x} ${box.y})">
<rect width="${box.w}" height="${box.h}" rx="2" fill="#181b1f" stroke="#25282e"/>
<text x="10" y="19" font-size="12" fill="#ccccdc">${escaped(panel.title)}</text>
${inside}
</g>`;
}

function nothing({ fieldConfig }: DashboardPanel, { w, h }: Box): string {
  const words = fieldConfig?.defaults.noValue ?? "No data";
  return `<text x="${w / 2}" y="${h / 2 + 10}" text-anchor="middle" font-size="14" fill="#8e8e99">${escaped(words)}</text>`;
}

function stat({ panel, lines }: DrawnPanel, { w, h }: Box): string {
  const each = (w - 20) / lines.length;
  const cells = lines.map(({ name, values }, i) => {
    const { text, color } = appearance(panel, reduced(panel, values));
    const label = lines.length === 1 ? "" : `<text x="${10 + i * each}" y="42" fill="#8e8e99">${escaped(name)}</text>`;
    // Grafana makes words smaller until they fit, too.
    const size = Math.min(26, Math.floor((each - 6) / (0.66 * text.length)));
    return `${label}<text x="${10 + i * each}" y="${h - 44}" font-size="${size}" font-weight="600" fill="${color}">${escaped(text)}</text>`;
  });
  const [line] = lines;
  const isWord = panel.fieldConfig?.defaults.mappings !== undefined;
  if (isWord || line === undefined || lines.length > 1) return cells.join("");
  const max = Math.max(...line.values.map((value) => value ?? 0)) || 1;
  const points = polyline(
    line.values,
    (i) => (i / (line.values.length - 1)) * w,
    (value) => h - 2 - (value / max) * 30,
  );
  const { color } = appearance(panel, reduced(panel, line.values));
  return `${cells.join("")}<path d="${points}" fill="none" stroke="${color}" opacity="0.6"/>`;
}

function reduced({ options }: DashboardPanel, values: Line["values"]): number {
  const known = values.filter((value) => value !== null);
  if (options?.reduceOptions?.calcs[0] !== "mean") return known.at(-1) ?? 0;
  return known.reduce((sum, value) => sum + value, 0) / Math.max(1, known.length);
}

function appearance({ fieldConfig }: DashboardPanel, value: number): { text: string; color: string } {
  const { unit = "short", mappings, thresholds } = fieldConfig?.defaults ?? {};
  const word = mappings?.[0]?.options[value];
  if (word !== undefined) return { text: word.text, color: shownColor(word.color) };
  const reached = thresholds?.steps.findLast((step) => step.value === null || value >= step.value);
  return { text: written(value, unit), color: shownColor(reached?.color) };
}

function shownColor(color = "text"): string {
  return color === "text" ? textColor : color;
}

function chart({ panel, lines }: DrawnPanel, { w, h }: Box, seconds: number): string {
  const { unit = "short", custom, max: fixedMax } = panel.fieldConfig?.defaults ?? {};
  const isStacked = custom?.stacking?.mode === "normal";
  const count = lines[0]?.values.length ?? 0;
  const tops = isStacked ? stackedTops(lines) : lines.map(({ values }) => values);
  const highest = Math.max(...tops.flat().map((value) => value ?? 0));
  const marks = axisMarks(fixedMax ?? highest, unit);
  const legend = laidOut(panel, lines, w);
  const plot = { x: 66, y: 30, w: w - 80, h: h - 56 - legend.rows * 15 };
  const x = (i: number): number => plot.x + (i / Math.max(1, count - 1)) * plot.w;
  const y = (value: number): number => plot.y + plot.h - (value / (marks.at(-1) ?? 1)) * plot.h;
  const grid = marks.map(
    (mark) =>
      `<line x1="${plot.x}" x2="${plot.x + plot.w}" y1="${round(y(mark))}" y2="${round(y(mark))}" stroke="#2b2e35"/>` +
      `<text x="${plot.x - 6}" y="${round(y(mark) + 4)}" text-anchor="end" fill="#8e8e99">${written(mark, unit)}</text>`,
  );
  const stepSeconds = timeSteps.find((step) => (step / seconds) * plot.w >= timeLabelPx) ?? 3600;
  const times = Array.from({ length: Math.floor(seconds / stepSeconds) + 1 }, (_, i) => {
    const at = round(plot.x + ((i * stepSeconds) / seconds) * plot.w);
    // In the middle of the axis' end, the first would stand under the label of zero.
    const anchor = i === 0 ? "start" : "middle";
    return `<text x="${at}" y="${plot.y + plot.h + 14}" text-anchor="${anchor}" fill="#8e8e99">${clockText(i * stepSeconds)}</text>`;
  });
  const paths = lines.map((line, i) => {
    const color = colorOf(panel, line.name, i);
    const top = polyline(tops[i] ?? [], x, y);
    const area = isStacked ? stackedArea(tops[i] ?? [], tops[i - 1], x, y) : "";
    const fill = area === "" ? "" : `<path d="${area}" fill="${color}" opacity="0.4"/>`;
    return `${fill}<path d="${top}" fill="none" stroke="${color}" stroke-width="1.3"/>`;
  });
  return [...grid, ...times, ...paths.reverse(), legend.text(h - 6 - (legend.rows - 1) * 15)].join("");
}

/** Adds each line to the ones before it. Missing values count as 0. */
function stackedTops(lines: readonly Line[]): (number | null)[][] {
  const sum: number[] = [];
  return lines.map(({ values }) =>
    values.map((value, i) => {
      sum[i] = (sum[i] ?? 0) + (value ?? 0);
      return sum[i] ?? 0;
    }),
  );
}

function stackedArea(
  top: readonly (number | null)[],
  below: readonly (number | null)[] | undefined,
  x: (i: number) => number,
  y: (value: number) => number,
): string {
  const there = top.map((value, i) => `${round(x(i))} ${round(y(value ?? 0))}`);
  const back = top.map((_, i) => `${round(x(i))} ${round(y(below?.[i] ?? 0))}`).reverse();
  return `M${[...there, ...back].join("L")}Z`;
}

function polyline(values: readonly (number | null)[], x: (i: number) => number, y: (value: number) => number): string {
  let isDrawing = false;
  const parts = values.map((value, i) => {
    if (value === null) {
      isDrawing = false;
      return "";
    }
    const command = isDrawing ? "L" : "M";
    isDrawing = true;
    return `${command}${round(x(i))} ${round(y(value))}`;
  });
  return parts.join("");
}

function laidOut(panel: DashboardPanel, lines: readonly Line[], w: number) {
  let [x, row] = [12, 0];
  const entries = lines.map(({ name }, i) => {
    const width = 26 + name.length * 6;
    if (x + width > w - 8 && x > 12) [x, row] = [12, row + 1];
    const entry = { x, row, name, color: colorOf(panel, name, i) };
    x += width;
    return entry;
  });
  const text = (top: number): string =>
    entries
      .map(
        ({ x, row, name, color }) =>
          `<rect x="${x}" y="${top + row * 15 - 6}" width="10" height="3" fill="${color}"/>` +
          `<text x="${x + 14}" y="${top + row * 15}" fill="#ccccdc">${escaped(name)}</text>`,
      )
      .join("");
  return { rows: row + 1, text };
}

function colorOf(panel: DashboardPanel, name: string, i: number): string {
  return fixedColorOf(panel, name) ?? palette[i % palette.length] ?? textColor;
}

/** Minutes and seconds. */
function clockText(seconds: number): string {
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
