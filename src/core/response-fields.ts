// The headers of responses: those that every response gets from the gateway, whatever transport sends it, and those of an
// upstream's response that the client gets. RateLimit-Reset is in Unix seconds, as the API's specification demands, or with
// `resetFormat: delta` in seconds that remain, as in the structured RateLimit.
import { type Clock, httpDate, isImfFixdate } from "./clock.ts";
import {
  connectionOptions,
  type HeaderLines,
  type HeaderList,
  headerValue,
  headerValues,
  isHopByHop,
  KeptText,
  namesIn,
  trimBlanks,
} from "./headers.ts";
import { type ErrorFormat, inFormat, type LocalReply, localReplies, preflightReply } from "./local-reply.ts";
import type { MessageHead, MessageReading } from "./message-check.ts";
import { overridingMethods } from "./method.ts";
import { type Decision, periodLengths, type Rate } from "./policy.ts";

export type FieldKind = "standard" | "legacy" | "structured";

/** The form of both Reset headers: a Unix time, or a number of seconds from now. */
export type ResetFormat = "epoch" | "delta";

/** Headers that only the gateway sets; an upstream's own are removed, because a client may read either. Lower case. */
export const gatewayResponseFields = namesIn(
  "date ratelimit-limit ratelimit-remaining ratelimit-reset x-ratelimit-limit x-ratelimit-remaining x-ratelimit-reset",
  "ratelimit ratelimit-policy x-request-id",
);

interface ResponseSettings {
  readonly fields: readonly FieldKind[];
  readonly resetFormat: ResetFormat;
  readonly auth: { readonly realm: string };
  readonly errors: { readonly format: ErrorFormat };
}

/** Follows the rate-limit headers, and precedes the id. */
const idName = "X-Request-Id: ";

/** The end of the head of a local reply. */
interface ReplyEnd {
  reply: LocalReply | null;
  waitSeconds: number;
  readonly lines: KeptText;
}

export class ResponseFields {
  readonly #clock: Clock;
  readonly #quota: QuotaLines;
  readonly #hasStructured: boolean;
  readonly #resetOf: typeof resetSecond;
  readonly #realm: string;
  readonly #cors: AllowedOrigins | null;
  /** Names the gateway's headers to pages of other origins. */
  readonly #exposedLine: HeaderLines;
  readonly errorFormat: ErrorFormat;
  /** The replies that are known before a request; empty for v2, in which they are already. */
  readonly #formatted: ReadonlyMap<LocalReply, LocalReply>;
  #dateSecond = Number.NaN;
  #date = "";
  readonly #lastReplyEnd: ReplyEnd = { reply: null, waitSeconds: 0, lines: new KeptText() };

  /** `cors` is null if no page of another origin may read a local reply. */
  constructor({ fields, resetFormat, auth, errors }: ResponseSettings, clock: Clock, cors: AllowedOrigins | null) {
    this.#clock = clock;
    const kinds = new Set(fields);
    this.#hasStructured = kinds.has("structured");
    const prefixes = [kinds.has("standard") ? ["RateLimit"] : [], kinds.has("legacy") ? ["X-RateLimit"] : []].flat();
    const exposed = exposedNames(prefixes, this.#hasStructured).join(", ");
    this.#resetOf = resetFormat === "delta" ? secondsLeft : resetSecond;
    this.#quota = new QuotaLines(prefixes, this.#hasStructured ? "" : idName);
    this.#realm = auth.realm;
    this.#cors = cors;
    this.#exposedLine = `Access-Control-Expose-Headers: ${exposed}\r\n`;
    this.errorFormat = errors.format;
    const known: readonly LocalReply[] = this.errorFormat === "v2" ? [] : Object.values(localReplies);
    this.#formatted = new Map(known.map((reply) => [reply, inFormat(reply, this.errorFormat)]));
  }

  /** Returns what every response carries: Date, the rate-limit headers and X-Request-Id. */
  always(decision: Decision, requestId: string, nowMs = this.#clock.monotonicMs()): HeaderLines {
    const wallMs = this.#clock.wallMsAt(nowMs);
    const reset = this.#resetOf(decision, nowMs, wallMs);
    const quota = this.#quota.after(this.#dateAt(wallMs), decision.limit, decision.remaining, reset);
    const structured = this.#hasStructured ? structuredLines(decision, nowMs, wallMs) + idName : "";
    return `${quota}${structured}${requestId}\r\n`;
  }

  /** Returns what a response without a quota carries: Date alone. */
  date(): HeaderLines {
    return this.#dateAt(this.#clock.wallMs());
  }

  /**
   * Returns the headers of an upstream's 429, whose Retry-After passes as it came. If the gateway's own quota is used up too,
   * both waits apply, and the longest replaces it. `usedUp`: null if it is not.
   */
  withLongestWait(lines: HeaderLines, usedUp: Decision | null): HeaderLines {
    if (usedUp === null) return lines;
    const wallMs = this.#clock.wallMs();
    let seconds = retryAfterSeconds(null, usedUp.resetMs - this.#clock.monotonicMs());
    let longest = `${seconds}`;
    for (const [, value = ""] of lines.matchAll(retryAfterLine)) {
      const wanted = secondsUntil(value, wallMs);
      // Also skips an unreadable value, which is NaN.
      if (!(wanted >= seconds)) continue;
      seconds = wanted;
      longest = value;
    }
    return `${lines.replace(retryAfterLine, "")}Retry-After: ${longest}\r\n`;
  }

  /** Returns a local reply in the configured format of errors. */
  inFormat(reply: LocalReply): LocalReply {
    if (this.errorFormat === "v2") return reply;
    return this.#formatted.get(reply) ?? inFormat(reply, this.errorFormat);
  }

  /** Returns the headers of a reply of `inFormat`, without Connection. `asked`: the headers of the request. */
  localReply(
    reply: LocalReply,
    decision: Decision,
    requestId: string,
    asked: HeaderList,
    nowMs = this.#clock.monotonicMs(),
  ): HeaderLines {
    const always = this.always(decision, requestId, nowMs);
    const waitSeconds = reply.status === 429 ? retryAfterSeconds(reply.reason, decision.resetMs - nowMs) : 0;
    const cors = this.#cors === null ? "" : this.#corsLines(this.#cors, reply, asked);
    return always + cors + this.#replyEnd(reply, waitSeconds);
  }

  /** Most local replies are like the one before. */
  #replyEnd(reply: LocalReply, waitSeconds: number): HeaderLines {
    const last = this.#lastReplyEnd;
    if (last.reply !== reply || last.waitSeconds !== waitSeconds) {
      last.reply = reply;
      last.waitSeconds = waitSeconds;
      let own = "";
      if (reply.status === 429) own = `Retry-After: ${waitSeconds}\r\n`;
      if (reply.status === 401 || reply.reason === "insufficient_scope")
        own = `WWW-Authenticate: ${this.#challenge(reply)}\r\n`;
      last.lines.set(own + reply.lines);
    }
    return last.lines.use();
  }

  /** Returns the line that names the gateway's headers to the page that asked; empty if its origin is not listed. */
  exposed(asked: HeaderList): HeaderLines {
    return this.#cors === null || this.#cors.find(asked) === null ? "" : this.#exposedLine;
  }

  #corsLines(cors: AllowedOrigins, { varies = "Origin" }: LocalReply, asked: HeaderList): HeaderLines {
    const origin = cors.find(asked);
    if (origin === null) return "";
    return `Access-Control-Allow-Origin: ${origin}\r\n${this.#exposedLine}Vary: ${varies}\r\n`;
  }

  #challenge({ reason }: LocalReply): string {
    const realm = `Bearer realm="${this.#realm}"`;
    if (reason === "no_token") return realm;
    return `${realm}, error="${reason === "insufficient_scope" ? reason : "invalid_token"}"`;
  }

  #dateAt(wallMs: number): HeaderLines {
    const second = Math.floor(wallMs / 1000);
    if (second !== this.#dateSecond) {
      this.#dateSecond = second;
      this.#date = `Date: ${httpDate(wallMs)}\r\n`;
    }
    return this.#date;
  }
}

/**
 * Returns whole seconds, at least 1, because many clients treat 0 as no Retry-After. The budget for refusals has a token
 * again within a second, whatever the quota of the client is.
 */
export function retryAfterSeconds(reason: LocalReply["reason"], untilResetMs: number): number {
  return reason === "too_many_refusals" ? 1 : Math.max(1, Math.ceil(untilResetMs / 1000));
}

/**
 * A border of the calendar is a whole second of the wall clock, but a computed reset can be up to this much after it: the
 * two clocks are read one after the other, and the clock of a shared store is known from its answers only.
 */
const lateBorderMs = 100;

/** Returns the Unix second of the reset, rounded up, so that a client that waits until then is not early. */
export function resetSecond({ policy: { rate }, resetMs }: Decision, nowMs: number, wallMs: number): number {
  const resetWallMs = wallMs + (resetMs - nowMs);
  return Math.ceil((rate.kind === "calendar" ? resetWallMs - lateBorderMs : resetWallMs) / 1000);
}

/** Returns the whole seconds until the reset, rounded up; for a border of the calendar those from Date to the border. */
function secondsLeft(decision: Decision, nowMs: number, wallMs: number): number {
  const seconds =
    decision.policy.rate.kind === "calendar"
      ? resetSecond(decision, nowMs, wallMs) - Math.floor(wallMs / 1000)
      : Math.ceil((decision.resetMs - nowMs) / 1000);
  return Math.max(0, seconds);
}

function structuredLines(decision: Decision, nowMs: number, wallMs: number): HeaderLines {
  const decisions = decision.others === null ? [decision] : decision.others;
  const quotas = decisions.map((each) => quotaItem(each, nowMs, wallMs)).join(", ");
  return `RateLimit-Policy: ${decisions.map(policyItem).join(", ")}\r\nRateLimit: ${quotas}\r\n`;
}

/** An item of RateLimit-Policy. */
function policyItem({ policy: { name, rate }, limit }: Decision): string {
  if (rate.kind === "concurrency") return `"${name}";q=${limit};qu="concurrent-requests"`;
  const seconds = windowSeconds(rate);
  return seconds === null ? `"${name}";q=${limit}` : `"${name}";q=${limit};w=${seconds}`;
}

/** Null: a window below a second, which the draft cannot express, or a month, which has no fixed length. */
function windowSeconds(rate: Exclude<Rate, { kind: "concurrency" }>): number | null {
  if (rate.kind === "sliding") return rate.windowMs < 1000 ? null : Math.ceil(rate.windowMs / 1000);
  const { shortestMs, isFixed } = periodLengths[rate.per];
  return isFixed ? shortestMs / 1000 : null;
}

/** An item of RateLimit. Nobody knows when a slot is free again. */
function quotaItem(decision: Decision, nowMs: number, wallMs: number): string {
  const { policy, remaining } = decision;
  const item = `"${policy.name}";r=${remaining}`;
  return policy.rate.kind === "concurrency" ? item : `${item};t=${secondsLeft(decision, nowMs, wallMs)}`;
}

/** A line of headers that have been checked: their values contain no CR. */
const retryAfterLine = /^retry-after: (.*)\r\n/gim;

/** Returns the seconds that a Retry-After demands; NaN if it cannot be parsed. */
function secondsUntil(retryAfter: string, wallMs: number): number {
  if (/^\d{1,15}$/.test(retryAfter)) return Number(retryAfter);
  return isImfFixdate(retryAfter) ? (Date.parse(retryAfter) - wallMs) / 1000 : Number.NaN;
}

/** Without being named, these headers are hidden from pages of other origins. */
function exposedNames(prefixes: readonly string[], hasStructured: boolean): string[] {
  const ofQuota = prefixes.flatMap((prefix) => [`${prefix}-Limit`, `${prefix}-Remaining`, `${prefix}-Reset`]);
  const structured = hasStructured ? ["RateLimit", "RateLimit-Policy"] : [];
  return [...ofQuota, ...structured, "Retry-After", "Date", "X-Request-Id"];
}

/** The text for a limit and a reset. */
class ResetText {
  limit = Number.NaN;
  reset = Number.NaN;
  /** Between the first `remaining` and the second one. */
  readonly between = new KeptText();
  /** After the last `remaining`. */
  readonly end = new KeptText();
}

/** Windows mostly last a minute, so the resets of their clients are in the next 60 s. A power of two. */
const keptResets = 64;

/**
 * Makes the text of the RateLimit-* and X-RateLimit-* headers, each of which has one number. Most of the text is the same
 * for many responses: only `remaining` differs for each request of a client, and the reset for each client. The rest is
 * made once and kept.
 */
export class QuotaLines {
  /** `RateLimit`, `X-RateLimit`, both or none. */
  readonly #prefixes: readonly string[];
  readonly #end: string;
  readonly #resets = Array.from({ length: keptResets }, () => new ResetText());
  #date = "";
  #limit = Number.NaN;
  /** Before the first `remaining`, for `#date` and `#limit`. */
  readonly #begin = new KeptText();
  readonly #last = { begin: "", remaining: 0, reset: Number.NaN, lines: new KeptText() };

  /** `end` follows the headers. */
  constructor(prefixes: readonly string[], end: string) {
    this.#prefixes = prefixes;
    this.#end = end;
  }

  /** Returns `date`, the headers, and the end. */
  after(date: HeaderLines, limit: number, remaining: number, reset: number): string {
    const begin = this.#beginOf(date, limit);
    if (this.#prefixes.length === 0) return begin;
    const last = this.#last;
    // A client that is throttled gets the same lines many times in a second.
    if (last.remaining !== remaining || last.reset !== reset || last.begin !== begin) {
      last.begin = begin;
      last.remaining = remaining;
      last.reset = reset;
      last.lines.set(this.#linesOf(begin, limit, `${remaining}`, reset));
    }
    return last.lines.use();
  }

  #linesOf(begin: string, limit: number, remaining: string, reset: number): string {
    const text = this.#resetText(limit, reset);
    if (this.#prefixes.length === 1) return begin + remaining + text.end.use();
    return begin + remaining + text.between.use() + remaining + text.end.use();
  }

  #beginOf(date: HeaderLines, limit: number): string {
    if (limit !== this.#limit || date !== this.#date) {
      const [first] = this.#prefixes;
      const text = first === undefined ? this.#end : `${first}-Limit: ${limit}\r\n${first}-Remaining: `;
      this.#begin.set(date + text);
      this.#limit = limit;
      this.#date = date;
    }
    return this.#begin.use();
  }

  #resetText(limit: number, reset: number): ResetText {
    const text = this.#resets[reset & (keptResets - 1)] as ResetText;
    if (text.reset !== reset || text.limit !== limit) {
      const [first, second] = this.#prefixes;
      text.limit = limit;
      text.reset = reset;
      text.between.set(`\r\n${first}-Reset: ${reset}\r\n${second}-Limit: ${limit}\r\n${second}-Remaining: `);
      text.end.set(`\r\n${second ?? first}-Reset: ${reset}\r\n${this.#end}`);
    }
    return text;
  }
}

export interface UpstreamResponseFields {
  readonly lines: HeaderLines;
  /** A Content-Length is among the lines. */
  readonly hasLength: boolean;
}

/**
 * Selects the fields of an upstream's response that the client gets: in their order, spelling and number, without hop-by-hop
 * fields and without those that only the gateway sets.
 */
export function downstreamResponseFields(received: HeaderList, status: number): UpstreamResponseFields {
  const options = connectionOptions(received);
  let lines = "";
  let hasLength = false;
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i] ?? "";
    const value = received[i + 1] ?? "";
    const lower = name.toLowerCase();
    if (gatewayResponseFields.has(lower)) continue;
    if (lower === "content-length") {
      // A 204 and an interim response have none (RFC 9110, 8.6). Elsewhere it frames the body, even if Connection names it.
      // A second one is equal.
      if (status < 200 || status === 204 || hasLength) continue;
      hasLength = true;
    } else if (isHopByHop(lower, options)) continue;
    lines += `${name}: ${value}\r\n`;
  }
  return { lines, hasLength };
}

/** Returns whether the upstream lets pages of other origins read a response with these headers. */
export function letsPagesRead(lines: HeaderLines): boolean {
  return /^access-control-allow-origin:/im.test(lines);
}

/** More names than a page needs; each is repeated in the answer. */
const maxAskedNames = 32;
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * The origins of web pages that may call the API from a browser (CORS,
 * https://fetch.spec.whatwg.org/#http-cors-protocol). Their preflights need no token, because a browser sends none with
 * them, and they may read the gateway's own responses.
 */
export class AllowedOrigins {
  /** Whether the gateway answers preflights about its routes. */
  readonly answersPreflights: boolean;
  readonly #origins: ReadonlySet<string>;

  /** `origins`: as browsers send them, in lower case and without the port that the scheme implies. */
  constructor(origins: readonly string[], answersPreflights = false) {
    this.#origins = new Set(origins);
    this.answersPreflights = answersPreflights;
  }

  /** Returns the one Origin of a request, in lower case, if it is allowed; null otherwise. */
  find(headers: HeaderList): string | null {
    const values = headerValues(headers, "origin");
    const [origin = ""] = values.length === 1 ? values : [];
    const folded = origin.toLowerCase();
    return this.#origins.has(folded) ? folded : null;
  }

  /** Returns the gateway's own answer to a preflight; null if it is none, or the upstream answers it. */
  answerPreflight(head: MessageHead, message: MessageReading): LocalReply | null {
    if (!this.answersPreflights || !this.isPreflight(head, message)) return null;
    const method = headerValue(head.rawHeaders, "access-control-request-method") ?? "";
    const list = headerValue(head.rawHeaders, "access-control-request-headers") ?? "";
    const names = list === "" ? [] : list.split(",").map((name) => trimBlanks(name));
    const areSound = names.length <= maxAskedNames && [method, ...names].every((name) => token.test(name));
    return areSound ? preflightReply(method, names) : null;
  }

  /**
   * Returns whether the request only asks what a page may do. It must have nothing that a browser's preflight lacks: with a
   * body, an Upgrade or another method in a header or the query it could do more than ask, and an Authorization has to be
   * checked.
   */
  isPreflight({ method, rawHeaders, target }: MessageHead, { contentLength, asksToUpgrade }: MessageReading): boolean {
    if (method !== "OPTIONS" || contentLength !== 0 || asksToUpgrade || this.find(rawHeaders) === null) return false;
    const asked = headerValues(rawHeaders, "access-control-request-method");
    const query = target.slice(target.indexOf("?") + 1);
    if (asked.length !== 1 || asked[0] === "" || overridingMethods(rawHeaders, query).length > 0) return false;
    if (headerValues(rawHeaders, "access-control-request-headers").length > 1) return false;
    return headerValues(rawHeaders, "authorization").length === 0;
  }
}
