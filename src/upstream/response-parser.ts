// Parses the upstream's bytes as responses, strictly: what two readers could understand differently (two lengths, a length
// beside chunks, bare LF, folded lines) is malformed. Does not know of sockets; bytes behind the end of a response are
// not consumed.
import { trimBlanks } from "../core/blanks.ts";
import { UpstreamFailure } from "./upstream-failure.ts";

/** For status line and fields together, as for requests; also for the trailers of a response, and for a chunk's line. */
const maxHeadBytes = 16 * 1024;

export interface ResponseHead {
  readonly status: number;
  /** Each character is one byte, here and in the fields. */
  readonly reason: string;
  readonly fields: string[];
}

export interface ResponseSink {
  /** Any 1xx but 101. */
  onInterim(head: ResponseHead): void;
  onHead(head: ResponseHead): void;
  /** Returns whether it keeps the bytes; otherwise they are overwritten by the next read. */
  onBody(bytes: Buffer): boolean;
}

type State = "head" | "length" | "until_close" | "chunk_size" | "chunk" | "chunk_end" | "trailers" | "over";

export class ResponseParser {
  readonly #sink: ResponseSink;
  #state: State = "over";
  #method = "";
  /** The beginning of a head, a chunk's line or a trailer that is not complete. */
  #pending = "";
  /** Bytes of the body or the chunk that have not come yet. */
  #left = 0;
  #trailerBytes = 0;
  #mayContinue = false;
  #isUntouched = true;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  get isOver(): boolean {
    return this.#state === "over";
  }

  /** Not a byte of the response has come. */
  get isUntouched(): boolean {
    return this.#isUntouched;
  }

  /** Whether the connection may carry another request after the response. */
  get mayContinue(): boolean {
    return this.#mayContinue;
  }

  /** Expects the response to a request with this method. */
  begin(method: string): void {
    this.#state = "head";
    this.#method = method;
    this.#pending = "";
    this.#isUntouched = true;
  }

  /** Returns how many of the bytes belong to the response. Throws an UpstreamFailure, or what the sink throws. */
  execute(bytes: Buffer): number {
    let at = 0;
    this.#isUntouched = false;
    while (at < bytes.length && this.#state !== "over") at = this.#step(bytes, at);
    return at;
  }

  /** The upstream has closed the connection. True if that completes the response. */
  end(): boolean {
    if (this.#state !== "until_close") return false;
    this.#state = "over";
    return true;
  }

  #step(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case "head":
        return this.#readHead(bytes, at);
      case "length":
        return this.#readBody(bytes, at, "over");
      case "chunk":
        return this.#readBody(bytes, at, "chunk_end");
      case "until_close":
        this.#sink.onBody(at === 0 ? bytes : bytes.subarray(at));
        return bytes.length;
      case "chunk_size":
      case "chunk_end":
      case "trailers":
        return this.#readLine(bytes, at);
      case "over":
        return at;
    }
  }

  #readBody(bytes: Buffer, at: number, next: State): number {
    const end = Math.min(bytes.length, at + this.#left);
    this.#left -= end - at;
    // Set before the sink is called, which may look at it.
    if (this.#left === 0) this.#state = next;
    this.#sink.onBody(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end));
    return end;
  }

  #readHead(bytes: Buffer, at: number): number {
    let end = this.#pending === "" ? bytes.indexOf(headEnd, at) : -1;
    if (end !== -1) {
      if (end - at > maxHeadBytes) throw new UpstreamFailure("ERR_RESPONSE_HEAD_TOO_LARGE");
      this.#takeHead(bytes.toString("latin1", at, end));
      return end + 4;
    }
    // The head comes in pieces; not more than a head may have is collected.
    const before = this.#pending.length;
    const room = Math.min(bytes.length, at + maxHeadBytes + 4 - before);
    const text = this.#pending + bytes.toString("latin1", at, room);
    end = text.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (end !== -1) {
      this.#pending = "";
      this.#takeHead(text.slice(0, end));
      return at + end + 4 - before;
    }
    if (!mayBecomeHead(text)) throw malformed();
    if (text.length >= maxHeadBytes + 4) throw new UpstreamFailure("ERR_RESPONSE_HEAD_TOO_LARGE");
    this.#pending = text;
    return room;
  }

  #takeHead(text: string): void {
    const { head, framing, minor, closes } = parseHead(text);
    if (head.status < 200 && head.status !== 101) {
      this.#sink.onInterim(head);
      return;
    }
    // A 408 may be meant for the idle connection, not for the request that it seems to answer (RFC 9110, 15.5.9): then
    // the answer to that request is still to come.
    this.#mayContinue = minor >= 1 && !closes && head.status !== 408;
    if (this.#method === "HEAD" || head.status === 204 || head.status === 304 || head.status === 101) {
      this.#state = "over";
      // The head announces a body: if the server sends it after all, it would be read as the next response.
      if (framing !== "none" && framing !== 0) this.#mayContinue = false;
    } else if (framing === "chunked") {
      this.#state = "chunk_size";
      this.#trailerBytes = 0;
    } else if (framing === "none") {
      this.#state = "until_close";
      this.#mayContinue = false;
    } else {
      this.#left = framing;
      this.#state = framing === 0 ? "over" : "length";
    }
    this.#sink.onHead(head);
  }

  #readLine(bytes: Buffer, at: number): number {
    const end = bytes.indexOf(0x0a, at);
    const text = this.#pending + bytes.toString("latin1", at, end === -1 ? bytes.length : end);
    if (text.length > maxHeadBytes) throw malformed();
    if (end === -1) {
      // Nothing but the line's end may follow a chunk.
      if (this.#state === "chunk_end" && text !== "\r") throw malformed();
      this.#pending = text;
      return bytes.length;
    }
    if (!text.endsWith("\r")) throw malformed();
    this.#pending = "";
    this.#takeLine(text.slice(0, -1));
    return end + 1;
  }

  #takeLine(line: string): void {
    if (this.#state === "chunk_end") {
      if (line !== "") throw malformed();
      this.#state = "chunk_size";
    } else if (this.#state === "chunk_size") {
      const size = chunkSize.exec(line)?.[1];
      if (size === undefined) throw malformed();
      this.#left = Number.parseInt(size, 16);
      this.#state = this.#left === 0 ? "trailers" : "chunk";
    } else if (line === "") {
      this.#state = "over";
    } else {
      this.#trailerBytes += line.length;
      if (this.#trailerBytes > maxHeadBytes || badBytes.test(line)) throw malformed();
      readField(line, 0, line.length, []);
    }
  }
}

const headEnd = Buffer.from("\r\n\r\n");
/** Bytes that no field and no reason may hold, and line ends other than CRLF. */
const badBytes = /[^\t\x20-\x7e\x80-\xff\r\n]|\r(?!\n)|(?<!\r)\n/;
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** At most 52 bits, which a number holds exactly. */
const chunkSize = /^0*([0-9a-f]{1,13})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/i;
const start = "HTTP/1.";

/** False if the text cannot become a head, so that nobody waits for the rest of it. */
function mayBecomeHead(text: string): boolean {
  if (!start.startsWith(text.slice(0, start.length))) return false;
  return !badBytes.test(text.endsWith("\r") ? text.slice(0, -1) : text);
}

const malformed = (): UpstreamFailure => new UpstreamFailure("ERR_MALFORMED_RESPONSE");

interface ParsedHead {
  readonly head: ResponseHead;
  readonly framing: number | "chunked" | "none";
  /** The x of HTTP/1.x. */
  readonly minor: number;
  readonly closes: boolean;
}

/** `text` is everything before the empty line. */
function parseHead(text: string): ParsedHead {
  if (badBytes.test(text)) throw malformed();
  const lineEnd = endOfLine(text, 0);
  const { minor, status, reason } = parseStatusLine(text, lineEnd);
  const fields: string[] = [];
  let framing: ParsedHead["framing"] = "none";
  let closes = false;
  for (let at = lineEnd + 2; at < text.length; ) {
    const end = endOfLine(text, at);
    readField(text, at, end, fields);
    at = end + 2;
    const name = fields[fields.length - 2] ?? "";
    const value = fields[fields.length - 1] ?? "";
    // Compared by length first: most names are none of these.
    if (name.length === 14 && name.toLowerCase() === "content-length") {
      if (framing !== "none" || !/^\d{1,15}$/.test(value)) throw malformed();
      framing = Number(value);
    } else if (name.length === 17 && name.toLowerCase() === "transfer-encoding") {
      // Transfer-Encoding is removed as hop-by-hop, so the bytes of any other coding would pass for content.
      if (framing !== "none" || minor === 0 || value.toLowerCase() !== "chunked") throw malformed();
      framing = "chunked";
    } else if (name.length === 10 && name.toLowerCase() === "connection") {
      closes ||= /(?:^|[\t ,])close(?:$|[\t ,])/i.test(value);
    }
  }
  return { head: { status, reason, fields }, framing, minor, closes };
}

function parseStatusLine(text: string, end: number): { minor: number; status: number; reason: string } {
  const minor = text.charCodeAt(7) - 48;
  const status = Number(text.slice(9, 12));
  const isWhole = end === 12 || (end > 12 && text[12] === " ");
  if (!text.startsWith(start) || minor < 0 || minor > 9 || text[8] !== " " || !isWhole) throw malformed();
  // Other numbers have no meaning (RFC 9110, 15), and Node's HTTP/2 refuses to send them.
  if (!/^[1-5]\d\d$/.test(text.slice(9, 12))) throw malformed();
  return { minor, status, reason: text.slice(13, end) };
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf("\r\n", from);
  return end === -1 ? text.length : end;
}

function readField(text: string, from: number, to: number, fields: string[]): void {
  const colon = text.indexOf(":", from);
  const name = text.slice(from, colon);
  if (colon === -1 || colon >= to || !token.test(name)) throw malformed();
  fields.push(name, trimBlanks(text, colon + 1, to));
}
