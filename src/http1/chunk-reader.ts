// Reads the body of a request in chunks (RFC 9112, 7.1). Extensions and trailers are dropped. It accepts what llhttp
// accepts, Node's parser, and refuses the rest: a body whose end others could see elsewhere is never read to an end.
import { isBlank } from "../core/blanks.ts";
import { maxFields, maxHeadBytes } from "../core/head-bounds.ts";
import { type LocalReply, localReplies } from "../core/local-reply.ts";
import { freePieceBytes, PieceBudget, progressOf } from "../core/piece-budget.ts";

export interface ReadChunks {
  /** Bytes that belong to the body with its framing. */
  readonly taken: number;
  /** The data of all chunks, in one piece. */
  readonly data: Buffer;
  /** Of the data, what counts for the minimum rate. */
  readonly progressBytes: number;
}

/** Of a line with an extension or a trailer. */
const maxLineBytes = maxHeadBytes + 2;

const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]";
const text = "\\t\\x20-\\x7e\\x80-\\xff";
const quoted = `"(?:[\\t\\x20\\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[${text}])*"`;

// Each takes linear time: no character matches two adjacent parts.
/** The digits do not begin with a zero. At most 64 bits. */
const sizeLine = new RegExp(
  `^(?:0*([1-9a-f][0-9a-f]{0,15})|0+)(?:;(?! |$)${token}*(?:=${token}*(?:${quoted})?)?)*$`,
  "i",
);
const trailer = new RegExp(`^(${token}+):[${text}]*$`);
/** A piece of a line without its end. */
const inLine = new RegExp(`^[${text}]*\\r?$`);
/** What a line may begin with, if it is not empty. */
const beginnings = { size: /^[0-9a-f]/i, end: /^\r/, trailers: new RegExp(`^(?:${token}|\\r)`) };

export class ChunkReader {
  readonly #nowMs: () => number;
  #state: "size" | "data" | "end" | "trailers" | "over" = "size";
  /** Of the current chunk. */
  #leftBytes = 0;
  /** The beginning of a line. */
  #pending = "";
  #trailers = 0;
  /** Of their names and values. */
  #trailerBytes = 0;
  /** Made for the first small piece: larger ones leave it full. */
  #pieces: PieceBudget | null = null;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get isComplete(): boolean {
    return this.#state === "over";
  }

  /** Moves the data of all chunks in the bytes together. Returns a reply if the body is malformed, or costs too much. */
  read(bytes: Buffer): ReadChunks | LocalReply {
    let at = 0;
    let [from, to] = [0, 0];
    let progressBytes = 0;
    while (at < bytes.length && this.#state !== "over") {
      if (this.#state !== "data") {
        const next = this.#readLine(bytes, at, this.#state);
        if (typeof next !== "number") return next;
        at = next;
        continue;
      }
      const length = Math.min(this.#leftBytes, bytes.length - at);
      if (!this.#mayTake(length)) return localReplies.smallPieces;
      if (from === to) [from, to] = [at, at];
      else bytes.copyWithin(to, at, at + length);
      to += length;
      at += length;
      progressBytes += progressOf(length);
      this.#leftBytes -= length;
      if (this.#leftBytes === 0) this.#state = "end";
    }
    return { taken: at, data: bytes.subarray(from, to), progressBytes };
  }

  #mayTake(bytes: number): boolean {
    if (this.#pieces === null) {
      if (bytes >= freePieceBytes) return true;
      this.#pieces = new PieceBudget(this.#nowMs);
    }
    return this.#pieces.take(bytes);
  }

  /** Returns where the next line or the data begins. */
  #readLine(bytes: Buffer, at: number, state: keyof typeof beginnings): number | LocalReply {
    if (this.#pending === "") {
      const next = state === "size" ? this.#readShortSize(bytes, at) : this.#readEmptyLine(bytes, at, state);
      if (next !== null) return next;
    }
    const end = bytes.indexOf(lf, at);
    const piece = bytes.toString("latin1", at, end === -1 ? bytes.length : end);
    const line = this.#pending + piece;
    if (line.length > maxLineBytes) return state === "trailers" ? localReplies.headTooLarge : localReplies.malformed;
    if (end === -1) {
      // Behind a CR comes nothing but the LF.
      if (this.#pending.endsWith("\r") || !inLine.test(piece) || !beginnings[state].test(line)) {
        return localReplies.malformed;
      }
      this.#pending = line;
      return bytes.length;
    }
    this.#pending = "";
    const problem = line.endsWith("\r") ? this.#takeLine(line.slice(0, -1), state) : localReplies.malformed;
    return problem ?? end + 1;
  }

  /** Returns null unless the line has one to eight digits and nothing else. */
  #readShortSize(bytes: Buffer, at: number): number | null {
    let size = 0;
    let end = at;
    for (let digit = digitOf(bytes[end]); digit >= 0 && end < at + 8; digit = digitOf(bytes[end])) {
      size = size * 16 + digit;
      end += 1;
    }
    if (end === at || bytes[end] !== cr || bytes[end + 1] !== lf) return null;
    this.#beginChunk(size);
    return end + 2;
  }

  #readEmptyLine(bytes: Buffer, at: number, state: "end" | "trailers"): number | null {
    if (bytes[at] !== cr || bytes[at + 1] !== lf) return null;
    this.#takeLine("", state);
    return at + 2;
  }

  #beginChunk(size: number): void {
    this.#leftBytes = size;
    this.#state = size === 0 ? "trailers" : "data";
  }

  #takeLine(line: string, state: keyof typeof beginnings): LocalReply | null {
    if (state === "trailers") return line === "" ? this.#end() : this.#dropTrailer(line);
    const match = state === "size" ? sizeLine.exec(line) : null;
    if (match !== null) this.#beginChunk(Number.parseInt(match[1] ?? "0", 16));
    else if (state === "end" && line === "") this.#state = "size";
    else return localReplies.malformed;
    return null;
  }

  #end(): null {
    this.#state = "over";
    return null;
  }

  /** They may be as many and as long as the headers of a head. */
  #dropTrailer(line: string): LocalReply | null {
    const name = trailer.exec(line)?.[1]?.toLowerCase();
    // Others might take the length of another message from there.
    if (name === undefined || name === "content-length" || name === "transfer-encoding") return localReplies.malformed;
    let start = name.length + 1;
    while (isBlank(line.charCodeAt(start))) start += 1;
    this.#trailers += 1;
    this.#trailerBytes += name.length + line.length - start;
    return this.#trailers <= maxFields && this.#trailerBytes < maxHeadBytes ? null : localReplies.headTooLarge;
  }
}

const cr = 0x0d;
const lf = 0x0a;

/** Returns the value of a hexadecimal digit; -1 for another byte. */
function digitOf(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
