// Sends the responses of one HTTP/2 connection within the client's windows (RFC 9113, 5.2 and 6.9). Streams that wait for
// the window of the connection, or for the system to take what was written, take turns. Finds responses that are complete
// but that nobody reads.
import { FrameWriter, type Piece } from "./frame-writer.ts";
import { noDynamicTable } from "./hpack-encoder.ts";
import { defaultWindowBytes, maxFrameBytes, maxWindowBytes } from "./protocol.ts";
import type { Http2Stream } from "./stream.ts";

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
