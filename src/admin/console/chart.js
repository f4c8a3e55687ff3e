// Charts of the history: what happened in each step, drawn as SVG. The drawing is stretched, so its texts stand beside it.
import { localMs } from "./clock.js";
import { instant } from "./format.js";
import { html, useState } from "./html.js";

/** Minutes with what stands below a chart of them, the newest last. */
const ranges = [
  { minutes: 1, parts: ["1 min ago", "40 s", "20 s"] },
  { minutes: 5, parts: ["5 min ago", "4", "3", "2", "1"] },
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
 * `series`: the lowest first, each `{ name, color, values }` with a number or null for each step of the range, the newest last.
 * `isStacked`: else lines. `format`: makes a text of a value. `largest`: of charts that share a scale; by default that of the
 * series. `badge`: beside the title. `failed`: a series of how often something failed; its steps have a band behind the others.
 */
export function Chart({ title, badge, series, isStacked, format, range, stepSeconds, note, largest, failed }) {
  const [at, setAt] = useState(null);
  const { count, parts, name } = range;
  const shown = at ?? count - 1;
  const marks = scaleOf(largest ?? largestOf(series, isStacked));
  const top = marks.at(-1);
  const onMove = ({ currentTarget, clientX }) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    setAt(Math.min(count - 1, Math.max(0, Math.floor(((clientX - left) / width) * count))));
  };
  return html`
    <figure class="chart">
      <figcaption>
        <h2>${title} ${badge !== undefined && html`<span class="badge">${badge}</span>`}</h2>
        <span class="muted">${at === null ? note : instant(localMs() - (count - 1 - at) * stepSeconds * 1000, localMs())}</span>
      </figcaption>
      <div class="plot">
        <div class="y">${marks.map((mark) => html`<span>${mark === 0 ? "0" : format(mark)}</span>`)}</div>
        <svg viewBox=${`0 0 ${count} 100`} preserveAspectRatio="none" role="img" aria-label=${titleOf(title, series, format, name)}
          onPointerMove=${onMove} onPointerLeave=${() => setAt(null)}>
          <path class="grid" d=${marks.map((mark) => `M0 ${y(mark, top)}H${count}`).join("")} />
          ${failed !== undefined && html`<path class="failed" d=${band(failed)} fill=${`${failed.color}4d`} />`}
          ${isStacked ? stacked(series, top) : lines(series, top)}
          ${at !== null && html`<path class="cursor" d=${`M${at + 0.5} 0V100`} />`}
        </svg>
        <div class="x">${parts.map((part) => html`<span>${part}</span>`)}<span>now</span></div>
      </div>
      <ul class="legend">
        ${[...series, failed ?? []].flat().map((each) => {
          const value = each.values[shown] ?? null;
          const text = value === null ? "–" : each === failed ? value : format(value);
          return html`<li><span class="swatch" style=${{ background: each.color }}></span>${each.name} <b>${text}</b></li>`;
        })}
      </ul>
    </figure>`;
}

function titleOf(title, series, format, range) {
  const newest = series.map(({ name, values }) => `${name} ${format(values.at(-1) ?? 0)}`);
  return `${title} over the last ${range}; now: ${newest.join(", ")}`;
}

/** Of series that are drawn together. */
export function largestOf(series, isStacked) {
  const sums = series[0].values.map((_, i) => {
    const values = series.map(({ values }) => values[i] ?? 0);
    return isStacked ? values.reduce((sum, each) => sum + each, 0) : Math.max(0, ...values);
  });
  return Math.max(...sums);
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

function stacked(series, top) {
  const base = series[0].values.map(() => 0);
  return series.map(({ color, values }) => {
    const bars = values.map((value, i) => {
      if (value === null || value === 0) return "";
      const from = base[i];
      base[i] += value;
      return `M${i} ${y(from, top)}V${y(base[i], top)}h1V${y(from, top)}z`;
    });
    return html`<path d=${bars.join("")} fill=${color} />`;
  });
}

function band({ values }) {
  return values.map((value, i) => (value > 0 ? `M${i} 0h1V100h-1z` : "")).join("");
}

function lines(series, top) {
  return series.map(({ color, values }) => {
    const points = values.map((value, i) => {
      if (value === null) return "";
      const isFirst = (values[i - 1] ?? null) === null;
      return isFirst ? `M${i} ${y(value, top)}H${i + 1}` : `L${i + 0.5} ${y(value, top)}H${i + 1}`;
    });
    return html`<path class="line" d=${points.join("")} stroke=${color} />`;
  });
}

function y(value, top) {
  return (100 - (value / top) * 100).toFixed(2);
}
