// Charts of the history: what happened in each step, drawn as SVG. The drawing is stretched, so its texts stand beside it.
import { localMs } from "./clock.js";
import { html, useState } from "./html.js";

/** As many as the history has: 15 minutes of 5 s. */
export const stepCount = 180;

/**
 * `series`: the lowest first, each `{ name, color, values }` with a number or null for each step, the newest last. `isStacked`:
 * else lines. `format`: makes a text of a value. `top`: of a scale that charts share; by default the largest value decides.
 * `badge`: beside the title.
 */
export function Chart({ title, badge, series, isStacked, format, stepSeconds, note, top = topOf(series, isStacked) }) {
  const [at, setAt] = useState(null);
  const shown = at ?? stepCount - 1;
  const onMove = ({ currentTarget, clientX }) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    setAt(Math.min(stepCount - 1, Math.max(0, Math.floor(((clientX - left) / width) * stepCount))));
  };
  return html`
    <figure class="chart">
      <figcaption>
        <h2>${title} ${badge !== undefined && html`<span class="badge">${badge}</span>`}</h2>
        <span class="muted">${at === null ? note : agoText((stepCount - 1 - at) * stepSeconds)}</span>
      </figcaption>
      <div class="plot">
        <span class="y top">${format(top)}</span><span class="y half">${format(top / 2)}</span><span class="y zero">0</span>
        <svg viewBox=${`0 0 ${stepCount} 100`} preserveAspectRatio="none" role="img" aria-label=${titleOf(title, series, format)}
          onPointerMove=${onMove} onPointerLeave=${() => setAt(null)}>
          <path class="grid" d=${`M0 0.5H${stepCount}M0 50H${stepCount}M0 99.5H${stepCount}`} />
          ${isStacked ? stacked(series, top) : lines(series, top)}
          ${at !== null && html`<path class="cursor" d=${`M${at + 0.5} 0V100`} />`}
        </svg>
        <span class="x first">15 min ago</span><span class="x">10</span><span class="x third">5</span><span class="x last">now</span>
      </div>
      <ul class="legend">
        ${series.map(({ name, color, values }) => {
          const value = values[shown] ?? null;
          return html`<li><span class="swatch" style=${{ background: color }}></span>${name} <b>${value === null ? "–" : format(value)}</b></li>`;
        })}
      </ul>
    </figure>`;
}

function agoText(seconds) {
  return new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" }).format(new Date(localMs() - seconds * 1000));
}

function titleOf(title, series, format) {
  const newest = series.map(({ name, values }) => `${name} ${format(values.at(-1) ?? 0)}`);
  return `${title} over the last 15 minutes; now: ${newest.join(", ")}`;
}

/** Where a scale ends on which these series fit. */
export function topOf(series, isStacked) {
  return niceCeiling(largestOf(series, isStacked));
}

/** The newest of so many steps, with null for those that have not been. */
export function padded(steps) {
  return [...new Array(Math.max(0, stepCount - steps.length)).fill(null), ...steps].slice(-stepCount);
}

function largestOf(series, isStacked) {
  const sums = Array.from({ length: stepCount }, (_, i) => {
    const values = series.map(({ values }) => values[i] ?? 0);
    return isStacked ? values.reduce((sum, each) => sum + each, 0) : Math.max(0, ...values);
  });
  return Math.max(...sums);
}

/** The next of 1, 2, 5, 10, 20, … */
function niceCeiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= value * 0.999);
}

function stacked(series, top) {
  const base = new Array(stepCount).fill(0);
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
