// Reads a client's HTTP/2 frames before nghttp2 does, and stops a client that costs more than it sends: a header block
// decodes to far more than a head may have, or too many frames carry nothing. Drops frames of unknown types
// and ACKs of PING, and passes all others on, in the buffers in which they came.
import type { FrameBudget } from "../core/frame-budget.ts";
import { continuationType, HeaderBlock, headersType, pushPromiseType } from "../core/header-block.ts";
import type { Http2CloseReason } from "../core/http2-bounds.ts";
import { freePieceBytes } from "../core/piece-budget.ts";

/** RFC 9113, 6. */
const dataType = 0x0;
const rstStreamType = 0x3;
const settingsType = 0x4;
const pingType = 0x6;
const goawayType = 0x7;
/** Extensions, such as ALTSVC and PRIORITY_UPDATE, are not meant for a server or are not supported. */
const lastKnownType = continuationType;
const padded = 0x8;
const ack = 0x1;

const prefaceBytes = 24;
const pingBytes = 8;
const frameHeadBytes = 9;
/** SETTINGS_MAX_FRAME_SIZE, which the gateway leaves at its default. */
const maxFrameBytes = 16_384;
const maxPaddingBytes = 256;

/** Each time this many bytes move, in either direction, a point is given back. */
const bytesPerPoint = 256;
/** A request gives back its own point, and four for other frames that clients send with it. */
const requestPoints = 5;
/** Each SETTINGS frame makes nghttp2 visit every stream. */
const settingsPoints = 10;

/** Bounds the work in one turn of the event loop, in steps of at most 2 µs. */
const maxSteps = 1_024;
const requestSteps = 32;
const streamSteps = 8;
const decodedBytesPerStep = 128;

/**
 * A body that Node emits is a slice of the buffer that nghttp2 was given, and keeps all of it in memory. Therefore DATA
 * frames are passed on together with other frames only up to this size.
 */
const maxMixedBytes = 2_048;

export class FrameGuard {
  /** Why the connection has to be closed. Nothing is passed on after that. */
  stopped: Http2CloseReason | null = null;
  readonly #budget: FrameBudget;
  readonly #pass: (bytes: Buffer) => void;
  readonly #block = new HeaderBlock();
  #prefaceLeft = prefaceBytes;
  /** The first bytes of a frame's head that is not complete. */
  #partialHead: Buffer = nothing;
  #type = 0;
  #isDropped = false;
  #payloadLeft = 0;
  /** Where the frames that are passed on next begin, and whether they are DATA. */
  #runFrom = 0;
  #isRunOfData = false;
  #points = 0;
  #steps = 0;

  /** `pass` is called with the bytes that nghttp2 may read. */
  constructor(budget: FrameBudget, pass: (bytes: Buffer) => void) {
    this.#budget = budget;
    this.#pass = pass;
  }

  /** Counts bytes that were sent to the client. */
  onSent(bytes: number): void {
    this.#points -= bytes / bytesPerPoint;
  }

  /** Counts a request that was accepted. */
  onRequest(): void {
    this.#points -= requestPoints;
  }

  /** Reads from `from` on. Returns where it stopped: at the end, or at a frame that waits for the next turn. */
  read(bytes: Buffer, from: number): number {
    let at = from + Math.min(this.#prefaceLeft, bytes.length - from);
    this.#prefaceLeft -= at - from;
    this.#runFrom = from;
    this.#steps = 0;
    while (at < bytes.length && this.stopped === null) {
      if (this.#payloadLeft > 0) at = this.#readPayload(bytes, at);
      else if (this.#steps < maxSteps) at = this.#readHead(bytes, at);
      else break;
    }
    this.#passUntil(bytes, at);
    this.#settle();
    return at;
  }

  #readHead(bytes: Buffer, from: number): number {
    const missing = frameHeadBytes - this.#partialHead.length;
    if (bytes.length - from < missing) {
      this.#passUntil(bytes, from);
      this.#partialHead = Buffer.concat([this.#partialHead, bytes.subarray(from)]);
      this.#runFrom = bytes.length;
      return bytes.length;
    }
    if (missing === frameHeadBytes) this.#begin(bytes, from, bytes, from);
    else {
      const head = Buffer.concat([this.#partialHead, bytes.subarray(from, from + missing)]);
      this.#partialHead = nothing;
      this.#begin(head, 0, bytes, from);
      if (!this.#isDropped) this.#pass(head);
      this.#runFrom = from + missing;
    }
    return from + missing;
  }

  /** Begins a frame. Its head is in `head` at `at`; in `bytes`, the frame continues at `from`. */
  #begin(head: Buffer, at: number, bytes: Buffer, from: number): void {
    const length = head.readUIntBE(at, 3);
    const type = head[at + 3] as number;
    const flags = head[at + 4] as number;
    // nghttp2 ends a connection with a frame that is too long, or in the middle of a header block.
    const isError = length > maxFrameBytes || (this.#block.isOpen && type !== continuationType);
    const isDropped = (type > lastKnownType || isPingAck(type, flags, length)) && !isError;
    const isData = type === dataType;
    const isMixed = isData !== this.#isRunOfData && from - this.#runFrom + length > maxMixedBytes;
    if (isDropped || this.#isDropped || isMixed) this.#passUntil(bytes, from);
    if (this.#runFrom === from) this.#isRunOfData = isData;
    this.#isDropped = isDropped;
    this.#type = type;
    this.#payloadLeft = length;
    if (isBlockType(type)) this.#block.beginFrame(type, flags, length);
    this.#charge(type, flags, length);
  }

  #readPayload(bytes: Buffer, from: number): number {
    const to = Math.min(bytes.length, from + this.#payloadLeft);
    this.#payloadLeft -= to - from;
    if (!isBlockType(this.#type)) return to;
    const before = this.#block.decodedBytes;
    this.stopped = this.#block.read(bytes, from, to);
    this.#steps += (this.#block.decodedBytes - before) / decodedBytesPerStep;
    return to;
  }

  #charge(type: number, flags: number, length: number): void {
    if (type === dataType) {
      const carried = Math.max(0, length - ((flags & padded) === 0 ? 0 : maxPaddingBytes));
      this.#points += (carried < freePieceBytes ? 1 : 0) - carried / bytesPerPoint;
    } else this.#points += type === settingsType ? settingsPoints : 1;
    if (type === headersType) this.#steps += requestSteps;
    else this.#steps += isCostlyType(type) ? streamSteps : 1;
  }

  /** Passes on the bytes since `#runFrom`, unless they belong to a frame that is dropped. */
  #passUntil(bytes: Buffer, to: number): void {
    const from = this.#runFrom;
    this.#runFrom = to;
    if (this.#isDropped || from === to || this.stopped !== null) return;
    this.#pass(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to));
  }

  #settle(): void {
    const points = this.#points;
    this.#points = 0;
    if (points <= 0) this.#budget.earn(-points);
    else if (!this.#budget.spend(points)) this.stopped ??= "frames";
  }
}

const nothing: Buffer = Buffer.alloc(0);

function isBlockType(type: number): boolean {
  return type === headersType || type === continuationType || type === pushPromiseType;
}

/** The gateway sends no PING. Node makes an error of each ACK, in 15 µs, and keeps the connection open. */
function isPingAck(type: number, flags: number, length: number): boolean {
  return type === pingType && (flags & ack) !== 0 && length === pingBytes;
}

/** Node runs JavaScript for each. */
function isCostlyType(type: number): boolean {
  return type === dataType || type === rstStreamType || type === settingsType || type === goawayType;
}
