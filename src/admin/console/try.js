// What a request would get, and why. Nothing is charged, and nothing is sent to the upstream.
import { Meter } from "./clients.js";
import { clientLink, count, words } from "./format.js";
import { html, useState } from "./html.js";
import { Empty, Failures, number, Others, typed, Until, useFields, When, Wide } from "./parts.js";
import { Facts } from "./requests.js";

export function TryView({ session: { api } }) {
  const [wanted, set] = useFields({ method: "GET", target: "/v2/", client: "", headers: "" });
  const [{ answer, error }, setResult] = useState({ answer: null, error: null });
  const onSubmit = async (event) => {
    event.preventDefault();
    try {
      const { method, target, client, headers } = wanted;
      const body = { method, target, client: client.trim(), headers: readHeaders(headers) };
      const { value } = await api.call("POST", "/api/check", { body });
      setResult({ answer: value, error: null });
    } catch (problem) {
      setResult({ answer: null, error: problem });
    }
  };
  return html`
    <h1>Try a request</h1>
    <div class="split stack">
    <form class="panel" onSubmit=${onSubmit}>
      <div class="fields">
        <label for="try-method">Method</label>
        <input id="try-method" required maxlength="32" ...${typed} value=${wanted.method} onInput=${set("method")} />
        <label for="try-target">Path and query</label>
        <input id="try-target" class="key" required ...${typed} value=${wanted.target} onInput=${set("target")} />
        <label for="try-client">Client</label>
        <input id="try-client" class="key" required ...${typed} placeholder="203.0.113.7" value=${wanted.client} onInput=${set("client")} />
        <label for="try-headers">Headers</label>
        <textarea id="try-headers" class="key" rows="3" ...${typed} placeholder="Authorization: Bearer …" value=${wanted.headers} onInput=${set("headers")}></textarea>
      </div>
      <p class="row"><button type="submit" class="main">Try</button>
        <span class="muted">Nothing is charged, and the upstream gets nothing.</span></p>
    </form>
    <div role="status">
      <${Failures} error=${error} />
      ${answer !== null && html`<${Answer} answer=${answer} nowMs=${api.clock.nowMs()} />`}
      ${answer === null && error === null && html`<${Empty} title="No answer yet.">What the gateway would do with it, by which policy or rule, and what is left for its client.<//>`}
    </div>
    </div>`;
}

/** Lines of `Name: value`. */
function readHeaders(text) {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return Object.fromEntries(
    lines.map((line) => {
      const at = line.indexOf(":");
      if (at < 1) throw new Error("Headers: expected lines such as “Accept: application/json”.");
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );
}

function Answer({ answer, nowMs }) {
  const { status, reason, policy, route, client, auth, isVerified, subject, policies, rules, isShared, explanation } =
    answer;
  const [first, ...others] = explanation;
  const quota = policies.find((one) => one.policy === policy)?.quota;
  const facts = [
    ["Client", html`<a href=${clientLink(`client:${client}`)}>${client}</a>`],
    ["Route", route],
    [
      "Token",
      auth === "accepted"
        ? isVerified
          ? "verified"
          : "present, not verified"
        : auth === "skipped"
          ? "not checked"
          : auth,
    ],
    ["Subject", subject],
    ["Policy shown in the headers", policy],
    ["Free again", reason === "throttled" && quota?.reset && html`<${When} at=${quota.reset} nowMs=${nowMs} />`],
    ["Rules", rules.join(", ")],
  ];
  return html`
    <section class="panel" aria-label="What it would get">
      <h2><span class=${`large ${status < 300 ? "good" : "failure"}`}>${first}</span></h2>
      ${others.map((sentence) => html`<p>${sentence}</p>`)}
      <${Facts} facts=${facts} />
      <${Wide} label="Policies" columns=${["Policy", "Result", number("Used"), number("Limit"), "Share", number("Free again")]}>
        ${policies.map((one) => html`<${Row} one=${one} nowMs=${nowMs} />`)}
      <//>
      <${Others} isShared=${isShared} />
    </section>`;
}

function Row({ one: { policy, isShadow, matches, outcome, exemptBy, quota }, nowMs }) {
  const result = !matches ? "not about it" : outcome === null ? "not asked" : words(outcome);
  return html`<tr>
    <th scope="row">${policy} ${isShadow && html`<span class="badge">shadow</span>`}</th>
    <td class="half">${result}${exemptBy === null ? "" : ` by ${exemptBy}`}</td>
    <td class="number">${quota ? count(quota.used) : "–"}</td>
    <td class="number">${quota ? count(quota.limit) : "–"}</td>
    <td class="half">${quota && html`<${Meter} ...${quota} isShadow=${isShadow} />`}</td>
    <td class="number half">${quota?.reset && quota.used > 0 ? html`<${Until} at=${quota.reset} nowMs=${nowMs} />` : "–"}</td>
  </tr>`;
}
