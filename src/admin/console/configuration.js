// The configuration in force, where each value was written, and what the last reload has changed. Reloads.
import { Dialog } from "./dialogs.js";
import { html, useState } from "./html.js";
import { useEvents, usePoll } from "./live.js";
import { Instant, Missing, Wide } from "./parts.js";

export function ConfigurationView({ session }) {
  const { api, events, canWrite, status } = session;
  const config = usePoll(() => api.get("/api/config?against=previous"), 60_000);
  const [isReloading, setReloading] = useState(false);
  const [filter, setFilter] = useState("");
  useEvents(events, ["reload"], () => config.soon());
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
      <${LastReload} config=${config.value} nowMs=${api.clock.nowMs()} />
      <section>
        <h2>In force</h2>
        <form class="row" role="search" onSubmit=${(event) => event.preventDefault()}>
          <label>Filter <input type="search" autocomplete="off" spellcheck="false" value=${filter} onInput=${({ target }) => setFilter(target.value)} /></label>
        </form>
        <${Values} config=${config.value} filter=${filter.trim()} />
      </section>`
    }
    ${isReloading && html`<${ReloadDialog} session=${session} onEnd=${() => setReloading(false)} onDone=${config.reload} />`}`;
}

function LastReload({ config: { loaded, lastReload, restart }, nowMs }) {
  if (lastReload === null || lastReload === undefined) {
    return html`<p class="muted">Loaded <${Instant} at=${loaded} nowMs=${nowMs} />; no reload has changed anything since.</p>`;
  }
  const { at, by, changes, reset, loosened, changed } = lastReload;
  const files = changed.filter((key) => !changes.some((change) => change.key === key));
  return html`
    <section>
      <h2>The last change, <${Instant} at=${at} nowMs=${nowMs} />, by a ${by}</h2>
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

function Values({ config: { values, origins }, filter }) {
  if (values === null) return html`<p class="muted">A program has passed the settings.</p>`;
  const rows = leavesOf(values).filter(([key, value]) => key.includes(filter) || value.includes(filter));
  const originOf = (key) => {
    // A list is written in one place.
    const found = origins.find((origin) => key === origin.key || key.startsWith(`${origin.key}.`));
    return found === undefined ? "default" : `${found.source}: ${found.place}`;
  };
  return html`
    <${Wide} label="Values in force">
      <thead><tr><th scope="col">Key</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
      <tbody>
        ${rows.map(([key, value]) => {
          const origin = originOf(key);
          return html`<tr class=${origin === "default" ? "quiet" : ""}><th scope="row" class="key">${key}</th><td class="key">${value}</td><td>${origin}</td></tr>`;
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

function ReloadDialog({ session, onEnd, onDone }) {
  const act = async () => {
    const { value } = await session.api.call("POST", "/api/reload", { body: {} });
    onDone();
    if (value.outcome === "unchanged") return "Nothing has changed.";
    return `Reloaded: ${value.changed.join(", ")}.`;
  };
  return html`
    <${Dialog} title="Reload the configuration?" button="Reload" act=${act} onEnd=${onEnd} session=${session}>
      <p>Reads all files of the configuration again, as SIGHUP does. New values are in force from the next request on. A wrong file
        changes nothing. No connection is closed, and no count is lost unless a policy has a new name, kind or key.</p>
      <p class="muted">It is about this gateway alone. The log names you.</p>
    <//>`;
}
