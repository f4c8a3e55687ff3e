// Parses the upstream's bytes as responses, strictly: what two readers could understand differently (two lengths, a
// length beside chunks, bare LF, folded lines) is malformed. Takes linear time, however the bytes are cut. Small chunks
// of one read are passed on together. Does not know of sockets; bytes behind the end of a response are not consumed.
import { JoinedPieces } from "../exchange/joined-pieces.ts";
import type { RememberedHeads } from "./remembered-heads.ts";
import { badBytes, checkField, malformed, mayBecomeHead, parseHead, type ResponseHead } from "./response-head.ts";
import { UpstreamFailure } from "./upstream-failure.ts";

/** For the status line and the fields together, as for requests. Also for the trailers, and for the line of a chunk. */
const maxHeadBytes = 16 * 1024;

/** Chunks shorter than this are joined with others of the same read. */
const maxJoinedChunk = 4 * 1024;

export interface ResponseSink {
  /** Any 1xx but 101. */
  onInterim(head: ResponseHead): void;
  onHead(head: ResponseHead): void;
  /** Gets a piece of the body. Returns whether it keeps these bytes; otherwise they are overwritten by the next read. */
  onBody(bytes: Buffer, from: number, to: number): boolean;
}

type State = "head" | "length" | "until_close" | "chunk_size" | "chunk" | "chunk_end" | "trailers" | "over";

export class ResponseParser {
  readonly #sink: ResponseSink;
  readonly #heads: RememberedHeads;
  #state: State = "over";
  #method = "";
  /** The beginning of a head that is not complete. */
  readonly #head = new JoinedPieces();
  /** The beginning of a chunk's line or a trailer that is not complete. */
  #pending = "";
  /** The first small chunk of a read. If there are more of them, all are in `#joined`. */
  #small: Buffer | null = null;
  readonly #joined = new JoinedPieces();
  /** Bytes of the body or the chunk that have not come yet. */
  #left = 0;
  #trailerBytes = 0;
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
    this.#head.take();
    this.#pending = "";
    this.#isUntouched = true;
  }

  /** Returns how many of the bytes belong to the response. Throws an UpstreamFailure, or what the sink throws. */
  execute(bytes: Buffer): number {
    let at = 0;
    this.#isUntouched = false;
    try {
      while (at < bytes.length && this.#state !== "over") at = this.#step(bytes, at);
    } finally {
      if (this.#small !== null) this.#passSmall();
    }
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
        this.#sink.onBody(bytes, at, bytes.length);
        return bytes.length;
      case "chunk_size":
        return this.#readChunkSize(bytes, at) ?? this.#readLine(bytes, at);
      case "chunk_end":
        if (this.#pending !== "" || bytes[at] !== cr || bytes[at + 1] !== lf) return this.#readLine(bytes, at);
        this.#state = "chunk_size";
        return at + 2;
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
    if (next === "chunk_end" && end - at < maxJoinedChunk) {
      this.#join(bytes.subarray(at, end));
      return end;
    }
    if (this.#small !== null) this.#passSmall();
    this.#sink.onBody(bytes, at, end);
    return end;
  }

  #join(piece: Buffer): void {
    if (this.#small === null) {
      this.#small = piece;
      return;
    }
    if (this.#joined.length === 0) this.#joined.add(this.#small);
    this.#joined.add(piece);
  }

  #passSmall(): void {
    const piece = this.#joined.length > 0 ? this.#joined.take() : this.#small;
    this.#small = null;
    if (piece !== null) this.#sink.onBody(piece, 0, piece.length);
  }

  #readHead(bytes: Buffer, at: number): number {
    const before = this.#head.length;
    if (before === 0) {
      const last = this.#heads.find(bytes, at, this.#lastLength);
      if (last !== null) {
        this.#takeHead(last);
        return at + this.#lastLength;
      }
      const end = bytes.indexOf(headEnd, at);
      if (end !== -1) {
        this.#readWhole(bytes, at, end + 4 - at);
        return end + 4;
      }
    }
    // The head comes in pieces. No more bytes are collected than a head may have.
    const room = Math.min(bytes.length, at + maxHeadBytes + 4 - before);
    this.#head.add(bytes.subarray(at, room));
    return this.#readHeadEnd(before, at, room);
  }

  #readWhole(bytes: Buffer, at: number, length: number): void {
    if (length > maxHeadBytes + 4) throw new UpstreamFailure("ERR_RESPONSE_HEAD_TOO_LARGE");
    this.#lastLength = length;
    let head = this.#heads.find(bytes, at, length);
    if (head === null) {
      head = parseHead(bytes.toString("latin1", at, at + length - 2));
      this.#heads.remember(bytes, at, length, head);
    }
    this.#takeHead(head);
  }

  /** Looks for the end of the head. It is not in the first `before` bytes. */
  #readHeadEnd(before: number, at: number, room: number): number {
    const head = this.#head.peek();
    const end = head.indexOf(headEnd, Math.max(0, before - 3));
    if (end !== -1) {
      this.#head.take();
      this.#takeHead(parseHead(head.toString("latin1", 0, end + 2)));
      return at + end + 4 - before;
    }
    if (!mayBecomeHead(head, before)) throw malformed();
    if (head.length >= maxHeadBytes + 4) throw new UpstreamFailure("ERR_RESPONSE_HEAD_TOO_LARGE");
    return room;
  }

  #takeHead(head: ResponseHead): void {
    const { framing, minor, closes } = head;
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

  /** Reads the line of a chunk if it has one to four digits and nothing else. Returns null if `#readLine` has to. */
  #readChunkSize(bytes: Buffer, at: number): number | null {
    let size = 0;
    let end = at;
    for (let digit = digitOf(bytes[end]); digit >= 0 && end <= at + 4; digit = digitOf(bytes[end])) {
      size = size * 16 + digit;
      end += 1;
    }
    if (this.#pending !== "" || end === at || end > at + 4 || bytes[end] !== cr || bytes[end + 1] !== lf) return null;
    this.#left = size;
    this.#state = size === 0 ? "trailers" : "chunk";
    return end + 2;
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
      const match = chunkSize.exec(line);
      if (match === null) throw malformed();
      this.#left = Number.parseInt(match[1] ?? "0", 16);
      this.#state = this.#left === 0 ? "trailers" : "chunk";
    } else if (line === "") {
      this.#state = "over";
    } else {
      this.#trailerBytes += line.length;
      if (this.#trailerBytes > maxHeadBytes || badBytes.test(line)) throw malformed();
      checkField(line);
    }
  }
}

const cr = 0x0d;
const lf = 0x0a;
const headEnd = Buffer.from("\r\n\r\n");
/**
 * At most 52 bits, which a number holds exactly. The digits do not begin with a zero, so that only one part of the
 * expression matches each zero. Otherwise 16 KB of zeros before a wrong character would take thirteen times as long.
 */
const chunkSize = /^(?:0*([1-9a-f][0-9a-f]{0,12})|0+)[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/i;

/** Returns the value of a hexadecimal digit; -1 for another byte. */
function digitOf(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
