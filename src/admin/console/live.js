// Keeps what a view shows up to date, while the page is visible: polls, and hears the events of the gateway.
import { localMs } from "./clock.js";
import { useEffect, useRef, useState } from "./html.js";
import { Refusals } from "./refusals.js";

/** Several events in a row cause one call. */
const soonMs = 500;

/** After a failure of the gateway, so that its return is seen soon. */
const retryMs = 2_000;

/** An answer that took long is work for the gateway, such as a list of very many clients: it is asked for less often. */
const restFactor = 10;
const maxRestMs = 30_000;

/**
 * Loads at once, then `everyMs` after each answer, but sooner if the gateway has failed. `load` gets the last value.
 * `inputs`: when one of them changes, loads anew. `reload` loads now, and `soon` within half a second. A value stays when a
 * later load fails.
 */
export function usePoll(load, everyMs, inputs = []) {
  const [state, setState] = useState({ value: null, error: null });
  const calls = useRef({ reload() {}, soon() {} });
  const value = useRef(null);
  useEffect(() => {
    let [timer, isEnded, isBusy, isSoon] = [0, false, false, false];
    const soon = () => {
      if (isEnded || isSoon) return;
      isSoon = true;
      clearTimeout(timer);
      if (!isBusy) timer = setTimeout(reload, soonMs);
    };
    const reload = async () => {
      clearTimeout(timer);
      if (isEnded || document.hidden) return;
      if (isBusy) {
        isSoon = true;
        return;
      }
      [isBusy, isSoon] = [true, false];
      const begunMs = localMs();
      const result = await load(value.current).then(
        (loaded) => {
          value.current = loaded;
          return { value: loaded, error: null };
        },
        (error) => ({ error }),
      );
      isBusy = false;
      if (isEnded) return;
      setState((last) => ({ ...last, ...result }));
      const hasFailed = result.error !== null && (result.error.status === 0 || result.error.status >= 500);
      const restMs = Math.min(maxRestMs, (localMs() - begunMs) * restFactor);
      timer = setTimeout(reload, Math.max(restMs, isSoon ? soonMs : hasFailed ? retryMs : everyMs));
    };
    calls.current = { reload, soon };
    document.addEventListener("visibilitychange", reload);
    reload();
    return () => {
      isEnded = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", reload);
    };
  }, inputs);
  return { ...state, reload: () => calls.current.reload(), soon: () => calls.current.soon() };
}

/** As many of the newest steps as are asked for: one is new, and another one shows that they follow the known ones. */
const askedSteps = 3;
const historySeconds = 15 * 60;

/** The history, of which only what is new is asked for. `last`: what was known; null: nothing. */
export async function readHistory(api, last) {
  if (last?.end) {
    const newest = await api.get(`/api/history?steps=${askedSteps}`);
    const { end, stepSeconds, steps } = newest;
    const overlap = steps.length - Math.round((Date.parse(end) - Date.parse(last.end)) / 1000 / stepSeconds);
    const [before, again] = [last.steps.slice(-overlap), steps.slice(0, overlap)];
    // Another gateway, or its clock was set: then all is asked for.
    if (overlap > 0 && JSON.stringify(before) === JSON.stringify(again)) {
      return { ...newest, steps: [...last.steps, ...steps.slice(overlap)].slice(-historySeconds / stepSeconds) };
    }
  }
  return api.get("/api/history");
}

/** Renders again every so often, while the page is visible; less often for those who want less motion. */
export function useTick(everyMs) {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const timer = setInterval(
      () => {
        if (!document.hidden) setCount((last) => last + 1);
      },
      isCalm ? Math.max(everyMs, 1_000) : everyMs,
    );
    return () => clearInterval(timer);
  }, [everyMs]);
  return count;
}

/** How many refusals are asked for that were before the stream. */
const maxRefusals = 200;
const maxOutages = 20;

const firstRetryMs = 1_000;
const maxRetryMs = 10_000;

/** The stream of events, begun again when it ends. */
export class Events {
  /** `live`, `waiting` (for the next attempt) or `paused`. */
  state = "waiting";
  refusals = new Refusals();
  /** When the upstream was down, as far as this page has heard; `to` is null until it is up again. */
  outages = [];
  #api;
  #listeners = new Set();
  #stop = new AbortController();
  /** What ends the one that is read. */
  #stream = null;
  #timer = 0;
  #retryMs = firstRetryMs;

  constructor(api) {
    this.#api = api;
    const { signal } = this.#stop;
    document.addEventListener("visibilitychange", () => this.#read(), { signal });
    addEventListener("online", () => this.#readAnew(), { signal });
    this.#read();
  }

  /** `listener` gets each event; null when `state` has changed. Returns what ends it. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close() {
    clearTimeout(this.#timer);
    this.#stop.abort();
    this.#stream?.abort();
  }

  /** The stream from before the network was away would say nothing for long. */
  #readAnew() {
    this.#stream?.abort();
    this.#retryMs = firstRetryMs;
    this.#read();
  }

  async #read() {
    clearTimeout(this.#timer);
    if (document.hidden) {
      this.#stream?.abort();
      this.#set("paused");
      return;
    }
    if (this.#stream !== null && !this.#stream.signal.aborted) return;
    const stream = new AbortController();
    this.#stream = stream;
    this.#set("waiting");
    try {
      await this.#api.readEvents(
        () => this.#opened(),
        (event) => this.#tell(event),
        stream.signal,
      );
    } catch (error) {
      // No token is right any more, and the page asks for one.
      if (error.status === 401) return;
    }
    if (this.#stop.signal.aborted || this.#stream !== stream) return;
    this.#stream = null;
    if (document.hidden) return;
    this.#set("waiting");
    this.#timer = setTimeout(() => this.#read(), this.#retryMs * (0.5 + Math.random() / 2));
    this.#retryMs = Math.min(this.#retryMs * 2, maxRetryMs);
  }

  #opened() {
    // That it is up again may have been missed.
    this.outages = this.outages.filter(({ to }) => to !== null);
    this.#retryMs = firstRetryMs;
    this.#set("live");
    this.#catchUp();
  }

  /** Those from before the page was opened, and while there was no stream. The gateway remembers them. */
  async #catchUp() {
    const last = await this.#api.get(`/api/refusals?limit=${maxRefusals}`).catch(() => null);
    if (last === null || this.#stop.signal.aborted) return;
    for (const request of last.refusals) this.refusals.add(request);
    this.#tell(null);
  }

  #set(state) {
    this.state = state;
    this.#tell(null);
  }

  #hearUpstream({ at, upstream: { state } }) {
    const last = this.outages.at(-1);
    const isOpen = last?.to === null;
    if (state === "down" && !isOpen) this.outages = [...this.outages, { from: at, to: null }].slice(-maxOutages);
    if (state === "up" && isOpen) last.to = at;
  }

  #tell(event) {
    if (event?.type === "upstream") this.#hearUpstream(event);
    if (event?.type === "refusal") this.refusals.add(event.request);
    for (const listener of this.#listeners) listener(event);
  }
}

/** Calls back for events of these types. */
export function useEvents(events, types, onEvent) {
  const latest = useRef(onEvent);
  latest.current = onEvent;
  useEffect(() => {
    return events.listen((event) => {
      if (event !== null && types.includes(event.type)) latest.current(event);
    });
  }, [events]);
}

/** Renders again when the stream begins or ends, and at each refusal, at most four times a second. */
export function useStream(events) {
  const [, setCount] = useState(0);
  useEffect(() => {
    let timer = 0;
    const end = events.listen((event) => {
      if (timer !== 0 || (event !== null && event.type !== "refusal")) return;
      timer = setTimeout(() => {
        timer = 0;
        setCount((last) => last + 1);
      }, 250);
    });
    return () => {
      clearTimeout(timer);
      end();
    };
  }, [events]);
  return events;
}
