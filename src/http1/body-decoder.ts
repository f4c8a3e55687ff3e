// Decodes the body of a message, of a request or a response: by its length, or in chunks (RFC 9112, 7.1), whose extensions and
// trailers are dropped. A body whose end others could see elsewhere is never read to an end.
import { isBlank } from "../core/headers.ts";
import { freePieceBytes, maxFields, maxHeadBytes, PieceBudget, progressOf } from "../core/http-bounds.ts";

export interface BodyDecoder {
  readonly isComplete: boolean;
  /** Takes what belongs to the body. After a problem it must not be called again. */
  decode(bytes: Buffer): DecodedPiece;
}

export interface DecodedPiece {
  /** Bytes that belong to the body with its framing. */
  readonly taken: number;
  /** Without the framing, in one piece. */
  readonly data: Buffer;
  /** Of the data, what counts for the minimum rate of a request. */
  readonly progressBytes: number;
  /** Why nothing behind the data can be read. */
  readonly problem: BodyProblem | null;
}

export type BodyProblem = (typeof brokenParts)[keyof typeof brokenParts] | "trailers_too_large" | "small_pieces";

/** In which chunks of requests and of responses differ. */
interface ChunkSyntax {
  /** Matches the line in front of a chunk. The first group is its size without zeros in front; none of the last chunk. */
  readonly sizeLine: RegExp;
  /** A Content-Length among the trailers makes the body malformed: others might take another message's length from there. */
  readonly refusesFraming: boolean;
}

const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]";
const text = "\\t\\x20-\\x7e\\x80-\\xff";
const quoted = `"(?:[\\t\\x20\\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[${text}])*"`;

// Each expression takes linear time: no character matches two adjacent parts. So the digits do not begin with a zero.

/** What llhttp accepts, Node's parser. A size has at most 64 bits. */
export const requestChunks: ChunkSyntax = {
  sizeLine: new RegExp(`^(?:0*([1-9a-f][0-9a-f]{0,15})|0+)(?:;(?! |$)${token}*(?:=${token}*(?:${quoted})?)?)*$`, "i"),
  refusesFraming: true,
};

/** Some servers send blanks behind a size. It has at most 52 bits, which a number holds exactly. */
export const responseChunks: ChunkSyntax = {
  sizeLine: new RegExp(`^(?:0*([1-9a-f][0-9a-f]{0,12})|0+)[\\t ]*(?:;[${text}]*)?$`, "i"),
  refusesFraming: false,
};

const trailer = new RegExp(`^(${token}+):[${text}]*$`);
/** A piece of a line without its end. */
const inLine = new RegExp(`^[${text}]*\\r?$`);
/** What a line may begin with, if it is not empty. */
const beginnings = { size: /^[0-9a-f]/i, end: /^\r/, trailers: new RegExp(`^(?:${token}|\\r)`) };

/** The rules that a body in chunks may break. */
const brokenParts = {
  size: "the size of a chunk",
  end: "the end of a chunk",
  trailers: "a trailer",
  lf: "an LF without a CR, in a line about chunks",
} as const;

/** Of a line with an extension or a trailer. */
const maxLineBytes = maxHeadBytes + 2;

export class LengthDecoder implements BodyDecoder {
  #leftBytes: number;

  /** Infinity: the body ends with the connection. */
  constructor(bytes: number) {
    this.#leftBytes = bytes;
  }

  get isComplete(): boolean {
    return this.#leftBytes === 0;
  }

  decode(bytes: Buffer): DecodedPiece {
    const taken = Math.min(this.#leftBytes, bytes.length);
    this.#leftBytes -= taken;
    const data = taken === bytes.length ? bytes : bytes.subarray(0, taken);
    return { taken, data, progressBytes: progressOf(taken), problem: null };
  }
}

export class ChunkDecoder implements BodyDecoder {
  readonly #syntax: ChunkSyntax;
  /** Null: small pieces are free. */
  readonly #nowMs: (() => number) | null;
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

  constructor(syntax: ChunkSyntax, nowMs: (() => number) | null) {
    this.#syntax = syntax;
    this.#nowMs = nowMs;
  }

  get isComplete(): boolean {
    return this.#state === "over";
  }

  /** Moves the data of all chunks in the bytes together. */
  decode(bytes: Buffer): DecodedPiece {
    let problem: BodyProblem | null = null;
    let at = 0;
    let from = 0;
    let to = 0;
    let progressBytes = 0;
    while (at < bytes.length && this.#state !== "over") {
      if (this.#state !== "data") {
        const next = this.#readLine(bytes, at, this.#state);
        if (typeof next !== "number") {
          problem = next;
          break;
        }
        at = next;
        continue;
      }
      const length = Math.min(this.#leftBytes, bytes.length - at);
      if (!this.#mayTake(length)) {
        problem = "small_pieces";
        break;
      }
      if (from === to) from = to = at;
      else bytes.copyWithin(to, at, at + length);
      to += length;
      at += length;
      progressBytes += progressOf(length);
      this.#leftBytes -= length;
      if (this.#leftBytes === 0) this.#state = "end";
    }
    return { taken: at, data: bytes.subarray(from, to), progressBytes, problem };
  }

  #mayTake(bytes: number): boolean {
    if (this.#nowMs === null) return true;
    if (this.#pieces === null) {
      if (bytes >= freePieceBytes) return true;
      this.#pieces = new PieceBudget(this.#nowMs);
    }
    return this.#pieces.take(bytes);
  }

  /** Returns where the next line or the data begins. */
  #readLine(bytes: Buffer, at: number, state: keyof typeof beginnings): number | BodyProblem {
    if (this.#pending === "") {
      const next = state === "size" ? this.#readShortSize(bytes, at) : this.#readEmptyLine(bytes, at, state);
      if (next !== null) return next;
    }
    const end = bytes.indexOf(lf, at);
    const piece = bytes.toString("latin1", at, end === -1 ? bytes.length : end);
    const line = this.#pending + piece;
    if (line.length > maxLineBytes) return state === "trailers" ? "trailers_too_large" : brokenParts[state];
    if (end === -1) {
      // Behind a CR comes nothing but the LF.
      const isSound = this.#pending === "" ? beginnings[state].test(piece) : !this.#pending.endsWith("\r");
      if (!isSound || !inLine.test(piece)) return brokenParts[state];
      this.#pending = line;
      return bytes.length;
    }
    this.#pending = "";
    const problem = line.endsWith("\r") ? this.#takeLine(line.slice(0, -1), state) : brokenParts.lf;
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

  #takeLine(line: string, state: keyof typeof beginnings): BodyProblem | null {
    if (state === "trailers") return line === "" ? this.#end() : this.#dropTrailer(line);
    const match = state === "size" ? this.#syntax.sizeLine.exec(line) : null;
    if (match !== null) this.#beginChunk(Number.parseInt(match[1] ?? "0", 16));
    else if (state === "end" && line === "") this.#state = "size";
    else return brokenParts[state];
    return null;
  }

  #end(): null {
    this.#state = "over";
    return null;
  }

  /** They may be as many and as long as the headers of a head. */
  #dropTrailer(line: string): BodyProblem | null {
    const name = trailer.exec(line)?.[1]?.toLowerCase();
    const isFraming = name === "content-length" || name === "transfer-encoding";
    if (name === undefined || (isFraming && this.#syntax.refusesFraming)) return brokenParts.trailers;
    let start = name.length + 1;
    while (isBlank(line.charCodeAt(start))) start += 1;
    this.#trailers += 1;
    this.#trailerBytes += name.length + line.length - start;
    return this.#trailers <= maxFields && this.#trailerBytes < maxHeadBytes ? null : "trailers_too_large";
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
