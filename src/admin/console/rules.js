// The rules that hold: whom they are about, until when, who has set them and why. Sets and removes them.
import { RemoveRuleDialog, RuleButtons, RuleDialog } from "./dialogs.js";
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
    <${Filter} value=${filter} onInput=${({ target }) => setFilter(target.value)} placeholder="client, note, id, by whom">
      ${
        canWrite &&
        html`<span class="row end actions">
        <${RuleButtons} onChoose=${setDialog} />
      </span>`
      }
    <//>
    <${Missing} ...${rules} />
    ${rules.value !== null && html`<${RuleTable} rules=${found.slice(0, listed)} none=${filter.trim() === "" ? undefined : "No rule has this text."} session=${session} onDone=${rules.reload} />`}
    ${found.length > listed && html`<p class="muted">The first ${count(listed)} of ${count(found.length)}.</p>`}
    ${dialog !== null && html`<${RuleDialog} ...${shared} action=${dialog} whom=${null} policies=${policies.value?.policies.map(({ name }) => name) ?? []} />`}`;
}

export function whomOf({ client, token, subject }) {
  return client ?? token ?? subject;
}

/** Of whom it is about. */
export function keyOfRule(rule) {
  return `${["client", "token", "subject"].find((kind) => rule[kind] !== undefined)}:${whomOf(rule)}`;
}

/** Also for one client. `none`: what is said if there are none. */
export function RuleTable({ rules, session, onDone, none = "No rules." }) {
  const { api, canWrite } = session;
  const [removed, setRemoved] = useState(null);
  useTick(1_000);
  const nowMs = api.clock.nowMs();
  if (rules.length === 0)
    return html`<${Empty} title=${none}>A rule blocks, exempts or limits one client until it ends.<//>`;
  const columns = ["Whom", "Effect", "Ends", "Set by", "Note and id"];
  if (canWrite) columns.push([html`<span class="unseen">Remove</span>`]);
  return html`
    <${Wide} label="Rules" columns=${columns}>
      ${rules.map((rule) => html`<${Row} key=${rule.id} rule=${rule} nowMs=${nowMs} onRemove=${canWrite ? setRemoved : null} />`)}
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
    <td class="half">${setBy}, <${Instant} at=${set} /></td>
    <td class="note">${note}${hints.map((hint) => html`<span class="hint">${hint}</span>`)} <code class="muted">${id}</code></td>
    ${onRemove !== null && html`<td class="short half"><button aria-label=${`Remove the rule ${id}`} onClick=${() => onRemove(rule)}>Remove …</button></td>`}
  </tr>`;
}
