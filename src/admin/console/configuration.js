// The configuration in force, and what the last reload has changed. Reloads.
import { ApiError } from "./api.js";
import { Dialog, Reach } from "./dialogs.js";
import { count, encoded, reloadCause, trialEnd } from "./format.js";
import { html, useState } from "./html.js";
import { useEvents, usePoll } from "./live.js";
import { Failures, Filter, Instant, lengthOptions, Missing, useFields, Wide } from "./parts.js";
import { ClientLinks } from "./trial.js";

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
      ${canWrite && html`<p class="end"><button onClick=${() => setReloading(true)}>Reload …</button></p>`}
    </div>
    ${lastReload?.errors.map((text) => html`<p class="problem warning"><span>${text}</span></p>`)}
    <${Missing} ...${config} />
    ${
      config.value !== null &&
      html`
      <${LastReload} config=${config.value} trial=${trial} lastTrial=${lastTrial} />
      <section>
        <h2>In force</h2>
        <${Filter} value=${filter} onInput=${({ target }) => setFilter(target.value)} placeholder="a key, to see its place" />
        <${Values} config=${config.value} filter=${filter.trim()} stale=${staleKeys(status)} />
      </section>`
    }
    ${isReloading && html`<${ReloadDialog} session=${session} onEnd=${() => setReloading(false)} onDone=${config.reload} />`}`;
}

function LastReload({ config: { loaded, lastReload, restart }, trial, lastTrial }) {
  if (lastReload === null || lastReload === undefined) {
    return html`<p class="muted">Loaded <${Instant} at=${loaded} />; no reload has changed anything since.</p>`;
  }
  const { at, by, caller, changes, reset, loosened, changed } = lastReload;
  const files = changed.filter((key) => !changes.some((change) => `${change.key}.`.startsWith(`${key}.`)));
  return html`
    <section>
      <h2>The last change, <${Instant} at=${at} />, ${reloadCause(by, caller)} ${trial !== null && html`<span class="badge limit">on trial</span>`}</h2>
      ${trial === null && lastTrial !== null && html`<p>At <${Instant} at=${lastTrial.at} />, the last reload on trial was ${trialEnd(lastTrial)}.</p>`}
      <${Changes} changes=${changes} />
      ${files.length > 0 && html`<p class="muted">New contents: ${files.join(", ")}</p>`}
      <${Losses} reset=${reset} loosened=${loosened} />
      ${restart.map(({ key, inForce, wanted }) => html`<p class="failure">${key} needs a restart: ${inForce} is in force, ${wanted} is wanted.</p>`)}
    </section>`;
}

/** What a change gives up. */
function Losses({ reset, loosened }) {
  return html`
    ${reset.length > 0 && html`<p class="muted">Starts empty: ${reset.join(", ")}</p>`}
    ${loosened.length > 0 && html`<p class="failure">Gives protection up: ${loosened.join(", ")}</p>`}`;
}

function Changes({ changes, before = "Before", now = "Now" }) {
  if (changes.length === 0) return null;
  const rows = changes.map(({ key, from, to }) => [key, from ?? "–", to ?? "–"]);
  return html`<${KeyTable} label="Changes" columns=${["Key", before, now]} rows=${rows} />`;
}

/** The keys that a trial had changed, which was taken back: what the file has now was not read again. */
function staleKeys({ config: { isCurrent, loadedBy }, lastTrial }) {
  return !isCurrent && loadedBy === "trial" ? (lastTrial?.trial.changed ?? []) : [];
}

/** What was set, as YAML, and the defaults; or the keys that somebody looks for, each with its place. `stale`: see staleKeys. */
function Values({ config: { values, origins }, filter, stale }) {
  if (values === null) return html`<p class="muted">A program has passed the settings.</p>`;
  // Of a key that was set, where; null: of a default.
  const placeOf = (key) => {
    // A list is written in one place.
    const origin = origins.find((each) => isIn(key, each.key));
    if (origin === undefined) return null;
    const { source, place } = origin;
    return stale.some((outer) => isIn(key, outer))
      ? { source, text: staleText }
      : { ...origin, text: `${source}: ${place.slice(place.lastIndexOf("/") + 1)}` };
  };
  const noteOf = (place) => place && (place.source === "file" && place.place ? "" : place.text);
  const rows = leavesOf(values, "").map(([key, value]) => [key, value, placeOf(key)]);
  if (filter !== "")
    return valueTable(
      "Values",
      rows.filter((row) => row.slice(0, 2).some((text) => text.includes(filter))),
    );
  const defaults = rows.filter(([, , place]) => place === null);
  const blocks = yamlOf(values, (key) => noteOf(placeOf(key)), "")
    .map((line) => `${line}\n`)
    .join("")
    .split(/(?<=\n)(?=\S| {2}- )/);
  return html`
    <pre class="yaml" tabindex="0" role="region" aria-label="Values that were set">${blocks.map((block) => html`<code>${block}</code>`)}</pre>
    <details>
      <summary>${count(defaults.length)} defaults</summary>
      ${valueTable("Defaults", defaults)}
    </details>`;
}

function valueTable(label, values) {
  const rows = values.map(([key, value, from]) => [key, value, from?.text ?? "default", from?.place]);
  return html`<${KeyTable} label=${label} columns=${["Key", "Value", "From"]} rows=${rows} />`;
}

/** `rows`: of each key two texts, and what the second stands for in full. */
function KeyTable({ label, columns, rows }) {
  return html`
    <${Wide} label=${label} columns=${columns}>
      ${rows.map(([key, one, other, full]) => {
        return html`<tr key=${key}><th scope="row" class="key">${key}</th><td class="key half">${one}</td><td class="key half" title=${full}>${other}</td></tr>`;
      })}
    <//>`;
}

const staleText = "from before the trial; the file may have another value";

function isIn(key, outer) {
  return `${key}.`.startsWith(`${outer}.`);
}

/** Null for a value, a list of values, and what is empty; otherwise its parts, each with its dotted key. */
function partsOf(value, key) {
  const parts = typeof value === "object" && value !== null ? Object.entries(value) : [];
  const isList = Array.isArray(value);
  if (parts.length === 0 || (isList && parts.every(([, each]) => typeof each !== "object"))) return null;
  // As in the origins: a policy stands by its name.
  return parts.map(([name, each]) => [
    name,
    each,
    [...(key ? [key] : []), isList ? (each.name ?? name) : name].join("."),
  ]);
}

/** Dotted keys with their values as text. A list of objects has a row for each value of each of them. */
function leavesOf(value, key) {
  const parts = partsOf(value, key);
  if (parts === null) return [[key, typeof value === "string" ? value : JSON.stringify(value)]];
  return parts.flatMap(([, each, path]) => leavesOf(each, path));
}

/** Lines of YAML. `noteOf`: a comment for a key; null: the key is left out. */
function yamlOf(value, noteOf, key) {
  return (partsOf(value, key) ?? []).flatMap(([name, each, path]) => {
    if (partsOf(each, path) === null) {
      const note = noteOf(path);
      return note === null ? [] : [`${name}: ${yamlText(each)}${note && `  # ${note}`}`];
    }
    const lines = yamlOf(each, noteOf, path).map((line) => `  ${line}`);
    if (Array.isArray(value)) return lines.map((line, i) => (i === 0 ? line.replace("  ", "- ") : line));
    return lines.length === 0 ? [] : [`${name}:`, ...lines];
  });
}

/** A text that no reader of YAML takes for something else. */
const plain =
  /^(?!(?:true|false|null|yes|no|on|off|y|n)$)(?:[a-z_/](?:[\w./-]|:(?=\/\/|\d))*|\d+(?:ms|[smhd]|[kmg]ib)|\d+(?:\.\d+){3}(?:\/\d+)?)$/i;

function yamlText(value) {
  if (Array.isArray(value)) return `[${value.map(yamlText).join(", ")}]`;
  return typeof value === "string" && plain.test(value) ? value : JSON.stringify(value);
}

function ReloadDialog({ session, onEnd, onDone }) {
  const [isOnTrial, setOnTrial] = useState(false);
  const dryRun = usePoll(() => session.api.call("POST", "/api/reload", { body: { dryRun: true } }), 10_000);
  const [terms, set] = useFields({ confirmWithin: "5m", refusedPercent: "5", unconfirmed: "takeBack" });
  const act = async () => {
    const { value } = await session.api.call("POST", "/api/reload", { body: isOnTrial ? bodyOf(terms) : {} });
    onDone();
    session.refresh();
    if (isOnTrial && value.trial === null) throw new ApiError(409, [untried]);
    if (value.outcome === "unchanged") return "Nothing has changed.";
    const changes = new Map(value.changes.map(({ key, from, to }) => [key, `${key} ${from ?? "–"} → ${to ?? "–"}`]));
    return `${isOnTrial ? "On trial" : "In force"}: ${value.changed.map((key) => changes.get(key) ?? key).join(", ")}.`;
  };
  return html`
    <${Dialog} title="Reload the configuration?" button="Reload" ...${{ act, onEnd, session }}>
      <${DryRun} ...${dryRun} api=${session.api} />
      <p class="muted">All its files are read again, as by SIGHUP. No connection is closed, and counts stay unless a
        policy has a new name, kind or key.</p>
      ${session.status.trial !== null && !isOnTrial && html`<p class="failure">A reload is on trial: this one, which is not, confirms it.</p>`}
      <label class="row"><input type="checkbox" checked=${isOnTrial} onInput=${({ target }) => setOnTrial(target.checked)} /> On trial</label>
      ${isOnTrial && html`<${TermFields} terms=${terms} set=${set} />`}
      <${Reach} session=${session} isOwn />
    <//>`;
}

/** What a reload would change now. */
function DryRun({ value: answer, error, api }) {
  if (error !== null) return html`<${Failures} error=${error} />`;
  if (answer === null) return html`<p>Comparing the file with what is in force …</p>`;
  const { changes, reset, loosened, restart } = answer.value;
  return html`
    ${changes.length === 0 && html`<p>The file has the values that are in force.</p>`}
    <${Changes} changes=${changes} before="In force" now="After the reload" />
    <${Throttled} key=${JSON.stringify(changes)} api=${api} changes=${changes} />
    <${Losses} reset=${reset} loosened=${loosened} />
    ${restart.length > 0 && html`<p class="failure">Needs a restart: ${restart.join(", ")}.</p>`}`;
}

/** Whom a lower limit would refuse at once. */
function Throttled({ api, changes }) {
  const lower = changes.filter(({ key, from, to }) => key.endsWith(".limit") && Number(to) < Number(from));
  const { value } = usePoll(() => Promise.all(lower.map((change) => throttledBy(api, change))), 10_000);
  if (value === null || lower.length === 0) return null;
  const clients = value.flat().map(({ key, name, used }) => [key, name, count(used)]);
  const whom =
    clients.length === 0 ? ": nobody" : html`, with what they have used: <${ClientLinks} clients=${clients} />`;
  return html`<p class="hint">Throttled at once${whom}.</p>`;
}

async function throttledBy(api, { key, from, to }) {
  const policy = key.slice("policies.".length, -".limit".length);
  const { clients } = await api.get(`/api/clients?policy=${encoded(policy)}&sort=used&limit=200`);
  // Others have a limit of their own, or are known by a hash alone.
  return clients.filter(({ key, limit, used }) => key !== null && limit === Number(from) && used >= Number(to));
}

const untried =
  "Nothing is on trial: the file has what is in force. With reload.watch, a saved file is in force by itself; reload.trial puts it on trial.";

function bodyOf({ confirmWithin, refusedPercent, unconfirmed }) {
  const unless = refusedPercent === "" ? {} : { unless: { refusedShare: Number(refusedPercent) / 100 } };
  return { confirmWithin, ...unless, unconfirmed };
}

function TermFields({ terms: { confirmWithin, refusedPercent, unconfirmed }, set }) {
  return html`
    <div class="fields">
      <label for="trial-time">Confirm within</label>
      <select id="trial-time" value=${confirmWithin} onInput=${set("confirmWithin")}>
        ${lengthOptions(["1m", "5m", "15m", "1h", "24h"])}
      </select>
      <label for="trial-share">Unless refused, in %</label>
      <input id="trial-share" type="number" min="0" max="99.9" step="0.1" placeholder="not judged" value=${refusedPercent} onInput=${set("refusedPercent")} />
      <label for="trial-then">If nobody confirms</label>
      <select id="trial-then" value=${unconfirmed} onInput=${set("unconfirmed")}>
        <option value="takeBack">it is taken back</option>
        <option value="keep">it stays</option>
      </select>
    </div>
    <p>It is also taken back if it has refused 20 requests, and more than this share, that the configuration from before would
      have admitted. Without a share it is not judged.</p>`;
}
