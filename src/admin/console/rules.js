// The rules that hold: whom they are about, until when, who has set them and why. Sets and removes them.
import { actions, RemoveRuleDialog, RuleDialog } from "./dialogs.js";
import { clientLink, count } from "./format.js";
import { html, useState } from "./html.js";
import { useEvents, usePoll, useTick } from "./live.js";
import { Empty, Filter, Instant, Missing, When, Wide } from "./parts.js";

/** A filter finds the others. */
const listed = 500;

export function RulesView({ session }) {
  const { api, events, canWrite } = session;
  const rules = usePoll(() => api.get("/api/rules"), 15_000);
  const policies = usePoll(() => api.get("/api/policies"), 60_000);
  const [dialog, setDialog] = useState(null);
  const [filter, setFilter] = useState("");
  useEvents(events, ["rule"], () => rules.soon());
  const found = (rules.value?.rules ?? []).filter((rule) => {
    return [rule.id, whomOf(rule), rule.note ?? "", rule.setBy].some((text) => text.includes(filter.trim()));
  });
  const shared = { session, onEnd: () => setDialog(null), onDone: rules.reload };
  return html`
    <h1>Rules</h1>
    <${Filter} value=${filter} onChange=${setFilter} placeholder="client, note, id, by whom">
      ${
        canWrite &&
        html`<span class="row end actions">
        ${actions.toReversed().map((action) => html`<button type="button" onClick=${() => setDialog(action)}>${buttons[action]}</button>`)}
      </span>`
      }
    <//>
    <${Missing} ...${rules} />
    ${rules.value !== null && found.length === 0 && html`<${Empty} title=${filter.trim() === "" ? "No rules." : "No rule has this text."}>A rule blocks, exempts or limits one client until it ends.<//>`}
    ${found.length > 0 && html`<${RuleTable} rules=${found.slice(0, listed)} session=${session} onDone=${rules.reload} />`}
    ${found.length > listed && html`<p class="muted">The first ${count(listed)} of ${count(found.length)}.</p>`}
    ${dialog !== null && html`<${RuleDialog} ...${shared} action=${dialog} whom=${null} policies=${policies.value?.policies.map(({ name }) => name) ?? []} />`}`;
}

const buttons = { block: "Block …", exempt: "Exempt …", limit: "Limit …" };

export function whomOf({ client, token, subject }) {
  return client ?? token ?? subject;
}

/** Of whom it is about. */
export function keyOfRule(rule) {
  return `${["client", "token", "subject"].find((kind) => rule[kind] !== undefined)}:${whomOf(rule)}`;
}

/** Also for one client. */
export function RuleTable({ rules, session, onDone }) {
  const { api, canWrite } = session;
  const [removed, setRemoved] = useState(null);
  useTick(1_000);
  const nowMs = api.clock.nowMs();
  return html`
    <${Wide} label="Rules">
      <thead><tr>
        <th scope="col">Whom</th><th scope="col">Effect</th><th scope="col">Ends</th><th scope="col">Set by</th>
        <th scope="col">Note and id</th>
        ${canWrite && html`<th scope="col"><span class="unseen">Remove</span></th>`}
      </tr></thead>
      <tbody>
        ${rules.map((rule) => html`<${Row} key=${rule.id} rule=${rule} nowMs=${nowMs} onRemove=${canWrite ? setRemoved : null} />`)}
      </tbody>
    <//>
    ${removed !== null && html`<${RemoveRuleDialog} rule=${removed} session=${session} onEnd=${() => setRemoved(null)} onDone=${onDone} />`}`;
}

function Row({ rule, nowMs, onRemove }) {
  const { id, action, policy, limit, set, ends, setBy, note = "", warnings, untouchedPolicies, shared } = rule;
  const hints = [
    ...warnings,
    ...untouchedPolicies.map((name) => `It does not touch ${name}.`),
    ...(shared === false ? ["The store is away: it holds at this gateway alone for now."] : []),
  ];
  return html`<tr>
    <th scope="row" class="key"><a href=${clientLink(keyOfRule(rule))}>${whomOf(rule)}</a></th>
    <td class="second"><span class=${`badge ${action}`}>${action}</span> ${limit !== undefined && `${count(limit)} by `}${policy ?? (action === "exempt" && "from all")}</td>
    <td class="half"><${When} at=${ends} nowMs=${nowMs} /></td>
    <td class="half">${setBy}, <${Instant} at=${set} nowMs=${nowMs} /></td>
    <td class="note">${note}${hints.map((hint) => html`<span class="hint">${hint}</span>`)} <code class="muted">${id}</code></td>
    ${onRemove !== null && html`<td class="short half"><button type="button" aria-label=${`Remove the rule ${id}`} onClick=${() => onRemove(rule)}>Remove …</button></td>`}
  </tr>`;
}
