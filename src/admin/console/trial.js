// A reload on trial, which every view shows, and the two ways to end it. Then, until it is read, what became of it.
import { ApiError } from "./api.js";
import { Dialog, Reach } from "./dialogs.js";
import { clientLink, count, percent, reloadCause, timer, trialEnd } from "./format.js";
import { html, useRef, useState } from "./html.js";
import { useEvents, useTick } from "./live.js";
import { Instant } from "./parts.js";

/** How many keys are listed. */
const listed = 12;

export function Trial({ session }) {
  const { canWrite, api } = session;
  const { trial } = session.status;
  const [dialog, setDialog] = useState(null);
  const open = (action) => setDialog({ action, since: trial.since, changed: trial.changed, changes: trial.changes });
  return html`
    ${trial !== null && html`<${Running} trial=${trial} clock=${api.clock} refusals=${session.events.refusals} onChoose=${canWrite ? open : null} />`}
    ${dialog !== null && html`<${EndDialog} ...${dialog} session=${session} onEnd=${() => setDialog(null)} />`}`;
}

/** Returns what became of the last trial, until somebody closes it. */
export function useTrialEnd({ events, status: { trial, lastTrial, config } }) {
  const [closed, setClosed] = useState("");
  // When the last one began that this page has heard of: of others nobody waits for the end.
  const seen = useRef(null);
  if (trial !== null) seen.current = trial.since;
  useEvents(events, ["trial"], (event) => {
    seen.current = event.trial.since;
  });
  const ended = trial === null && lastTrial?.trial.since === seen.current ? lastTrial : null;
  const isShown = ended !== null && closed !== ended.at;
  return html`
    <div role="status" class="trial-end">
      ${isShown && html`<${Ended} trial=${ended} isCurrent=${config.isCurrent} onClose=${() => setClosed(ended.at)} />`}
    </div>`;
}

function Running({ trial, clock, refusals, onChoose }) {
  useTick(1_000);
  const { since, ends, unconfirmed, cause, by } = trial;
  const nowMs = clock.nowMs();
  const leftMs = Math.max(0, Date.parse(ends) - nowMs);
  const share = Math.min(1, leftMs / (Date.parse(ends) - Date.parse(since)));
  const throttled = throttledSince(trial, refusals.rows);
  const then = unconfirmed === "keep" ? "it stays" : "the configuration from before comes back";
  return html`
    <section class="panel trial" aria-label="Reload on trial">
      <p class="row"><span><b>A reload is on trial,</b> begun ${reloadCause(cause, by)} at <${Instant} at=${since} />.</span>
        <span class="end">${leftMs === 0 ? "Its time is over." : html`<b class="large" role="timer">${timer(leftMs / 1000)}</b> left, until <${Instant} at=${ends} />; then ${then}.`}</span></p>
      <span class="meter" aria-hidden="true"><span style=${{ width: `${share * 100}%` }}></span></span>
      <${Keys} ...${trial} />
      <p>${judgedText(trial)}</p>
      ${throttled.length > 0 && html`<p>Throttled by its policies so far: <${ClientLinks} clients=${throttled} />.</p>`}
      ${
        onChoose !== null &&
        html`<p class="row">
        <button class="main" onClick=${() => onChoose("confirm")}>Confirm …</button>
        <button onClick=${() => onChoose("takeBack")}>Take back …</button>
      </p>`
      }
    </section>`;
}

/** The clients that a changed policy has throttled since then, the most often first, of the refusals that the page knows. */
function throttledSince({ since, changed }, rows) {
  const names = new Set(changed.map((key) => key.split(".")[1]));
  const found = rows.map(({ requests, first, count: all }) => {
    const those = requests.filter(({ at, reason, policy }) => {
      return reason === "throttled" && at >= since && names.has(policy?.policy);
    });
    // Of more than are kept, it is known of the newest alone when they were.
    const areAll = those.length === requests.length;
    const times = areAll && first >= since ? all : those.length;
    return { those, times, text: `${count(times)}${areAll && times < all ? "+" : ""}\u00a0×` };
  });
  return found
    .filter(({ times }) => times > 0)
    .sort((a, b) => b.times - a.times)
    .map(({ those: [{ key, client }], text }) => [key ?? `client:${client}`, client, text]);
}

/** `clients`: of each the key, the name, and what is said of it. */
export function ClientLinks({ clients }) {
  const links = clients
    .slice(0, listed)
    .map(([key, name, more], i) => html`${i > 0 && ", "}<a href=${clientLink(key)}>${name}</a> (${more})`);
  return html`${links}${clients.length > listed && `, and ${count(clients.length - listed)} more`}`;
}

/** With their values before and now, where they are known. */
function Keys({ changed, changes }) {
  const more = changed.length - listed;
  const shown = changed.slice(0, listed).map((key, i) => {
    const change = changes.find((each) => each.key === key);
    return html`${i > 0 && ", "}<span class="key">${key}</span> ${change !== undefined && html`<b>${shortened(change.from)} → ${shortened(change.to)}</b>`}`;
  });
  return html`<p>On trial: ${changed.length === 0 ? "nothing, it is as the one before" : shown}${more > 0 && `, and ${count(more)} more`}.</p>`;
}

/** A list may be long. */
function shortened(value) {
  if (value === null) return "none";
  return value.length > 60 ? `${value.slice(0, 60).toWellFormed()}…` : value;
}

function judgedText({ refusedShare, refused, judged }) {
  if (refusedShare === null) return "It is not judged: it ends with its time, or when you end it.";
  const share = judged === 0 ? "" : ` (${percent(refused / judged)})`;
  return (
    `Refused ${count(refused)} of ${count(judged)} requests${share} that would have been admitted before. ` +
    `Taken back above ${percent(refusedShare)}, from 20 refused on.`
  );
}

function Ended({ trial: { at, outcome, reason, by, trial }, isCurrent, onClose }) {
  const isBack = outcome === "taken_back";
  return html`
    <div class=${`problem ${isBack ? "warning" : ""}`}>
      <span>At <${Instant} at=${at} />, the reload on trial was ${trialEnd({ outcome, reason, by, trial })}.
        ${isBack && ` The configuration from before is in force again${isCurrent ? "" : "; the file still has the other values"}.`}</span>
      <button onClick=${onClose}>Close</button>
    </div>`;
}

const ends = {
  confirm: {
    title: "Confirm the reload on trial?",
    button: "Confirm",
    path: "/api/reload/confirm",
    said: "The new configuration stays.",
    effect: "From now on nothing takes it back by itself. What policies that it has replaced had counted is forgotten.",
  },
  takeBack: {
    title: "Take the reload on trial back?",
    button: "Take back",
    path: "/api/reload/take-back",
    said: "The configuration from before is in force again.",
    effect:
      "Its counts are as they were. No connection is closed. The gateway ignores the file until it changes, or until you reload.",
  },
};

/** `since`, `changed`, `changes`: of the trial that was shown when the dialog was opened. */
function EndDialog({ session, action, since, changed, changes, onEnd }) {
  const { title, button, path, said, effect } = ends[action];
  const act = async () => {
    // The API ends whichever is on.
    if (session.status.trial?.since !== since) throw new ApiError(409, ["What was on trial is over."]);
    await session.api.call("POST", path, { body: {} });
    session.refresh();
    return said;
  };
  return html`
    <${Dialog} title=${title} button=${button} isDanger=${action === "takeBack"} ...${{ act, onEnd, session }}>
      <p>${said} ${effect}</p>
      <${Keys} changed=${changed} changes=${changes} />
      <${Reach} session=${session} isOwn />
    <//>`;
}
