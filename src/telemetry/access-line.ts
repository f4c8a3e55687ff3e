// A line of the access log: JSON in ASCII. What stays the same from request to request is kept as ready pieces.

import type { Clock } from "../core/clock.ts";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import { inOnePiece } from "../core/header-lines.ts";
import { LineBytes } from "./line-bytes.ts";
import { loggedMethod, loggedPath, loggedUserAgent, redactLine } from "./redaction.ts";

type LineLevel = "info" | "warn";

/** Makes the lines of one log, one at a time. */
export class AccessLines {
  readonly #start: StartPiece;
  readonly #result = new ResultPiece();
  readonly #line = new LineBytes();

  constructor(clock: Pick<Clock, "wallMs">) {
    this.#start = new StartPiece(clock);
  }

  /** Returns the line, until the next one is made. `target` is the request's target as it came. */
  lineOf(exchange: ExchangeRecord, target: string, level: LineLevel): LineBytes {
    const { id, startedMs, dispatchedMs, answeredMs, endedMs, decision } = exchange;
    const line = this.#line;
    line.length = 0;
    line.addBytes(this.#start.bytes(exchange, level));
    line.addText(plain.test(id) ? id : quoted(id).slice(1, -1));
    line.addText(requestText(exchange, target));
    line.addBytes(this.#result.bytes(exchange));
    line.addInteger(decision.remaining);
    line.addBytes(durationLabel);
    line.addMillis(endedMs - startedMs);
    if (dispatchedMs === null || answeredMs === null) line.addBytes(noUpstream);
    else {
      line.addBytes(upstreamLabel);
      line.addMillis(answeredMs - dispatchedMs);
    }
    line.addBytes(receivedLabel);
    line.addCount(exchange.bytesReceived);
    line.addBytes(sentLabel);
    line.addCount(exchange.bytesSent);
    line.addBytes(lineEnd);
    return line;
  }
}

const durationLabel = ascii(',"durationMs":');
const upstreamLabel = ascii(',"upstreamMs":');
const noUpstream = ascii(',"upstreamMs":null');
const receivedLabel = ascii(',"bytesReceived":');
const sentLabel = ascii(',"bytesSent":');
const lineEnd = ascii(',"msg":"request"}\n');

function ascii(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}

/** The piece up to the id, of the last line. */
class StartPiece {
  #level = "";
  #source = "";
  /** Of the monotonic clock. */
  #endedMs = Number.NaN;
  readonly #clock: Pick<Clock, "wallMs">;
  #bytes = ascii("");

  constructor(clock: Pick<Clock, "wallMs">) {
    this.#clock = clock;
  }

  bytes({ source, endedMs }: ExchangeRecord, level: LineLevel): Uint8Array {
    // The wall clock is read once in a millisecond of the other one, for all requests that end in it.
    const atMs = Math.floor(endedMs);
    if (atMs !== this.#endedMs || level !== this.#level || source !== this.#source) {
      this.#level = level;
      this.#source = source;
      this.#endedMs = atMs;
      this.#bytes = ascii(`{"level":"${level}","time":${this.#clock.wallMs()},"source":"${source}","id":"`);
    }
    return this.#bytes;
  }
}

/** The piece about the result, of the last line. */
class ResultPiece {
  #policy: object | null = null;
  #outcome = "";
  #auth = "";
  #problem: string | null = null;
  #complete = false;
  #status = 0;
  #bytes = ascii("");

  bytes({ decision: { policy, outcome }, auth, problem, complete, status }: ExchangeRecord): Uint8Array {
    const isSame =
      policy === this.#policy &&
      outcome === this.#outcome &&
      auth === this.#auth &&
      problem === this.#problem &&
      complete === this.#complete &&
      status === this.#status;
    if (isSame) return this.#bytes;
    this.#policy = policy;
    this.#outcome = outcome;
    this.#auth = auth;
    this.#problem = problem;
    this.#complete = complete;
    this.#status = status;
    this.#bytes = ascii(
      `,"status":${status},"problem":${quoted(problem)},"complete":${complete},"auth":"${auth}",` +
        `"policy":"${policy.name}","decision":"${outcome}","remaining":`,
    );
    return this.#bytes;
  }
}

/** The piece about the request as it came. */
function requestText(exchange: ExchangeRecord, target: string): string {
  const { route, client } = exchange;
  const { memory } = exchange.head;
  const logged = memory?.logged;
  // A reload may change what is said of the same request.
  if (logged && logged.route === route && logged.client === client) return logged.text;
  const text = newRequestText(exchange, target);
  if (memory) memory.logged = { route, client, text: inOnePiece(text) };
  return text;
}

function newRequestText({ head, traceId, method, route, client }: ExchangeRecord, target: string): string {
  return (
    `","traceId":${quoted(traceId)},"method":${quoted(loggedMethod(method))},"route":${quoted(route)},` +
    `"path":${quoted(loggedPath(target))},"client":${quoted(client)},"userAgent":${quoted(loggedUserAgent(head.rawHeaders))}`
  );
}

/** Returns the JSON of a text, in ASCII and without credentials. */
function quoted(text: string | null): string {
  if (text === null) return "null";
  if (plain.test(text)) return `"${text}"`;
  return redactLine(JSON.stringify(text).replace(/[^\x20-\x7e]/g, escaped));
}

// Nearly all texts but a User-Agent match. They need no escapes, and without a blank, "%" or a backslash no credential
// follows the name of its scheme.
const plain = /^[!#$&-[\]-~]*$/;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
