// What happens now, and in the last minutes. What is wrong stands first.
import { Chart, largestOf, padded, rangeOf } from "./chart.js";
import * as colors from "./colors.js";
import {
  bytes,
  clientLink,
  count,
  failureText,
  latency,
  percent,
  requestLink,
  rounded,
  span,
  words,
} from "./format.js";
import { html, useState } from "./html.js";
import { usePoll, useStream } from "./live.js";
import { Instant, Reason, Wide } from "./parts.js";
import { failedIn, sum, total } from "./problems.js";
import { rowsOf } from "./refusals.js";

export function NowView({ session }) {
  const { history, problems, events, api } = session;
  return html`
    <h1 class="unseen">Now</h1>
    <${Problems} problems=${problems} refusals=${useStream(events).refusals} nowMs=${api.clock.nowMs()} />
    ${session.trialEnd}
    <${Figures} session=${session} />
    ${history.value !== null && html`<${History} history=${history.value} />`}
    ${history.value === null && history.error !== null && html`<p class="failure">No history: ${history.error.message}</p>`}
    <${Refusals} events=${events} clock=${api.clock} />`;
}

function Problems({ problems, refusals, nowMs }) {
  if (problems.length === 0) return null;
  return html`
    <ul class="problems" aria-label="What is wrong">
      ${problems.map(({ severity, text, runbook }) => {
        return html`
          <li class=${`problem ${severity}`}>
            <span class="dot"></span><span><b>${severity}</b> ${text}${runbook === "HeadgateThrottlesMost" && html`<${MostThrottled} rows=${refusals.rows} nowMs=${nowMs} />`}</span>
            ${runbook !== null && html`<a href=${`#/runbook/${runbook}`}>What to do</a>`}
          </li>`;
      })}
    </ul>`;
}

/** Whom the page has heard of most in the last minute, and the policy that throttles it. */
function MostThrottled({ rows, nowMs }) {
  const those = rows.filter(
    ({ requests: [{ at, reason }] }) => reason === "throttled" && nowMs - Date.parse(at) < 60_000,
  );
  if (those.length === 0) return null;
  const [{ client, key, policy }] = those.reduce((a, b) => (b.count > a.count ? b : a)).requests;
  return html` Most of them, as far as this page has heard, by policy ${policy?.policy} for <a href=${clientLink(key ?? `client:${client}`)}>${client}</a>.`;
}

/** Steps that count as now. */
const recentSteps = 12;

function Figures({ session: { api, status, history } }) {
  // Large, for one figure that changes slowly.
  const { value: countersUsed } = usePoll(async () => readCountersUsed(await api.metrics()), 60_000);
  const steps = (history.value?.steps ?? []).slice(-recentSteps).filter((step) => step !== null);
  const seconds = sum(steps, (step) => step.seconds);
  const perSecond = (figureOf) => (seconds === 0 ? 0 : sum(steps, figureOf) / seconds);
  const [admitted, refused] = [perSecond((step) => step.admitted), perSecond((step) => total(step.refused))];
  const memory = steps.at(-1)?.memory;
  const last = steps.findLast((step) => step.latencySeconds !== null)?.latencySeconds;
  const { upstream, store, workers, uptimeSeconds } = status;
  const available = upstream.addresses.filter((each) => each.state === "available").length;
  const share = admitted + refused === 0 ? "no requests" : `${percent(refused / (admitted + refused))} of requests`;
  return html`
    <dl class="figures">
      <${Figure} name="Admitted" value=${`${rounded(admitted)}/s`} more="mean of a minute" />
      <${Figure} name="Refused" value=${`${rounded(refused)}/s`} more=${share} />
      <${Figure} name="Latency" value=${latency(last?.p50)} more=${`p99 ${latency(last?.p99)}`} />
      <${Figure} name="Upstream" value=${upstream.state} state=${upstream.state} more=${`${available} of ${upstream.addresses.length} addresses`} />
      ${store !== null && html`<${Figure} name="Store" value=${store.state} state=${store.state} more=${`${store.replicas} gateways`} />`}
      <${Figure} name="Workers" value=${`${workers.serving} of ${workers.configured}`} more=${`up ${span(uptimeSeconds)}`} />
      <${Figure} name="Memory" value=${memory === undefined ? "–" : bytes(memory.residentBytes)} more=${countersUsed === null ? "" : `counters ${percent(countersUsed)} used`} />
    </dl>`;
}

function Figure({ name, value, more, state }) {
  return html`<div><dt>${name}</dt><dd><b class=${`value ${state ?? ""}`}>${value}</b> <span class="muted">${more}</span></dd></div>`;
}

/** Of the metrics in their text format. */
function readCountersUsed(text) {
  const figureOf = (name) => {
    const at = text.indexOf(`\n${name} `);
    return at === -1 ? 0 : Number.parseFloat(text.slice(at + name.length + 2));
  };
  const used = figureOf('headgate_counters_memory_bytes{state="used"}');
  const free = figureOf('headgate_counters_memory_bytes{state="free"}');
  return used / (used + free || 1);
}

function History({ history: { steps, stepSeconds } }) {
  const range = rangeOf(steps.length, stepSeconds);
  const all = padded(steps, range);
  const values = (figureOf) => all.map((step) => (step === null ? null : figureOf(step)));
  const reasons = Object.keys(colors.refusals).filter((reason) => all.some((step) => step?.refused[reason] > 0));
  const failures = [...new Set(all.flatMap((step) => Object.keys(step?.upstream.failedByReason ?? {})))];
  const requests = [
    { name: "admitted", color: colors.admitted, values: values((step) => step.admitted / step.seconds) },
    ...reasons.map((reason) => {
      const of = (step) => (step.refused[reason] ?? 0) / step.seconds;
      return { name: words(reason), color: colors.refusals[reason], values: values(of) };
    }),
  ];
  const percentiles = ["p50", "p90", "p99"].map((name, i) => {
    return { name, color: colors.lines[i], values: values((step) => step.latencySeconds?.[name] ?? null) };
  });
  const upstream = [
    { name: "until the head, mean", color: colors.lines[0], values: values((step) => step.upstream.meanSeconds) },
  ];
  const failed = {
    name: "failed",
    color: colors.refusals.upstream_failed,
    values: values(failedIn),
  };
  const memory = [
    ["resident", "residentBytes"],
    ["in heaps", "heapBytes"],
    ["outside heaps", "externalBytes"],
  ].map(([name, figure], i) => {
    return { name, color: colors.lines[i], values: values((step) => step.memory[figure] / mebibyte) };
  });
  const axis = { range, stepSeconds };
  // The upstream's time is a part of the latency beside it.
  const slowest = largestOf([...percentiles, ...upstream]);
  return html`
    <section class="now charts" aria-label=${`The last ${range.name}`}>
      <${Chart} title="Requests" series=${requests} isStacked=${true} ...${axis} note="a second" format=${rounded} />
      <${Chart} title="Latency" series=${percentiles} ...${axis} largest=${slowest} note="of responses" format=${latency} />
      <${Chart} title="Upstream" series=${upstream} failed=${failures.length > 0 ? failed : undefined} ...${axis} largest=${slowest} note="of responses" format=${latency} />
      <${Chart} title="Memory" series=${memory} ...${axis} note="of the process" format=${mebibytes} />
      <${Reasons} steps=${all} range=${range} reasons=${reasons} failures=${failures} />
    </section>`;
}

const mebibyte = 1024 * 1024;

function mebibytes(value) {
  return `${rounded(value)} MiB`;
}

function Reasons({ steps, range, reasons, failures }) {
  const known = steps.filter(Boolean);
  const all = sum(known, (step) => step.admitted + total(step.refused));
  const rows = [
    ["admitted", colors.admitted, sum(known, (step) => step.admitted)],
    ...reasons.map((reason) => [
      words(reason),
      colors.refusals[reason],
      sum(known, (step) => step.refused[reason] ?? 0),
    ]),
  ];
  return html`
    <section class="reasons">
      <h2>In the last ${range.name}</h2>
      <table>
        <thead><tr><th scope="col">Requests</th><th scope="col" class="number">Count</th><th scope="col" class="number">Share</th></tr></thead>
        <tbody>
          ${rows.map(([name, color, value]) => {
            return html`<tr>
              <th scope="row"><span class="swatch" style=${{ background: color }}></span>${name}</th>
              <td class="number">${count(value)}</td><td class="number">${percent(all === 0 ? 0 : value / all)}</td>
            </tr>`;
          })}
          ${failures.map((reason) => {
            const value = sum(known, (step) => step.upstream.failedByReason[reason] ?? 0);
            return html`<tr><th scope="row">upstream: ${failureText(reason)}</th><td class="number">${count(value)}</td><td></td></tr>`;
          })}
        </tbody>
      </table>
    </section>`;
}

/** How many rows are listed. */
const listed = 15;

function Refusals({ events, clock }) {
  const { refusals } = useStream(events);
  return html`
    <section>
      <h2>Last refusals</h2>
      <${RefusalTable} known=${refusals.rows} rows=${listed} nowMs=${clock.nowMs()} />
    </section>`;
}

/** `known`: as `Refusals.rows`; of one client, `refusals`: a list, and `own`: its name. `rows`: how many at most. */
export function RefusalTable({ refusals, known = rowsOf(refusals), nowMs, rows = known.length, own = null }) {
  const [opened, setOpened] = useState(null);
  if (known.length === 0) return html`<p class="muted">None is remembered.</p>`;
  const isNamed = known.some(({ requests: [{ client }] }) => client !== own);
  return html`
    <${Wide} label="Last refusals">
      <thead><tr>
        <th scope="col">Last</th><th scope="col">First</th><th scope="col" class="number">Count</th><th scope="col">Status</th>
        <th scope="col">Reason</th>${isNamed && html`<th scope="col">Client</th>`}<th scope="col">Last request</th><th scope="col">Id</th>
      </tr></thead>
      <tbody>
        ${known.slice(0, rows).map((row) => {
          const isOpen = opened === row.name;
          return html`<${RefusalRow} key=${row.name} row=${row} isNamed=${isNamed} nowMs=${nowMs} isOpen=${isOpen} onOpen=${() => setOpened(isOpen ? null : row.name)} />`;
        })}
      </tbody>
    <//>
    ${refusals === undefined && known.some((row) => row.count > 1) && html`<p class="muted">Counted since the page was opened, and shortly before; of very many, a sample.</p>`}`;
}

/** Of one client with one reason. A button shows its other requests. */
function RefusalRow({ row: { requests, first, count: all }, isNamed, nowMs, isOpen, onOpen }) {
  const [{ at, id, status, reason, client, key, method, path }, ...others] = requests;
  return html`<tr>
      <td class="short"><${Instant} at=${at} nowMs=${nowMs} /></td>
      <td class="short">${all > 1 && html`<${Instant} at=${first} nowMs=${nowMs} />`}</td>
      <td class="number">${all === 1 ? "1" : html`<button type="button" class="plain" aria-expanded=${isOpen} onClick=${onOpen}>${count(all)}</button>`}</td>
      <td class="short">${status}</td>
      <td class="short"><${Reason} reason=${reason} /></td>
      ${isNamed && html`<td class="short"><a href=${clientLink(key ?? `client:${client}`)}>${client}</a></td>`}
      <td class="path">${method} ${path}</td>
      <td class="short"><${RequestId} id=${id} /></td>
    </tr>
    ${
      isOpen &&
      others.map((each) => {
        return html`<tr key=${each.id} class="quiet"><td class="short"><${Instant} at=${each.at} nowMs=${nowMs} /></td><td colspan=${isNamed ? 5 : 4}></td>
          <td class="path">${each.method} ${each.path}</td><td class="short"><${RequestId} id=${each.id} /></td></tr>`;
      })
    }`;
}

/** All of it is there to be copied, and the first part is seen. */
function RequestId({ id }) {
  return html`<a class="id" href=${requestLink(id)} title=${id}>${id}</a>`;
}
