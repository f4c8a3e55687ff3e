// The clients that have used most, were refused most, or came last. Follows live.
import { clientLink, count, instant, percent } from "./format.js";
import { html, useState } from "./html.js";
import { useEvents, usePoll } from "./live.js";
import { Empty, Filter, Missing, number, Others, options, Until, useFields, Wide } from "./parts.js";
import { isShadowIn } from "./policies.js";
import { keyOfRule, whomOf } from "./rules.js";

const sorts = [
  ["share", "nearest to the limit"],
  ["used", "most used"],
  ["refused", "most throttled"],
  ["recent", "most recent"],
];

const pageSizes = [50, 200, 1000];

export function ClientsView({ session }) {
  const { api, events } = session;
  const [wanted, set] = useFields({ sort: "share", search: "", policy: "", limit: pageSizes[0] });
  const [follows, setFollows] = useState(true);
  const policies = usePoll(() => api.get("/api/policies"), 60_000);
  const clients = usePoll(() => api.get(`/api/clients?${queryOf(wanted)}`), follows ? 2_000 : 3_600_000, [
    wanted,
    follows,
  ]);
  const rules = usePoll(() => api.get("/api/rules"), 15_000);
  useEvents(events, ["rule", "reload"], () => {
    clients.soon();
    rules.soon();
  });
  return html`
    <h1>Clients</h1>
    <${Filter} value=${wanted.search} onInput=${set("search")} placeholder="start of address or name">
      <label>Sort <select value=${wanted.sort} onInput=${set("sort")}>
        ${options(sorts)}
      </select></label>
      <label>Policy <select value=${wanted.policy} onInput=${set("policy")}>
        <option value="">all</option>
        ${options(policies.value?.policies.map(({ name }) => name) ?? [])}
      </select></label>
      <label>Rows <select value=${wanted.limit} onInput=${set("limit")}>
        ${options(pageSizes)}
      </select></label>
      <label class="end"><input type="checkbox" checked=${follows} onInput=${({ target }) => setFollows(target.checked)} /> Follow</label>
    <//>
    <${Missing} ...${clients} />
    ${clients.value !== null && html`<${Table} answer=${clients.value} wanted=${wanted} refusals=${events.refusals} rules=${rules.value?.rules ?? []} shadows=${shadowsOf(policies.value)} nowMs=${api.clock.nowMs()} />`}`;
}

/** The names of the policies that refuse nothing. */
function shadowsOf(answer) {
  return (answer?.policies ?? []).filter(isShadowIn(answer?.enforcement)).map(({ name }) => name);
}

function queryOf({ sort, search, policy, limit }) {
  const query = new URLSearchParams({ sort, limit: String(limit) });
  if (search.trim() !== "") query.set("search", search.trim());
  if (policy !== "") query.set("policy", policy);
  return query;
}

/** Beside those with counters: clients that a rule blocks, of which nothing need be counted. They are known by their refusals. */
function blockedOf(refusals, rules, clients, { search, policy }) {
  if (policy !== "") return [];
  const byId = new Map(rules.map((rule) => [rule.id, rule]));
  const blocked = new Map();
  for (const { requests, count: times } of refusals.rows) {
    const [{ rule: id, client }] = requests;
    const rule = byId.get(id);
    if (rule === undefined) continue;
    const [key, name] = rule.client ? [`client:${client}`, client] : [keyOfRule(rule), whomOf(rule)];
    if (![key, name].some((text) => text.startsWith(search.trim()))) continue;
    blocked.set(key, { key, name, times: (blocked.get(key)?.times ?? 0) + times });
  }
  for (const { key } of clients) blocked.delete(key);
  return [...blocked.values()];
}

const wholeAddress = /^(\d+\.){3}\d+(\/\d+)?$|^[\da-f]*:[\da-f:.]*(\/\d+)?$/i;

/** Who has no row may have rules and refusals. */
function Unlisted({ text, names }) {
  const isAddress = wholeAddress.test(text);
  if (names.includes(text) || (!isAddress && (names.length > 0 || /^[\d.]*$/.test(text)))) return null;
  const kinds = isAddress ? ["client"] : ["token", "subject"];
  const links = kinds.map((kind) => html` <a href=${clientLink(`${kind}:${text}`)}>as ${kind}</a>`);
  return html`<p class="muted">Nothing is listed of ${text} – open it ${links}</p>`;
}

const columns = [
  ...["Client", "Policy", "Used", ["Left", "number lesser"]],
  ...["Free again", "Throttled", "Last admitted"].map(number),
];

function Table({ shadows, answer, wanted, refusals, rules, nowMs }) {
  const { clients, isComplete, isShared, refusedSince } = answer;
  const blocked = blockedOf(refusals, rules, clients, wanted);
  const names = [...clients, ...blocked].map(({ name }) => name);
  const unlisted = html`<${Unlisted} text=${wanted.search.trim()} names=${names} />`;
  const isFiltered = wanted.search.trim() !== "" || wanted.policy !== "";
  if (names.length === 0 && isFiltered) return html`<p class="muted">No client matches.</p>${unlisted}`;
  if (names.length === 0) return html`<${Empty} title="No clients.">A client stands here while a policy counts it.<//>`;
  return html`
    ${unlisted}
    <${Wide} label="Clients" columns=${columns}>
      ${blocked.map((each) => html`<${BlockedRow} key=${each.key} blocked=${each} />`)}
      ${clients.map((client) => html`<${Row} client=${client} isShadow=${shadows.includes(client.policy)} nowMs=${nowMs} />`)}
    <//>
    <p class="muted">
      ${isComplete ? `${count(names.length)} in all.` : `The first ${count(clients.length)}.`}
      ${refusedSince !== null && ` Throttled requests are counted since ${instant(refusedSince)}.`}
      ${clients.some(({ refused }) => refused?.error > 0) && " ± is what a count may be too high by."}
    </p>
    <${Others} isShared=${isShared} />`;
}

function Actions({ actions }) {
  return actions.map((action) => html`<span class=${`badge ${action}`}>${actionTexts[action]}</span> `);
}

const actionTexts = { block: "blocked", exempt: "exempt", limit: "own limit" };

function BlockedRow({ blocked: { key, name, times } }) {
  return html`<tr>
    <th scope="row" class="key"><a href=${clientLink(key)}>${name}</a> <${Actions} actions=${["block"]} /></th>
    <td colspan="6" class="muted">no policy is asked; refused ${count(times)} times of late</td>
  </tr>`;
}

function Row({ client, isShadow, nowMs }) {
  const { key, name, policy, countedAs, method, route, limit, used, remaining, reset, refused, last, seen, actions } =
    client;
  const parts = [method, route, countedAs && `counted as its ${countedAs}`, seen && `last: ${seen}`];
  const more = parts.filter(Boolean).join(" · ");
  return html`<tr>
    <th scope="row" class="key">${key === null ? name : html`<a href=${clientLink(key)}>${name}</a>`} <${Actions} actions=${actions} />${more !== "" && html`<span class="muted">${more}</span>`}</th>
    <td class="short second">${policy} ${isShadow && html`<span class="muted">(shadow)</span>`}</td>
    <td class="full"><span class="use"><${Meter} used=${used} limit=${limit} isShadow=${isShadow} /> <span>${count(used)} of ${count(limit)}</span></span></td>
    <td class=${`number lesser ${remaining === 0 && !isShadow ? "exhausted" : ""}`}>${count(remaining)}</td>
    <td class="number">${reset === null ? "–" : html`<${Until} at=${reset} nowMs=${nowMs} />`}</td>
    <td class="number">${timesText(refused)}</td>
    <td class="number">${last === null ? "–" : instant(last)}</td>
  </tr>`;
}

/** How often it was throttled; null: not known. */
export function timesText(refused) {
  if (refused === null || refused.count === 0) return "–";
  return count(refused.count) + (refused.error === 0 ? "" : ` ± ${count(refused.error)}`);
}

/** How much is used, as a bar. The numbers stand beside it. */
export function Meter({ used, limit, isShadow = false }) {
  const share = Math.min(1, limit === 0 ? 1 : used / limit);
  return html`<span class=${`meter ${share === 1 && !isShadow ? "full" : ""}`} title=${percent(share)}><span style=${{ width: `${share * 100}%` }}></span></span>`;
}
