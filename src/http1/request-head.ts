// Reads request heads of HTTP/1 (RFC 9112): bytes in, a head or a refusal out. Usual heads are checked by one regular
// expression. What it does not take is looked at byte by byte (`HeadScan`), which also says how it is refused. What a
// server must refuse although it can be read, such as a wrong Host, is left to core/message-check.ts.
import { brokenRule, findBroken, requestLine } from "../core/broken-rule.ts";
import { nameFinder, trimBlanks } from "../core/headers.ts";
import { type HeadBounds, maxFields, maxHeadBytes } from "../core/http-bounds.ts";
import { type LocalReply, localReplies, malformedBy } from "../core/local-reply.ts";
import { type HttpVersion, type MessageHead, readHttp1Version } from "../core/message-check.ts";
import { knownMethods } from "../core/method.ts";

/** Where a request ends, and what comes behind it. */
export interface RequestFraming {
  /** With the empty line. */
  readonly headBytes: number;
  /**
   * Null: in chunks. Infinite: the framing must not be believed, so all that follows belongs to the body; the message check
   * refuses such a request.
   */
  readonly bodyBytes: number | null;
  /** The client asks to close the connection after the response. */
  readonly isLast: boolean;
  /** It is an Upgrade, allowed or not, and has no body. */
  readonly asksToUpgrade: boolean;
}

export interface Http1Head extends MessageHead, RequestFraming {
  /** The values of Expect; null without one, and in HTTP/1.0, which has no status 100. */
  readonly expectation: string | null;
}

const originForm = "\\/[\\x21-\\x7e]*";
const absoluteForm = "https?:\\/\\/[!$%&'()*+,\\-.0-9:;=A-Z_a-z~[\\]]+(?:[/?][\\x21-\\x7e]*)?";
const name = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
/** With obs-text (RFC 9110, 5.5), which is UTF-8 or Latin-1: each byte is one character here. */
const value = "[\\t\\x20-\\x7e\\x80-\\xff]*";
const method = [...knownMethods].filter((name) => name !== "CONNECT").join("|");

// Each takes linear time: no character matches two adjacent parts.
const usualHead = new RegExp(
  `^(${method}) (${originForm}|${absoluteForm}|\\*) HTTP\\/1\\.[0-9]\\r\\n(?:${name}:${value}\\r\\n)+\\r\\n$`,
);
const originLine = new RegExp(`^(${method}) (${originForm}) HTTP\\/1\\.[1-9]$`);

const namesClose = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i;
const namesKeepAlive = /(?:^|,)[\t ]*keep-alive[\t ]*(?:,|$)/i;
const offersUpgrade = /(?:^|,)[\t ]*upgrade[\t ]*(?:,|$)/i;
/** Such a list could be read to end elsewhere. */
const goesOnBehindChunked = /(?:^|,)[\t ]*chunked[\t ]*,/i;

const requestLineEnd = " HTTP/1.1\r\n".length;
const headEnd = Buffer.of(0x0d, 0x0a, 0x0d, 0x0a);

/** Returns the length of the head at the beginning of the bytes, with its empty line; -1 if its end is not among them. */
export function headLength(bytes: Buffer): number {
  const end = bytes.indexOf(headEnd);
  return end === -1 ? -1 : end + headEnd.length;
}

/**
 * Reads the head at the beginning of the bytes; nothing stands before it. `incomplete`: it may still become one. Of a head
 * in many pieces, ask a `HeadScan` first, which looks at each byte once.
 */
export function readHead(bytes: Buffer, bounds: HeadBounds = requestBounds): Http1Head | "incomplete" | LocalReply {
  const headBytes = headLength(bytes);
  if (headBytes !== -1 && headBytes <= bounds.maxBytes) {
    const head = readUsualHead(bytes.toString("latin1", 0, headBytes), bounds);
    if (head !== null) return head;
  }
  const end = new HeadScan(bounds).next(bytes);
  if (typeof end !== "number") return end;
  const text = bytes.toString("latin1", 0, end);
  const lineEnd = text.indexOf("\r\n");
  const [method = "", target = "", version = "HTTP/0.9"] = text.slice(0, lineEnd).split(/ +/);
  if (method === "CONNECT") return localReplies.unsupportedMethod;
  return readFields(method, target, versionOf(version), text, lineEnd + 2);
}

/** Parses a head with its empty line and nothing behind it. Returns null if it is unusual, malformed or too large. */
export function readUsualHead(text: string, { maxBytes, maxFields }: HeadBounds = requestBounds): Http1Head | null {
  const match = text.length > maxBytes ? null : usualHead.exec(text);
  if (match === null) return null;
  const [, method, target] = match as unknown as [string, string, string];
  const from = method.length + 1 + target.length + requestLineEnd;
  const head = readFields(method, target, text[from - "0\r\n".length] === "0" ? "1.0" : "1.1", text, from);
  return "status" in head || head.rawHeaders.length > 2 * maxFields ? null : head;
}

/**
 * Parses the request line of a usual head of HTTP/1.1 with a target in origin form, without its line end. Returns null for
 * others.
 */
export function readOriginLine(line: string): { readonly method: string; readonly target: string } | null {
  const match = originLine.exec(line);
  return match === null ? null : { method: match[1] as string, target: match[2] as string };
}

/** A higher minor version is processed as 1.1 (RFC 9110, 2.5). Others are refused by the message check. */
function versionOf(text: string): HttpVersion {
  const version = text.slice("HTTP/".length);
  return version > "1.1" && version <= "1.9" ? "1.1" : readHttp1Version(version);
}

/** The text is a head without a syntax error, whose fields begin at `from`. */
function readFields(
  method: string,
  target: string,
  httpVersion: HttpVersion,
  text: string,
  from: number,
): Http1Head | LocalReply {
  const rawHeaders: string[] = [];
  const isVersion0 = httpVersion === "1.0";
  let length: string | null = null;
  let encoding: string | null = null;
  let encodings = 0;
  let expectation: string | null = null;
  let hasUpgrade = false;
  let namesUpgrade = false;
  let isLast = false;
  let keepsAlive = !isVersion0;
  for (let at = from; at < text.length - 2; ) {
    const colon = text.indexOf(":", at);
    const end = text.indexOf("\r\n", colon);
    const name = text.slice(at, colon);
    const value = trimBlanks(text, colon + 1, end);
    rawHeaders.push(name, value);
    at = end + 2;
    const special = specialName(name);
    switch (special) {
      case null:
        break;
      case "content-length":
        if (length !== null || encoding !== null || !isLength(value))
          return malformedBy(brokenRule("a second framing, or no length", rawHeaders.length / 2 + 1, name));
        length = value;
        break;
      case "transfer-encoding":
        // Nothing may follow the coding chunked (RFC 9112, 6.1).
        if (length !== null || value === "" || goesOnBehindChunked.test(`${encoding ?? ""},${value}`))
          return malformedBy(brokenRule("a second framing, or no encoding", rawHeaders.length / 2 + 1, name));
        encodings += 1;
        encoding = value;
        break;
      case "expect":
        expectation = expectation === null ? value : `${expectation}, ${value}`;
        break;
      case "upgrade":
        hasUpgrade = true;
        break;
      default:
        // RFC 9110 knows no Proxy-Connection, but clients send it, and Node obeys it.
        isLast ||= value === "close" || namesClose.test(value);
        keepsAlive ||= namesKeepAlive.test(value);
        namesUpgrade ||= special === "connection" && offersUpgrade.test(value);
    }
  }
  const isChunked = encodings === 1 && encoding?.toLowerCase() === "chunked" && !isVersion0;
  let bodyBytes = isChunked ? null : encodings === 0 ? bytesOf(length) : Number.POSITIVE_INFINITY;
  // A TRACE has no body (RFC 9110, 9.3.8).
  if (method === "TRACE" && bodyBytes !== 0) bodyBytes = Number.POSITIVE_INFINITY;
  return {
    method,
    target,
    httpVersion,
    rawHeaders,
    headBytes: text.length,
    bodyBytes,
    expectation: isVersion0 ? null : expectation,
    isLast: isLast || !keepsAlive,
    asksToUpgrade: hasUpgrade && namesUpgrade && bodyBytes === 0,
  };
}

/** As for Node: at most 64 bits. Takes linear time, because the digits do not begin with a zero. */
function isLength(value: string): boolean {
  const match = /^(?:0*([1-9]\d{0,19})|0+)$/.exec(value);
  return match !== null && BigInt(match[1] ?? "0") < 2n ** 64n;
}

/** The message check refuses a length of more digits. */
function bytesOf(length: string | null): number {
  if (length === null) return 0;
  return length.length <= 15 ? Number(length) : Number.POSITIVE_INFINITY;
}

/** Of headers that say something about the body or the connection. */
const specialName = nameFinder([
  ...(["expect", "upgrade", "connection", "content-length", "proxy-connection", "transfer-encoding"] as const),
]);

/**
 * Returns how many bytes the empty lines in front of a request take (RFC 9112, 2.2). As for Node, each CR and LF is one by
 * itself: none of them means anything there.
 */
export function emptyLineBytes(bytes: Buffer): number {
  let at = 0;
  while (bytes[at] === 0x0d || bytes[at] === 0x0a) at += 1;
  return at;
}

export const requestBounds: HeadBounds = { maxBytes: maxHeadBytes, maxFields };

/** The characters of a host, with those of a user, which is refused later (RFC 9110, 4.2.4). */
const authority = "(?:[!$%&'()*+,\\-.0-9:;=A-Z_a-z~[\\]]|@(?!@))*";
const rest = "(?:[/?].*)?";
/** Of visible ASCII. */
const targetForms = {
  other: new RegExp(`^(?:[/*].*|[A-Za-z]+://${authority}${rest})$`),
  connect: new RegExp(`^${authority}${rest}$`),
};

/** What is not counted: separators, the method, the version, and blanks around values. */
const maxUncountedBytes = 2 * 1024;

type HeadState =
  | "method"
  | "before target"
  | "target"
  | "before version"
  | "version"
  | "end of line"
  | "field"
  | "name"
  | "before value"
  | "value"
  | "end of head"
  | "over";

const [tab, lf, cr, space, colon] = [0x09, 0x0a, 0x0d, 0x20, 0x3a];

const isToken = byteTable(/[!#$%&'*+\-.^_`|~0-9A-Za-z]/);
const isInTarget = byteTable(/[\x21-\x7e]/);
/** With obs-text (RFC 9110, 5.5). */
const isInValue = byteTable(/[\t\x20-\x7e\x80-\xff]/);

/**
 * Checks the bytes of a request head one by one (RFC 9112, 2 to 5), also if they come in pieces: each byte is looked at
 * once, and nothing is built of them. It accepts no more than llhttp, Node's parser, and its bounds count what Node
 * counts: the target and the names and values of the fields.
 */
export class HeadScan {
  readonly #bounds: HeadBounds;
  #state: HeadState = "method";
  #at = 0;
  /** Where the text that is being taken begins. */
  #from = 0;
  #isConnect = false;
  #countedBytes = 0;
  #fields = 0;

  constructor(bounds: HeadBounds) {
    this.#bounds = bounds;
  }

  /** Goes on with bytes that begin with those of the call before. Returns the length of the head with its empty line. */
  next(bytes: Buffer): number | "incomplete" | LocalReply {
    let problem: LocalReply | null = null;
    while (problem === null && this.#at < bytes.length && this.#state !== "over") {
      problem = this.#step(bytes, bytes[this.#at] as number);
    }
    if (problem === localReplies.malformed)
      return malformedBy(findBroken(bytes.toString("latin1", 0, this.#at + 1), requestLine, false));
    if (problem !== null) return problem;
    if (this.#at > this.#bounds.maxBytes + maxUncountedBytes) return this.#tooLarge();
    return this.#state === "over" ? this.#at : "incomplete";
  }

  /** Takes a byte, or all of a target, a name or a value. */
  #step(bytes: Buffer, byte: number): LocalReply | null {
    switch (this.#state) {
      case "method":
        return this.#takeMethod(bytes, byte);
      case "before target":
        return byte === space ? this.#go("before target") : this.#begin("target");
      case "target":
        return this.#takeCounted(bytes, isInTarget) ?? this.#takeTargetEnd(bytes);
      case "before version":
        return byte === space ? this.#go("before version") : this.#begin("version");
      case "version":
        if (byte === cr) return this.#go("end of line", /^HTTP\/\d\.\d$/.test(this.#text(bytes)));
        return this.#go("version", this.#at - this.#from < "HTTP/1.1".length);
      case "end of line":
        return this.#go("field", byte === lf);
      case "field":
        if (byte === cr) return this.#go("end of head");
        this.#fields += 1;
        if (this.#fields > this.#bounds.maxFields) return localReplies.tooManyFields;
        return isToken[byte] === 1 ? this.#begin("name") : localReplies.malformed;
      case "name":
        return this.#takeCounted(bytes, isToken) ?? this.#takeEnd(bytes, colon, "before value");
      case "before value":
        return byte === space || byte === tab ? this.#go("before value") : this.#begin("value");
      case "value":
        return this.#takeCounted(bytes, isInValue) ?? this.#takeEnd(bytes, cr, "end of line");
      case "end of head":
        return this.#go("over", byte === lf);
      case "over":
        return null;
    }
  }

  #go(next: HeadState, isAllowed = true): LocalReply | null {
    if (!isAllowed) return localReplies.malformed;
    this.#state = next;
    this.#at += 1;
    return null;
  }

  #begin(next: HeadState): null {
    this.#state = next;
    this.#from = this.#at;
    return null;
  }

  #takeCounted(bytes: Buffer, table: Uint8Array): LocalReply | null {
    let at = this.#at;
    while (at < bytes.length && table[bytes[at] as number] === 1) at += 1;
    this.#countedBytes += at - this.#at;
    this.#at = at;
    return this.#countedBytes < this.#bounds.maxBytes ? null : this.#tooLarge();
  }

  #takeEnd(bytes: Buffer, end: number, next: HeadState): LocalReply | null {
    return this.#at === bytes.length ? null : this.#go(next, bytes[this.#at] === end);
  }

  #takeMethod(bytes: Buffer, byte: number): LocalReply | null {
    if (this.#at >= this.#bounds.maxBytes) return localReplies.headTooLarge;
    if (byte !== space) return this.#go("method", isToken[byte] === 1);
    const method = this.#text(bytes);
    this.#isConnect = method === "CONNECT";
    if (method !== "" && !knownMethods.has(method)) return localReplies.unsupportedMethod;
    return this.#go("before target", method !== "");
  }

  #takeTargetEnd(bytes: Buffer): LocalReply | null {
    if (this.#at === bytes.length) return null;
    const form = this.#isConnect ? targetForms.connect : targetForms.other;
    if (!form.test(this.#text(bytes))) return localReplies.malformed;
    // HTTP/0.9 has no version, and is refused later.
    return bytes[this.#at] === space ? this.#begin("before version") : this.#takeEnd(bytes, cr, "end of line");
  }

  /** The target has a bound of its own, and a status that says so. */
  #tooLarge(): LocalReply {
    return this.#state === "target" ? localReplies.targetTooLong : localReplies.headTooLarge;
  }

  #text(bytes: Buffer): string {
    return bytes.toString("latin1", this.#from, this.#at);
  }
}

function byteTable(characters: RegExp): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => Number(characters.test(String.fromCharCode(byte))));
}
