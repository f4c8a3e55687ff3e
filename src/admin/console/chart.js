// Charts of the history: what happened in each step, drawn as SVG. The drawing is stretched, so its texts stand beside it.
import { localMs } from "./clock.js";
import { instant } from "./format.js";
import { html, useState } from "./html.js";

/** Minutes with what stands below a chart of them, the newest last. */
const ranges = [
  { minutes: 1, parts: ["1 min ago", "40 s", "20 s"] },
  // "4" would touch the first.
  { minutes: 5, parts: ["5 min ago", "", "3", "2", "1"] },
  { minutes: 15, parts: ["15 min ago", "10", "5"] },
];

/** The longest range of which at least half is known, else the shortest: as `{ name, parts, count }`, `count` of its steps. */
export function rangeOf(known, stepSeconds) {
  const secondsKnown = known * stepSeconds;
  const { minutes, parts } = ranges.findLast((each) => secondsKnown >= each.minutes * 30) ?? ranges[0];
  return { name: minutes === 1 ? "minute" : `${minutes} minutes`, parts, count: (minutes * 60) / stepSeconds };
}

/** The newest steps of a range, with null for those that have not been. */
export function padded(steps, { count }) {
  return [...new Array(Math.max(0, count - steps.length)).fill(null), ...steps].slice(-count);
}

/**
 * `series`: the lowest first, each `{ name, color, values }` with a number or null for each step of the range, the newest last;
 * `isDashed` sets a line apart from that of the same colour, and `more` follows its name and value. `isStacked`: else lines. `isLog`:
 * lines on a logarithmic scale. `format`: makes a text of a value. `largest`: of charts that share a scale; by default that of the
 * series. `badge`: beside the title. `failed`: a series of how often something failed; its steps have a band behind the others.
 */
export function Chart({ title, badge, series, isStacked, isLog, format, range, stepSeconds, note, largest, failed }) {
  const [at, setAt] = useState(null);
  const { count, parts, name } = range;
  const shown = at ?? count - 1;
  const sums = sumsOf(series, isStacked);
  const marks = isLog ? decadesOf(series) : scaleOf(largest ?? largestOf(series, isStacked));
  const y = isLog ? logarithmic(marks) : (value) => 100 - (value / marks.at(-1)) * 100;
  const cut = sums.flatMap((sum, i) => (sum > marks.at(-1) ? [i] : []));
  const highest = cut.reduce((a, b) => (sums[b] > sums[a] ? b : a), cut[0]);
  const onMove = ({ currentTarget, clientX }) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    setAt(Math.min(count - 1, Math.max(0, Math.floor(((clientX - left) / width) * count))));
  };
  return html`
    <figure class="chart">
      <figcaption>
        <h2>${title} ${badge !== undefined && html`<span class="badge">${badge}</span>`}</h2>
        <span class="muted">${at === null ? note : instant(localMs() - (count - 1 - at) * stepSeconds * 1000)}</span>
      </figcaption>
      <div class="plot">
        <div class="y">${marks.map((mark) => html`<span>${mark === 0 ? "0" : format(mark)}</span>`)}</div>
        <svg viewBox=${`0 0 ${count} 100`} preserveAspectRatio="none" role="img" aria-label=${titleOf(title, series, format, name)}
          onPointerMove=${onMove} onPointerLeave=${() => setAt(null)}>
          <path class="grid" d=${marks.map((mark) => `M0 ${y(mark).toFixed(2)}H${count}`).join("")} />
          ${failed !== undefined && html`<path class="failed" d=${band(failed)} fill=${`${failed.color}4d`} />`}
          ${isStacked ? stacked(series, y) : lines(series, y)}
          ${at !== null && html`<path class="cursor" d=${`M${at + 0.5} 0V100`} />`}
        </svg>
        ${cut.map((i) => html`<span class="burst" style=${{ left: `clamp(2em, ${((i + 0.5) / count) * 100}%, 100% - 2em)` }}>▲${i === highest && ` ${format(sums[i])}`}</span>`)}
        <div class="x">${parts.map((part) => html`<span>${part}</span>`)}<span>now</span></div>
      </div>
      <ul class="legend">
        ${[...series, failed ?? []].flat().map((each) => {
          const value = each.values[shown] ?? null;
          const text = value === null ? "–" : each === failed ? value : format(value);
          return html`<li><span class=${`swatch ${each.isDashed ? "dashed" : ""}`} style=${{ background: each.color }}></span>${each.name} <b>${text}</b>${each.more && html` <span class="muted">${each.more}</span>`}</li>`;
        })}
      </ul>
    </figure>`;
}

function titleOf(title, series, format, range) {
  const newest = series.map(({ name, values }) => `${name} ${format(values.at(-1) ?? 0)}`);
  return `${title} over the last ${range}; now: ${newest.join(", ")}`;
}

/** For each step: what stands on each other, or the largest. */
function sumsOf(series, isStacked) {
  return series[0].values.map((_, i) => {
    const values = series.map(({ values }) => values[i] ?? 0);
    return isStacked ? values.reduce((sum, each) => sum + each, 0) : Math.max(0, ...values);
  });
}

/** More than this times the next is an outlier. */
const outlierFactor = 5;

/** What the axis of series that are drawn together has room for. One step in twenty may be an outlier, which is cut. */
export function largestOf(series, isStacked) {
  const sorted = sumsOf(series, isStacked).toSorted((a, b) => b - a);
  const usual = sorted[Math.max(1, Math.floor(sorted.length / 20))] ?? 0;
  return usual > 0 && sorted[0] > outlierFactor * usual ? usual * 2 : sorted[0];
}

/** Two to four steps of 1, 2 or 5 times a power of ten from zero up, so that `largest` fits on them. */
function scaleOf(largest) {
  // What is left of a division.
  const least = (largest * 0.999) / 4 || 0.5;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= least);
  const steps = Math.max(2, Math.ceil((largest * 0.999) / step));
  return Array.from({ length: steps + 1 }, (_, i) => i * step);
}

/** The powers of ten around all values, two at least. */
function decadesOf(series) {
  const values = series.flatMap((each) => each.values.filter((value) => value > 0));
  const [least, most] = values.length === 0 ? [1e-3, 1] : [Math.min(...values), Math.max(...values)];
  const from = Math.floor(Math.log10(least));
  const to = Math.max(from + 1, Math.ceil(Math.log10(most)));
  return Array.from({ length: to - from + 1 }, (_, i) => 10 ** (from + i));
}

function logarithmic([from, ...others]) {
  const decades = Math.log10(others.at(-1) / from);
  return (value) => 100 - (Math.log10(Math.max(value, from) / from) / decades) * 100;
}

function stacked(series, y) {
  const base = series[0].values.map(() => 0);
  return series.map(({ color, values }) => {
    const bars = values.map((value, i) => {
      if (value === null || value === 0) return "";
      const from = base[i];
      base[i] += value;
      const [bottom, top] = [from, base[i]].map((each) => Math.max(0, y(each)).toFixed(2));
      return `M${i} ${bottom}V${top}h1V${bottom}z`;
    });
    return html`<path d=${bars.join("")} fill=${color} />`;
  });
}

function band({ values }) {
  return values.map((value, i) => (value > 0 ? `M${i} 0h1V100h-1z` : "")).join("");
}

/** A value without neighbours is a thick dash, so that it is seen. */
function lines(series, y) {
  return series.map(({ color, values, isDashed }) => {
    let alone = "";
    const points = values.map((value, i) => {
      if (value === null) return "";
      const at = Math.max(0, y(value)).toFixed(2);
      const [isFirst, isLast] = [i - 1, i + 1].map((next) => (values[next] ?? null) === null);
      if (isFirst && isLast) alone += `M${i} ${at}h1`;
      if (isFirst) return isLast ? "" : `M${i} ${at}H${i + 1}`;
      return `L${i + 0.5} ${at}H${i + 1}`;
    });
    return html`<path class=${isDashed ? "line dashed" : "line"} d=${points.join("")} stroke=${color} />
      ${alone !== "" && html`<path class="line alone" d=${alone} stroke=${color} />`}`;
  });
}
