// The policies, and what each has said since the start. A shadow stands beside those that are enforced.
import { count, percent, rateOf } from "./format.js";
import { html } from "./html.js";
import { useEvents, usePoll } from "./live.js";
import { Missing, Wide } from "./parts.js";

export function PoliciesView({ session: { api, events } }) {
  const policies = usePoll(() => api.get("/api/policies"), 5_000);
  useEvents(events, ["reload"], () => policies.soon());
  return html`
    <h1>Policies</h1>
    <${Missing} ...${policies} />
    ${policies.value !== null && html`<${Table} answer=${policies.value} />`}`;
}

function Table({ answer: { enforcement, policies } }) {
  return html`
    ${enforcement === "shadow" && html`<p class="problem warning"><span class="dot"></span><span><code>enforcement: shadow</code>: no policy refuses anything.</span></p>`}
    <${Wide} label="Policies">
      <thead><tr>
        <th scope="col">Policy</th><th scope="col">Limit</th><th scope="col">Key</th><th scope="col">About</th>
        <th scope="col" class="number">Admitted</th><th scope="col" class="number">Throttled</th>
        <th scope="col" class="number">Would throttle</th><th scope="col" class="number">Share</th>
        <th scope="col" class="number">Exempt</th><th scope="col" class="number">Overrides</th>
      </tr></thead>
      <tbody>${policies.map((policy) => html`<${Row} policy=${policy} />`)}</tbody>
    <//>
    <p class="muted">Counts since the start. Share: of the requests that it was asked about, those that it throttled or would have.</p>`;
}

function Row({ policy }) {
  const { name, mode, key, paths, methods, who, chargeStatuses, cost, outcomes, overrides } = policy;
  const { admitted, throttled, would_throttle: would, exempt, unavailable } = outcomes;
  const asked = admitted + throttled + would + unavailable;
  const about = [
    paths.join(", "),
    methods.join(", "),
    who === null ? "" : `${who} identities`,
    chargeStatuses === null ? "" : `statuses ${chargeStatuses.join(", ")}`,
    cost === 1 ? "" : `each costs ${count(cost)}`,
  ].filter((part) => part !== "");
  return html`<tr>
    <th scope="row">${name} ${mode === "shadow" && html`<span class="badge">shadow</span>`}</th>
    <td class="short">${rateOf(policy)}</td>
    <td>${key.length === 0 ? "one for all" : key.join(", ")}</td>
    <td>${about.length === 0 ? "all limited requests" : about.join("; ")}</td>
    <td class="number">${count(admitted)}</td>
    <td class="number">${count(throttled)}</td>
    <td class="number">${count(would)}</td>
    <td class="number">${asked === 0 ? "–" : percent((throttled + would) / asked)}</td>
    <td class="number">${count(exempt)}</td>
    <td class="number" title=${overrides.map(({ part, value, limit }) => `${part} ${value}: ${limit}`).join("\n")}>${count(overrides.length)}</td>
  </tr>`;
}
