// Parses the upstream's bytes as responses, strictly: what two readers could understand differently (two lengths, a
// length beside chunks, a CR alone, folded lines) is malformed. A single LF ends a line of a final head, and the connection
// then carries no other response. Takes linear time, however the bytes are cut. Does not know of sockets; bytes behind the
// end of a response are not consumed.

import { brokenRule, findBroken, statusLine } from "../core/broken-rule.ts";
import { isImfFixdate } from "../core/clock.ts";
import { maxHeadBytes } from "../core/http-bounds.ts";
import { JoinedPieces } from "../core/joined-pieces.ts";
import { type BodyDecoder, ChunkDecoder, LengthDecoder, responseChunks } from "./body-decoder.ts";
import {
  malformed,
  mayBecomeHead,
  parseHead,
  parseUsualHead,
  ResponseError,
  type ResponseHead,
  type VariablePositions,
} from "./response-head.ts";

export interface ResponseSink {
  /** Any 1xx but 101. */
  onInterim(head: ResponseHead): void;
  onHead(head: ResponseHead): void;
  /** Takes what one read has brought of the body. Returns whether it keeps the bytes; else the next read overwrites them. */
  onBody(bytes: Buffer, from: number, to: number): boolean;
}

type ResponseState = "head" | "body" | "over";

export class ResponseParser {
  readonly #sink: ResponseSink;
  readonly #heads: RememberedHeads;
  #state: ResponseState = "over";
  #method = "";
  /** The beginning of a head that is not complete; null: nothing of it has come. */
  #head: JoinedPieces | null = null;
  #framing: ResponseHead["framing"] = "none";
  /** Null: nothing of the body has come. */
  #body: BodyDecoder | null = null;
  #mayContinue = false;
  #isUntouched = true;
  /** Of the head that was last found among those that are remembered. */
  #lastLength = 0;

  constructor(sink: ResponseSink, heads: RememberedHeads) {
    this.#sink = sink;
    this.#heads = heads;
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
    this.#head = null;
    this.#mayContinue = true;
    this.#isUntouched = true;
  }

  /** Returns how many of the bytes belong to the response. Throws a ResponseError, or what the sink throws. */
  execute(bytes: Buffer): number {
    let at = 0;
    this.#isUntouched = false;
    while (at < bytes.length && this.#state === "head") at = this.#readHead(bytes, at);
    return at < bytes.length && this.#state === "body" ? this.#readBody(bytes, at) : at;
  }

  /** The upstream has closed the connection. True if that completes the response. */
  end(): boolean {
    if (this.#state !== "body" || this.#framing !== "none") return false;
    this.#state = "over";
    return true;
  }

  #readBody(bytes: Buffer, at: number): number {
    const framing = this.#framing;
    if (this.#body === null) {
      // A body that came with its head needs no decoder.
      const end = typeof framing === "number" ? at + framing : Number.NaN;
      if (end <= bytes.length) {
        this.#state = "over";
        this.#sink.onBody(bytes, at, end);
        return end;
      }
      this.#body = decoderOf(framing);
    }
    const { taken, data, problem } = this.#body.decode(at === 0 ? bytes : bytes.subarray(at));
    // Set before the sink is called, which may look at it.
    if (this.#body.isComplete) this.#state = "over";
    if (data.length > 0) this.#sink.onBody(data, 0, data.length);
    if (problem !== null) throw malformed(brokenRule(problem));
    return at + taken;
  }

  #readHead(bytes: Buffer, at: number): number {
    if (this.#head === null) {
      const last = this.#heads.find(bytes, at, this.#lastLength);
      if (last !== null) {
        this.#takeHead(last);
        return at + this.#lastLength;
      }
      const end = bytes.indexOf(headEnd, at);
      if (end !== -1 && this.#readUsual(bytes, at, end + 4 - at)) return end + 4;
    }
    // The head comes in pieces, or has lines that end in LF alone.
    this.#head ??= new JoinedPieces();
    const before = this.#head.length;
    // No more bytes are collected than a head may have.
    const room = Math.min(bytes.length, at + this.#heads.maxHeaderBytes + 4 - before);
    this.#head.add(bytes.subarray(at, room));
    return this.#readHeadEnd(this.#head.peek(), before, at, room);
  }

  /** Returns false if the head ends before this empty line, or is malformed or too large. */
  #readUsual(bytes: Buffer, at: number, length: number): boolean {
    if (length > this.#heads.maxHeaderBytes + 4) return false;
    let head = this.#heads.find(bytes, at, length);
    if (head === null) {
      head = parseUsualHead(bytes.toString("latin1", at, at + length - 2));
      if (head === null) return false;
      this.#heads.remember(bytes, at, length, head);
    }
    this.#lastLength = length;
    this.#takeHead(head);
    return true;
  }

  /** Looks for the end of the head. It is not in the first `before` bytes. */
  #readHeadEnd(head: Buffer, before: number, at: number, room: number): number {
    // Two bytes again, because an empty line may have begun there; all of them, while they may be another protocol's.
    const from = before > 8 ? before - 2 : 0;
    const text = head.toString("latin1", from);
    const empty = emptyLine.exec(text);
    if (empty !== null) {
      const end = from + empty.index + empty[0].length;
      this.#head = null;
      this.#takeHead(parseHead(head.toString("latin1", 0, end)));
      return at + end - before;
    }
    if (!mayBecomeHead(text, from === 0)) throw malformed(findBroken(head.toString("latin1"), statusLine, true));
    if (head.length >= this.#heads.maxHeaderBytes + 4) throw new ResponseError("ERR_RESPONSE_HEAD_TOO_LARGE");
    return room;
  }

  #takeHead(head: ResponseHead): void {
    const { framing, minor, closes } = head;
    // An interim response may say it too.
    if (minor === 0 || closes) this.#mayContinue = false;
    if (head.status < 200 && head.status !== 101) {
      this.#sink.onInterim(head);
      return;
    }
    // A 408 may be meant for the idle connection, not for the request that it seems to answer (RFC 9110, 15.5.9): then
    // the answer to that request is still to come.
    if (head.status === 408) this.#mayContinue = false;
    if (this.#method === "HEAD" || head.status === 204 || head.status === 304 || head.status === 101) {
      this.#state = "over";
      // The head announces a body: if the server sends it after all, it would be read as the next response.
      if (framing !== "none" && framing !== 0) this.#mayContinue = false;
    } else {
      this.#state = framing === 0 ? "over" : "body";
      this.#framing = framing;
      this.#body = null;
      if (framing === "none") this.#mayContinue = false;
    }
    this.#sink.onHead(head);
  }
}

const headEnd = Buffer.from("\r\n\r\n");
/** An empty line in any spelling, behind the end of a line. */
const emptyLine = /\n\r?\n/;

function decoderOf(framing: ResponseHead["framing"]): BodyDecoder {
  if (framing === "chunked") return new ChunkDecoder(responseChunks, null);
  return new LengthDecoder(framing === "none" ? Number.POSITIVE_INFINITY : framing);
}

/** Longer heads are not remembered. */
const maxBytes = 2 * 1024;
/** One head is remembered for each length modulo this. */
const lengthCount = 32;
const dateBytes = "Sun, 06 Nov 1994 08:49:37 GMT".length;

interface LengthEntry {
  /** The last head, in the first `length` bytes. */
  readonly bytes: Buffer;
  length: number;
  head: ResponseHead;
  positions: VariablePositions;
}

/**
 * Remembers the heads of responses that an upstream has sent last. Most heads equal an earlier one, except for the
 * values of Date, which is removed, and of Content-Length: such a head is not parsed again. The memory is bounded, and
 * all connections to an upstream share it, and the bound of a head with it.
 */
export class RememberedHeads {
  readonly maxHeaderBytes: number;
  readonly #byLength = new Array<LengthEntry | null>(lengthCount).fill(null);

  constructor(maxHeaderBytes = maxHeadBytes) {
    this.maxHeaderBytes = maxHeaderBytes;
  }

  /** Returns what is known of a head of this length that begins at `at`; null if it has to be parsed. */
  find(bytes: Buffer, at: number, length: number): ResponseHead | null {
    const entry = this.#byLength[length % lengthCount] ?? null;
    if (entry === null || entry.length !== length || at + length > bytes.length) return null;
    const known = entry.bytes;
    if (bytes.compare(known, 0, length, at, at + length) === 0) return entry.head;
    const { date, length: size, lengthDigits: digits } = entry.positions;
    let isSameSize = true;
    for (let i = 0; i < length; i += 1) {
      if (bytes[at + i] === known[i]) continue;
      if (date >= 0 && i >= date && i < date + dateBytes) {
        if (!isImfFixdate(bytes.toString("latin1", at + date, at + date + dateBytes))) return null;
        i = date + dateBytes - 1;
      } else if (size >= 0 && i >= size && i < size + digits) {
        if (!areDigits(bytes, at + size, digits)) return null;
        isSameSize = false;
        i = size + digits - 1;
      } else {
        return null;
      }
    }
    bytes.copy(known, 0, at, at + length);
    if (!isSameSize) entry.head = withSize(entry, bytes.toString("latin1", at + size, at + size + digits));
    return entry.head;
  }

  /** Remembers a head that has been parsed. `length`: with the empty line. */
  remember(bytes: Buffer, at: number, length: number, head: ResponseHead): void {
    const { positions } = head;
    if (positions === null || length > maxBytes) return;
    const entry = this.#byLength[length % lengthCount] ?? {
      bytes: Buffer.allocUnsafeSlow(maxBytes),
      length,
      head,
      positions,
    };
    this.#byLength[length % lengthCount] = entry;
    bytes.copy(entry.bytes, 0, at, at + length);
    entry.length = length;
    entry.head = head;
    entry.positions = positions;
  }
}

function areDigits(bytes: Buffer, from: number, count: number): boolean {
  for (let i = from; i < from + count; i += 1) {
    const byte = bytes[i] as number;
    if (byte < 0x30 || byte > 0x39) return false;
  }
  return true;
}

/** Returns the head with another Content-Length of as many digits. */
function withSize({ head, positions: { lengthInLines: at } }: LengthEntry, digits: string): ResponseHead {
  const lines = at < 0 ? head.lines : head.lines.slice(0, at) + digits + head.lines.slice(at + digits.length);
  return { ...head, framing: Number(digits), lines };
}
