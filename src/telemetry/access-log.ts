// One line for each request, when it is over. Refusing must stay cheap under a flood: refusals that spend no quota are logged
// at most a few times a second for each client, and the others are counted. No query, no token and no field of the request
// is logged, except User-Agent, X-Request-Id, the id of a well-formed traceparent, and the name of a field that breaks a rule.
import { type Logger, symbols } from "pino";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import { inOnePiece } from "../core/headers.ts";
import type { Decision } from "../core/policy.ts";
import type { LogDestination } from "./destination.ts";
import type { Samplers, TimeWriter } from "./log.ts";
import { loggedMethod, loggedPath, loggedRequestId, loggedUserAgent, redactLine } from "./log.ts";

export interface AccessLog {
  /** `target` is the request's target as it came. */
  record(exchange: ExchangeRecord, target: string): void;
}

export function createAccessLog(samplers: Samplers, maxClients = 10_000): AccessLog {
  const { log } = samplers;
  // Every line has the same shape. Written by hand it takes a tenth of the time that pino takes, and goes to the same place.
  const destination: Pick<LogDestination, "write" | "writeBytes"> = Reflect.get(log, symbols.streamSym);
  const lineOf = createLines(log);
  const sampler = samplers.add({
    perPeriod: samplers.perSecond,
    maxKeys: maxClients,
    report: (client, omitted) => log.info({ client, omitted }, "refused requests left out"),
  });
  return {
    record(exchange, target) {
      const level = exchange.status >= 500 ? "warn" : "info";
      if (!log.isLevelEnabled(level)) return;
      // What costs no quota (throttled, no route, not HTTP, OPTIONS *) can be repeated without end.
      const isFree = exchange.dispatchedMs === null && exchange.decision.outcome !== "admitted";
      if (isFree && !sampler.passes(exchange.client, exchange.endedMs)) return;
      const line = lineOf(exchange, target, level);
      if (destination.writeBytes === undefined) destination.write(line.text());
      else destination.writeBytes(line.bytes, line.length);
    },
  };
}

// A line: JSON in ASCII. What stays the same from request to request is kept as ready pieces.

type LineLevel = "info" | "warn";

/** Returns the function that makes the lines of one log. A line is there until the next one is made. */
function createLines(log: Logger): (exchange: ExchangeRecord, target: string, level: LineLevel) => LineBytes {
  const startOf = createStarts(log);
  const result = new ResultPiece();
  const line = new LineBytes();
  return (exchange, target, level) => {
    const { id, startedMs, dispatchedMs, answeredMs, endedMs, decision } = exchange;
    line.length = 0;
    line.addBytes(startOf(exchange, level));
    line.addText(id);
    line.addText(requestText(exchange, target));
    line.addText(exchange.subject === null ? noSubject : `,"subject":${quoted(exchange.subject)}`);
    line.addBytes(result.bytes(exchange));
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
  };
}

const noSubject = ',"subject":null';
const durationLabel = ascii(',"durationMs":');
const upstreamLabel = ascii(',"upstreamMs":');
const noUpstream = ascii(',"upstreamMs":null');
const receivedLabel = ascii(',"bytesReceived":');
const sentLabel = ascii(',"bytesSent":');
const lineEnd = ascii(',"msg":"request"}\n');

function ascii(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}

/** Returns the function that makes the piece up to the id, or returns the one of the last line. */
function createStarts(log: Logger): (exchange: ExchangeRecord, level: LineLevel) => Uint8Array {
  const last = { level: "", source: "", atMs: Number.NaN, writeTime: (): string => "", bytes: ascii("") };
  return ({ source, endedMs }, level) => {
    // The wall clock is read once in a millisecond of the other one, for all requests that end in it.
    const atMs = Math.floor(endedMs);
    // A reload replaces it.
    const writeTime: TimeWriter = Reflect.get(log, symbols.timeSym);
    const isSame = atMs === last.atMs && level === last.level && source === last.source;
    if (isSame && writeTime === last.writeTime) return last.bytes;
    last.level = level;
    last.source = source;
    last.atMs = atMs;
    last.writeTime = writeTime;
    last.bytes = ascii(`{"level":"${level}"${writeTime()},"source":"${source}","id":"`);
    return last.bytes;
  };
}

type ResultFacts = Pick<ExchangeRecord, "auth" | "problem" | "detail" | "rule" | "complete" | "status"> &
  Pick<Decision, "policy" | "outcome">;

/** The piece about the result, of the last line. */
class ResultPiece {
  #last: ResultFacts | null = null;
  #bytes = ascii("");

  bytes({ decision, auth, problem, detail, rule, complete, status }: ExchangeRecord): Uint8Array {
    const { policy, outcome } = decision;
    const last = this.#last;
    const isSame =
      policy === last?.policy &&
      outcome === last.outcome &&
      auth === last.auth &&
      problem === last.problem &&
      detail === last.detail &&
      rule === last.rule &&
      complete === last.complete &&
      status === last.status;
    if (isSame) return this.#bytes;
    this.#last = { policy, outcome, auth, problem, detail, rule, complete, status };
    this.#bytes = ascii(
      `,"status":${status},"problem":${quoted(problem)}${detailText(detail)}${rule === null ? "" : `,"rule":${quoted(rule)}`},` +
        `"complete":${complete},"auth":"${auth}","policy":"${policy.name}","decision":"${outcome}","remaining":`,
    );
    return this.#bytes;
  }
}

function detailText(detail: ExchangeRecord["detail"]): string {
  if (detail === null) return "";
  if (typeof detail === "string") return `,"detail":${quoted(detail)}`;
  return `,"brokenRule":${quoted(detail.rule)},"line":${detail.line},"field":${quoted(detail.field)}`;
}

/** The piece about the request as it came. */
function requestText(exchange: ExchangeRecord, target: string): string {
  const { route, client, requestId } = exchange;
  const { memory } = exchange.head;
  const logged = memory?.logged;
  // A reload may change what is said of the same request.
  if (logged?.route === route && logged.client === client && logged.requestId === requestId) return logged.text;
  const text = newRequestText(exchange, target);
  if (memory) memory.logged = { route, client, requestId, text: inOnePiece(text) };
  return text;
}

function newRequestText(exchange: ExchangeRecord, target: string): string {
  const { head, traceId, method, route, client } = exchange;
  return (
    `","requestId":${quoted(loggedRequestId(exchange))},"traceId":${quoted(traceId)},"method":${quoted(loggedMethod(method))},"route":${quoted(route)},` +
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

// The bytes of one line of ASCII, in a buffer that is used for all lines. A line that is put together as a text is a tree of
// texts, which is walked when it is written and burdens the garbage collector until then.

/** Bytes that `#reserve` leaves free behind what is added: enough for a number. */
const reservedBytes = 64;
const zero = 0x30;
const point = 0x2e;

class LineBytes {
  bytes = Buffer.allocUnsafeSlow(2048);
  length = 0;

  /** `text` is ASCII. */
  addText(text: string): void {
    this.#reserve(text.length);
    this.length += this.bytes.write(text, this.length, "latin1");
  }

  addBytes(piece: Uint8Array): void {
    this.#reserve(piece.length);
    this.bytes.set(piece, this.length);
    this.length += piece.length;
  }

  /** Adds an integer that is not negative. A text or a piece must come before the next number, and reserves room for it. */
  addInteger(value: number): void {
    // Larger numbers are rare, and slower to calculate with.
    if (value > 0x3fffffff) this.addText(`${value}`);
    else this.#addDigits(value, digitsOf(value));
  }

  addCount(value: number | null): void {
    if (value === null) this.addText("null");
    else this.addInteger(value);
  }

  /** Adds milliseconds with three decimals; 0 for a negative time, whose end was read too early. */
  addMillis(ms: number): void {
    const micros = Math.max(0, Math.round(ms * 1000));
    const whole = Math.floor(micros / 1000);
    this.addInteger(whole);
    this.bytes[this.length] = point;
    this.length += 1;
    this.#addDigits(micros - 1000 * whole, 3);
  }

  /** Returns the line as a text. */
  text(): string {
    return this.bytes.toString("latin1", 0, this.length);
  }

  #addDigits(value: number, count: number): void {
    const { bytes, length } = this;
    let rest = value | 0;
    for (let at = length + count - 1; at >= length; at -= 1) {
      const tenth = (rest / 10) | 0;
      bytes[at] = zero + rest - 10 * tenth;
      rest = tenth;
    }
    this.length = length + count;
  }

  #reserve(count: number): void {
    const needed = this.length + count + reservedBytes;
    if (needed <= this.bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * needed);
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

function digitsOf(value: number): number {
  let count = 1;
  for (let bound = 10; value >= bound; bound *= 10) count += 1;
  return count;
}
