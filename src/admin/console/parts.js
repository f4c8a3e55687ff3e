// Small elements that several views use.
import * as colors from "./colors.js";
import { fullInstant, instant, span, words } from "./format.js";
import { html, useLayoutEffect, useRef } from "./html.js";

/** A table that scrolls by itself where the page is narrow, by keyboard too. On a phone, its rows are cards. */
export function Wide({ label, children }) {
  const table = useRef(null);
  useLayoutEffect(() => nameCells(table.current));
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}><table ref=${table}>${children}</table></div>`;
}

/** Each cell gets the name of its column, which stands above it in a card. */
function nameCells({ tHead, tBodies }) {
  const names = [...tHead.rows[0].cells].map((cell) =>
    cell.querySelector(".unseen") === null ? cell.textContent : "",
  );
  for (const row of [...tBodies].flatMap((body) => [...body.rows])) {
    let column = 0;
    for (const cell of row.cells) {
      cell.dataset.name = names[column];
      column += cell.colSpan;
    }
  }
}

/** What will stand where there is nothing yet, and how it comes. */
export function Empty({ title, children }) {
  return html`<p class="panel empty"><b>${title}</b><span class="muted">${children}</span></p>`;
}

export function Instant({ at, nowMs }) {
  return html`<time datetime=${at} title=${fullInstant(at)}>${instant(at, nowMs)}</time>`;
}

/** How long it is until then: what is left is rounded up to a second, as in Retry-After, and what is over is cut. */
export function Until({ at, nowMs }) {
  const seconds = Math.ceil((Date.parse(at) - nowMs) / 1000);
  return html`<time datetime=${at} title=${fullInstant(at)}>${seconds <= 0 ? "now" : `in ${span(seconds)}`}</time>`;
}

/** As a time of day, and how far away. */
export function When({ at, nowMs }) {
  const seconds = Math.ceil((Date.parse(at) - nowMs) / 1000);
  return html`<${Instant} at=${at} nowMs=${nowMs} /> (${seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`})`;
}

/** Without a reason, the upstream failed after the head. */
export function Reason({ reason }) {
  if (!reason) return "broken off";
  return html`<span class="swatch" style=${{ background: colors.refusals[reason] }}></span>${words(reason)}`;
}

/** Of a field for what is not prose. */
export const typed = { autocomplete: "off", spellcheck: false };

/** A field that shows a part of what is below it. */
export function Filter({ value, placeholder = "part of a name", onChange, children }) {
  return html`
    <form class="row" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Filter <input type="search" placeholder=${placeholder} ...${typed} value=${value} onInput=${({ target }) => onChange(target.value)} /></label>
      ${children}
    </form>`;
}

/** Why a view cannot show what it should, or that it is loading. Null once there is something to show. */
export function Missing({ value, error }) {
  if (error !== null) return html`<p class="failure" role="alert">${error.message}</p>`;
  return value === null ? html`<p class="muted">Loading …</p>` : null;
}
