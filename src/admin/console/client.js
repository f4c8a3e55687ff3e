// One client: what each policy counts of it, the rules about it, and what can be done.
import { Meter, timesText } from "./clients.js";
import { ForgiveDialog, RemoveRuleDialog, RuleButtons, RuleDialog } from "./dialogs.js";
import { count, encoded, fullInstant, instant, rateOf, rounded, span } from "./format.js";
import { html, useMemo, useState } from "./html.js";
import { useEvents, usePoll, useTick } from "./live.js";
import { RefusalTable } from "./now.js";
import { Missing, Others, When } from "./parts.js";
import { Period } from "./period.js";
import { sum } from "./problems.js";
import { RuleTable } from "./rules.js";

export function ClientView({ session, about: key }) {
  const { api, events } = session;
  const client = usePoll(() => api.get(`/api/clients/${encoded(key)}`), 2_000);
  const policies = usePoll(() => api.get("/api/policies"), 60_000);
  const [dialog, setDialog] = useState(null);
  useEvents(events, ["rule", "reload", "refusal"], (event) => {
    if (event.type !== "refusal" || isAbout(event.request, key)) client.soon();
  });
  const [kind, name] = splitKey(key);
  const isUnknown = client.error?.status === 404;
  const shared = { session, onEnd: () => setDialog(null), onDone: client.reload };
  return html`
    <p class="muted"><a href="#/clients">Clients</a></p>
    <div class="row">
      <h1>${name}</h1>
      <${Actions} session=${session} canRule=${kind !== "key"} onChoose=${setDialog} />
    </div>
    ${isUnknown && html`<p class="muted">${client.error.message}</p>`}
    ${!isUnknown && html`<${Missing} ...${client} />`}
    ${client.value !== null && !isUnknown && html`<${Known} client=${client.value} policies=${policies.value?.policies ?? []} session=${session} onDone=${client.reload} />`}
    <${LastRefusals} session=${session} clientKey=${key} />
    ${dialog === "forgive" && html`<${ForgiveDialog} ...${shared} clientKey=${key} name=${name} />`}
    ${![null, "forgive"].includes(dialog) && html`<${RuleDialog} ...${shared} action=${dialog} whom=${{ [kind]: name }} policies=${policies.value?.policies.map((each) => each.name) ?? []} />`}`;
}

/** `client:203.0.113.7` as its two parts. */
function splitKey(key) {
  const at = key.indexOf(":");
  return [key.slice(0, at), key.slice(at + 1)];
}

function isAbout({ key, client, subject }, wanted) {
  return [key, `client:${client}`, `token:${subject}`, `subject:${subject}`].includes(wanted);
}

function Actions({ session: { canWrite }, canRule, onChoose }) {
  if (!canWrite) return null;
  return html`
    <p class="row end actions">
      <button onClick=${() => onChoose("forgive")}>Forgive …</button>
      ${canRule && html`<${RuleButtons} onChoose=${onChoose} />`}
    </p>`;
}

function Known({ client, policies, session, onDone }) {
  const { rules, isShared, refusedSince } = client;
  const [removed, setRemoved] = useState(null);
  const blocks = rules.filter(({ action }) => action === "block");
  const isBlocked = blocks.length > 0;
  // Nothing is counted by this key alone: a card would say that nothing was admitted.
  const isOther = ({ gap, used }) => gap !== null && used === 0;
  const others = Object.groupBy(client.policies.filter(isOther), ({ gap }) => gap);
  return html`
    ${blocks.map((rule) => html`<${Blocked} rule=${rule} clock=${session.api.clock} onRemove=${session.canWrite ? setRemoved : null} />`)}
    ${removed !== null && html`<${RemoveRuleDialog} rule=${removed} session=${session} onEnd=${() => setRemoved(null)} onDone=${onDone} />`}
    <${Others} isShared=${isShared} />
    <div class="cards">
      ${client.policies.map((state) => {
        if (isOther(state)) return null;
        const policy = policies.find(({ name }) => name === state.policy) ?? null;
        return html`<${PolicyCard} state=${state} policy=${policy} clock=${session.api.clock} isShared=${isShared} isBlocked=${isBlocked} refusedSince=${refusedSince} />`;
      })}
    </div>
    ${Object.entries(others).map(([gap, those]) => html`<p class="muted">${those.length === 1 ? "1 policy counts" : `${count(those.length)} policies count`} something else (${those.map(({ policy }) => policy).join(", ")}): ${gap}.</p>`)}
    <section>
      <h2>Rules for this client</h2>
      <${RuleTable} rules=${rules} session=${session} onDone=${onDone} />
    </section>`;
}

/** Its policies are not asked then, so what they say below is not what it gets. */
function Blocked({ rule, clock, onRemove }) {
  const { id, set, ends, setBy, note } = rule;
  const nowMs = clock.nowMs();
  useTick(1_000);
  return html`
    <p class="problem critical">
      <span><b>blocked</b> Its requests get 403 by rule <span class="key">${id}</span>, set by ${setBy} at <${When} at=${set} nowMs=${nowMs} />, until <${When} at=${ends} nowMs=${nowMs} />${note && `: ${note}`}.</span>
      ${onRemove !== null && html`<button aria-label=${`Remove the rule ${id}`} onClick=${() => onRemove(rule)}>Remove …</button>`}
    </p>`;
}

const stateTexts = { open: "admitted", exhausted: "throttled", exempt: "exempt" };

function PolicyCard({ state: one, policy, clock, isShared, isBlocked, refusedSince }) {
  const { state, isShadow, limit, used, remaining, countedAs, method, route, held, exemptBy, gap } = one;
  const notes = [
    [
      paceText(one, policy, clock.nowMs()),
      one.refused?.count > 0 && `Throttled ${timesText(one.refused)} × since ${instant(refusedSince)}.`,
    ]
      .filter(Boolean)
      .join(" "),
    method !== null && `Only ${method}.`,
    route !== null && `Only ${route}.`,
    countedAs !== null && `There is no room for a counter of its own: its ${countedAs} is counted.`,
    held !== null && held > 0 && `${count(held)} units are held by requests under way.`,
    exemptBy !== null && `Exempt by ${exemptBy}.`,
    gap,
  ].filter(Boolean);
  return html`
    <section class="panel">
      <h2 class="row">${one.policy}
        <${State} state=${state} isShadow=${isShadow} isBlocked=${isBlocked} />
        ${isShadow && html`<span class="badge">shadow</span>`}
        <span class="muted end">${policy !== null && rateOf(policy)}</span>
      </h2>
      <p class="row"><span><b class="large">${count(used)}</b> of ${count(limit)} used, <b>${count(remaining)}</b> left</span>
        <span class="end"><${NextUnit} state=${one} isRequest=${!isBlocked && !isShadow && policy?.cost === 1} clock=${clock} /></span></p>
      <${Use} state=${one} policy=${policy} clock=${clock} isWhole=${!isShared} />
      ${notes.map((note) => html`<p class="muted">${note}</p>`)}
    </section>`;
}

/** As many as the API lists at most. */
const maxInstants = 1000;

/** How fast its requests were admitted of late, where each is known. */
function paceText({ instants }, policy, nowMs) {
  if (instants.length === 0 || instants.length >= maxInstants) return null;
  const seconds = Math.min(60, policy?.windowSeconds ?? 60);
  const late = instants.filter(({ at }) => nowMs - Date.parse(at) < seconds * 1000);
  return `Admitted ${rounded(unitsOf(late) / (policy?.cost ?? 1) / seconds)}/s over ${span(seconds)}.`;
}

function State({ state, isShadow, isBlocked }) {
  if (isBlocked) return html`<span class="badge">not asked: blocked</span>`;
  return html`<span class=${`badge ${state}`}>${isShadow && state === "exhausted" ? "would be throttled" : stateTexts[state]}</span>`;
}

function Use({ state, policy, clock, isWhole }) {
  if (policy?.kind === "sliding") {
    return (
      state.used > 0 &&
      html`<${Window} instants=${state.instants} windowSeconds=${policy.windowSeconds} clock=${clock} />`
    );
  }
  if (policy?.kind === "calendar" && state.period !== null) {
    return html`<${Period} state=${state} policy=${policy} clock=${clock} isWhole=${isWhole} />`;
  }
  return html`<${Meter} used=${state.used} limit=${state.limit} />`;
}

/** `isRequest`: a unit is a request that is admitted. */
function NextUnit({ state: { reset, remaining, used }, isRequest, clock }) {
  useTick(100);
  if (used === 0) return html`<span class="muted">nothing is used</span>`;
  if (reset === null) return html`<span class="muted">more when a request ends</span>`;
  const seconds = Math.max(0, (Date.parse(reset) - clock.nowMs()) / 1000);
  const text = remaining === 0 && isRequest ? "next request admitted" : "1 is free again";
  if (seconds === 0) return html`<span>${text} <b>now</b></span>`;
  return html`<span title=${fullInstant(reset)}>${text} in <b>${span(seconds < 10 ? seconds : Math.ceil(seconds))}</b> (${instant(reset)})</span>`;
}

/** Of the drawing, in its own units. */
const width = 1000;

/** Marks that are nearer to each other are one burst, which has a number of this width from eight units on. */
const [burstGap, leastOfBurst, labelWidth] = [8, 8, 70];

/** Each as `{ x, count }`, the middle and the units, of which a mark may stand for several; of those whose numbers would overlap, the larger. */
function burstsOf(xs, instants) {
  const bursts = [];
  let begin = 0;
  for (let i = 1; i <= xs.length; i += 1) {
    if (i < xs.length && xs[i] - xs[i - 1] < burstGap) continue;
    const units = unitsOf(instants.slice(begin, i));
    if (units >= leastOfBurst) bursts.push({ x: (xs[begin] + xs[i - 1]) / 2, count: units });
    begin = i;
  }
  const isNear = (a, b) => Math.abs(a.x - b.x) < labelWidth;
  return bursts.filter((one, i) => !bursts.some((b, j) => isNear(one, b) && (b.count - one.count || i - j) > 0));
}

function unitsOf(instants) {
  return sum(instants, ({ units }) => units);
}

/** The window as it slides: each mark is an admission, and leaves on the left when it is as old as the window. */
function Window({ instants, windowSeconds, clock }) {
  useTick(100);
  const first = instants.length === 0 ? 0 : Date.parse(instants[0].at);
  const most = Math.max(1, ...instants.map(({ units }) => units));
  const [marks, bursts] = useMemo(() => {
    const xs = instants.map(({ at }) => ((Date.parse(at) - first) / 1000 / windowSeconds) * width);
    const drawn = instants.map(({ units }, i) => `M${xs[i].toFixed(1)} 46v${-(16 + (24 * units) / most).toFixed(1)}`);
    return [drawn.join(""), burstsOf(xs, instants)];
  }, [instants, windowSeconds]);
  // Where the first mark is: `width` is now.
  const shift = Math.max(-width, width - ((clock.nowMs() - first) / 1000 / windowSeconds) * width);
  const label = `${count(unitsOf(instants))} units in a window of ${span(windowSeconds)}, the oldest leaves first`;
  return html`
    <div class="window">
      ${bursts.map(({ x, count: times }) => html`<span class="burst" style=${{ left: `clamp(1.2em, ${((x + shift) / width) * 100}%, 100% - 1.2em)` }}>× ${count(times)}</span>`)}
      <svg viewBox=${`0 0 ${width} 48`} preserveAspectRatio="none" role="img" aria-label=${label}>
        <path class="grid" d=${`M0 47H${width}`} />
        <g transform=${`translate(${shift.toFixed(1)} 0)`}>
          <path class="marks" d=${marks} />
          ${instants.length > 0 && html`<path class="marks next" d="M0 46V2" />`}
        </g>
      </svg>
      <span class="muted">${span(windowSeconds)} ago: leaves</span><span class="muted">now</span>
    </div>`;
}

/** How many are listed. */
const listed = 20;

/** As the gateway remembers them, also from before the page was opened. */
function LastRefusals({ session: { events, api }, clientKey }) {
  const name = splitKey(clientKey)[1];
  const query = new URLSearchParams({ key: clientKey, limit: String(listed) });
  const { value, error, soon } = usePoll(() => api.get(`/api/refusals?${query}`), 15_000);
  useEvents(events, ["refusal"], ({ request }) => {
    if (isAbout(request, clientKey)) soon();
  });
  return html`
    <section>
      <h2>Recent refusals ${value?.isComplete === false && value.refusals.length > 0 && html`<span class="muted">the last ${count(value.refusals.length)}</span>`}</h2>
      <${Missing} value=${value} error=${error} />
      ${value !== null && html`<${RefusalTable} refusals=${value.refusals} own=${name} />`}
    </section>`;
}
