// Sends the responses of one HTTP/2 connection within the client's windows (RFC 9113, 5.2 and 6.9). Streams that wait for
// the window of the connection, or for the system to take what was written, take turns. Finds responses that are complete
// but that nobody reads. And its streams, how the last ones ended, and the frames that are written.
import { AnsweredStreams } from "./answered-streams.ts";
import { noDynamicTable } from "./hpack.ts";
import { defaultWindowBytes, errorCodes, flags, frameTypes, maxFrameBytes, maxWindowBytes } from "./protocol.ts";

/** Checks without progress. Ten seconds are enough for a client that loses its network for a moment. */
const maxChecks = 5;
/** If this much leaves between two checks, the connection is read: 4 KiB a second, slower than any line in use. */
const readBytes = 8 * 1024;

/** With more to be written, bodies wait. */
const maxQueuedBodyBytes = 64 * 1024;

export interface ResponsesOwner<Owner> {
  /** The last frame of a response has been given to the writer. */
  onSent(stream: Http2Stream<Owner>): void;
}

export class Responses<Owner> {
  readonly writer = new FrameWriter();
  /** Of a stream that is opened now. */
  initialWindow = defaultWindowBytes;
  readonly #streams: ReadonlyMap<number, Http2Stream<Owner>>;
  readonly #owner: ResponsesOwner<Owner>;
  #window = defaultWindowBytes;
  /** Those that wait for the connection's window, or for the writer. Null: there was none yet, as on most connections. */
  #waiting: Set<Http2Stream<Owner>> | null = null;
  /** Those whose writer was told to wait, and need not wait any more. Null as above. */
  #drained: Set<Http2Stream<Owner>> | null = null;
  #isFirstBlock = true;
  #sentBefore = 0;

  constructor(streams: ReadonlyMap<number, Http2Stream<Owner>>, owner: ResponsesOwner<Owner>) {
    this.#streams = streams;
    this.#owner = owner;
  }

  get hasOutput(): boolean {
    return !this.writer.isEmpty || (this.#window > 0 && this.#waiting !== null && this.#waiting.size > 0);
  }

  /** Returns what is to be written, in order, and forgets it. */
  take(): readonly Piece[] {
    this.#sendWaiting();
    return this.writer.take();
  }

  get hasDrained(): boolean {
    return this.#drained !== null && this.#drained.size > 0;
  }

  /** Returns the streams that may be written to again, and forgets them. */
  takeDrained(): readonly Http2Stream<Owner>[] {
    if (this.#drained === null || this.#drained.size === 0) return none;
    const drained = [...this.#drained];
    this.#drained.clear();
    return drained;
  }

  head(stream: Http2Stream<Owner>, block: string, isEnd: boolean): void {
    if (stream.isClosed || stream.isWriteEnded) return;
    stream.isHeadSent = true;
    this.#block(stream, block, isEnd);
    if (!isEnd) return;
    stream.isWriteEnded = true;
    this.#owner.onSent(stream);
  }

  /** Returns false if the piece, or a part of it, waits for a window. */
  write(stream: Http2Stream<Owner>, piece: Piece): boolean {
    if (stream.isClosed || stream.isWriteEnded || piece.length === 0) return stream.queuedBytes === 0;
    stream.queue.push(piece);
    stream.queuedBytes += piece.length;
    this.#send(stream);
    stream.isBlocked = stream.queuedBytes > 0;
    return !stream.isBlocked;
  }

  end(stream: Http2Stream<Owner>, trailers: string, last: Piece): void {
    if (stream.isClosed || stream.isWriteEnded) return;
    stream.isWriteEnded = true;
    stream.trailers = trailers;
    if (last.length > 0) stream.queue.push(last);
    stream.queuedBytes += last.length;
    if (stream.queuedBytes === 0) this.#sendEnd(stream);
    else if (last.length > 0) this.#send(stream);
  }

  forget(stream: Http2Stream<Owner>): void {
    this.#waiting?.delete(stream);
    this.#drained?.delete(stream);
    stream.queue.length = 0;
    stream.queuedBytes = 0;
  }

  /** Returns false if the window would be larger than a window may be, as below. */
  addTo(stream: Http2Stream<Owner>, bytes: number): boolean {
    if (stream.sendWindow + bytes > maxWindowBytes) return false;
    stream.sendWindow += bytes;
    this.#send(stream);
    return true;
  }

  addToConnection(bytes: number): boolean {
    if (this.#window + bytes > maxWindowBytes) return false;
    this.#window += bytes;
    this.#sendWaiting();
    return true;
  }

  #sendWaiting(): void {
    if (this.#waiting === null) return;
    // One that waits again comes behind the others, and is reached again.
    for (const stream of this.#waiting) {
      if (!this.#hasRoom()) break;
      this.#waiting.delete(stream);
      this.#sendFrame(stream);
      if (stream.queuedBytes > 0 && stream.sendWindow > 0) this.#waiting.add(stream);
    }
  }

  #hasRoom(): boolean {
    return this.#window > 0 && this.writer.waitingBytes < maxQueuedBodyBytes;
  }

  /** A change applies to all open streams, and may make windows negative (RFC 9113, 6.9.2). Null: no change. */
  setInitialWindow(bytes: number | null): boolean {
    const change = (bytes ?? this.initialWindow) - this.initialWindow;
    if (change === 0) return true;
    this.initialWindow += change;
    for (const stream of [...this.#streams.values()]) if (!this.addTo(stream, change)) return false;
    return true;
  }

  /** Returns the streams whose whole response has waited through too many checks in which nothing moved. */
  findUnread(isInHurry: boolean): readonly Http2Stream<Owner>[] {
    const { sentBytes } = this.writer;
    const isRead = sentBytes - this.#sentBefore >= readBytes;
    this.#sentBefore = sentBytes;
    const unread: Http2Stream<Owner>[] = [];
    for (const stream of this.#streams.values()) {
      if (!stream.isWriteEnded) continue;
      const isStuck = !isRead && stream.checkedBytes === stream.queuedBytes;
      stream.checks = isStuck ? stream.checks + 1 : 0;
      stream.checkedBytes = stream.queuedBytes;
      if (stream.checks >= (isInHurry ? 1 : maxChecks)) unread.push(stream);
    }
    return unread;
  }

  #block(stream: Http2Stream<Owner>, block: string, isEnd: boolean): void {
    this.writer.headers(stream.id, this.#isFirstBlock ? noDynamicTable + block : block, isEnd);
    this.#isFirstBlock = false;
  }

  /** Sends as much as both windows allow, unless much waits to be written. */
  #send(stream: Http2Stream<Owner>): void {
    while (stream.queuedBytes > 0 && stream.sendWindow > 0 && this.#hasRoom()) this.#sendFrame(stream);
    if (stream.queuedBytes === 0 || stream.sendWindow <= 0) return;
    this.#waiting ??= new Set();
    this.#waiting.add(stream);
  }

  /** Sends one DATA frame, if the stream's window allows any. The connection's does. */
  #sendFrame(stream: Http2Stream<Owner>): void {
    const [piece] = stream.queue;
    const room = Math.min(stream.sendWindow, this.#window, maxFrameBytes);
    if (piece === undefined || room <= 0) return;
    const part =
      piece.length <= room ? piece : typeof piece === "string" ? piece.slice(0, room) : piece.subarray(0, room);
    if (part === piece) stream.queue.shift();
    else stream.queue[0] = typeof piece === "string" ? piece.slice(room) : piece.subarray(room);
    stream.queuedBytes -= part.length;
    stream.sendWindow -= part.length;
    this.#window -= part.length;
    const isEnd = stream.isWriteEnded && stream.queuedBytes === 0;
    this.writer.data(stream.id, part, isEnd && stream.trailers === "");
    if (isEnd) this.#endWith(stream, stream.trailers);
    else if (stream.isBlocked && stream.queuedBytes === 0) {
      stream.isBlocked = false;
      this.#drained ??= new Set();
      this.#drained.add(stream);
    }
  }

  #sendEnd(stream: Http2Stream<Owner>): void {
    if (stream.trailers === "") this.writer.data(stream.id, "", true);
    this.#endWith(stream, stream.trailers);
  }

  #endWith(stream: Http2Stream<Owner>, trailers: string): void {
    if (trailers !== "") this.#block(stream, trailers, true);
    this.#owner.onSent(stream);
  }
}

const none: readonly [] = [];

/** One stream of HTTP/2, which is one request and its response: what is left of its two windows, and what waits to be sent. */
export class Http2Stream<Owner> {
  readonly id: number;
  /** Whoever answers the request. */
  owner: Owner | null = null;
  /** The client has sent all of its request. */
  isReadEnded: boolean;
  /** Nothing is read or sent any more. */
  isClosed = false;
  /** It ended before the whole response had been sent. */
  isBrokenOff = false;
  isHeadSent = false;
  /** The whole response is in `queue`, or sent. */
  isWriteEnded = false;
  /** Of the reset that tells a client to stop sending a request whose response is complete. */
  unreadCode: number = errorCodes.noError;
  /** The last piece did not leave at once. */
  isBlocked = false;
  /** A block that is sent behind the last piece, or "". */
  trailers = "";
  /** What the windows do not allow to send yet. */
  readonly queue: Piece[] = [];
  queuedBytes = 0;
  sendWindow: number;
  receiveWindow = defaultWindowBytes;
  /** The size of the window: what is left of it, what is kept unread, and what is used but not given back. */
  windowBytes = defaultWindowBytes;
  /** Received and used, but not given back to the client's window. */
  usedBytes = 0;
  /** The head of the final response has been sent. */
  isAnswered = false;
  /** Of the body, as announced; -1 if it is not known. */
  bytesToCome: number;
  /** What the last check for unread responses found, and how often nothing has moved since. `AnsweredStreams` has the same checks. */
  checkedBytes = -1;
  checks = 0;
  answeredChecks = 0;
  /** The client has acknowledged what was sent behind its response. */
  isAnswerRead = false;
  /** The client was too slow, and has had its time. */
  isTooSlow = false;

  constructor(id: number, isReadEnded: boolean, bytesToCome: number, sendWindow: number) {
    this.id = id;
    this.isReadEnded = isReadEnded;
    this.bytesToCome = bytesToCome;
    this.sendWindow = sendWindow;
  }
}

/** `reset`: by the gateway, before the client had ended it. `gone`: by the client. `ended`: by both sides. */
export type Ending = "reset" | "gone" | "ended";

/** A power of two, more than the streams that are open at once. */
const remembered = 256;
/** V8 keeps so many on its heap: an idle connection that had a few requests takes no memory of its own for them. */
const rememberedAtFirst = 16;

const codes = { reset: 1, gone: 2, ended: 3 } as const;
const endings: readonly (Ending | null)[] = [null, "reset", "gone", "ended"];

/**
 * Remembers how the last streams of a connection ended, because that decides what a frame for one of them means (RFC
 * 9113, 5.1): frames may be under way to a stream that the gateway has reset, and are an error on one that the client
 * has ended.
 */
export class ClosedStreams<Owner> {
  readonly answered = new AnsweredStreams<Http2Stream<Owner>>();
  /** Half of the stream's odd number, times four, plus the code; 0: free. Made with the first stream that ends. */
  #slots: Uint32Array | null = null;

  add(stream: number, ending: Ending): void {
    this.answered.delete(stream);
    this.#slots ??= new Uint32Array(rememberedAtFirst);
    const half = stream >>> 1;
    while (this.#slots.length < remembered && isOfAnother(this.#slots, half)) this.#slots = doubled(this.#slots);
    this.#slots[half & (this.#slots.length - 1)] = ((half << 2) | codes[ending]) >>> 0;
  }

  /** Returns null for a stream that ended too long ago, or was never opened. */
  endingOf(stream: number): Ending | null {
    if (this.answered.has(stream)) return "reset";
    if (this.#slots === null) return null;
    const half = stream >>> 1;
    const slot = this.#slots[half & (this.#slots.length - 1)] ?? 0;
    return slot >>> 2 === half ? (endings[slot & 3] ?? null) : null;
  }
}

/** Whether the slot for this stream has another one. */
function isOfAnother(slots: Uint32Array, half: number): boolean {
  const slot = slots[half & (slots.length - 1)] ?? 0;
  return slot !== 0 && slot >>> 2 !== half;
}

function doubled(slots: Uint32Array): Uint32Array {
  const larger = new Uint32Array(2 * slots.length);
  for (const slot of slots) if (slot !== 0) larger[(slot >>> 2) & (larger.length - 1)] = slot;
  return larger;
}

export type Piece = string | Buffer;

/**
 * Puts frames together, so that all frames of a turn can be written at once. What is text stays text: one character is
 * one byte. Bodies that came as bytes are not copied.
 */
class FrameWriter {
  /** Since the connection began. */
  sentBytes = 0;
  /** Of those, the ones that were taken. */
  #takenBytes = 0;
  /** Before the text. Null: there are none, as with most writes. */
  #pieces: Piece[] | null = null;
  #text = "";

  get isEmpty(): boolean {
    return this.#text === "" && this.#pieces === null;
  }

  /** Bytes that wait to be taken. */
  get waitingBytes(): number {
    return this.sentBytes - this.#takenBytes;
  }

  /** Returns what is to be written, in order, and forgets it. */
  take(): readonly Piece[] {
    this.#takenBytes = this.sentBytes;
    this.#endText();
    const pieces = this.#pieces;
    this.#pieces = null;
    return pieces ?? noPieces;
  }

  /** A block that is too long for one frame continues in others (RFC 9113, 6.10). */
  headers(stream: number, block: string, isEnd: boolean): void {
    const end = isEnd ? flags.endStream : 0;
    if (block.length <= maxFrameBytes) {
      this.#add(block.length, frameTypes.headers, flags.endHeaders | end, stream, block);
      return;
    }
    for (let at = 0; at < block.length; at += maxFrameBytes) {
      const part = block.slice(at, at + maxFrameBytes);
      const type = at === 0 ? frameTypes.headers : frameTypes.continuation;
      const isLast = at + maxFrameBytes >= block.length;
      this.#add(part.length, type, (isLast ? flags.endHeaders : 0) | (at === 0 ? end : 0), stream, part);
    }
  }

  data(stream: number, piece: Piece, isEnd: boolean): void {
    const end = isEnd ? flags.endStream : 0;
    if (typeof piece === "string") {
      this.#add(piece.length, frameTypes.data, end, stream, piece);
      return;
    }
    this.#add(piece.length, frameTypes.data, end, stream, "");
    this.#endText();
    this.#push(piece);
    this.sentBytes += piece.length;
  }

  reset(stream: number, code: number): void {
    this.#add(4, frameTypes.rstStream, 0, stream, uint32(code));
  }

  /** `settings`: identifier, value, identifier, value… */
  settings(settings: readonly number[]): void {
    let payload = "";
    for (let i = 0; i < settings.length; i += 2) payload += uint16(settings[i] ?? 0) + uint32(settings[i + 1] ?? 0);
    this.#add(payload.length, frameTypes.settings, 0, 0, payload);
  }

  settingsAck(): void {
    this.#add(0, frameTypes.settings, flags.ack, 0, "");
  }

  /** `payload`: eight bytes. */
  ping(payload: string, isAck: boolean): void {
    this.#add(payload.length, frameTypes.ping, isAck ? flags.ack : 0, 0, payload);
  }

  goaway(lastStream: number, code: number = errorCodes.noError): void {
    this.#add(8, frameTypes.goaway, 0, 0, uint32(lastStream) + uint32(code));
  }

  windowUpdate(stream: number, increment: number): void {
    this.#add(4, frameTypes.windowUpdate, 0, stream, uint32(increment));
  }

  #add(length: number, type: number, flagBits: number, stream: number, payload: string): void {
    const [a, b, c] = [length >>> 16, (length >>> 8) & 0xff, length & 0xff];
    const [d, e, f, g] = [stream >>> 24, (stream >>> 16) & 0xff, (stream >>> 8) & 0xff, stream & 0xff];
    const head = String.fromCharCode(a, b, c, type, flagBits, d, e, f, g);
    this.sentBytes += head.length + payload.length;
    this.#text += head + payload;
  }

  #endText(): void {
    if (this.#text === "") return;
    this.#push(this.#text);
    this.#text = "";
  }

  #push(piece: Piece): void {
    if (this.#pieces === null) this.#pieces = [piece];
    else this.#pieces.push(piece);
  }
}

const noPieces: readonly Piece[] = [];

export function uint32(value: number): string {
  return uint16(value >>> 16) + uint16(value & 0xffff);
}

function uint16(value: number): string {
  return String.fromCharCode((value >>> 8) & 0xff, value & 0xff);
}
