// The frame of the page: who is signed in, the views, and what every view shares.
import { ClientView } from "./client.js";
import { ClientsView } from "./clients.js";
import { localMs } from "./clock.js";
import { ConfigurationView } from "./configuration.js";
import { span } from "./format.js";
import { GatewaysView } from "./gateways.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Events, readHistory, usePoll, useStream, useTick } from "./live.js";
import { NowView } from "./now.js";
import { PoliciesView } from "./policies.js";
import { countsOf, headlineOf, problemsOf, recentOf, worstOf } from "./problems.js";
import { RequestsView } from "./requests.js";
import { RulesView } from "./rules.js";
import { RunbookView } from "./runbook.js";
import { Exposed, Name, SignIn } from "./sign-in.js";
import { Trial, useTrialEnd } from "./trial.js";
import { TryView } from "./try.js";

const views = [
  { path: "now", name: "Now", view: NowView },
  { path: "clients", name: "Clients", view: ClientsView, ofOne: ClientView },
  { path: "rules", name: "Rules", view: RulesView },
  { path: "requests", name: "Requests", view: RequestsView, ofOne: RequestsView },
  { path: "policies", name: "Policies", view: PoliciesView },
  { path: "configuration", name: "Configuration", view: ConfigurationView },
  { path: "gateways", name: "Gateways", view: GatewaysView },
  { path: "try", name: "Try a request", view: TryView },
];
const runbook = { path: "runbook", name: "Runbook", view: RunbookView, ofOne: RunbookView };

/** What the address names: a view, and what it is about. */
function readAddress() {
  const [, path, ...rest] = location.hash.split("/");
  const view = [...views, runbook].find((each) => each.path === path) ?? views[0];
  try {
    return { view, about: decodeURIComponent(rest.join("/")) };
  } catch {
    return { view, about: "" };
  }
}

/** Takes the code of a link out of the address at once, before anything is asked. */
function takeCode() {
  const found = /^#code=([\w-]+)$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(null, "", location.pathname);
  return found[1];
}

/** Shows the page, or asks for a token. */
export function App({ api }) {
  const [signedIn, setSignedIn] = useState({ state: "asking", message: "" });
  const attempts = useRef(0);
  const [first] = useState(takeCode);
  const signIn = async (code) => {
    attempts.current += 1;
    const attempt = attempts.current;
    setSignedIn({ state: "asking", message: "" });
    try {
      const token = code === null ? null : await api.exchange(code);
      if (attempt !== attempts.current) return;
      if (token !== null) api.setToken(token);
      const status = await api.get("/api/status");
      if (attempt === attempts.current) setSignedIn({ state: "in", status });
    } catch (error) {
      // Another token has come meanwhile.
      if (attempt !== attempts.current) return;
      const isFirst = error.status === 401 && !api.hasToken;
      api.setToken(null);
      setSignedIn({ state: "out", message: isFirst ? "" : messageOf(error) });
    }
  };
  useHashChange(() => {
    const code = takeCode();
    if (code !== null) signIn(code);
  });
  useEffect(() => void signIn(first), []);
  const signOut = (message) => {
    api.setToken(null);
    setSignedIn({ state: "out", message });
  };
  if (signedIn.state === "asking") {
    return html`<main class="sign-in"><${Name} /><p role="status">Asking the gateway …</p></main>`;
  }
  if (signedIn.state === "in") {
    return html`<${SignedIn} api=${api} status=${signedIn.status} onSignOut=${signOut} />`;
  }
  const onToken = (token) => {
    api.setToken(token);
    signIn(null);
  };
  return html`<${SignIn} message=${signedIn.message} onToken=${onToken} />`;
}

function messageOf({ status, message }) {
  if (status === 401) return "This token is not listed in admin.tokensFile.";
  return message;
}

/** How long what was done is seen. */
const shownMs = 8_000;

function SignedIn({ api, status: first, onSignOut }) {
  const [events] = useState(() => new Events(api));
  const [said, setSaid] = useState("");
  const [done, setDone] = useState({ text: "", isShown: false });
  const address = useAddress();
  const polled = usePoll(() => api.get("/api/status"), 5_000);
  const history = usePoll((last) => readHistory(api, last), 5_000);
  const content = useRef(null);
  const shown = useRef(address);
  useEffect(() => {
    api.onSignedOut = () => onSignOut("The token is not listed any more.");
    const end = events.listen((event) => {
      if (event !== null && ["upstream", "store", "reload", "trial"].includes(event.type)) polled.soon();
    });
    return () => {
      end();
      events.close();
    };
  }, []);
  useEffect(() => {
    document.title = `${address.about || address.view.name} · Headgate`;
    // For those who do not see that the view has changed.
    if (shown.current !== address) {
      content.current?.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    shown.current = address;
  }, [address]);
  const status = polled.value ?? first;
  const problems = problemsOf(status, history.value, polled.error, events.outages);
  // Shares change all the time: they are not told to those who hear what changes.
  const summary = headlineOf(problems, {});
  useEffect(() => setSaid(summary), [summary]);
  useEffect(() => {
    if (!done.isShown) return;
    const timer = setTimeout(() => setDone({ ...done, isShown: false }), shownMs);
    return () => clearTimeout(timer);
  }, [done]);
  const say = (text) => setDone({ text, isShown: true });
  const session = {
    ...{ api, events, status, history, problems, caller: status.caller, say },
    canWrite: status.caller.role === "write",
    refresh: polled.reload,
  };
  // Problems that are critical stand before it.
  session.trialEnd = useTrialEnd(session);
  const View = address.about === "" ? address.view.view : (address.view.ofOne ?? address.view.view);
  return html`
    <${Header} session=${session} current=${address.view} onSignOut=${() => onSignOut("")} />
    <main id="main" tabindex="-1" ref=${content}>
      ${!session.canWrite && html`<p class="muted">You may read and change nothing: that needs a token that may write.</p>`}
      <${Trial} session=${session} />
      ${address.view.path !== "now" && session.trialEnd}
      <${View} key=${`${address.view.path} ${address.about}`} session=${session} about=${address.about} />
    </main>
    <p class="unseen" role="status">${said}</p>
    <p class=${done.isShown ? "done" : "unseen"} role="status">${done.text}</p>`;
}

function useAddress() {
  const [address, setAddress] = useState(readAddress);
  useHashChange(() => setAddress(readAddress()));
  return address;
}

/** `onChange` of the first render is called. */
function useHashChange(onChange) {
  // Other effects run a while after what they belong to is drawn: an address that comes meanwhile would be missed.
  useLayoutEffect(() => {
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);
}

function Header({ session, current, onSignOut }) {
  const { api, history, status, problems, caller } = session;
  const worst = worstOf(problems);
  const skip = (event) => {
    event.preventDefault();
    document.querySelector("#main").focus();
  };
  return html`
    <header>
      <a class="skip" href="#/${current.path}" onClick=${skip}>Skip to the content</a>
      <p class="name"><span class="logo"></span>Headgate</p>
      <a class=${`state ${worst}`} href="#/now">${headlineOf(problems, countsOf(recentOf(history.value)))}</a>
      <${Stream} events=${session.events} api=${api} />
      <p class="caller">
        <span class="lesser">${status.version}</span>
        <span>${caller.name} (${caller.role === "write" ? "may write" : "may read"})</span>
        ${api.hasToken && html`<button class="plain" onClick=${onSignOut}>Sign out</button>`}
      </p>
      <nav aria-label="Views">
        ${views.map(({ path, name }) => {
          const isCurrent = path === current.path;
          return html`<a href="#/${path}" aria-current=${isCurrent ? "page" : undefined}>${name}</a>`;
        })}
      </nav>
    </header>
    <${Exposed} />`;
}

const streamTexts = { live: "live", waiting: "reconnecting", paused: "paused" };

/** While the stream is away, also how old is what the page shows. */
function Stream({ events, api }) {
  const { state } = useStream(events);
  useTick(1_000);
  const seconds = Math.floor((localMs() - api.heardMs) / 1000);
  return html`<span class=${`stream ${state}`}>${streamTexts[state]}</span>
    ${state !== "live" && seconds > 0 && html`<span class="stream">as of ${span(seconds)} ago</span>`}`;
}
