// Parses the head of an upstream's response, from text in which each character is one byte, and selects the headers that
// the client gets. Mostly these are the upstream's lines as they stand, less those that are removed.
import { type BrokenRule, brokenRule, findBroken, statusLine } from "../core/broken-rule.ts";
import { isImfFixdate } from "../core/clock.ts";
import {
  connectionLogin,
  type HeaderLines,
  type HeaderList,
  hopByHopNames,
  isBlank,
  trimBlanks,
} from "../core/headers.ts";
import {
  downstreamResponseFields,
  gatewayResponseFields,
  type UpstreamResponseFields,
} from "../core/response-fields.ts";

/** The headers are those that the client gets. */
export interface ResponseHead extends UpstreamResponseFields {
  readonly status: number;
  /** Each character is one byte, here and in the headers. */
  readonly reason: string;
  /** All headers of a 101 or an interim response; of others empty. */
  readonly received: HeaderList;
  readonly framing: number | "chunked" | "none";
  /** The x of HTTP/1.x. */
  readonly minor: number;
  /** Connection says close, WWW-Authenticate asks for a login of the connection, or a line ends in LF alone. */
  readonly closes: boolean;
  /** How long Keep-Alive allows the connection to be idle; null if it does not say. */
  readonly keepAliveSeconds: number | null;
  /** Null: another head with nearly the same bytes has to be parsed. */
  readonly positions: VariablePositions | null;
}

/** Where the head has the values that may differ in a head that otherwise means the same. -1: nowhere. */
export interface VariablePositions {
  readonly date: number;
  readonly length: number;
  readonly lengthDigits: number;
  /** Where the length is in the lines for the client. */
  readonly lengthInLines: number;
}

/** Bytes that are not allowed in fields and the reason, and a CR alone. */
const badBytes = /[^\t\x20-\x7e\x80-\xff\r\n]|\r(?!\n)/;
// Takes linear time, here and below: no character matches two adjacent parts.
const wholeHead =
  /^HTTP\/1\.\d [1-9]\d\d(?: [\t\x20-\x7e\x80-\xff]*)?\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n)*$/;
const start = "HTTP/1.";

/**
 * Returns false if the bytes cannot become a valid head. `text`: what has come, but for bytes that have been checked already. Its
 * last byte may be the first half of a CRLF, and is checked again.
 */
export function mayBecomeHead(text: string, isBeginning: boolean): boolean {
  if (isBeginning && !start.startsWith(text.slice(0, start.length))) return false;
  return !badBytes.test(text.replace(/\r$/, ""));
}

/** The bytes are no response. */
export class ResponseError extends Error {
  readonly code: "ERR_MALFORMED_RESPONSE" | "ERR_RESPONSE_HEAD_TOO_LARGE";
  /** Null: none is known. */
  readonly broken: BrokenRule | null;

  constructor(code: ResponseError["code"], broken: BrokenRule | null = null) {
    super(`The response cannot be read: ${code}`);
    this.code = code;
    this.broken = broken;
  }
}

export function malformed(broken: BrokenRule): ResponseError {
  return new ResponseError("ERR_MALFORMED_RESPONSE", broken);
}

/** Parses a head whose lines end in CRLF; null for another. `text`: before the empty line, with the line end before it. */
export function parseUsualHead(text: string): ResponseHead | null {
  return wholeHead.test(text) ? new HeadReader(text).read() : null;
}

/** Parses any head: a single LF may end a line of a final one (RFC 9112, 2.2). `text`: with its only empty line. */
export function parseHead(text: string): ResponseHead {
  const lines = text.replace(/\r?\n/g, "\r\n");
  const head = lines.slice(0, -2);
  // Another response follows a 1xx on its connection, and a 101 ends HTTP.
  const mayEndInLf = lines[9] !== "1";
  const isSound = wholeHead.test(head) && (mayEndInLf || lines === text);
  if (!isSound) throw malformed(findBroken(text, statusLine, mayEndInLf));
  const read = new HeadReader(head).read();
  return lines === text ? read : { ...read, closes: true };
}

const none: readonly string[] = [];

class HeadReader {
  readonly #text: string;
  readonly #status: number;
  readonly #minor: number;
  #lines: HeaderLines = "";
  #framing: ResponseHead["framing"] = "none";
  #closes = false;
  #keepAliveSeconds: number | null = null;
  #sawKeepAlive = false;
  /** Connection names headers that are removed. */
  #hasOptions = false;
  #dates = 0;
  #dateAt = -1;
  #lengthAt = -1;
  #lengthDigits = 0;
  #lengthInLines = -1;

  constructor(text: string) {
    this.#text = text;
    this.#status = Number(text.slice(9, 12));
    this.#minor = text.charCodeAt(7) - 48;
  }

  read(): ResponseHead {
    const text = this.#text;
    const status = this.#status;
    const from = text.indexOf("\r\n") + 2;
    this.#readLines(from);
    const isPassedAsIs = status >= 200 && !this.#hasOptions;
    const received = isPassedAsIs ? none : readHeaders(text, from);
    const passed = isPassedAsIs ? this.#passed() : downstreamResponseFields(received, status);
    return {
      status,
      reason: text.slice(13, from - 2),
      lines: passed.lines,
      hasLength: passed.hasLength,
      received: status < 200 ? received : none,
      framing: this.#framing,
      minor: this.#minor,
      closes: this.#closes,
      keepAliveSeconds: this.#keepAliveSeconds,
      positions: isPassedAsIs ? this.#positions() : null,
    };
  }

  #passed(): UpstreamResponseFields {
    return { lines: this.#lines, hasLength: this.#lengthInLines >= 0 };
  }

  #positions(): VariablePositions {
    return {
      date: this.#dateAt,
      length: this.#lengthAt,
      lengthDigits: this.#lengthDigits,
      lengthInLines: this.#lengthInLines,
    };
  }

  /** Copies what the client gets, whole runs of lines at once. */
  #readLines(from: number): void {
    const text = this.#text;
    let copied = from;
    for (let at = from; at < text.length; ) {
      const colon = text.indexOf(":", at);
      const end = text.indexOf("\r\n", colon);
      const kind = headerKind(text, at, colon);
      const isPlain = isPlainValue(text, colon, end);
      const value = kind === "kept" && isPlain ? "" : trimBlanks(text, colon + 1, end);
      const isKept = this.#read(kind, value, isPlain ? colon + 2 : -1, at);
      if (kind === "length" && isKept) this.#lengthInLines = this.#lines.length + colon + 2 - copied;
      if (!isKept || !isPlain) {
        this.#lines += text.slice(copied, at);
        if (isKept) this.#lines += `${text.slice(at, colon)}: ${value}\r\n`;
        copied = end + 2;
      }
      at = end + 2;
    }
    this.#lines += text.slice(copied);
  }

  /**
   * Returns whether the client gets the header. `at`: where the value is, if it stands as it is passed on; else -1. `lineAt`:
   * where its line is.
   */
  #read(kind: HeaderKind, value: string, at: number, lineAt: number): boolean {
    switch (kind) {
      case "kept":
        return true;
      case "removed":
        return false;
      case "challenge":
        this.#closes ||= connectionLogin.test(value);
        return true;
      case "length":
        if (!/^\d{1,15}$/.test(value)) throw this.#badFraming(kind, lineAt);
        if (this.#framing !== "none") {
          // An equal one is passed on once (RFC 9112, 6.3).
          if (this.#framing !== Number(value)) throw this.#badFraming(kind, lineAt);
          this.#lengthAt = -1;
          return false;
        }
        this.#framing = Number(value);
        this.#lengthDigits = value.length;
        this.#lengthAt = at;
        // A 204 has none (RFC 9110, 8.6).
        return this.#status !== 204;
      case "coding":
        // Transfer-Encoding is removed as hop-by-hop, so the bytes of any other coding would pass for content.
        if (this.#framing !== "none" || this.#minor === 0 || value.toLowerCase() !== "chunked")
          throw this.#badFraming(kind, lineAt);
        this.#framing = "chunked";
        return false;
      case "connection":
        // What most upstreams send. Keep-Alive is removed anyway.
        if (value === "keep-alive") return false;
        this.#closes ||= /(?:^|[\t ,])close(?:$|[\t ,])/i.test(value);
        this.#hasOptions ||= value.toLowerCase() !== "keep-alive";
        return false;
      case "keep-alive":
        if (!this.#sawKeepAlive) this.#keepAliveSeconds = timeoutOf(value);
        this.#sawKeepAlive = true;
        return false;
      case "date":
        this.#dateAt = this.#dates === 0 && isImfFixdate(value) ? at : -1;
        this.#dates += 1;
        return false;
    }
  }

  #badFraming(kind: "length" | "coding", lineAt: number): ResponseError {
    const text = this.#text;
    let rule =
      kind === "length" ? "a Content-Length other than 1 to 15 digits" : "a Transfer-Encoding other than chunked";
    if (kind === "coding" && this.#minor === 0) rule = "a Transfer-Encoding in HTTP/1.0";
    if (this.#framing !== "none") {
      const isSame = (this.#framing === "chunked") === (kind === "coding");
      rule = isSame ? "the same field for a second time" : "a Content-Length beside a Transfer-Encoding";
    }
    return malformed(brokenRule(rule, text.slice(0, lineAt).split("\n").length, text.slice(lineAt)));
  }
}

/** Returns the seconds of a Keep-Alive: timeout=; null if it names none. */
function timeoutOf(value: string): number | null {
  const seconds = /(?:^|[\s,])timeout=(\d{1,9})/i.exec(value)?.[1];
  return seconds === undefined ? null : Number(seconds);
}

/** Whether the line stands as it is passed on: with one space before the value and none behind it. */
function isPlainValue(text: string, colon: number, end: number): boolean {
  const isSpaced = text.charCodeAt(colon + 1) === 0x20 && colon + 2 < end;
  return isSpaced && !isBlank(text.charCodeAt(colon + 2)) && !isBlank(text.charCodeAt(end - 1));
}

function readHeaders(text: string, from: number): string[] {
  const headers: string[] = [];
  for (let at = from; at < text.length; ) {
    const colon = text.indexOf(":", at);
    const end = text.indexOf("\r\n", colon);
    headers.push(text.slice(at, colon), trimBlanks(text, colon + 1, end));
    at = end + 2;
  }
  return headers;
}

/**
 * What is done with each header of a response. Nearly all names can be told from the special ones by their length and
 * first letter. `kept` headers are passed on, `removed` ones are not; the others are read.
 */
type HeaderKind = "kept" | "removed" | ReadKind;
type ReadKind = "challenge" | "date" | "length" | "coding" | "connection" | "keep-alive";

const kinds: ReadonlyMap<string, HeaderKind> = new Map([
  ...[...gatewayResponseFields, ...hopByHopNames].map((name) => [name, "removed"] as const),
  ["www-authenticate", "challenge"],
  ["date", "date"],
  ["content-length", "length"],
  ["transfer-encoding", "coding"],
  ["connection", "connection"],
  ["keep-alive", "keep-alive"],
]);

const maxSpecialLength = Math.max(...[...kinds.keys()].map(({ length }) => length));

/** Whether a special name has this length and this first letter. */
const maybeSpecial = new Uint8Array((maxSpecialLength + 1) * 32);
for (const name of kinds.keys()) maybeSpecial[indexOfName(name, 0, name.length)] = 1;

/** Returns the kind of the header whose name begins at `from` and ends before `to`. */
function headerKind(text: string, from: number, to: number): HeaderKind {
  if (to - from > maxSpecialLength || maybeSpecial[indexOfName(text, from, to)] === 0) return "kept";
  return kinds.get(text.slice(from, to).toLowerCase()) ?? "kept";
}

/** Upper and lower case have the same index. */
function indexOfName(text: string, from: number, to: number): number {
  return (to - from) * 32 + (text.charCodeAt(from) & 31);
}
