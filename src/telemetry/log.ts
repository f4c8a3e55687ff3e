// The log: JSON lines on standard output, written asynchronously, with credentials redacted and the level as a word. It
// reads only the clock it is given and says nothing about the host. And how many lines of one kind are written.
import { type Logger, pino, symbols } from "pino";
import { type Clock, systemClock, type WallClock } from "../core/clock.ts";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import { failureCode } from "../core/failure.ts";
import type { FileError, WatchEvents } from "../core/file-group.ts";
import { type HeaderList, headerValue, headerValues } from "../core/headers.ts";
import type { LogLevel, LogTime } from "../core/settings.ts";
import { type LogDestination, openDestination } from "./destination.ts";

export type { Logger } from "pino";

interface LogOptions {
  readonly level: LogLevel;
  /** Default: unix. */
  readonly time?: LogTime;
  readonly clock?: Clock;
  /** Standard output unless given. */
  readonly destination?: Pick<LogDestination, "write" | "flush">;
}

const standardOutput = 1;

/** `log.flush(done)` writes the buffered lines; call it before the process exits. */
export function createLog(options: LogOptions): Logger {
  const { level, time = "unix", clock = systemClock, destination = openDestination({ fd: standardOutput }) } = options;
  return pino(
    {
      level,
      base: null,
      timestamp: timeWriter(time, clock),
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFacts, error: errorFacts },
      hooks: { streamWrite: redactLine },
    },
    destination,
  );
}

/** Returns the member of a line that says when it was written, behind a comma. The access log writes it too. */
export type TimeWriter = () => string;

function timeWriter(time: LogTime, clock: WallClock): TimeWriter {
  if (time === "unix") return () => `,"time":${clock.wallMs()}`;
  return () => `,"time":"${new Date(clock.wallMs()).toISOString()}"`;
}

interface LogSettings {
  readonly level: LogLevel;
  readonly time: LogTime;
}

/** Puts what a reload changes into force. The time is that of the children of the log, too. */
export function changeLog(log: Logger, before: LogSettings, next: LogSettings, clock: WallClock): void {
  if (next.level !== before.level) log.level = next.level;
  if (next.time !== before.time) Reflect.set(log, symbols.timeSym, timeWriter(next.time, clock));
}

/** Returns the function that logs an error which nobody expects. */
export function createErrorLog(log: Logger): (error: unknown) => void {
  return (error) => log.error({ err: error }, "internal error");
}

/** The name, message, code and stack of an error and of its causes. Other properties may hold requests and fields. */
function errorFacts(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  const code = "code" in error ? error.code : undefined;
  return { type: name, message, code, stack, ...(cause === undefined ? {} : { cause: errorFacts(cause) }) };
}

// The results of rereading a group of files, without their paths and contents.

/** `what` names the group, such as "tokens file"; `facts` go into the line about a new version. */
export function createFileLog<T>(log: Logger, what: string, facts: (value: T) => object = () => ({})): WatchEvents<T> {
  return {
    onReload: (value) => log.info(facts(value), `${what} reread`),
    onError: (errors) =>
      log.error({ errors: errors.map(shown) }, `${what} not usable, the last good version stays in use`),
  };
}

/** Not the error itself: its message holds the path. */
function shown(error: FileError): object {
  if (error.kind === "unreadable") return { key: error.key, found: failureCode(error.cause) };
  const { key, line, found, expected } = error;
  return { key, line, found, expected };
}

// Keeps credentials out of the log. No code logs a token on purpose; this is the second barrier. It works on the
// finished line, so that no key, nesting or error text can evade a list of paths.

/** Hides the values of the fields that carry credentials, under any key of any depth, and bearer tokens in any text. */
export function redactLine(line: string): string {
  if (!suspicious.test(line)) return line;
  return line.replace(secretKeys, '"$1":"[redacted]"').replace(credentials, "$1 [redacted]");
}

// Nearly every line is clean. One test of those costs a third of running both replacements.
const suspicious = /authorization"|cookie"|bearer|basic/i;

// Neither pattern matches a quotation mark or a backslash of the line's JSON syntax, so the line stays JSON.
const secretKeys = /"((?:proxy-)?authorization|cookie|set-cookie)":(?:"(?:[^"\\]|\\.)*"|\[[^\]]*\])/gi;
// A backslash of a token is doubled there.
const credentials = /\b(bearer|basic)(?: |%20|\\t)+(?:[!#-+\--[\]-~]|\\\\)+/gi;

const maxPathLength = 256;

/**
 * The part of a request's target that may be logged: the path, in printable ASCII, cut at 256 characters. Removes
 * query, fragment and parameters (also if their delimiter is percent-encoded, however often), and user and host of an absolute form.
 */
export function loggedPath(target: string): string {
  if (target.length <= maxPathLength && plain.test(target)) return target;
  const path = target.slice(0, 4 * maxPathLength).replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "");
  const end = path.search(/[?#;]|%(?:25)*(?:3f|23|3b)/i);
  const bare = (end === -1 ? path : path.slice(0, end)).replace(/[^\x21-\x7e]/g, percentEncoded);
  return bare.length > maxPathLength ? `${bare.slice(0, maxPathLength)}...` : bare;
}

/** Returns the part of a request's target that may be kept in memory: as in the log, without what looks like a credential. */
export function keptTarget(target: string): string {
  // Nothing follows the name of a scheme in a plain one.
  return target.length <= maxPathLength && plain.test(target) ? target : redactLine(loggedPath(target));
}

/** The longest registered method has 17 characters. Over HTTP/2 and in checks, a method can be as long as a head. */
const maxMethodLength = 32;

/** Returns the method as it is logged. */
export function loggedMethod(method: string): string {
  return method.length > maxMethodLength ? `${method.slice(0, maxMethodLength)}...` : method;
}

const maxUserAgentLength = 256;

/**
 * Returns the User-Agent of a request as it is logged: at most 256 bytes, and without the credentials of the same request,
 * which a client may repeat there; null without one.
 */
export function loggedUserAgent(rawHeaders: HeaderList): string | null {
  const value = headerValue(rawHeaders, "user-agent");
  if (value === undefined) return null;
  const userAgent = withoutTokens(value, rawHeaders);
  return userAgent.length > maxUserAgentLength ? `${userAgent.slice(0, maxUserAgentLength - 3)}...` : userAgent;
}

/** Returns the X-Request-Id of a request as it is logged and remembered: without what looks like a credential. */
export function loggedRequestId({ requestId, head }: ExchangeRecord): string | null {
  return requestId && redactLine(withoutTokens(requestId, head.rawHeaders));
}

/** Returns a value of a request's header without the credentials of the same request. */
function withoutTokens(value: string, rawHeaders: HeaderList): string {
  let clean = value;
  for (const authorization of headerValues(rawHeaders, "authorization")) {
    const secret = authorization.slice(authorization.indexOf(" ") + 1).trim();
    if (secret !== "") clean = withoutSecret(clean, secret);
  }
  return clean;
}

/** Searches no more than may be logged. */
function withoutSecret(text: string, secret: string): string {
  const searched = text.slice(0, maxUserAgentLength + 1 + secret.length);
  const clean = searched.replaceAll(secret, "[redacted]");
  // A secret may have been cut.
  return searched.length < text.length ? clean.slice(0, -secret.length) : clean;
}

/** Nearly all targets match, and are logged as they are. */
const plain = /^\/[\w\-./~]*$/;

function percentEncoded(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}

interface SamplerOptions {
  readonly perPeriod: number;
  /** Default: a second. */
  readonly periodMs?: number;
  readonly maxKeys: number;
  readonly report: (key: string | null, omitted: number) => void;
}

const maxReports = 100;

/**
 * Admits at most `perPeriod` lines for each key in a period, a second by default. Omitted lines are counted, and
 * reported once when it is over. The table is bounded: lines of keys beyond `maxKeys` are omitted and reported
 * together, with key null. At most `maxReports` keys are reported by themselves, because a report costs 10 µs; the
 * other keys are reported together too.
 */
class Sampler {
  readonly #options: SamplerOptions;
  readonly #seen = new Map<string, number>();
  #beyondTable = 0;
  /** Exclusive end of the current period, by the clock of `nowMs`. */
  #endsMs = Number.NEGATIVE_INFINITY;
  /** Runs only after a line was omitted, so that the report comes even if no line follows. */
  #timer: NodeJS.Timeout | null = null;
  /** Running total of omitted lines. */
  omitted = 0;

  constructor(options: SamplerOptions) {
    this.#options = options;
  }

  /** Whether this line is to be logged. */
  passes(key: string, nowMs: number): boolean {
    if (nowMs >= this.#endsMs) {
      this.close();
      const { periodMs = 1000 } = this.#options;
      this.#endsMs = (Math.floor(nowMs / periodMs) + 1) * periodMs;
    }
    const seen = this.#seen.get(key) ?? 0;
    const known = seen > 0 || this.#seen.size < this.#options.maxKeys;
    if (known) this.#seen.set(key, seen + 1);
    else this.#beyondTable += 1;
    if (known && seen < this.#options.perPeriod) return true;
    this.omitted += 1;
    // One millisecond late: a timer may fire early, and an early report would allow the period twice.
    this.#timer ??= setTimeout(() => this.close(), Math.ceil(this.#endsMs - nowMs) + 1).unref();
    return false;
  }

  /** Reports what was omitted and not reported yet. */
  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const { perPeriod, report } = this.#options;
    let reports = 0;
    let others = this.#beyondTable;
    for (const [key, seen] of this.#seen) {
      if (seen <= perPeriod) continue;
      reports += 1;
      if (reports <= maxReports) report(key, seen - perPeriod);
      else others += seen - perPeriod;
    }
    if (others > 0) report(null, others);
    this.#seen.clear();
    this.#beyondTable = 0;
  }
}

/** The samplers of one thread's log: what they leave out is counted and reported together. */
export class Samplers {
  readonly log: Logger;
  /** At most so many lines of a kind that can be repeated without end are written in a period, which is a second by default. */
  readonly perSecond: number;
  readonly #clock: Clock;
  readonly #all: Sampler[] = [];

  constructor(log: Logger, clock: Clock, perSecond: number) {
    this.log = log;
    this.#clock = clock;
    this.perSecond = perSecond;
  }

  add(options: SamplerOptions): Sampler {
    const sampler = new Sampler(options);
    this.#all.push(sampler);
    return sampler;
  }

  /**
   * Returns the function that says whether a line with this key may be written. Keys are of a closed set. `name`: of the key in
   * the reports, whose message is `leftOut`.
   */
  sampled(name: string, periodMs: number, leftOut: string): (key: string) => boolean {
    const report: SamplerOptions["report"] = (key, omitted) => this.log.warn({ [name]: key, omitted }, leftOut);
    const sampler = this.add({ perPeriod: this.perSecond, periodMs, maxKeys: 100, report });
    return (key) => sampler.passes(key, this.#clock.monotonicMs());
  }

  /** Lines omitted so far. */
  get omitted(): number {
    return this.#all.reduce((sum, { omitted }) => sum + omitted, 0);
  }

  /** Reports what was omitted and not reported yet. */
  close(): void {
    for (const sampler of this.#all) sampler.close();
  }
}
