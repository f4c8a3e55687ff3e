// The policies: what each has said since the start, and in the last minutes. Shadows stand beside those that are enforced.
import { Chart, largestOf, padded, rangeOf } from "./chart.js";
import * as colors from "./colors.js";
import { count, percent, rateOf, rounded, words } from "./format.js";
import { html } from "./html.js";
import { useEvents, usePoll } from "./live.js";
import { Failures, Missing, number, Wide } from "./parts.js";

export function PoliciesView({ session: { api, events } }) {
  const policies = usePoll(() => api.get("/api/policies"), 5_000);
  const history = usePoll(() => api.get("/api/policies/history"), 5_000);
  useEvents(events, ["reload"], () => policies.soon());
  return html`
    <h1>Policies</h1>
    <${Missing} ...${policies} />
    ${policies.value !== null && html`<${Table} answer=${policies.value} />`}
    ${policies.value !== null && history.value !== null && html`<${Charts} answer=${policies.value} history=${history.value} />`}
    ${history.value === null && html`<${Failures} error=${history.error} />`}`;
}

/** All with one scale, because they are mostly asked about the same requests. */
function Charts({ answer: { enforcement, policies }, history }) {
  const { stepSeconds } = history;
  const range = rangeOf(history.seconds.length, stepSeconds);
  const drawn = policies.map((policy) => {
    const { name } = policy;
    const isShadow = isShadowIn(enforcement)(policy);
    const counted = history.policies.find((each) => each.policy === name) ?? {};
    const note = shareText(counted, range, isShadow);
    return { name, isShadow, note, series: seriesOf(history, range, counted, isShadow) };
  });
  const largest = Math.max(...drawn.map(({ series }) => largestOf(series, true)));
  const charts = (those) => {
    return those.map(({ name, isShadow, note, series }) => {
      const badge = isShadow ? "shadow" : undefined;
      return html`<${Chart} key=${name} title=${name} badge=${badge} series=${series} isStacked ...${{ range, stepSeconds, largest, note }} format=${perSecond} />`;
    });
  };
  const section = (label, those) =>
    html`<section class="low" aria-label=${`${label} last ${range.name}`}>${charts(those)}</section>`;
  const { enforced, shadows } = Object.groupBy(drawn, ({ isShadow }) => (isShadow ? "shadows" : "enforced"));
  const isMixed = enforced && shadows;
  // One grid, so that no column ends before the other.
  return html`<div class="charts policies">
    ${isMixed ? [section("Enforced, in the", enforced), section("Shadows, in the", shadows)] : section("The", drawn)}
  </div>`;
}

function perSecond(value) {
  return `${rounded(value)}/s`;
}

/** Whether a policy refuses nothing. */
export function isShadowIn(enforcement) {
  return ({ mode }) => mode === "shadow" || enforcement === "shadow";
}

/** What may be said; the others are drawn if they were. */
function seriesOf(history, range, counted, isShadow) {
  const seconds = padded(history.seconds, range);
  const always = ["admitted", isShadow ? "would_throttle" : "throttled"];
  return Object.entries(colors.decisions)
    .map(([outcome, color]) => {
      const counts = padded(counted[outcome] ?? [], range);
      const values = counts.map((each, i) => (each === null || seconds[i] === null ? null : each / seconds[i]));
      return { outcome, name: words(outcome), color, values };
    })
    .filter(({ outcome, values }) => always.includes(outcome) || values.some((value) => value > 0));
}

function shareText(counted, range, isShadow) {
  const sum = (outcome) => padded(counted[outcome] ?? [], range).reduce((all, each) => all + (each ?? 0), 0);
  const refused = sum("throttled") + sum("would_throttle") + sum("unavailable");
  const asked = refused + sum("admitted");
  if (asked === 0) return `not asked in the last ${range.name}`;
  return `${percent(refused / asked)} ${isShadow ? "would be " : ""}throttled in the last ${range.name}`;
}

function Table({ answer: { enforcement, policies } }) {
  return html`
    ${enforcement === "shadow" && html`<p class="problem warning"><span><code>enforcement: shadow</code>: no policy refuses anything.</span></p>`}
    <${Wide} label="Policies" columns=${columns}>
      ${policies.map((policy) => html`<${Row} policy=${policy} isShadow=${isShadowIn(enforcement)(policy)} />`)}
    <//>
    <p class="muted">Requests since the start; the share is of those that the policy was asked about. A shadow only says which it would throttle.</p>`;
}

const columns = ["Policy", "Limit", "Key", "About", ...["Admitted", "Throttled", "Exempt"].map(number)];

const whoTexts = { verified: "with a verified token", others: "without a verified token" };
/** As many as fit into a row. */
const shownOverrides = 3;

function Row({ policy, isShadow }) {
  const { name, key, paths, methods, who, chargeStatuses, cost, outcomes, overrides } = policy;
  const { admitted, throttled, would_throttle: would, exempt, unavailable } = outcomes;
  const asked = admitted + throttled + would + unavailable;
  const about = [
    paths.join(", "),
    methods.join(", "),
    who === null ? "" : whoTexts[who],
    chargeStatuses === null ? "" : `statuses ${chargeStatuses.join(", ")}`,
    cost === 1 ? "" : `each costs ${count(cost)}`,
  ].filter((part) => part !== "");
  return html`<tr>
    <th scope="row">${name} ${isShadow && html`<span class="badge">shadow</span>`}</th>
    <td class="full">
      ${rateOf(policy)}
      ${overrides.slice(0, shownOverrides).map(({ part, value, limit }) => html`<div>${count(limit)} for ${part} ${value}</div>`)}
      ${overrides.length > shownOverrides && html`<div class="muted">and ${count(overrides.length - shownOverrides)} more</div>`}
    </td>
    <td class="half">${key.length === 0 ? "one for all" : key.join(", ")}</td>
    <td class="half">${about.length === 0 ? "all limited requests" : about.join("; ")}</td>
    <td class="number">${count(admitted)}</td>
    <td class="number half">${isShadow && "would: "}${count(throttled + would)}${throttled + would > 0 && ` (${percent((throttled + would) / asked)})`}</td>
    <td class="number">${count(exempt)}</td>
  </tr>`;
}
