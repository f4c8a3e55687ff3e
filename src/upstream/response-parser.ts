// Reads the upstream's bytes as responses, strictly: what could be read in two ways (two lengths, a length beside
// chunks, bare LF, folded lines) is malformed, never guessed at. Knows nothing of sockets; bytes behind a response's
// end stay unread and show in the count that is returned.
import { trimBlanks } from "../core/blanks.ts";

/** Status line and fields together, as for requests; also the trailers of one response, and a chunk's extensions. */
const maxHeadBytes = 16 * 1024;

export interface ResponseHead {
  readonly status: number;
  /** One character is one byte, here and in the fields. */
  readonly reason: string;
  /** Names and values alternating, as they came, without the white space around a value. */
  readonly fields: string[];
}

export interface ResponseSink {
  /** Any 1xx but 101. */
  onInterim(head: ResponseHead): void;
  onHead(head: ResponseHead): void;
  /** Returns whether it keeps the bytes; those that it does not are overwritten by what comes next. */
  onBody(bytes: Buffer): boolean;
}

export class MalformedResponse extends Error {
  readonly code: "ERR_MALFORMED_RESPONSE" | "ERR_RESPONSE_HEAD_TOO_LARGE";

  constructor(code: MalformedResponse["code"] = "ERR_MALFORMED_RESPONSE") {
    super("The upstream's response cannot be read.");
    this.code = code;
  }
}

type State = "head" | "length" | "until_close" | "chunk_size" | "chunk" | "chunk_end" | "trailers" | "over";

export class ResponseParser {
  readonly #sink: ResponseSink;
  #state: State = "over";
  #method = "";
  /** Of a head, a chunk's size or a trailer: what has come of it so far. */
  #pending = "";
  /** Bytes to come of the body or of the chunk. */
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

  /** Whether the connection may carry another request once the response is over. */
  get mayContinue(): boolean {
    return this.#mayContinue;
  }

  /** What comes next answers a request with this method. */
  begin(method: string): void {
    this.#state = "head";
    this.#method = method;
    this.#pending = "";
    this.#isUntouched = true;
  }

  /** Returns how many of the bytes belong to the response. Throws a MalformedResponse, and what the sink throws. */
  execute(bytes: Buffer): number {
    let at = 0;
    this.#isUntouched = false;
    while (at < bytes.length && this.#state !== "over") at = this.#step(bytes, at);
    return at;
  }

  /** The upstream has ended the connection. True if that makes the response whole. */
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
    // Before the sink is called: it may ask.
    if (this.#left === 0) this.#state = next;
    this.#sink.onBody(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end));
    return end;
  }

  #readHead(bytes: Buffer, at: number): number {
    let end = this.#pending === "" ? bytes.indexOf(headEnd, at) : -1;
    if (end !== -1) {
      if (end - at > maxHeadBytes) throw new MalformedResponse("ERR_RESPONSE_HEAD_TOO_LARGE");
      this.#takeHead(bytes.toString("latin1", at, end));
      return end + 4;
    }
    // In pieces. No more is taken than a head may have.
    const before = this.#pending.length;
    const room = Math.min(bytes.length, at + maxHeadBytes + 4 - before);
    const text = this.#pending + bytes.toString("latin1", at, room);
    end = text.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (end !== -1) {
      this.#pending = "";
      this.#takeHead(text.slice(0, end));
      return at + end + 4 - before;
    }
    if (!mayBecomeHead(text)) throw new MalformedResponse();
    if (text.length >= maxHeadBytes + 4) throw new MalformedResponse("ERR_RESPONSE_HEAD_TOO_LARGE");
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
      // Content was spoken of: a server that sends it all the same would give it to the next request.
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
    if (text.length > maxHeadBytes) throw new MalformedResponse();
    if (end === -1) {
      // Behind a chunk there is nothing but the line's end.
      if (this.#state === "chunk_end" && text !== "\r") throw new MalformedResponse();
      this.#pending = text;
      return bytes.length;
    }
    if (!text.endsWith("\r")) throw new MalformedResponse();
    this.#pending = "";
    this.#takeLine(text.slice(0, -1));
    return end + 1;
  }

  #takeLine(line: string): void {
    if (this.#state === "chunk_end") {
      if (line !== "") throw new MalformedResponse();
      this.#state = "chunk_size";
    } else if (this.#state === "chunk_size") {
      const size = chunkSize.exec(line)?.[1];
      if (size === undefined) throw new MalformedResponse();
      this.#left = Number.parseInt(size, 16);
      this.#state = this.#left === 0 ? "trailers" : "chunk";
    } else if (line === "") {
      this.#state = "over";
    } else {
      this.#trailerBytes += line.length;
      if (this.#trailerBytes > maxHeadBytes || badBytes.test(line)) throw new MalformedResponse();
      readField(line, 0, line.length, []);
    }
  }
}

const headEnd = Buffer.from("\r\n\r\n");
/** What no field and no reason may hold; line ends only in pairs. */
const badBytes = /[^\t\x20-\x7e\x80-\xff\r\n]|\r(?!\n)|(?<!\r)\n/;
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Up to 52 bits, which a number holds exactly. */
const chunkSize = /^0*([0-9a-f]{1,13})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/i;
const start = "HTTP/1.";

/** Told early, so that nobody waits for more of what is no response. */
function mayBecomeHead(text: string): boolean {
  if (!start.startsWith(text.slice(0, start.length))) return false;
  return !badBytes.test(text.endsWith("\r") ? text.slice(0, -1) : text);
}

interface ParsedHead {
  readonly head: ResponseHead;
  readonly framing: number | "chunked" | "none";
  /** Of the version 1.x. */
  readonly minor: number;
  readonly closes: boolean;
}

/** `text` is everything before the empty line. */
function parseHead(text: string): ParsedHead {
  if (badBytes.test(text)) throw new MalformedResponse();
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
    // By length first: most names are none of these.
    if (name.length === 14 && name.toLowerCase() === "content-length") {
      if (framing !== "none" || !/^\d{1,15}$/.test(value)) throw new MalformedResponse();
      framing = Number(value);
    } else if (name.length === 17 && name.toLowerCase() === "transfer-encoding") {
      // Taken off with the connection it belongs to, another coding would leave its bytes behind as content.
      if (framing !== "none" || minor === 0 || value.toLowerCase() !== "chunked") throw new MalformedResponse();
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
  if (!text.startsWith(start) || minor < 0 || minor > 9 || text[8] !== " " || !isWhole) throw new MalformedResponse();
  // RFC 9110, 15: nobody knows what any other number means, and HTTP/2 cannot carry it.
  if (!/^[1-5]\d\d$/.test(text.slice(9, 12))) throw new MalformedResponse();
  return { minor, status, reason: text.slice(13, end) };
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf("\r\n", from);
  return end === -1 ? text.length : end;
}

function readField(text: string, from: number, to: number, fields: string[]): void {
  const colon = text.indexOf(":", from);
  const name = text.slice(from, colon);
  if (colon === -1 || colon >= to || !token.test(name)) throw new MalformedResponse();
  fields.push(name, trimBlanks(text, colon + 1, to));
}
