// Dialogs that say what a change does before it is made, and make it. The browser keeps the focus in a <dialog>.

import { count, encoded, instant, secondsIn } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { useTick } from "./live.js";
import { Failures, Instant, lengthOptions, options, typed, useFields } from "./parts.js";

/**
 * `act` makes the change, and resolves with a sentence for the status line; what it rejects with is shown, and the dialog stays
 * open. `onEnd` is called when the dialog is closed.
 */
export function Dialog({ title, button, isDanger = false, act, onEnd, session, children }) {
  const element = useRef(null);
  const [state, setState] = useState({ isBusy: false, error: null });
  useEffect(() => element.current.showModal(), []);
  const onSubmit = async (event) => {
    event.preventDefault();
    setState({ isBusy: true, error: null });
    try {
      session.say(await act());
      element.current?.close();
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return html`
    <dialog ref=${element} onClose=${onEnd} aria-labelledby="dialog-title">
      <form onSubmit=${onSubmit}>
        <h2 id="dialog-title">${title}</h2>
        ${children}
        <p class="muted" role="status">${state.isBusy && "The gateway is being asked …"}</p>
        <${Failures} error=${state.error} />
        <p class="row">
          <button type="submit" class=${isDanger ? "danger" : "main"} disabled=${state.isBusy}>${button}</button>
          <button type="button" onClick=${() => element.current.close()}>Cancel</button>
        </p>
      </form>
    </dialog>`;
}

/** How many gateways are named. */
const named = 5;

/** At how many gateways a change holds. `isOwn`: at this one alone, whoever shares the store. */
export function Reach({ session: { status }, isOwn = false }) {
  return html`<p class="muted">${reachText(status.store, isOwn)} The log names you.</p>`;
}

function reachText(store, isOwn) {
  const { state, gateways } = store ?? { gateways: [null] };
  const all = count(gateways.length);
  if (gateways.length === 1) return "It holds at this gateway.";
  if (isOwn)
    return `It is about this gateway alone, and not about the others of the store (${count(gateways.length - 1)}).`;
  if (state === "away")
    return `The store is away: it holds at this gateway alone for now, and later at all ${all} of the store.`;
  const names = gateways.slice(0, named).map(({ name, admin }) => admin ?? name);
  const others = gateways.length > named ? ", …" : "";
  return `It holds at all ${all} gateways of the store: ${names.join(", ")}${others}.`;
}

/** `name`: of the client, as it is shown. */
export function ForgiveDialog({ session, clientKey, name, onEnd, onDone }) {
  const act = async () => {
    const { value } = await session.api.call("DELETE", `/api/clients/${encoded(clientKey)}`);
    onDone();
    const counts = value.policies
      .filter(({ units }) => units > 0)
      .map(({ policy, units }) => `${count(units)} by ${policy}`);
    return [
      `${name} is forgiven: ${counts.length === 0 ? "nothing was counted" : `${counts.join(", ")} are forgotten`}.`,
      value.network && `The whole network ${value.network} was counted as one, and is forgiven.`,
      value.shared && "The store and the other gateways follow within 2 s.",
    ]
      .filter(Boolean)
      .join(" ");
  };
  return html`
    <${Dialog} title=${`Forgive ${name}?`} button="Forgive" ...${{ act, onEnd, session }}>
      <p>Its windows and periods are empty from its next request on, for every policy. Slots that it uses stay in use.</p>
      <${Reach} session=${session} />
    <//>`;
}

const effects = {
  block: "Every request of it is refused with 403, before its quota is looked at.",
  exempt: "Policies neither ask nor charge it: nothing limits it.",
  limit: "It gets another limit, in the place of the policy's.",
};

const verbs = { block: "Block", exempt: "Exempt", limit: "Limit" };

/** Buttons that open the dialogs of rules, in the order of what they do to a client. */
export function RuleButtons({ onChoose }) {
  return Object.keys(verbs)
    .toReversed()
    .map((action) => html`<button type="button" onClick=${() => onChoose(action)}>${verbs[action]} …</button>`);
}

/** `whom`: `{ client }`, `{ token }` or `{ subject }`; null: the dialog asks. `policies`: the names of those that can be named. */
export function RuleDialog({ session, action, whom, policies, onEnd, onDone }) {
  const [rule, set] = useFields({ kind: "client", value: "", policy: "", limit: "", for: "1h", note: "" });
  const [mustForce, setMustForce] = useState(false);
  const [force, setForce] = useState(false);
  const act = async () => {
    const about = whom ?? { [rule.kind]: rule.value.trim() };
    const body = {
      ...{ ...about, action, for: rule.for, note: rule.note },
      ...(rule.policy === "" ? {} : { policy: rule.policy }),
      ...(action === "limit" ? { limit: Number(rule.limit) } : {}),
      ...(force ? { force: true } : {}),
    };
    const id = newId(action, Object.values(about)[0]);
    try {
      const { value } = await session.api.call("PUT", `/api/rules/${id}`, { body, headers: { "if-none-match": "*" } });
      onDone();
      const until = `until ${instant(value.ends)}.`;
      return [`${stateOf(value)} ${until}`, ...value.warnings].join(" ");
    } catch (error) {
      setMustForce(error.status === 409);
      throw error;
    }
  };
  const name = whom === null ? "a client" : Object.values(whom)[0];
  return html`
    <${Dialog} title=${`${verbs[action]} ${name}?`} button=${verbs[action]} isDanger=${action === "block"} ...${{ act, onEnd, session }}>
      <p>${effects[action]}</p>
      <div class="fields">
        ${whom === null && html`<${WhomFields} rule=${rule} set=${set} />`}
        ${action !== "block" && html`<${PolicyField} action=${action} policies=${policies} rule=${rule} set=${set} />`}
        ${
          action === "limit" &&
          html`
          <label for="rule-limit">New limit</label>
          <input id="rule-limit" type="number" min="1" max="1000000000" required value=${rule.limit} onInput=${set("limit")} />`
        }
        <label for="rule-for">For</label>
        <select id="rule-for" value=${rule.for} onInput=${set("for")}>
          ${lengthOptions(["15m", "1h", "6h", "1d", "7d", "30d"])}
        </select>
        <${Ends} length=${rule.for} clock=${session.api.clock} />
        <label for="rule-note">Note</label>
        <input id="rule-note" maxlength="500" autocomplete="off" placeholder="why, for colleagues" value=${rule.note} onInput=${set("note")} />
      </div>
      <${Reach} session=${session} />
      ${
        mustForce &&
        html`<label class="row">
        <input type="checkbox" checked=${force} onInput=${({ target }) => setForce(target.checked)} /> Set it all the same
      </label>`
      }
    <//>`;
}

/** When a rule ends that is set now. */
function Ends({ length, clock }) {
  useTick(1_000);
  const at = new Date(clock.nowMs() + secondsIn(length) * 1000).toISOString();
  return html`<span>Ends</span><p>by itself at <b><${Instant} at=${at} /></b></p>`;
}

const kinds = { client: "address or network", token: "name of a listed token", subject: "verified subject" };

function WhomFields({ rule, set }) {
  return html`
    <label for="rule-kind">Whom</label>
    <span class="row">
      <select id="rule-kind" value=${rule.kind} onInput=${set("kind")}>
        ${options(Object.entries(kinds))}
      </select>
      <input class="grow" aria-label="Address, network, name or subject" required ...${typed}
        placeholder=${rule.kind === "client" ? "203.0.113.0/24" : ""} value=${rule.value} onInput=${set("value")} />
    </span>`;
}

function PolicyField({ action, policies, rule, set }) {
  return html`
    <label for="rule-policy">Policy</label>
    <select id="rule-policy" required=${action === "limit"} value=${rule.policy} onInput=${set("policy")}>
      <option value="">${action === "limit" ? "choose one" : "all policies"}</option>
      ${options(policies)}
    </select>`;
}

/** Speaks for itself in a list; the digits keep two of the same minute apart. */
function newId(action, whom) {
  const digits = crypto.getRandomValues(new Uint16Array(1))[0].toString(16).padStart(4, "0");
  const name = whom.replaceAll(/[^A-Za-z0-9._-]+/g, "-").slice(0, 40);
  return `${action}-${name}-${digits}`;
}

/** Takes a rule away, if it is still what was shown. */
export function RemoveRuleDialog({ session, rule, onEnd, onDone }) {
  const path = `/api/rules/${rule.id}`;
  const ask = async () => (await session.api.call("GET", path)).entityTag;
  const tag = useRef(null);
  useEffect(() => {
    tag.current = ask().catch(() => null);
  }, []);
  const act = async () => {
    // If it could not be asked for, it is asked for again.
    await session.api.call("DELETE", path, { headers: { "if-match": (await tag.current) ?? (await ask()) } });
    onDone();
    return `${stateOf(rule)} no more.`;
  };
  return html`
    <${Dialog} title=${`Remove the rule ${rule.id}?`} button="Remove" isDanger ...${{ act, onEnd, session }}>
      <p>From the next request on, ${stateOf(rule)} no more.</p>
      <${Reach} session=${session} />
    <//>`;
}

/** What a rule does, as the beginning of a sentence. */
function stateOf({ client, token, subject, action, policy, limit }) {
  const whom = client ?? token ?? subject;
  if (action === "block") return `${whom} is blocked`;
  if (action === "limit") return `${whom} has the limit ${count(limit)} by ${policy}`;
  return `${whom} is exempt from ${policy ?? "all policies"}`;
}
