// What happens now, and in the last minutes. What is wrong stands first.
import { Chart, padded, rangeOf } from "./chart.js";
import * as colors from "./colors.js";
import { bytes, count, failureText, instant, latency, percent, requestLink, rounded, span, words } from "./format.js";
import { html, useState } from "./html.js";
import { usePoll, useStream } from "./live.js";
import { ClientLink, Empty, Failures, Instant, number, Reason, Wide } from "./parts.js";
import { countsOf, kindOf, recentOf, sum, total, upstreamFailuresIn } from "./problems.js";
import { mostOf, rowsOf } from "./refusals.js";
import { readMetrics } from "./routes.js";

export function NowView({ session }) {
  const { history, problems, events, api } = session;
  // Large, for figures that change slowly.
  const metrics = usePoll(async (last) => readMetrics(await api.metrics(), api.clock.nowMs(), last), 60_000);
  return html`
    <h1 class="unseen">Now</h1>
    <${Problems} problems=${problems} refusals=${useStream(events).refusals} nowMs=${api.clock.nowMs()} />
    ${session.trialEnd}
    <${Figures} session=${session} countersUsed=${metrics.value?.countersUsed ?? null} />
    ${history.value === null && html`<${Failures} error=${history.error} />`}
    <div class="now charts">
      ${history.value !== null && html`<${History} history=${history.value} />`}
      <${RecentRefusals} events=${events} />
      <${Routes} metrics=${metrics.value} />
    </div>`;
}

function Problems({ problems, refusals, nowMs }) {
  if (problems.length === 0) return null;
  return html`
    <ul class="problems" aria-label="What is wrong">
      ${problems.map(({ severity, text, runbook, kind }) => {
        return html`
          <li class=${`problem ${severity}`}>
            <span><b>${severity}</b> ${text}${kind !== undefined && html`<${MostOf} kind=${kind} rows=${refusals.rows} nowMs=${nowMs} />`}</span>
            ${runbook !== null && html`<a href=${`#/runbook/${runbook}`}>What to do</a>`}
          </li>`;
      })}
    </ul>`;
}

/** Whom the page has heard of most in the last minute, and what limits or refuses it. */
function MostOf({ kind, rows, nowMs }) {
  const most = mostOf(
    rows.filter(({ requests: [{ reason }] }) => kindOf(reason) === kind),
    nowMs,
  );
  if (most === undefined) return null;
  const { policy, reason } = most;
  const cause = reason === "throttled" ? `by policy ${policy?.policy}` : `(${words(reason)})`;
  return html` Most of them, as far as this page has heard: <${ClientLink} request=${most} /> ${cause}.`;
}

function Figures({ session: { status, history }, countersUsed }) {
  const steps = recentOf(history.value);
  const seconds = sum(steps, (step) => step.seconds);
  const counts = countsOf(steps);
  const rate = (kind) => `${rounded(seconds === 0 ? 0 : counts[kind] / seconds)}/s`;
  const share = (kind) => (counts.all === 0 ? "no requests" : `${percent(counts[kind] / counts.all)} of requests`);
  const memory = steps.at(-1)?.memory;
  const whole = steps.findLast((step) => step.latencySeconds !== null)?.latencySeconds;
  const waited = steps.findLast((step) => step.upstream.latencySeconds)?.upstream.latencySeconds;
  const over = `last ${history.value?.stepSeconds ?? 5} s`;
  const { upstream, store, workers, uptimeSeconds } = status;
  const available = upstream.addresses.filter((each) => each.state === "available").length;
  const figures = [
    ["Admitted", rate("admitted"), "mean of a minute"],
    ["Throttled (429)", rate("throttled"), share("throttled")],
    ["Refused otherwise", rate("refused"), share("refused")],
    ["Failed", rate("failed"), share("failed"), counts.failed > 0 ? "away" : ""],
    [`Latency, ${over}`, latency(whole?.p50), `p50; p99 ${latency(whole?.p99)}`],
    [`Upstream, ${over}`, latency(waited?.p50), `p50; p99 ${latency(waited?.p99)}`],
    ["Upstream", upstream.state, `${available} of ${upstream.addresses.length} addresses`, upstream.state],
    store && ["Store", store.state, `${store.replicas} ${store.replicas === 1 ? "gateway" : "gateways"}`, store.state],
    ["Workers", `${workers.serving} of ${workers.configured}`, `up ${span(Math.floor(uptimeSeconds))}`],
    [
      "Memory",
      memory ? bytes(memory.residentBytes) : "–",
      countersUsed === null ? "" : `counters ${percent(countersUsed)}`,
    ],
  ];
  return html`<dl class="figures">
    ${figures.filter(Boolean).map(([name, value, more, state]) => {
      return html`<div><dt>${name}</dt><dd><b class=${`value ${state ?? ""}`}>${value}</b> <span class="muted">${more}</span></dd></div>`;
    })}
  </dl>`;
}

function History({ history: { steps, stepSeconds } }) {
  const range = rangeOf(steps.length, stepSeconds);
  const all = padded(steps, range);
  const known = all.filter(Boolean);
  const requests = sum(known, (step) => step.admitted + total(step.refused));
  const values = (figureOf) => all.map((step) => (step === null ? null : figureOf(step)));
  const of = (name, color, figureOf) => {
    const times = sum(known, figureOf);
    const more = `${count(times)}${requests === 0 ? "" : ` · ${percent(times / requests)}`}`;
    return { name, color, more, values: values((step) => figureOf(step) / step.seconds) };
  };
  const reasons = Object.keys(colors.refusals).filter((reason) => known.some((step) => step.refused[reason] > 0));
  const outcomes = [
    of("admitted", colors.admitted, (step) => step.admitted),
    ...reasons.map((reason) => of(words(reason), colors.refusals[reason], (step) => step.refused[reason] ?? 0)),
  ];
  const [p50, , p99] = colors.lines;
  const line = (name, color, figureOf, isDashed = false) => {
    return { name, color, isDashed, values: values((step) => figureOf(step) ?? null) };
  };
  const times = [
    line("p50", p50, (step) => step.latencySeconds?.p50),
    line("upstream p50", p50, (step) => step.upstream.latencySeconds?.p50, true),
    line("p99", p99, (step) => step.latencySeconds?.p99),
    line("upstream p99", p99, (step) => step.upstream.latencySeconds?.p99, true),
  ];
  const failures = [...new Set(known.flatMap((step) => Object.keys(step.upstream.failedByReason)))];
  const timesOf = (reason) => sum(known, (step) => step.upstream.failedByReason[reason] ?? 0);
  const failed = {
    ...{ name: "failed at the upstream", color: colors.refusals.upstream_failed },
    more: failures.map((reason) => `${failureText(reason)} ${count(timesOf(reason))}`).join(", "),
    values: values(upstreamFailuresIn),
  };
  const memory = [
    ["resident", "residentBytes"],
    ["in heaps", "heapBytes"],
    ["native memory", "externalBytes"],
  ].map(([name, figure], i) => line(name, colors.lines[i], (step) => step.memory[figure] / mebibyte));
  const axis = { range, stepSeconds };
  return html`
    <${Chart} title="Requests" series=${outcomes} isStacked ...${axis} note=${`a second; sums of the last ${range.name}`} format=${rounded} />
    <${Chart} title="Latency" series=${times} failed=${failures.length > 0 ? failed : undefined} isLog ...${axis}
      note="upstream: time to first byte; logarithmic" format=${latency} />
    <${Chart} title="Memory" series=${memory} ...${axis} note="of the process" format=${mebibytes} />`;
}

const mebibyte = 1024 * 1024;

function mebibytes(value) {
  return `${rounded(value)} MiB`;
}

/** How many are listed. */
const listed = 8;

/** Where the time goes: how long the upstream takes by route, beside the whole response. */
function Routes({ metrics }) {
  const routes = metrics?.routes ?? [];
  return html`
    <section class="routes">
      <h2>Latency by route${metrics !== null && metrics.sinceMs !== null && html` <span class="muted">since ${instant(metrics.sinceMs)}</span>`}</h2>
      ${routes.length === 0 && html`<${Empty} title="No responses yet.">Each route stands here, the time to first byte of its upstream beside the whole. Read once a minute.<//>`}
      ${
        routes.length > 0 &&
        html`<${Wide} label="Latency by route" columns=${["Route", ...["Answered", "Upstream p50", "Upstream p99", "All p50", "All p99"].map(number)]}>
          ${routes.slice(0, listed).map(({ route, upstream, request }) => {
            const cells = [count(upstream.count), upstream.p50, upstream.p99, request.p50, request.p99];
            return html`<tr key=${route}><th scope="row">${route}</th>${cells.map((cell) => html`<td class="number">${cell}</td>`)}</tr>`;
          })}
      <//><p class="muted">All: every response of the route, with refusals, which take no time at the upstream.</p>`
      }
    </section>`;
}

function RecentRefusals({ events }) {
  const { rows } = useStream(events).refusals;
  return html`
    <section class="recent">
      <h2>Recent refusals</h2>
      <${RefusalTable} known=${rows} rows=${listed} />
      ${rows.length > listed && html`<p><a href="#/requests">All ${count(rows.length)} of them</a></p>`}
    </section>`;
}

/** `known`: as `Refusals.rows`; of one client, `refusals`: a list, and `own`: its name. `rows`: how many at most. */
export function RefusalTable({ refusals, known = rowsOf(refusals), rows = known.length, own = null }) {
  const [opened, setOpened] = useState(null);
  if (known.length === 0)
    return html`<${Empty} title="No refusals.">What is throttled, refused or fails stands here.<//>`;
  const isNamed = known.some(({ requests: [{ client }] }) => client !== own);
  return html`
    <${Wide} label="Recent refusals" columns=${["Last", ["First", "lesser"], number("Count"), "Status", "Reason", isNamed && "Client", "Last request", "Id"]}>
        ${known.slice(0, rows).map((row) => {
          const isOpen = opened === row.name;
          return html`<${RefusalRow} key=${row.name} row=${row} isNamed=${isNamed} isOpen=${isOpen} onOpen=${() => setOpened(isOpen ? null : row.name)} />`;
        })}
    <//>
    ${refusals === undefined && known.some((row) => row.count > 1) && html`<p class="muted">Counted since the page was opened, and shortly before; of very many, a sample.</p>`}`;
}

/** Of one client with one reason. A button shows its other requests. */
function RefusalRow({ row: { requests, first, count: all }, isNamed, isOpen, onOpen }) {
  const [last, ...others] = requests;
  const { at, id, status, reason, method, path } = last;
  return html`<tr>
      <td class="short"><${Instant} at=${at} /></td>
      <td class="short lesser">${all > 1 && html`<${Instant} at=${first} />`}</td>
      <td class="number">${all === 1 ? "1" : html`<button class="plain" aria-expanded=${isOpen} onClick=${onOpen}>${count(all)}</button>`}</td>
      <td class="short">${status}</td>
      <td class="short second"><${Reason} reason=${reason} /></td>
      ${isNamed && html`<th scope="row" class="short"><${ClientLink} request=${last} /></th>`}
      <td class="path">${method} ${path}</td>
      <td class="short full"><${RequestId} id=${id} /></td>
    </tr>
    ${
      isOpen &&
      others.map((each) => {
        return html`<tr key=${each.id} class="quiet"><td class="short"><${Instant} at=${each.at} /></td><td class="lesser"></td><td colspan=${isNamed ? 4 : 3}></td>
          <td class="path">${each.method} ${each.path}</td><td class="short full"><${RequestId} id=${each.id} /></td></tr>`;
      })
    }`;
}

/** All of it is there to be copied, and the first part is seen. */
function RequestId({ id }) {
  return html`<a class="id" href=${requestLink(id)} title=${id}>${id}</a>`;
}
