// The server's side of one HTTP/2 connection (RFC 9113): bytes in, events and frames out. It keeps the states and the windows
// of streams and enforces every bound on what a client may cost, before anything is built for it. Does no I/O and starts no
// timers; whoever drives it reads and writes the socket, and asks it at intervals what has stalled.
import type { Http2CloseReason } from "../core/connection-ends.ts";
import type { HeaderList } from "../core/headers.ts";
import { maxFields } from "../core/http-bounds.ts";
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";
import { announcedBytes, areTrailers, isRequest } from "./field-rules.ts";
import {
  bytesPerPoint,
  type DataPiece,
  type Frame,
  type FrameBudget,
  type FrameError,
  FrameReader,
  type Slice,
  type Turn,
} from "./frame-reader.ts";
import { HpackDecoder } from "./hpack.ts";
import { defaultWindowBytes, errorCodes, maxStreamId, readSettings, settingIds } from "./protocol.ts";
import { ClosedStreams, Http2Stream, type Piece, Responses, type ResponsesOwner, uint32 } from "./responses.ts";

export type Http2Event<Owner> =
  /** `fields` is the same list as before if the client sent the same block. `isTooLarge`: over the bounds of heads. */
  | {
      readonly kind: "request";
      readonly stream: Http2Stream<Owner>;
      readonly fields: HeaderList;
      readonly isEnd: boolean;
      readonly isTooLarge: boolean;
    }
  /** `bytes` are valid until the next event. Call `used` when they no longer take memory. */
  | { readonly kind: "data"; readonly stream: Http2Stream<Owner>; readonly bytes: Buffer; readonly isEnd: boolean }
  /** A request was reset because it is malformed. */
  | { readonly kind: "malformed" }
  /** The connection is over, and its GOAWAY waits to be sent. `reason`: the client has cost too much. */
  | { readonly kind: "over"; readonly code: number; readonly reason: Http2CloseReason | null };

interface SessionOptions {
  readonly budget: FrameBudget;
  readonly turn: Turn;
  readonly nowMs: () => number;
  readonly maxStreams: number;
  /** Of a head, as it is announced to the client. */
  readonly maxHeaderBytes: number;
  /** How long a client may go on sending a request that has been answered. 0: its stream is reset with the response. */
  readonly lingerMs?: number;
  /**
   * A request with a blank around a value is left to whoever drives the session, to refuse it with a response. Otherwise its
   * stream is reset.
   */
  readonly mayHaveBlanks?: boolean;
}

/** A request gives back its own point, and four for other frames that clients send with it. */
const requestPoints = 5;
const decodedBytesPerStep = 128;
/**
 * The window of the connection bounds what it keeps of bodies. It is larger than that of a stream, so that one body that has
 * to wait does not hold up the others.
 */
const connectionWindowBytes = 192 * 1024;
/** The connection's window is opened by at least this much, unless with a stream's: bodies would come in tiny frames. */
const leastUpdateBytes = 1024;
/** A stream's window grows to this if its body is used as it comes, so that it needs fewer WINDOW_UPDATE frames. */
const maxStreamWindowBytes = 128 * 1024;

/**
 * Streams that end before their response (CVE-2023-44487), by the client's reset or by an error that it provokes: each costs
 * the gateway more than the client, which never waits for a response. A browser that leaves a page resets many streams at
 * once, but not continuously. A response that is sent whole makes up for one.
 */
const resetRate: TokenRate = { burst: 200, perSecond: 20 };

/** Of our own PINGs: behind a first GOAWAY, and, with the number of its stream, behind an early response. */
const drainPing = "headgate";
const answerPing = "read";

const noBytes: Buffer = Buffer.alloc(0);
const none: readonly [] = [];

export class Http2Session<Owner> implements ResponsesOwner<Owner> {
  readonly streams = new Map<number, Http2Stream<Owner>>();
  readonly #options: SessionOptions;
  readonly #reader: FrameReader;
  readonly #decoder: HpackDecoder;
  readonly #responses: Responses<Owner>;
  readonly #endings = new ClosedStreams<Owner>();
  readonly #resets: TokenBucket;
  /** The last list of fields that was found well-formed. */
  #checkedFields: HeaderList | null = null;
  #checkedBytesToCome = -1;
  #lastStream = 0;
  #receiveWindow = connectionWindowBytes;
  #usedBytes = 0;
  /** Of the current DATA frame, which nobody was given yet. */
  #untakenBytes = 0;
  #chargedBytes = 0;
  #over: Extract<Http2Event<Owner>, { kind: "over" }> | null = null;
  #isOverReported = false;
  /** `announced`: the first GOAWAY is out, and the client may not have read it. `final`: no stream is opened any more. */
  #end: "open" | "announced" | "final" = "open";
  #closed: Http2Stream<Owner>[] | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
    const { maxHeaderBytes } = options;
    this.#reader = new FrameReader(options.turn, 2 * maxHeaderBytes);
    this.#decoder = new HpackDecoder(2 * maxHeaderBytes);
    this.#resets = new TokenBucket(resetRate, options.nowMs());
    this.#responses = new Responses(this.streams, this);
    this.#responses.writer.settings([
      ...[settingIds.maxConcurrentStreams, options.maxStreams],
      ...[settingIds.maxHeaderListSize, maxHeaderBytes],
    ]);
    this.#responses.writer.windowUpdate(0, connectionWindowBytes - defaultWindowBytes);
  }

  /** Whether the connection failed. */
  get isOver(): boolean {
    return this.#over !== null;
  }

  /** Whether an end was asked for, no stream is open, and none will be. */
  get isFinished(): boolean {
    return this.#over !== null || (this.#end === "final" && this.streams.size === 0 && !this.hasAnswered);
  }

  /** Whether the resets of streams are still to be sent. Call `resetAnswered` every `checkAnsweredMs`. */
  get hasAnswered(): boolean {
    return this.#endings.answered.size > 0;
  }

  get isEnding(): boolean {
    return this.#end !== "open";
  }

  /** Whether the client has not said yet that it has read the first GOAWAY. */
  get isAwaitingAck(): boolean {
    return this.#end === "announced" && this.#over === null;
  }

  /** Whether the client has begun a head and not ended it. */
  get isInHead(): boolean {
    return this.#reader.isInHead;
  }

  /** How many heads have ended, which tells a slow one from many. */
  get endedHeads(): number {
    return this.#reader.endedHeads;
  }

  /** Gives the next bytes, when all events of those before have been taken. They are not copied. */
  feed(bytes: Buffer): void {
    this.#reader.feed(bytes);
  }

  /** The bytes that have not been read because the turn is over. They are no copy. */
  takeUnread(): Buffer {
    return this.#reader.takeUnread();
  }

  /** Returns null when all bytes have been read, or enough for this turn. */
  next(): Http2Event<Owner> | null {
    while (this.#over === null) {
      const frame = this.#reader.next();
      const event = frame === null ? null : this.#onFrame(frame);
      if (event !== null) return event;
      if (frame === null) break;
    }
    this.#settle();
    if (this.#over === null || this.#isOverReported) return null;
    this.#isOverReported = true;
    return this.#over;
  }

  /** Returns what is to be written, in order: all frames since the last call. */
  takeOutput(): readonly Piece[] {
    return this.#responses.take();
  }

  /** Bytes that `takeOutput` would return, at least. */
  get waitingBytes(): number {
    return this.#responses.writer.waitingBytes;
  }

  get hasOutput(): boolean {
    return this.#responses.hasOutput;
  }

  get hasDrained(): boolean {
    return this.#responses.hasDrained;
  }

  /** Returns the streams whose body may go on after `write` has returned false, and forgets them. */
  takeDrained(): readonly Http2Stream<Owner>[] {
    return this.#responses.takeDrained();
  }

  /** The fields that the next request has too, if the client sends the same block. */
  get keptFields(): HeaderList | null {
    return this.#decoder.keptFields;
  }

  /** Gives the memory back that only makes the next request cheaper. */
  forgetHead(): void {
    this.#decoder.forget();
    this.#checkedFields = null;
  }

  get hasClosed(): boolean {
    return this.#closed !== null;
  }

  /** Returns streams that have been closed and were not returned before, in this order; of a failed connection at most `maxOfFailed`. */
  takeClosed(maxOfFailed = Number.POSITIVE_INFINITY): readonly Http2Stream<Owner>[] {
    const closed = this.#closed ?? none;
    const isPart = this.isOver && closed.length > maxOfFailed;
    this.#closed = isPart ? closed.slice(maxOfFailed) : null;
    return isPart ? closed.slice(0, maxOfFailed) : closed;
  }

  /** Sends the head of a response, or an interim one. With `isEnd` there is no body. */
  respond(stream: Http2Stream<Owner>, block: string, isEnd: boolean): void {
    this.#responses.head(stream, block, isEnd);
  }

  /** Returns whether the body may go on: false while the client's windows allow no more. */
  write(stream: Http2Stream<Owner>, piece: Piece): boolean {
    return this.#responses.write(stream, piece);
  }

  /** Ends the response, with trailers or without (""), behind a last piece unless that is empty. */
  end(stream: Http2Stream<Owner>, trailers = "", last: Piece = ""): void {
    this.#responses.end(stream, trailers, last);
  }

  /** Resets a stream that the client may open again later (RFC 9113, 8.7): nothing was done for its request. */
  refuse(stream: Http2Stream<Owner>): void {
    this.#reader.points += requestPoints;
    this.reset(stream, errorCodes.refusedStream);
  }

  /** Breaks the stream off. */
  reset(stream: Http2Stream<Owner>, code: number): void {
    if (stream.isClosed) return;
    this.#responses.writer.reset(stream.id, code);
    stream.isBrokenOff = true;
    this.#close(stream, stream.isReadEnded ? "ended" : "reset");
  }

  /** Gives bytes of a request back to the client's windows. */
  used(stream: Http2Stream<Owner>, bytes: number): void {
    stream.usedBytes += bytes;
    // Both in one write.
    this.#usedByConnection(bytes, this.#giveBack(stream) ? 1 : undefined);
  }

  /** Returns whether the stream's window is opened. */
  #giveBack(stream: Http2Stream<Owner>): boolean {
    if (stream.usedBytes < stream.windowBytes / 2 || stream.isReadEnded || stream.isClosed) return false;
    // The client may send all of the rest.
    if (stream.bytesToCome >= 0 && stream.bytesToCome <= stream.receiveWindow) return false;
    const isFlowing = stream.receiveWindow + stream.usedBytes === stream.windowBytes;
    const grownBytes = isFlowing ? maxStreamWindowBytes - stream.windowBytes : 0;
    stream.windowBytes += grownBytes;
    const bytesBack = stream.usedBytes + grownBytes;
    this.#responses.writer.windowUpdate(stream.id, bytesBack);
    stream.receiveWindow += bytesBack;
    stream.usedBytes = 0;
    return true;
  }

  /**
   * Asks the client to open no more streams (RFC 9113, 6.8). Streams that it opens before it has read this are still
   * served, until its acknowledgement of our PING shows that it has.
   */
  beginEnd(): void {
    if (this.#end !== "open" || this.#over !== null) return;
    this.#end = "announced";
    this.#responses.writer.goaway(maxStreamId);
    this.#responses.writer.ping(drainPing, false);
  }

  /** Opens no more streams, even if the client may not have read the first GOAWAY. */
  finishEnd(): void {
    if (this.#end === "final" || this.#over !== null) return;
    this.#end = "final";
    this.#responses.writer.goaway(this.#lastStream);
  }

  /** Ends the connection and all its streams with an error. */
  fail(code: number, reason: Http2CloseReason | null = null): void {
    if (this.#over !== null) return;
    this.#over = { kind: "over", code, reason };
    this.#responses.writer.goaway(this.#lastStream, code);
    this.#endings.answered.clear();
    for (const stream of [...this.streams.values()]) {
      stream.isBrokenOff = true;
      this.#close(stream, "reset");
    }
  }

  /** The connection is lost: closes all streams. */
  close(): void {
    this.fail(errorCodes.noError);
    this.#isOverReported = true;
    this.#responses.writer.take();
  }

  /**
   * Resets the streams whose response is complete but is not read: call it every two seconds. While `isInHurry`, once without
   * progress is enough. Returns how many were reset.
   */
  resetUnread(isInHurry: boolean): number {
    const unread = this.#responses.findUnread(isInHurry);
    for (const stream of unread) this.reset(stream, errorCodes.cancel);
    return unread.length;
  }

  /** `isInHurry`: also while the client sends. */
  resetAnswered(isInHurry: boolean): void {
    for (const stream of this.#endings.answered.due(this.#options.lingerMs ?? 0, isInHurry))
      this.#resetAnswered(stream);
  }

  #resetAnswered({ id, unreadCode }: Http2Stream<Owner>): void {
    this.#responses.writer.reset(id, unreadCode);
    this.#endings.add(id, "reset");
  }

  #onFrame(frame: Frame): Http2Event<Owner> | null {
    const { writer } = this.#responses;
    switch (frame.kind) {
      case "headers":
        return this.#onHeaders(frame);
      case "data":
        return this.#onData(frame);
      case "windowUpdate":
        this.#onWindowUpdate(frame.stream, frame.increment);
        return null;
      case "reset":
        this.#onReset(frame.stream);
        return null;
      case "settings":
        this.#onSettings(frame);
        return null;
      case "ping":
        writer.ping(frame.bytes.toString("latin1", frame.from, frame.to), true);
        return null;
      case "pingAck":
        this.#onPingAck(frame);
        return null;
      case "goaway":
        this.beginEnd();
        return null;
      case "error":
        this.#onFrameError(frame);
        return null;
    }
  }

  #onPingAck({ bytes, from, to }: Slice): void {
    const payload = bytes.toString("latin1", from, to);
    const stream = payload.startsWith(answerPing)
      ? this.#endings.answered.get(bytes.readUInt32BE(from + 4))
      : undefined;
    if (stream !== undefined) stream.isAnswerRead = true;
    else if (payload === drainPing && this.#end === "announced") this.finishEnd();
  }

  #onFrameError({ stream, code, isTooLarge }: FrameError): void {
    if (stream === 0) this.fail(code, isTooLarge ? "head_too_large" : null);
    else if (this.#isIdle(stream)) this.fail(code);
    else this.#streamError(stream, code);
  }

  #onHeaders({ stream: id, isEnd, bytes, from, to }: Extract<Frame, { kind: "headers" }>): Http2Event<Owner> | null {
    // Whatever becomes of the stream, the block changes the table.
    const fields = this.#decoder.decode(bytes, from, to);
    this.#options.turn.stepsLeft -= this.#decoder.decodedBytes / decodedBytesPerStep;
    if (typeof fields === "string") {
      this.fail(fields === "malformed" ? errorCodes.compression : errorCodes.enhanceYourCalm, fields);
      return null;
    }
    const stream = this.streams.get(id);
    if (stream !== undefined) return this.#onTrailers(stream, fields, isEnd);
    if (this.#isIdle(id)) return this.#open(id, fields, isEnd);
    this.#onFrameOfClosed(id, isEnd, errorCodes.protocol);
    return null;
  }

  #open(id: number, fields: HeaderList, isEnd: boolean): Http2Event<Owner> | null {
    if (id % 2 === 0) {
      this.fail(errorCodes.protocol);
      return null;
    }
    this.#lastStream = id;
    if (fields !== this.#checkedFields && !this.#check(fields)) return this.#refuse(id, isEnd, errorCodes.protocol);
    const bytesToCome = this.#checkedBytesToCome;
    if (isEnd && bytesToCome > 0) return this.#refuse(id, isEnd, errorCodes.protocol);
    // Not counted as a reset: a client may not know the bound yet, and nothing was begun.
    if (this.streams.size >= this.#options.maxStreams) return this.#refuse(id, isEnd, errorCodes.refusedStream);
    this.#reader.points -= requestPoints;
    const stream = new Http2Stream<Owner>(id, isEnd, bytesToCome, this.#responses.initialWindow);
    this.streams.set(id, stream);
    const isTooLarge = this.#decoder.decodedBytes > this.#options.maxHeaderBytes || fields.length > 2 * maxFields;
    return { kind: "request", stream, fields, isEnd, isTooLarge };
  }

  #check(fields: HeaderList): boolean {
    const bytes = announcedBytes(fields);
    if (bytes === undefined || !isRequest(fields, this.#options.mayHaveBlanks)) return false;
    this.#checkedFields = fields;
    this.#checkedBytesToCome = bytes;
    return true;
  }

  /** Resets a stream that was never opened. */
  #refuse(id: number, isEnd: boolean, code: number): Http2Event<Owner> | null {
    this.#responses.writer.reset(id, code);
    this.#endings.add(id, isEnd ? "ended" : "reset");
    if (code === errorCodes.refusedStream) return null;
    this.#countReset();
    return { kind: "malformed" };
  }

  /** A second head is that of the trailers (RFC 9113, 8.1), which are dropped. */
  #onTrailers(stream: Http2Stream<Owner>, fields: HeaderList, isEnd: boolean): Http2Event<Owner> | null {
    if (stream.isReadEnded) this.#streamError(stream.id, errorCodes.streamClosed);
    else if (!isEnd || !areTrailers(fields) || stream.bytesToCome > 0)
      this.#streamError(stream.id, errorCodes.protocol);
    else {
      stream.isReadEnded = true;
      return { kind: "data", stream, bytes: noBytes, isEnd: true };
    }
    return null;
  }

  #onData(piece: DataPiece): Http2Event<Owner> | null {
    const { stream: id, from, to, paddingBytes, isEnd } = piece;
    const stream = this.streams.get(id);
    if (piece.isFirst) this.#beginData(piece, stream);
    if (this.#over !== null) return null;
    if (stream === undefined || stream.isClosed) {
      if (isEnd && this.#endings.endingOf(id) === "reset") this.#endings.add(id, "ended");
      // All that comes counts for the connection's window, even if nobody takes it (RFC 9113, 6.9).
      this.#usedByConnection(this.#untakenBytes);
      this.#untakenBytes = 0;
      return null;
    }
    const bytes = to - from;
    this.#untakenBytes -= bytes + paddingBytes;
    if (isEnd) stream.isReadEnded = true;
    if (paddingBytes > 0) this.used(stream, paddingBytes);
    const isWhole = isEnd && stream.bytesToCome <= 0;
    if (bytes === 0 && !isWhole) return null;
    return { kind: "data", stream, bytes: piece.bytes.subarray(from, to), isEnd: isWhole };
  }

  #beginData(piece: DataPiece, stream: Http2Stream<Owner> | undefined): void {
    const { stream: id, frameBytes, isEnd } = piece;
    this.#receiveWindow -= frameBytes;
    this.#untakenBytes = frameBytes;
    const answered = this.#endings.answered.get(id);
    if (answered !== undefined) answered.receiveWindow -= frameBytes;
    if (this.#isIdle(id)) this.fail(errorCodes.protocol);
    else if (this.#receiveWindow < 0) this.fail(errorCodes.flowControl);
    else if (stream === undefined) this.#onFrameOfClosed(id, isEnd, errorCodes.streamClosed);
    else this.#findDataError(stream, piece);
  }

  /** Finds what the frame's lengths show, before any of it is given away. */
  #findDataError(stream: Http2Stream<Owner>, { frameBytes, dataBytes, endsStream }: DataPiece): void {
    stream.receiveWindow -= frameBytes;
    const { bytesToCome } = stream;
    if (stream.isReadEnded) this.#streamError(stream.id, errorCodes.streamClosed);
    else if (stream.receiveWindow < 0) this.#streamError(stream.id, errorCodes.flowControl);
    else if (bytesToCome < 0) return;
    // A client may end its request early because of the answer, as curl does. Then its body is never told to be whole.
    else if (dataBytes > bytesToCome || (endsStream && dataBytes < bytesToCome && !stream.isAnswered)) {
      this.#streamError(stream.id, errorCodes.protocol);
    } else stream.bytesToCome -= dataBytes;
  }

  /** `unknown`: the code for a stream of which nothing is remembered, or that was never opened. */
  #onFrameOfClosed(id: number, isEnd: boolean, unknown: number): void {
    const ending = this.#endings.endingOf(id);
    if (id > this.#lastStream) return;
    if (ending === null) this.fail(unknown);
    else if (ending === "ended") this.fail(errorCodes.streamClosed);
    else if (ending === "gone") this.#streamError(id, errorCodes.streamClosed);
    // Else it was under way when the gateway reset the stream.
    else if (isEnd) this.#endings.add(id, "ended");
  }

  #onWindowUpdate(id: number, increment: number): void {
    if (id === 0) {
      if (!this.#responses.addToConnection(increment)) this.fail(errorCodes.flowControl);
      return;
    }
    const stream = this.streams.get(id);
    if (stream !== undefined) {
      if (!this.#responses.addTo(stream, increment)) this.#streamError(id, errorCodes.flowControl);
    } else if (this.#isIdle(id)) this.fail(errorCodes.protocol);
  }

  #onReset(id: number): void {
    if (this.#isIdle(id)) {
      this.fail(errorCodes.protocol);
      return;
    }
    const stream = this.streams.get(id);
    if (stream === undefined) {
      if (this.#endings.endingOf(id) !== null) this.#endings.add(id, "gone");
      return;
    }
    stream.isBrokenOff = true;
    this.#close(stream, "gone");
    this.#countReset();
  }

  #onSettings({ bytes, from, to }: Extract<Frame, { kind: "settings" }>): void {
    const settings = readSettings(bytes, from, to);
    if (typeof settings === "number") this.fail(settings);
    else if (!this.#responses.setInitialWindow(settings.initialWindowBytes)) this.fail(errorCodes.flowControl);
    else this.#responses.writer.settingsAck();
  }

  /**
   * Streams of even numbers are never opened, because nothing is pushed. Those above the last one that the final GOAWAY names
   * are not served, and may be sent again elsewhere.
   */
  #isIdle(id: number): boolean {
    return id % 2 === 0 || (id > this.#lastStream && this.#end !== "final");
  }

  #streamError(id: number, code: number): void {
    const stream = this.streams.get(id);
    if (stream !== undefined) this.reset(stream, code);
    else this.#responses.writer.reset(id, code);
    this.#countReset();
  }

  #countReset(): void {
    this.#resets.refill(this.#options.nowMs());
    this.#resets.take(1);
    if (this.#resets.left < 0) this.fail(errorCodes.enhanceYourCalm, "resets");
  }

  /** For Responses: the whole response has been sent. */
  onSent(stream: Http2Stream<Owner>): void {
    this.#resets.take(-1);
    this.#close(stream, stream.isReadEnded ? "ended" : "reset");
    if (stream.isReadEnded) return;
    const { lingerMs = 0, maxStreams } = this.#options;
    const { answered } = this.#endings;
    // A client may have so many streams that it has not ended.
    const mayLinger = lingerMs > 0 && stream.unreadCode === errorCodes.noError && answered.size < maxStreams;
    if (mayLinger) {
      answered.set(stream.id, stream);
      this.#responses.writer.ping(answerPing + uint32(stream.id), false);
    } else this.#resetAnswered(stream);
  }

  #close(stream: Http2Stream<Owner>, ending: "reset" | "gone" | "ended"): void {
    stream.isClosed = true;
    this.streams.delete(stream.id);
    this.#responses.forget(stream);
    this.#endings.add(stream.id, ending);
    if (this.#closed === null) this.#closed = [stream];
    else this.#closed.push(stream);
  }

  /** Opens the connection's window seldom while much of it is left, but before what others wait for uses it up. */
  #usedByConnection(bytes: number, leastBytes = Math.max(leastUpdateBytes, this.#receiveWindow / 2)): void {
    this.#usedBytes += bytes;
    if (this.#usedBytes < leastBytes) return;
    this.#responses.writer.windowUpdate(0, this.#usedBytes);
    this.#receiveWindow += this.#usedBytes;
    this.#usedBytes = 0;
  }

  /** Charges what was read since the last time, less what was sent. */
  #settle(): void {
    const { sentBytes } = this.#responses.writer;
    const points = this.#reader.points - (sentBytes - this.#chargedBytes) / bytesPerPoint;
    this.#chargedBytes = sentBytes;
    this.#reader.points = 0;
    const { budget } = this.#options;
    if (points <= 0) budget.earn(-points);
    else if (!budget.spend(points)) this.fail(errorCodes.enhanceYourCalm, "frames");
  }
}
