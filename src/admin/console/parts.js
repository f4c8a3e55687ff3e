// Small elements that several views use.
import * as colors from "./colors.js";
import { clientLink, fullInstant, instant, secondsIn, span, words } from "./format.js";
import { html, useLayoutEffect, useRef, useState } from "./html.js";

/**
 * A table that scrolls by itself where the page is narrow, by keyboard too. On a phone, its rows are cards. `columns`: their
 * names, or `[name, class]`; others than texts and lists are left out.
 */
export function Wide({ label, columns, children }) {
  const table = useRef(null);
  useLayoutEffect(() => nameCells(table.current));
  const heads = columns.filter(Boolean).map((column) => {
    const [name, kind] = [column].flat();
    return html`<th scope="col" class=${kind}>${name}</th>`;
  });
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}><table ref=${table}>
    <thead><tr>${heads}</tr></thead><tbody>${children}</tbody></table></div>`;
}

export function number(name) {
  return [name, "number"];
}

/** The values of fields by their names, and for each name what takes its input. */
export function useFields(first) {
  const [values, setValues] = useState(first);
  const set =
    (name) =>
    ({ target }) =>
      setValues((last) => ({ ...last, [name]: target.value }));
  return [values, set];
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
  return html`<p class="panel"><b>${title}</b><span class="muted">${children}</span></p>`;
}

export function Instant({ at }) {
  return html`<time datetime=${at} title=${fullInstant(at)}>${instant(at)}</time>`;
}

/** How long it is until then: what is left is rounded up to a second, as in Retry-After, and what is over is cut. */
export function Until({ at, nowMs }) {
  const seconds = Math.ceil((Date.parse(at) - nowMs) / 1000);
  return html`<time datetime=${at} title=${fullInstant(at)}>${seconds <= 0 ? "now" : `in ${span(seconds)}`}</time>`;
}

/** As a time of day, and how far away. */
export function When({ at, nowMs }) {
  const seconds = Math.ceil((Date.parse(at) - nowMs) / 1000);
  return html`<${Instant} at=${at} /> (${seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`})`;
}

/** To whom a request was charged; without a key, that is its address. */
export function ClientLink({ request: { client, key } }) {
  return html`<a href=${clientLink(key ?? `client:${client}`)}>${client}</a>`;
}

/** Without a reason, the upstream failed after the head. */
export function Reason({ reason }) {
  if (!reason) return "broken off";
  return html`<span class="swatch" style=${{ background: colors.refusals[reason] }}></span>${words(reason)}`;
}

/** What a field may be set to: values, or `[value, text]`. */
export function options(values) {
  return values.map((each) => {
    const [value, text = value] = [each].flat();
    return html`<option value=${value}>${text}</option>`;
  });
}

/** Lengths of time, such as "15m". */
export function lengthOptions(lengths) {
  return options(lengths.map((length) => [length, span(secondsIn(length))]));
}

/** Of a field for what is not prose. */
export const typed = { autocomplete: "off", spellcheck: false };

/** A field that shows a part of what is below it. */
export function Filter({ value, placeholder, onInput, children }) {
  return html`
    <form class="row" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Filter <input type="search" maxlength="128" placeholder=${placeholder} ...${typed} value=${value} onInput=${onInput} /></label>
      ${children}
    </form>`;
}

/** Where other gateways count too. */
export function Others({ isShared }) {
  return isShared && html`<p class="muted">Other gateways count too: what they have counted is not shown here.</p>`;
}

/** What went wrong, in sentences; null: nothing. */
export function Failures({ error }) {
  const details = error === null ? [] : (error.details ?? [error.message]);
  return html`<div class="failure" role="alert">${details.map((text) => html`<p>${text}</p>`)}</div>`;
}

/** Why a view cannot show what it should, or that it is loading. Null once there is something to show. */
export function Missing({ value, error }) {
  if (error !== null) return html`<${Failures} error=${error} />`;
  return value === null ? html`<p class="muted">Loading …</p>` : null;
}
