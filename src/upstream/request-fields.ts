// The head of a request to the upstream: the client's headers in their order and spelling, without hop-by-hop headers, then
// the gateway's own. The client's are removed before the gateway's are added, so no `Connection:` of a client can remove
// what the gateway adds (RFC 9110, 7.6.1). And the id of the request, which the upstream and the log get.
import { randomFillSync } from "node:crypto";
import type { ForwardingHeader, Peer } from "../core/client-address.ts";
import type { FieldNames } from "../core/field-names.ts";
import {
  connectionOptions,
  type HeaderLines,
  headerValue,
  inOnePiece,
  isHopByHop,
  KeptText,
  noOptions,
} from "../core/headers.ts";
import { contentMethods } from "../core/method.ts";
import type { RequestHead } from "../core/request-head.ts";
import type { Scheme } from "../core/settings.ts";
import type { UpstreamHost } from "../core/upstream.ts";
import type { Exchange } from "../exchange/exchange.ts";

export interface RequestFieldsOptions extends UpstreamHost {
  /** The header in which trusted proxies name the client; the other one is not passed on. */
  readonly forwardingHeader: ForwardingHeader;
  readonly fieldNames: FieldNames;
}

export function upstreamRequestFields(exchange: Exchange, options: RequestFieldsOptions): HeaderLines {
  return `${linesBeforeId(exchange, options)}${exchange.shownId}\r\n`;
}

/** Returns the request line and the same headers, without the line end of the last one. */
export function upstreamRequestStart(exchange: Exchange, options: RequestFieldsOptions): string {
  return textBeforeId(exchange, options) + exchange.shownId;
}

function textBeforeId(exchange: Exchange, options: RequestFieldsOptions): string {
  const memory = exchange.head.memory ?? null;
  const { parsed } = exchange.verdict;
  const known = memory?.upstream ?? null;
  if (known?.parsed === parsed && known.options === options) return known.text.use();
  const line = `${exchange.method} ${parsed.upstreamTarget ?? "/"} HTTP/1.1\r\n`;
  const text = new KeptText();
  text.set(line + linesBeforeId(exchange, options));
  if (memory !== null) memory.upstream = { parsed, options, text };
  return text.use();
}

/** Lines of a head with a memory can be kept: it has a Host, its target names no authority, and its scheme never changes. */
function linesBeforeId(exchange: Exchange, options: RequestFieldsOptions): HeaderLines {
  const headers = exchange.head.memory?.headers;
  if (headers === undefined) return readLines(exchange, options);
  if (headers.upstreamLines === null || headers.upstreamLinesFor !== options) {
    headers.upstreamLines = inOnePiece(readLines(exchange, options));
    headers.upstreamLinesFor = options;
  }
  return headers.upstreamLines;
}

function readLines(exchange: Exchange, settings: RequestFieldsOptions): HeaderLines {
  const { forwardingHeader, fieldNames, upstreamHost, keepsClientHost } = settings;
  const { rawHeaders, method, peer } = exchange.head;
  const { target, message } = exchange.verdict.parsed;
  // The authority of an absolute-form target replaces Host (RFC 9112, 3.2.2).
  const host = target?.authority ?? message.host;
  // Some proxies, such as HAProxy, pass on the Connection of their clients, which must not remove what the proxy itself adds.
  const options = peer.isTrusted ? noOptions : connectionOptions(rawHeaders);
  let lines = `Host: ${keepsClientHost && host !== "" ? host : upstreamHost}\r\n`;
  const vouching = new VouchingFields(peer, forwardingHeader);
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    const lower = name.toLowerCase();
    if (isOwnField(lower) || isHopByHop(lower, options)) continue;
    // The upstream believes what the gateway passes on.
    if (fieldNames.isDropped(lower) && !vouching.passesOn(lower, value)) continue;
    lines += `${name}: ${lower === "max-forwards" && method === "OPTIONS" ? oneLess(value) : value}\r\n`;
  }
  if (needsLength(exchange.head)) lines += "Content-Length: 0\r\n";
  return `${lines}${vouching.lines(exchange.transport.scheme, host)}Via: 1.1 headgate\r\nX-Request-Id: `;
}

/** HTTP/2 says by its framing that there is no content, HTTP/1.1 by Content-Length alone (RFC 9110, 8.6). */
function needsLength({ endsWithHead = false, method, rawHeaders }: RequestHead): boolean {
  return endsWithHead && contentMethods.has(method) && headerValue(rawHeaders, "content-length") === undefined;
}

/** Expect is answered by the gateway, Host comes first, and the id last. */
function isOwnField(name: string): boolean {
  return name === "host" || name === "expect" || name === "x-request-id";
}

/** The fields that say who the client is and what it asked for: of a trusted peer they are kept, and the gateway adds to them. */
class VouchingFields {
  readonly #peer: Peer;
  /** A trusted peer writes the header that is configured, and may pass the other one on as a client wrote it. */
  readonly #otherHeader: string;
  readonly #forwardedFor: string[] = [];
  #hasProto = false;
  #hasHost = false;

  constructor(peer: Peer, forwardingHeader: ForwardingHeader) {
    this.#peer = peer;
    this.#otherHeader = forwardingHeader === "forwarded" ? "x-forwarded-for" : "forwarded";
  }

  /** Returns whether the field goes upstream as it stands. */
  passesOn(name: string, value: string): boolean {
    if (!this.#peer.isTrusted || name === this.#otherHeader) return false;
    if (name === "x-forwarded-for") {
      this.#forwardedFor.push(value);
      return false;
    }
    this.#hasProto ||= name === "x-forwarded-proto";
    this.#hasHost ||= name === "x-forwarded-host";
    return true;
  }

  lines(scheme: Scheme, host: string): HeaderLines {
    const forwardedFor = `X-Forwarded-For: ${[...this.#forwardedFor, this.#peer.text].join(", ")}\r\n`;
    const proto = this.#hasProto ? "" : `X-Forwarded-Proto: ${scheme}\r\n`;
    return forwardedFor + proto + (this.#hasHost || host === "" ? "" : `X-Forwarded-Host: ${host}\r\n`);
  }
}

/** Subtracts one, as each proxy does for OPTIONS (RFC 9110, 7.6.2): 0 is not forwarded. What is no number stays as it is. */
function oneLess(maxForwards: string): string {
  return /^\d{1,15}$/.test(maxForwards) ? `${Number(maxForwards) - 1}` : maxForwards;
}

// New ids: UUIDs of version 4 with 122 random bits (RFC 9562, 5.4), as crypto.randomUUID makes them. That one puts
// each together from 20 texts; here many are written at once and an id is a part of their text, for a quarter of the
// time.

const idLength = 36;
/** Ids in one text. An exchange that lasts keeps the whole text in memory, so there are few. */
const idsPerText = 16;
const textLength = idLength * idsPerText;
const hexDigits = Buffer.from("0123456789abcdef");

/** The ids cannot be predicted: their bytes come from the system's generator, and none is used twice. */
export function createRequestIds(): () => string {
  // For 1,024 ids: the call costs much more than the bytes.
  const random = Buffer.allocUnsafeSlow(16 * 1024);
  let used = random.length;
  const bytes = Buffer.alloc(textLength, "-");
  let text = "";
  let at = textLength;
  const makeText = (): void => {
    if (used === random.length) {
      randomFillSync(random);
      used = 0;
    }
    for (let i = 0; i < idsPerText; i += 1, used += 16) writeId(random, used, bytes, i * idLength);
    text = bytes.toString("latin1");
    at = 0;
  };
  return () => {
    if (at === textLength) makeText();
    at += idLength;
    return text.slice(at - idLength, at);
  };
}

/** Leaves the dashes as they are. */
function writeId(random: Buffer, from: number, into: Buffer, start: number): void {
  random[from + 6] = ((random[from + 6] as number) & 0x0f) | 0x40;
  random[from + 8] = ((random[from + 8] as number) & 0x3f) | 0x80;
  let at = start;
  for (let i = 0; i < 16; i += 1) {
    if (i === 4 || i === 6 || i === 8 || i === 10) at += 1;
    const byte = random[from + i] as number;
    into[at] = hexDigits[byte >> 4] as number;
    into[at + 1] = hexDigits[byte & 0x0f] as number;
    at += 2;
  }
}
