// Calls the admin API of the origin that served the page. The token is held here alone, in memory: not in storage, not in the
// address, and it is sent nowhere else.
import { GatewayClock, localMs } from "./clock.js";

/** An answer that is not a success, or none. `status` 0: the gateway did not answer. */
export class ApiError extends Error {
  constructor(status, details) {
    super(details.join(" "));
    this.status = status;
    this.details = details;
  }
}

const answerTimeoutMs = 30_000;

export class Api {
  /** Null: none is sent, as on the Unix socket. */
  #token = null;
  clock = new GatewayClock();
  /** When the gateway was heard last, by this machine. */
  heardMs = localMs();
  /** Called when a call is answered 401. */
  onSignedOut = () => {};

  get hasToken() {
    return this.#token !== null;
  }

  setToken(token) {
    this.#token = token;
  }

  /** Resolves with the token for the code of a link, which only works once. */
  async exchange(code) {
    return (await this.call("POST", "sign-in", { headers: { authorization: `Bearer ${code}` } })).value.token;
  }

  async get(path) {
    return (await this.call("GET", path)).value;
  }

  /** Resolves with the answer's JSON and its entity tag. Rejects with an ApiError. */
  async call(method, path, { body, headers = {} } = {}) {
    const response = await this.#fetch("application/json", path, {
      method,
      headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.timeout(answerTimeoutMs),
    });
    const value = await response.json().catch(() => null);
    if (!response.ok) throw this.#errorOf(response, value);
    if (value === null) throw notOfGateway();
    this.heardMs = localMs();
    return { value, entityTag: response.headers.get("etag") };
  }

  /** The metrics in their text format. */
  metrics() {
    return this.#text("/metrics");
  }

  /** A file that is served with the page. */
  file(name) {
    return this.#text(name);
  }

  async #text(path) {
    const response = await this.#fetch("text/plain", path, { signal: AbortSignal.timeout(answerTimeoutMs) });
    if (!response.ok) throw this.#errorOf(response, null);
    return response.text();
  }

  /** Calls back for each event until the stream ends. Rejects with an ApiError if there is none, or it breaks. */
  async readEvents(onOpen, onEvent, signal) {
    const response = await this.#fetch("text/event-stream", "/api/events", { signal });
    if (!response.ok) throw this.#errorOf(response, await response.json().catch(() => null));
    onOpen();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let unread = "";
    for (;;) {
      const { done, value } = await reader.read().catch(notAnswered);
      if (done) return;
      this.heardMs = localMs();
      const blocks = (unread + value).split("\n\n");
      unread = blocks.pop();
      for (const block of blocks) {
        const data = block.split("\n").find((line) => line.startsWith("data: "));
        if (data !== undefined) onEvent(JSON.parse(data.slice("data: ".length)));
      }
    }
  }

  /** `type`: of an answer that is a success. A proxy in between may answer with a page of its own. */
  async #fetch(type, path, options) {
    const token = this.#token;
    const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
    const response = await fetch(path, {
      ...options,
      headers: { ...authorization, ...options.headers },
      ...{ cache: "no-store", credentials: "omit", redirect: "error" },
    }).catch(notAnswered);
    this.clock.observe(response.headers.get("date"));
    // Of an earlier token it says nothing any more.
    if (response.status === 401 && token === this.#token) this.onSignedOut();
    if (response.ok && !response.headers.get("content-type")?.startsWith(type)) throw notOfGateway();
    return response;
  }

  #errorOf({ status }, value) {
    const errors = Array.isArray(value?.errors) ? value.errors : [];
    const details = errors.map((each) => each?.errMsg).filter((each) => typeof each === "string");
    return new ApiError(status, details.length === 0 ? [`The gateway answered ${status}.`] : details);
  }
}

function notOfGateway() {
  return new ApiError(0, ["Something else than the gateway has answered, such as a proxy in between."]);
}

function notAnswered() {
  throw new ApiError(0, ["The gateway does not answer."]);
}
