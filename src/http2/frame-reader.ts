// Cuts the bytes of a client into HTTP/2 frames, in whatever pieces they come, and checks each frame by itself: its size, its
// stream, its padding, and the order of HEADERS and CONTINUATION (RFC 9113, 4 and 6). A frame is refused by its first nine
// bytes where they show the error. Does no I/O. Keeps copies of frames that are incomplete, never of DATA.
import { LRUCache } from "lru-cache";
import { freePieceBytes } from "../core/http-bounds.ts";
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";
import { errorCodes, flags, frameHeadBytes, frameTypes, maxFrameBytes, preface } from "./protocol.ts";

/** `bytes` are valid until the next call of the reader. */
export type Frame =
  | DataPiece
  /** A whole header block is in `bytes` from `from` to `to`. */
  | ({ readonly kind: "headers"; readonly stream: number; readonly isEnd: boolean } & Slice)
  | { readonly kind: "reset"; readonly stream: number }
  /** Pairs of an identifier in two bytes and a value in four. */
  | ({ readonly kind: "settings" } & Slice)
  /** One that asks for its acknowledgement, which repeats the eight bytes. */
  | ({ readonly kind: "ping" } & Slice)
  | ({ readonly kind: "pingAck" } & Slice)
  | { readonly kind: "goaway" }
  | { readonly kind: "windowUpdate"; readonly stream: number; readonly increment: number }
  /** Stream 0: an error of the connection. Nothing more can be read. */
  | FrameError;

/** A piece of a DATA frame. The first may be empty, and has the lengths: of the frame, of its padding and of the rest. */
export interface DataPiece {
  readonly kind: "data";
  readonly stream: number;
  readonly isFirst: boolean;
  readonly frameBytes: number;
  readonly paddingBytes: number;
  readonly dataBytes: number;
  /** The frame ends the stream. */
  readonly endsStream: boolean;
  /** The last piece of a frame that ends the stream. */
  readonly isEnd: boolean;
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

export interface FrameError {
  readonly kind: "error";
  readonly stream: number;
  readonly code: number;
  /** Of a header block that is larger than any that is decoded. */
  readonly isTooLarge: boolean;
}

export interface Slice {
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** Each time this many bytes move, in either direction, a point is given back. */
export const bytesPerPoint = 256;
/** Each SETTINGS frame makes the session visit every stream. */
const settingsPoints = 10;
const maxPaddingBytes = 256;

/** The work that may be done in one turn of the event loop, in steps of at most 2 µs. */
export interface Turn {
  stepsLeft: number;
}

export const requestSteps = 32;
const streamSteps = 8;

const smallestCopy = 64;

export class FrameReader {
  /** What the frames cost since the caller took it, less what their bytes gave back; see FrameBudget. */
  points = 0;
  endedHeads = 0;
  readonly #turn: Turn;
  readonly #maxBlockBytes: number;
  #bytes: Buffer = nothing;
  #at = 0;
  #prefaceLeft = preface.length;
  #isFirst = true;
  #isOver = false;
  /** The beginning of a frame's head whose end has not come. */
  #head: Buffer = nothing;
  #headLength = 0;
  /** The current frame. */
  #isInFrame = false;
  #type = 0;
  #flags = 0;
  #stream = 0;
  #left = 0;
  /** Of the current DATA frame. */
  #isFirstPiece = false;
  #dataLeft = 0;
  /** The beginning of a payload whose end has not come. */
  #copy: Buffer = nothing;
  #copied = 0;
  /** The stream whose header block is not complete, or 0. */
  #blockStream = 0;
  #isBlockEnd = false;
  #block: Buffer = nothing;
  #blockLength = 0;

  constructor(turn: Turn, maxBlockBytes: number) {
    this.#turn = turn;
    this.#maxBlockBytes = maxBlockBytes;
  }

  /** Gives the next bytes, when all before have been read. They are not copied. */
  feed(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#at = 0;
  }

  /** The bytes that have not been read because the turn is over. They are no copy. */
  takeUnread(): Buffer {
    const unread = this.#bytes.subarray(this.#at);
    this.#bytes = nothing;
    this.#at = 0;
    return unread;
  }

  /** Whether the end of a head has not come yet. */
  get isInHead(): boolean {
    return this.#blockStream !== 0 || (this.#isInFrame && this.#type === frameTypes.headers);
  }

  /** Returns null when all bytes have been read, or enough for this turn. */
  next(): Frame | null {
    while (!this.#isOver && this.#turn.stepsLeft > 0) {
      if (this.#prefaceLeft > 0 && !this.#readPreface()) return this.#error(errorCodes.protocol);
      const frame = this.#isInFrame ? this.#readPayload() : this.#readHead();
      if (frame === "more") break;
      if (frame !== "none") return frame;
    }
    return null;
  }

  #readPreface(): boolean {
    for (; this.#prefaceLeft > 0 && this.#at < this.#bytes.length; this.#at += 1) {
      if (this.#bytes[this.#at] !== preface.charCodeAt(preface.length - this.#prefaceLeft)) return false;
      this.#prefaceLeft -= 1;
    }
    return true;
  }

  #readHead(): Frame | "more" | "none" {
    const available = this.#bytes.length - this.#at;
    if (this.#headLength === 0 && available >= frameHeadBytes) {
      this.#at += frameHeadBytes;
      return this.#begin(this.#bytes, this.#at - frameHeadBytes);
    }
    if (available === 0) return "more";
    if (this.#head.length === 0) this.#head = Buffer.allocUnsafeSlow(frameHeadBytes);
    const count = Math.min(frameHeadBytes - this.#headLength, available);
    this.#bytes.copy(this.#head, this.#headLength, this.#at, this.#at + count);
    this.#headLength += count;
    this.#at += count;
    if (this.#headLength < frameHeadBytes) return "more";
    this.#headLength = 0;
    return this.#begin(this.#head, 0);
  }

  /** Begins the frame whose head is in `bytes` at `at`. */
  #begin(bytes: Buffer, at: number): Frame | "none" {
    const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
    const type = bytes[at + 3] as number;
    this.#type = type;
    this.#flags = bytes[at + 4] as number;
    this.#stream = bytes.readUInt32BE(at + 5) & 0x7fff_ffff;
    this.#left = length;
    this.#isInFrame = true;
    this.#copied = 0;
    this.#charge();
    const code = this.#findError();
    if (code !== errorCodes.noError) return this.#error(code);
    if (type === frameTypes.continuation && this.#blockLength + length > this.#maxBlockBytes) {
      this.#isOver = true;
      return { kind: "error", stream: 0, code: errorCodes.enhanceYourCalm, isTooLarge: true };
    }
    this.#isFirst = false;
    if (type === frameTypes.priority && length !== 5) return this.#streamError(errorCodes.frameSize);
    this.#isFirstPiece = true;
    return "none";
  }

  #charge(): void {
    const { data, settings, headers } = frameTypes;
    if (this.#type === data) {
      const carried = Math.max(0, this.#left - ((this.#flags & flags.padded) === 0 ? 0 : maxPaddingBytes));
      this.points += (carried < freePieceBytes ? 1 : 0) - carried / bytesPerPoint;
    } else this.points += this.#type === settings ? settingsPoints : 1;
    if (this.#type === headers) this.#turn.stepsLeft -= requestSteps;
    else
      this.#turn.stepsLeft -=
        this.#type === data || this.#type === frameTypes.rstStream || this.#type === settings ? streamSteps : 1;
  }

  /** Returns the code of the connection error that the frame's head shows, or that of no error. */
  #findError(): number {
    const type = this.#type;
    const { protocol, frameSize, noError } = errorCodes;
    if (this.#isFirst && (type !== frameTypes.settings || (this.#flags & flags.ack) !== 0)) return protocol;
    const isBlockOpen = this.#blockStream !== 0;
    // Nothing may come between the frames of a header block, not even frames of unknown types (RFC 9113, 4.3 and 5.5).
    if (isBlockOpen !== (type === frameTypes.continuation)) return protocol;
    if (isBlockOpen && this.#stream !== this.#blockStream) return protocol;
    if (type < ofStream.length && ofStream[type] !== null && ofStream[type] !== (this.#stream !== 0)) return protocol;
    // Also for frames of one stream, where an error of the stream would do (RFC 9113, 4.2 and 5.4.1).
    if (this.#left > maxFrameBytes) return frameSize;
    return this.#hasWrongLength() ? frameSize : type === frameTypes.pushPromise ? protocol : noError;
  }

  #hasWrongLength(): boolean {
    const { rstStream, settings, ping, goaway, windowUpdate } = frameTypes;
    switch (this.#type) {
      case rstStream:
      case windowUpdate:
        return this.#left !== 4;
      case settings:
        return (this.#flags & flags.ack) === 0 ? this.#left % 6 !== 0 : this.#left !== 0;
      case ping:
        return this.#left !== 8;
      case goaway:
        return this.#left < 8;
      case frameTypes.headers: {
        const isPadded = (this.#flags & flags.padded) !== 0;
        return this.#left < (isPadded ? 1 : 0) + ((this.#flags & flags.priority) === 0 ? 0 : 5);
      }
      default:
        return this.#type === frameTypes.data && (this.#flags & flags.padded) !== 0 && this.#left === 0;
    }
  }

  #readPayload(): Frame | "more" | "none" {
    switch (this.#type) {
      case frameTypes.data:
        return this.#readData();
      case frameTypes.goaway:
        // Its debug data is skipped.
        return this.#skip() ? { kind: "goaway" } : "more";
      case frameTypes.headers:
      case frameTypes.rstStream:
      case frameTypes.settings:
      case frameTypes.ping:
      case frameTypes.windowUpdate:
      case frameTypes.continuation:
        return this.#readWhole();
      default:
        return this.#skip() ? "none" : "more";
    }
  }

  #skip(): boolean {
    const count = Math.min(this.#left, this.#bytes.length - this.#at);
    this.#at += count;
    this.#left -= count;
    this.#isInFrame = this.#left > 0;
    return !this.#isInFrame;
  }

  #readData(): Frame | "more" {
    const isFirst = this.#isFirstPiece;
    const frameBytes = isFirst ? this.#left : 0;
    let paddingBytes = 0;
    if (isFirst && (this.#flags & flags.padded) !== 0) {
      if (this.#at === this.#bytes.length) return "more";
      paddingBytes = 1 + (this.#bytes[this.#at] as number);
      this.#at += 1;
      this.#left -= 1;
      if (paddingBytes > frameBytes) return this.#error(errorCodes.protocol);
    }
    if (isFirst) this.#dataLeft = frameBytes - paddingBytes;
    this.#isFirstPiece = false;
    const dataBytes = isFirst ? this.#dataLeft : 0;
    const count = Math.min(this.#dataLeft, this.#bytes.length - this.#at);
    this.#at += count;
    this.#dataLeft -= count;
    this.#left -= count;
    const to = this.#at;
    const isWhole = this.#dataLeft === 0 && this.#skip();
    if (count === 0 && !isWhole && !isFirst) return "more";
    const endsStream = (this.#flags & flags.endStream) !== 0;
    return {
      kind: "data",
      stream: this.#stream,
      isFirst,
      frameBytes,
      paddingBytes,
      dataBytes,
      endsStream,
      isEnd: isWhole && endsStream,
      bytes: this.#bytes,
      from: to - count,
      to,
    };
  }

  /** Reads a payload that is needed in one piece. */
  #readWhole(): Frame | "more" | "none" {
    const available = this.#bytes.length - this.#at;
    if (this.#copied === 0 && available >= this.#left) {
      const from = this.#at;
      this.#at += this.#left;
      return this.#take({ bytes: this.#bytes, from, to: this.#at });
    }
    const count = Math.min(this.#left - this.#copied, available);
    this.#copy = grown(this.#copy, this.#copied, count);
    this.#bytes.copy(this.#copy, this.#copied, this.#at, this.#at + count);
    this.#copied += count;
    this.#at += count;
    if (this.#copied < this.#left) return "more";
    const bytes = this.#copy;
    this.#copy = nothing;
    return this.#take({ bytes, from: 0, to: this.#copied });
  }

  #take(payload: Slice): Frame | "none" {
    this.#isInFrame = false;
    const { bytes, from } = payload;
    switch (this.#type) {
      case frameTypes.headers:
        return this.#takeHeaders(payload);
      case frameTypes.continuation:
        return this.#addToBlock(payload);
      case frameTypes.rstStream:
        return { kind: "reset", stream: this.#stream };
      case frameTypes.settings:
        return (this.#flags & flags.ack) === 0 ? { kind: "settings", ...payload } : "none";
      case frameTypes.ping:
        return (this.#flags & flags.ack) === 0 ? { kind: "ping", ...payload } : { kind: "pingAck", ...payload };
      default:
        return this.#windowUpdate(bytes.readUInt32BE(from) & 0x7fff_ffff);
    }
  }

  #windowUpdate(increment: number): Frame {
    if (increment > 0) return { kind: "windowUpdate", stream: this.#stream, increment };
    return this.#stream === 0 ? this.#error(errorCodes.protocol) : this.#streamError(errorCodes.protocol);
  }

  #takeHeaders({ bytes, from, to }: Slice): Frame | "none" {
    const isPadded = (this.#flags & flags.padded) !== 0;
    // Priorities are read and dropped (RFC 9113, 5.3.2).
    const begin = from + (isPadded ? 1 : 0) + ((this.#flags & flags.priority) === 0 ? 0 : 5);
    const end = to - (isPadded ? (bytes[from] as number) : 0);
    if (end < begin) return this.#error(errorCodes.protocol);
    this.#isBlockEnd = (this.#flags & flags.endStream) !== 0;
    if ((this.#flags & flags.endHeaders) !== 0) return this.#headers({ bytes, from: begin, to: end });
    this.#blockStream = this.#stream;
    this.#blockLength = 0;
    return this.#addToBlock({ bytes, from: begin, to: end });
  }

  #headers(block: Slice): Frame {
    this.endedHeads += 1;
    return { kind: "headers", stream: this.#stream, isEnd: this.#isBlockEnd, ...block };
  }

  #addToBlock({ bytes, from, to }: Slice): Frame | "none" {
    const length = this.#blockLength + to - from;
    this.#block = grown(this.#block, this.#blockLength, to - from);
    bytes.copy(this.#block, this.#blockLength, from, to);
    this.#blockLength = length;
    if ((this.#flags & flags.endHeaders) === 0) return "none";
    const block = this.#block;
    this.#block = nothing;
    this.#blockStream = 0;
    return this.#headers({ bytes: block, from: 0, to: length });
  }

  #error(code: number): FrameError {
    this.#isOver = true;
    return { kind: "error", stream: 0, code, isTooLarge: false };
  }

  #streamError(code: number): FrameError {
    return { kind: "error", stream: this.#stream, code, isTooLarge: false };
  }
}

const nothing: Buffer = Buffer.alloc(0);

/** By type: whether the frame belongs to a stream and not to the connection. Null: to either. */
const ofStream: readonly (boolean | null)[] = [true, true, true, true, false, true, false, false, null, true];

/** Returns memory with the same first `length` bytes and room for `more`: at most a quarter more than is used. */
function grown(memory: Buffer, length: number, more: number): Buffer {
  if (length + more <= memory.length) return memory;
  const larger = Buffer.allocUnsafeSlow(Math.max(smallestCopy, length + more, length + (length >> 2)));
  memory.copy(larger, 0, 0, length);
  return larger;
}

// Bounds the HTTP/2 frames that carry little or nothing: PING, SETTINGS, PRIORITY, RST_STREAM, WINDOW_UPDATE, DATA of a
// few bytes, frames of unknown types, and requests that are refused or malformed. Each frame costs points. Time, bytes
// in either direction and accepted requests give points back. Each connection has a budget, and all connections of one
// peer share another one. When the shared budget is used up, only connections that have spent much themselves are
// closed.

/**
 * A client spends a few points when it connects, less than four on a request, and a few in a second while it is idle.
 * A frame costs the gateway 2 to 15 µs of CPU time.
 */
const connectionRate: TokenRate = { burst: 3_000, perSecond: 100 };
const peerRate: TokenRate = { burst: 10_000, perSecond: 1_000 };

/** A connection that has spent at most this much stays open when the budget of its peer is used up. */
const sparedPoints = 200;

/** How many peers without a connection keep their budget: a peer must not get a new one by closing its connections. */
const maxRemembered = 1_000;

export class FrameBudgets {
  readonly #nowMs: () => number;
  /** The peers with a connection. */
  readonly #peers = new Map<string, PeerBudget>();
  readonly #remembered = new LRUCache<string, PeerBudget>({ max: maxRemembered });

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Opens the budget of a connection. Null: the peer, a trusted proxy, has no budget of its own. */
  open(peerKey: string | null): FrameBudget {
    return new FrameBudget(this.#nowMs, peerKey === null ? null : this.#join(peerKey));
  }

  #join(key: string): PeerBudget {
    const known = this.#peers.get(key) ?? this.#remembered.get(key);
    const peer = known ?? new PeerBudget(this.#nowMs(), (left) => this.#leave(key, left));
    this.#remembered.delete(key);
    this.#peers.set(key, peer);
    peer.connections += 1;
    return peer;
  }

  #leave(key: string, peer: PeerBudget): void {
    this.#peers.delete(key);
    this.#remembered.set(key, peer);
  }
}

/** The budget of one connection. */
export class FrameBudget {
  readonly #nowMs: () => number;
  readonly #own: TokenBucket;
  #peer: PeerBudget | null;

  constructor(nowMs: () => number, peer: PeerBudget | null) {
    this.#nowMs = nowMs;
    this.#own = new TokenBucket(connectionRate, nowMs());
    this.#peer = peer;
  }

  /** Gives points back. */
  earn(points: number): void {
    this.#own.take(-points);
    this.#peer?.bucket.take(-points);
  }

  /** Takes points. False: the connection has to be closed. */
  spend(points: number): boolean {
    this.#own.take(points);
    this.#peer?.bucket.take(points);
    const ofPeer = this.#peer?.bucket ?? null;
    if (this.#own.left >= 0 && (ofPeer === null || ofPeer.left >= 0)) return true;
    const nowMs = this.#nowMs();
    this.#own.refill(nowMs);
    ofPeer?.refill(nowMs);
    if (this.#own.left < 0) return false;
    return ofPeer === null || ofPeer.left >= 0 || this.#own.spent <= sparedPoints;
  }

  /** The connection is closed. */
  close(): void {
    this.#peer?.leave();
    this.#peer = null;
  }
}

class PeerBudget {
  readonly bucket: TokenBucket;
  connections = 0;
  readonly #onEmpty: (peer: PeerBudget) => void;

  constructor(nowMs: number, onEmpty: (peer: PeerBudget) => void) {
    this.bucket = new TokenBucket(peerRate, nowMs);
    this.#onEmpty = onEmpty;
  }

  leave(): void {
    this.connections -= 1;
    if (this.connections === 0) this.#onEmpty(this);
  }
}
