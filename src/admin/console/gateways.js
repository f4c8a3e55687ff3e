// The gateways that share the store, and which of them this page is about.
import { count } from "./format.js";
import { html } from "./html.js";
import { useTick } from "./live.js";
import { Empty, When, Wide } from "./parts.js";
import { Facts } from "./requests.js";

export function GatewaysView({ session: { api, status } }) {
  const { store } = status;
  useTick(1_000);
  const nowMs = api.clock.nowMs();
  return html`
    <h1>Gateways</h1>
    <div class="split stack">
      <div class="stack">${store === null ? html`<${Alone} />` : html`<${Sharing} store=${store} nowMs=${nowMs} />`}</div>
      <${This} status=${status} nowMs=${nowMs} />
    </div>`;
}

function Alone() {
  return html`<${Empty} title="This gateway counts for itself.">With a store (Redis or Valkey, <code>counters.store: redis</code>), several
    gateways share limits, rules and what is forgiven, and are listed here.<//>`;
}

/** The one that this page is about. */
function This({ status: { version, nodeVersion, state, started, workers }, nowMs }) {
  const { configured, serving, restarts } = workers;
  const facts = [
    ["State", state],
    ["Version", `${version}, on Node ${nodeVersion}`],
    ["Started", html`<${When} at=${started} nowMs=${nowMs} />`],
    ["Workers", `${serving} of ${configured} serve${restarts === 0 ? "" : `, ${count(restarts)} restarts`}`],
  ];
  return html`<section class="panel"><h2>This gateway</h2><${Facts} facts=${facts} /></section>`;
}

function Sharing({ store: { state, since, shards, replicas, gateways }, nowMs }) {
  const counted = Object.entries(shards).filter(([, number]) => number > 0);
  const versions = new Set(gateways.map(({ version }) => version));
  return html`
    <p>The store is <b class=${`value ${state}`}>${state}</b> (${counted.map(([name, number]) => `${count(number)} ${name}`).join(", ")})${since !== null && html` since <${When} at=${since} nowMs=${nowMs} />`}.
      ${state === "away" ? " These gateways were there when it was reached last:" : " It has heard of these gateways within the last 10 s:"}</p>
    ${versions.size > 1 && html`<p class="hint">They are of different versions.</p>`}
    <${Wide} label="Gateways of the store" columns=${["Host", "Admin API", "Version", "Started"]}>
      ${gateways.map((gateway) => html`<${Row} gateway=${gateway} nowMs=${nowMs} />`)}
    <//>
    ${replicas !== gateways.length && html`<p class="muted">The limits are shared by ${count(replicas)}, as counted or configured.</p>`}
    <p class="muted">Rules and forgiveness hold at all of them. Counts, history, refusals and reloads on this page are of this one alone.</p>`;
}

function Row({ gateway: { name, version, started, admin, isSelf }, nowMs }) {
  return html`<tr>
    <th scope="row" class="key">${name} ${isSelf && html`<span class="badge open">this one</span>`}</th>
    <td class="key half">${admin ?? "none over TCP"}</td>
    <td class="short half">${version}</td>
    <td class="half"><${When} at=${started} nowMs=${nowMs} /></td>
  </tr>`;
}
