// The configuration in force, and what the last reload has changed. Reloads.
import { ApiError } from "./api.js";
import { Dialog, Reach } from "./dialogs.js";
import { count, reloadCause, trialEnd } from "./format.js";
import { html, useState } from "./html.js";
import { useEvents, usePoll } from "./live.js";
import { Filter, Instant, Missing, Wide } from "./parts.js";

export function ConfigurationView({ session }) {
  const { api, events, canWrite, status } = session;
  const config = usePoll(() => api.get("/api/config?against=previous"), 60_000);
  const [isReloading, setReloading] = useState(false);
  const [filter, setFilter] = useState("");
  useEvents(events, ["reload", "trial"], () => config.soon());
  const { trial, lastTrial } = status;
  const { lastReload } = status.config;
  return html`
    <div class="row">
      <h1>Configuration</h1>
      ${canWrite && html`<p class="end"><button type="button" onClick=${() => setReloading(true)}>Reload …</button></p>`}
    </div>
    ${lastReload?.errors.map((text) => html`<p class="problem warning"><span class="dot"></span><span>${text}</span></p>`)}
    <${Missing} ...${config} />
    ${
      config.value !== null &&
      html`
      <${LastReload} config=${config.value} trial=${trial} lastTrial=${lastTrial} nowMs=${api.clock.nowMs()} />
      <section>
        <h2>In force</h2>
        <${Filter} value=${filter} onChange=${setFilter} />
        <${Values} config=${config.value} filter=${filter.trim()} stale=${staleKeys(status)} />
      </section>`
    }
    ${isReloading && html`<${ReloadDialog} session=${session} onEnd=${() => setReloading(false)} onDone=${config.reload} />`}`;
}

function LastReload({ config: { loaded, lastReload, restart }, trial, lastTrial, nowMs }) {
  if (lastReload === null || lastReload === undefined) {
    return html`<p class="muted">Loaded <${Instant} at=${loaded} nowMs=${nowMs} />; no reload has changed anything since.</p>`;
  }
  const { at, by, caller, changes, reset, loosened, changed } = lastReload;
  const files = changed.filter((key) => !changes.some((change) => `${change.key}.`.startsWith(`${key}.`)));
  return html`
    <section>
      <h2>The last change, <${Instant} at=${at} nowMs=${nowMs} />, ${reloadCause(by, caller)} ${trial !== null && html`<span class="badge limit">on trial</span>`}</h2>
      ${trial === null && lastTrial !== null && html`<p>At <${Instant} at=${lastTrial.at} nowMs=${nowMs} />, the last reload on trial was ${trialEnd(lastTrial)}.</p>`}
      <${Changes} changes=${changes} />
      ${files.length > 0 && html`<p class="muted">New contents: ${files.join(", ")}</p>`}
      ${reset.length > 0 && html`<p class="muted">Started empty: ${reset.join(", ")}</p>`}
      ${loosened.length > 0 && html`<p class="failure">Protection was given up: ${loosened.join(", ")}</p>`}
      ${restart.map(({ key, inForce, wanted }) => html`<p class="failure">${key} needs a restart: ${inForce} is in force, ${wanted} is wanted.</p>`)}
    </section>`;
}

function Changes({ changes }) {
  if (changes.length === 0) return null;
  return html`
    <${Wide} label="Changes">
      <thead><tr><th scope="col">Key</th><th scope="col">Before</th><th scope="col">Now</th></tr></thead>
      <tbody>
        ${changes.map(({ key, from, to }) => {
          return html`<tr><th scope="row" class="key">${key}</th><td class="key">${from ?? "–"}</td><td class="key">${to ?? "–"}</td></tr>`;
        })}
      </tbody>
    <//>`;
}

/** The keys that a trial had changed, which was taken back: what the file has now was not read again. */
function staleKeys({ config: { isCurrent, loadedBy }, lastTrial }) {
  return !isCurrent && loadedBy === "trial" ? (lastTrial?.trial.changed ?? []) : [];
}

/** What was set, then the defaults, which are folded unless somebody looks for one. `stale`: see staleKeys. */
function Values({ config: { values, origins }, filter, stale }) {
  if (values === null) return html`<p class="muted">A program has passed the settings.</p>`;
  const rows = leavesOf(values)
    .filter(([key, value]) => key.includes(filter) || value.includes(filter))
    .map(([key, value]) => {
      const isIn = (outer) => `${key}.`.startsWith(`${outer}.`);
      // A list is written in one place.
      return [key, value, origins.find((origin) => isIn(origin.key)), stale.some(isIn)];
    });
  const { set = [], defaults = [] } = Object.groupBy(rows, ([, , origin]) =>
    origin === undefined ? "defaults" : "set",
  );
  return html`
    ${set.length === 0 && html`<p class="muted">Nothing of it was set.</p>`}
    ${set.length > 0 && html`<${ValueTable} label="Values that were set" rows=${set} />`}
    ${
      defaults.length > 0 &&
      html`<details open=${filter !== ""}>
      <summary>${count(defaults.length)} ${defaults.length === 1 ? "default" : "defaults"}</summary>
      <${ValueTable} label="Defaults" rows=${defaults} />
    </details>`
    }`;
}

function ValueTable({ label, rows }) {
  const hasOrigins = rows[0][2] !== undefined;
  return html`
    <${Wide} label=${label}>
      <thead><tr><th scope="col">Key</th><th scope="col">Value</th>${hasOrigins && html`<th scope="col">From</th>`}</tr></thead>
      <tbody>
        ${rows.map(([key, value, origin, isStale]) => {
          return html`<tr key=${key} class=${hasOrigins ? "" : "quiet"}><th scope="row" class="key">${key}</th><td class="key">${value}</td>${
            hasOrigins &&
            html`<td title=${origin.place}>${isStale ? "from before the trial; the file may have another value" : `${origin.source}: ${origin.place.slice(origin.place.lastIndexOf("/") + 1)}`}</td>`
          }</tr>`;
        })}
      </tbody>
    <//>`;
}

/** Dotted keys with their values as text. A list of objects has a row for each value of each of them. */
function leavesOf(value, key = "") {
  const isObject = typeof value === "object" && value !== null;
  const isPlainList = Array.isArray(value) && !value.some((each) => typeof each === "object" && each !== null);
  if (!isObject || isPlainList || Object.keys(value).length === 0) {
    return [[key, typeof value === "string" ? value : JSON.stringify(value)]];
  }
  return Object.entries(value).flatMap(([name, each]) => {
    // As in the origins: a policy stands by its name.
    const part = Array.isArray(value) ? (each.name ?? name) : name;
    return leavesOf(each, key === "" ? part : `${key}.${part}`);
  });
}

const times = [
  ["1m", "1 minute"],
  ["5m", "5 minutes"],
  ["15m", "15 minutes"],
  ["1h", "1 hour"],
  ["24h", "24 hours"],
];

function ReloadDialog({ session, onEnd, onDone }) {
  const [isOnTrial, setOnTrial] = useState(false);
  const [terms, setTerms] = useState({ confirmWithin: "5m", refusedPercent: "5", unconfirmed: "takeBack" });
  const act = async () => {
    const { value } = await session.api.call("POST", "/api/reload", { body: isOnTrial ? bodyOf(terms) : {} });
    onDone();
    session.refresh();
    if (isOnTrial && value.trial === null) throw new ApiError(409, [untried]);
    if (value.outcome === "unchanged") return "Nothing has changed.";
    return `Reloaded${isOnTrial ? ", on trial" : ""}: ${value.changed.join(", ")}.`;
  };
  return html`
    <${Dialog} title="Reload the configuration?" button="Reload" act=${act} onEnd=${onEnd} session=${session}>
      <p>Reads all files of the configuration again, as SIGHUP does. New values are in force from the next request on. A wrong file
        changes nothing. No connection is closed, and no count is lost unless a policy has a new name, kind or key.</p>
      ${session.status.trial !== null && !isOnTrial && html`<p class="failure">A reload is on trial: this one, which is not, confirms it.</p>`}
      <label class="row"><input type="checkbox" checked=${isOnTrial} onInput=${({ target }) => setOnTrial(target.checked)} /> On trial</label>
      ${isOnTrial && html`<${TermFields} terms=${terms} onChange=${(change) => setTerms((last) => ({ ...last, ...change }))} />`}
      <${Reach} session=${session} isOwn=${true} />
    <//>`;
}

const untried =
  "Nothing is on trial: the file has what is in force. With reload.watch, a saved file is in force by itself; reload.trial puts it on trial.";

function bodyOf({ confirmWithin, refusedPercent, unconfirmed }) {
  const unless = refusedPercent === "" ? {} : { unless: { refusedShare: Number(refusedPercent) / 100 } };
  return { confirmWithin, ...unless, unconfirmed };
}

function TermFields({ terms: { confirmWithin, refusedPercent, unconfirmed }, onChange }) {
  const set =
    (name) =>
    ({ target }) =>
      onChange({ [name]: target.value });
  return html`
    <div class="fields">
      <label for="trial-time">Confirm within</label>
      <select id="trial-time" value=${confirmWithin} onInput=${set("confirmWithin")}>
        ${times.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
      </select>
      <label for="trial-share">Unless refused, in %</label>
      <input id="trial-share" type="number" min="0" max="99.9" step="0.1" placeholder="not judged" value=${refusedPercent} onInput=${set("refusedPercent")} />
      <label for="trial-then">If nobody confirms</label>
      <select id="trial-then" value=${unconfirmed} onInput=${set("unconfirmed")}>
        <option value="takeBack">it is taken back</option>
        <option value="keep">it stays</option>
      </select>
    </div>
    <p>The configuration from before comes back, with its counts, unless somebody confirms in time; and as soon as the new one has refused 20
      requests, and more than this share, of those that the one before would have admitted. Without a share it is not judged.</p>`;
}
