// Runs in the console's page before its own scripts: the page gets answers whose texts are replaced, each field by another text
// in each round, so that after as many rounds as there are texts each field has had each of them. No network is between, so that
// a round takes some milliseconds.

/** `answers`: by path, as the gateway could give them. Returns what a test calls. */
globalThis.replaceAnswers = (answers, texts) => {
  // What the page chooses by, and instants, are no free texts.
  const chosenBy = ["state", "role", "kind", "action", "outcome", "mode", "enforcement", "type", "at"];
  /** Objects whose keys are free texts too. */
  const named = ["values", "failed"];
  const served = new Set();
  let [round, next] = [0, 0];
  const text = () => {
    const found = texts[next++ % texts.length];
    served.add(found);
    return found;
  };
  const replace = (value, key = "") => {
    if (typeof value === "string") {
      return chosenBy.includes(key) || /^\d{4}-\d\d-\d\dT/.test(value) ? value : text();
    }
    if (Array.isArray(value)) return value.map((each) => replace(each, key));
    if (typeof value !== "object" || value === null) return value;
    const entries = Object.entries(value).map(([name, each]) => [
      named.includes(key) ? text() : name,
      replace(each, name),
    ]);
    return Object.fromEntries(entries);
  };
  const answer = (status, value, type = "application/json") => ({
    ...{ ok: status < 400, status, headers: new Headers({ "content-type": type }) },
    json: async () => value,
    text: async () => "",
  });
  /** How calls fail; null: they do not. */
  let failing = null;
  globalThis.fetch = async (path) => {
    if (path === "/api/events") {
      const body = new ReadableStream();
      return { ...answer(200, null, "text/event-stream"), body };
    }
    if (failing !== null) {
      const body = failures[failing.kind](text, round);
      const json = async () => JSON.parse(body);
      const type = failing.kind === "notJson" ? "text/html" : "application/problem+json";
      return { ...answer(failing.statuses[round % failing.statuses.length], null, type), json, text: async () => body };
    }
    const found = Object.keys(answers).find((each) => path.startsWith(each));
    const type = path.startsWith("/api/") ? "application/json" : "text/plain";
    return answer(200, replace(answers[found] ?? {}), type);
  };
  const settled = () => new Promise((resolve) => setTimeout(resolve));
  return {
    /** From now on; null ends it. `kind`: one of the failures. `statuses`: another one in each round. */
    fail(kind, statuses) {
      failing = kind === null ? null : { kind, statuses };
    },
    /** Each field in turn has each text. Resolves with the texts that were not shown although `isShown`, and what was wrong. */
    async everyText(act, isShown = true) {
      const [shown, wrong] = [new Set(), new Set()];
      for (round = 0; round < texts.length; round += 1) {
        next = round;
        served.clear();
        await act();
        await settled();
        await settled();
        const all = document.querySelector("#app").textContent;
        for (const each of served) if (all.includes(each)) shown.add(each);
        for (const each of whatIsWrong()) wrong.add(each);
      }
      // What a busy machine had not drawn in time is served again, and waited for. An answer has texts that the page does not
      // show, and a call that the page makes by itself may take the text before the one that is shown: each time, the text
      // stands one field later.
      const missing = texts.filter((each) => isShown && !shown.has(each));
      for (const text of missing) {
        const isThere = () => document.querySelector("#app").textContent.includes(text);
        const at = texts.indexOf(text);
        for (let tried = 0; tried < 60 && !shown.has(text); tried += 1) {
          round = at;
          next = (at + texts.length - (tried % 30)) % texts.length;
          await act();
          await until(isThere);
          if (isThere()) shown.add(text);
          for (const each of whatIsWrong()) wrong.add(each);
        }
      }
      return {
        missing: missing.filter((each) => !shown.has(each)).map((each) => each.slice(0, 80)),
        wrong: [...wrong],
      };
    },
  };
};

/** Bodies of answers that are errors, by kind. `text` returns the next text. */
const failures = {
  /** As the API answers them. */
  errors: (text) => JSON.stringify({ message: text(), errors: [{ errMsg: text() }, { errMsg: text() }] }),
  /** Of something in between, such as a problem of RFC 9457. */
  odd: (text, round) => {
    const [type, title, detail, name] = [text(), text(), text(), text()];
    const problem = { type, title, detail, instance: text(), [name]: text(), errors: { [name]: [text()] } };
    const errors = [text(), null, 1, {}, { errMsg: null }, { errMsg: [text()] }, { errMsg: { [text()]: text() } }];
    const forms = [problem, { errors }, { errors: text() }, { errors: 1 }, [text()], text(), 1, null];
    return JSON.stringify(forms[round % forms.length]);
  },
  notJson: (text) => text(),
};

/** Resolves when the page is so far, or after a second: what is expected then says what is missing. */
globalThis.until = async (isSo) => {
  for (let i = 0; i < 200 && !isSo(); i += 1) await new Promise((resolve) => setTimeout(resolve, 5));
};

const elements = new Set(
  (
    "html head meta title link body div noscript main header nav a p span b button ul li dl dt dd section figure figcaption " +
    "h1 h2 details summary svg path g table thead tbody tr th td time form label input select option dialog code textarea script article i pre"
  ).split(" "),
);

const attributes = new Set(
  (
    "class href id tabindex title role style colspan data-name aria-expanded aria-label aria-hidden aria-current aria-live aria-labelledby aria-describedby " +
    "datetime scope type value maxlength placeholder autocomplete spellcheck checked disabled required min max step rows for " +
    "viewBox preserveAspectRatio d fill stroke transform lang charset name content rel src open selected"
  ).split(" "),
);

/** What the page would never contain if all that it shows were text. Empty: nothing. */
globalThis.whatIsWrong = () => {
  const found = [];
  if (globalThis.ran !== undefined) found.push("something ran");
  const { textContent } = document.querySelector("#app");
  if (/is not a function|Cannot (?:read|destructure)/.test(textContent)) found.push("an error of the script is shown");
  if (Object.keys(Object.prototype).length > 0) found.push("the prototype of all objects has a key");
  if (document.scripts.length !== 1) found.push(`${document.scripts.length} scripts`);
  for (const element of document.querySelectorAll("*")) {
    if (!elements.has(element.localName)) found.push(`<${element.localName}>`);
    for (const { name, value } of element.attributes) {
      if (!attributes.has(name)) found.push(`<${element.localName} ${name}>`);
      // Widths of bars, places in charts and colours: the page takes neither from a text.
      if (name === "style" && !/^(?:(?:background|width|left|right): [^:;]*; ?)*$/.test(value))
        found.push(`style: ${value}`);
    }
    if (element.localName === "a" && !element.getAttribute("href").startsWith("#/")) found.push(element.outerHTML);
  }
  return found;
};
