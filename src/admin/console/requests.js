// Why a request was refused: found by the id in its answer, or among the last refusals.
import { clientLink, count, encoded, span, words } from "./format.js";
import { html, useState } from "./html.js";
import { usePoll, useStream } from "./live.js";
import { RefusalTable } from "./now.js";
import { ClientLink, Instant, Missing, Reason, typed } from "./parts.js";

export function RequestsView({ session, about: id }) {
  const { api, events } = session;
  const [wanted, setWanted] = useState(id);
  const { refusals } = useStream(events);
  const onSubmit = (event) => {
    event.preventDefault();
    if (wanted.trim() !== "") location.hash = `#/requests/${encoded(wanted.trim())}`;
  };
  return html`
    <h1>Requests</h1>
    <form class="row" role="search" onSubmit=${onSubmit}>
      <label class="grow">Id <input class="grow key" maxlength="200" ...${typed} placeholder="X-Request-Id"
        value=${wanted} onInput=${({ target }) => setWanted(target.value)} /></label>
      <button type="submit" class="main">Explain</button>
    </form>
    ${id !== "" && html`<${Explained} api=${api} id=${id} status=${session.status} />`}
    <section>
      <h2>Recent refusals</h2>
      <${RefusalTable} known=${refusals.rows} />
    </section>`;
}

function Explained({ api, id, status: gateway }) {
  const request = usePoll(() => api.get(`/api/requests/${encoded(id)}`), 3_600_000);
  if (request.value === null) return html`<${Missing} ...${request} />`;
  const { at, method, path, status, reason, key, policy, explanation, remedies, ...others } = request.value;
  const facts = [
    ["Answered", html`<${Instant} at=${at} />`],
    ["Request", html`<span class="path">${method} ${path}</span>`],
    ["Status", html`${status} · <${Reason} reason=${reason} />`],
    ["Client", html`<${ClientLink} request=${request.value} />`],
    ["Subject", others.subject],
    ["X-Request-Id", others.requestId && `${others.requestId}${others.isRepeated ? ", as others before it" : ""}`],
    ["Asked by", others.source === "ext-auth" && "an ingress"],
    ["Route", others.route],
    [
      "Policy",
      policy &&
        html`${policy.policy}: ${words(policy.outcome)}, ${count(policy.remaining)} of ${count(policy.limit)} left`,
    ],
    ["Free again", policy?.outcome === "throttled" && html`<${Instant} at=${policy.reset} />`],
    ["Retry-After", others.retryAfterSeconds && span(others.retryAfterSeconds)],
    ["Rule", others.rule],
  ];
  return html`
    <section class="panel" aria-label="The request">
      <h2 class="key">${id}</h2>
      ${[...explanation, ...trialSentences(request.value, gateway)].map((sentence) => html`<p>${sentence}</p>`)}
      ${remedies.map(({ does }) => html`<p>To let it in: ${does === "forgive" ? html`<a href=${clientLink(key)}>forgive it</a>` : html`<a href="#/rules">remove the rule</a>`}.</p>`)}
      <${Facts} facts=${facts} />
    </section>`;
}

/** Whether the limit was on trial when the request was refused. */
function trialSentences({ at, reason, policy }, { trial, lastTrial }) {
  const isIn = (one) =>
    one !== null && Date.parse(one.trial.since) <= Date.parse(at) && !(Date.parse(one.at) < Date.parse(at));
  const its = [trial && { trial }, lastTrial].find(isIn)?.trial;
  if (reason !== "throttled" || its === undefined) return [];
  const key = `policies.${policy.policy}`;
  if (!its.changed.some((changed) => `${changed}.`.startsWith(`${key}.`))) return [];
  const limit = its.changes.find((change) => change.key === `${key}.limit`);
  const before = limit === undefined ? "" : `, with the limit ${limit.to}; before it was ${limit.from ?? "not there"}`;
  return [`This policy ${its === trial ? "is" : "was then"} on trial${before}.`];
}

/** Names with what is known; what is empty is left out. */
export function Facts({ facts }) {
  return html`<dl class="facts">
    ${facts.filter(([, fact]) => fact).map(([name, fact]) => html`<dt>${name}</dt><dd>${fact}</dd>`)}
  </dl>`;
}
