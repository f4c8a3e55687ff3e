// HTTP/1.1 on one socket to the upstream: one request at a time, written as it was given. The connection is closed, not
// used again, after anything unexpected: bytes behind a response, a response before its request was complete, bytes on
// an idle connection.
import type { Socket } from "node:net";
import { asError, ignoreError } from "../core/failure.ts";
import { contentMethods } from "../core/method.ts";
import type { KeepAliveMs, ResponseTimeouts } from "../core/upstream.ts";
import { type DeferredWriter, DeferredWrites, TextWrites, WriteBuffer } from "../exchange/socket-writes.ts";
import type { ResponseHead } from "../http1/response-head.ts";
import { RememberedHeads, ResponseParser, type ResponseSink } from "../http1/response-parser.ts";
import { UpstreamFailure } from "./upstream-error.ts";
import { idleMsOf, ReadBuffers, type SocketReader } from "./upstream-socket.ts";

export interface ResponseHandler extends ResponseSink {
  /** All bytes that were read together have been handed over. */
  onPacketEnd(): void;
  /** The response is complete, and the connection idle or closed. */
  onEnd(): void;
  /** A 101: the handler owns the socket from now on; `early` came behind the head. */
  onUpgrade(head: ResponseHead, socket: Socket, early: Buffer): void;
  /** There is no complete response; not a byte of one has come if `isUntouched`. The connection is closed. */
  onError(error: Error, isUntouched: boolean): void;
}

interface OutboundConnectionOptions extends ConnectionResources, ResponseTimeouts {
  readonly keepAliveMs?: KeepAliveMs;
  readonly onClose: () => void;
}

const inChunks = "Transfer-Encoding: chunked";
const lastChunk = "0\r\n\r\n";

export class OutboundConnection implements BodySink, Ticked, DeferredWriter {
  readonly #reader: SocketReader;
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  readonly #options: OutboundConnectionOptions;
  /** The request in flight; null while the connection is idle. */
  #request: UpstreamRequest | null = null;
  #handler: ResponseHandler | null = null;
  /** The head until it is written. */
  #unwritten = "";
  #isChunked = false;
  #isBodySent = false;
  #sawHead = false;
  /** A 101, until the bytes behind it are known. */
  #switched: ResponseHead | null = null;
  /** The tick at which the upstream has kept the request waiting for too long. */
  #responseDue = 0;
  #idleDue = Number.POSITIVE_INFINITY;
  #sentInBatch = 0;
  /** The upstream takes no more, and what it has answered is read to its end. */
  #isRefused = false;
  #isPaused = false;
  /** The handler has kept bytes of the read that is being handled. */
  #isKept = false;
  isClosed = false;
  /** A response has been completed on it, so the upstream may close it as idle while the next request is sent. */
  isReused = false;
  /** How long the connection may be idle; 0: it is not used again. */
  maxIdleMs: number;

  constructor(reader: SocketReader, options: OutboundConnectionOptions) {
    const { socket } = reader;
    this.#reader = reader;
    this.#socket = socket;
    this.#options = options;
    this.maxIdleMs = idleMsOf(options.keepAliveMs);
    const sink: ResponseSink = {
      onInterim: (head) => this.#handler?.onInterim(head),
      onHead: (head) => this.#onHead(head),
      onBody: (bytes, from, to) => {
        const isKept = this.#handler?.onBody(bytes, from, to) ?? false;
        this.#isKept ||= isKept;
        return isKept;
      },
    };
    this.#parser = new ResponseParser(sink, options.heads);
    socket.on("end", this.#onEnd).on("error", this.#onError);
    socket.on("close", this.#onSocketClose).on("drain", this.#onDrain);
    reader.mayHaveAnswer = this.#mayHaveAnswer;
    reader.start(this.#onBytes);
    options.ticks.add(this);
  }

  /** Sends a request; the connection must be idle. */
  send(request: UpstreamRequest, handler: ResponseHandler): void {
    const { body } = request;
    this.#request = request;
    this.#handler = handler;
    this.#isBodySent = body === null || Buffer.isBuffer(body);
    this.#isChunked = !this.#isBodySent && !request.hasLength;
    this.#sawHead = false;
    this.#switched = null;
    this.#reader.forget();
    this.#parser.begin(request.method);
    this.#sentInBatch = eventBatch();
    this.#wait();
    if (body === null) {
      this.#unwritten = serializeHead(request, "");
      this.#options.deferredWrites.defer(this);
      return;
    }
    if (Buffer.isBuffer(body)) {
      this.#options.writeBuffer.writeMessage(this.#socket, serializeHead(request, ""), body, this.#reader.isPlain);
      return;
    }
    // The head leaves in one packet with what has come of the body.
    this.#unwritten = serializeHead(request, this.#isChunked ? inChunks : "");
    body.start(this);
    if (this.#unwritten !== "") setImmediate(writeHead, this);
  }

  writeDeferred(): void {
    const text = this.#unwritten;
    this.#unwritten = "";
    if (this.isClosed) return;
    if (!this.#reader.isPlain) this.#socket.write(text, "latin1");
    // If it is not taken at once, the empty write learns of an error.
    else if (!this.#options.textWrites.write(this.#socket, text)) this.#socket.write("");
  }

  /** Closes the connection. The handler is not called any more. */
  abort(): void {
    this.#forgetRequest();
    this.#close();
  }

  /** Reads no more of the response until `resume`; pieces that have been read already are still delivered. */
  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  /** `isFlushed`: nothing of what was delivered is still kept. */
  resume(isFlushed: boolean): void {
    if (isFlushed) this.#reader.reclaim();
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#wait();
    this.#socket.resume();
  }

  /** Writes the head of a request whose body has not begun to come. */
  writeHead(): void {
    if (!this.isClosed && this.#unwritten !== "") this.#writeBody(nothing, "");
  }

  sendPiece(body: BodySource, bytes: Buffer): boolean {
    // A body may go on after its request is over.
    if (this.#request?.body !== body || bytes.length === 0) return true;
    return this.#writeBody(bytes, "");
  }

  endBody(body: BodySource, last: Buffer): void {
    const request = this.#request;
    if (request?.body !== body) return;
    this.#isBodySent = true;
    // Nothing has been written, so this is the whole body.
    if (this.#isChunked && this.#unwritten !== "" && request.mayGetLength) {
      this.#isChunked = false;
      const hasContent = last.length > 0 || contentMethods.has(request.method);
      this.#unwritten = serializeHead(request, hasContent ? `Content-Length: ${last.length}` : "");
    }
    this.#writeBody(last, this.#isChunked ? lastChunk : "");
  }

  #writeBody(bytes: Buffer, end: string): boolean {
    this.#wait();
    const head = this.#unwritten;
    this.#unwritten = "";
    if (head !== "") this.#sentInBatch = eventBatch();
    const isChunk = this.#isChunked && bytes.length > 0;
    const before = isChunk ? `${head}${bytes.length.toString(16)}\r\n` : head;
    const after = isChunk ? `\r\n${end}` : end;
    if (before === "" && after === "" && bytes.length === 0) return true;
    return this.#options.writeBuffer.writePart(this.#socket, before, bytes, after, this.#reader.isPlain);
  }

  /**
   * A write has failed because the connection was reset. If that was the head's, the request has not reached the upstream, and
   * what is still unread is no answer to it. Otherwise the rest of the body is dropped while the answer is read.
   */
  readonly #mayHaveAnswer = (): boolean => {
    this.#isRefused = this.#handler !== null && this.#unwritten === "" && eventBatch() !== this.#sentInBatch;
    return this.#isRefused;
  };

  readonly #onDrain = (): void => {
    this.#wait();
    const body = this.#request?.body ?? null;
    if (body !== null && !Buffer.isBuffer(body)) body.resume();
  };

  /** Begins the wait for the upstream again. */
  #wait(): void {
    const { ticks, responseTimeoutMs, bodyTimeoutMs } = this.#options;
    this.#responseDue = ticks.after(this.#sawHead ? bodyTimeoutMs : responseTimeoutMs);
  }

  readonly #onBytes = (bytes: Buffer): "read" | "kept" | "lent" => {
    const handler = this.#handler;
    this.#isKept = false;
    this.#read(bytes);
    if (!this.#isKept) return "read";
    // Once the request is over, `resume` no longer says when the client has the bytes.
    return this.#handler === handler ? "lent" : "kept";
  };

  #read(bytes: Buffer): void {
    if (this.#handler === null) {
      this.#close();
      return;
    }
    if (this.#parser.isUntouched && (this.#unwritten !== "" || eventBatch() === this.#sentInBatch)) {
      this.#fail(new UpstreamFailure("UPSTREAM_UNSOLICITED_RESPONSE"));
      return;
    }
    if (this.#sawHead) this.#wait();
    try {
      const read = this.#parser.execute(bytes);
      if (this.#parser.isOver) this.#complete(bytes, read);
      else this.#handler?.onPacketEnd();
    } catch (error) {
      this.#fail(asError(error));
    }
  }

  #onHead(head: ResponseHead): void {
    if (this.#handler === null) return;
    this.#sawHead = true;
    this.#wait();
    if (head.keepAliveSeconds !== null) this.maxIdleMs = idleMsOf(this.#options.keepAliveMs, head.keepAliveSeconds);
    if (head.status === 101) this.#switched = head;
    else this.#handler.onHead(head);
  }

  /** `read`: so many of the bytes belong to the response. */
  #complete(bytes: Buffer, read: number): void {
    const handler = this.#handler;
    const request = this.#request;
    // The handler aborted it while it was given the last bytes.
    if (handler === null || request === null) return;
    this.#forgetRequest();
    if (this.#switched !== null) {
      this.#isKept = true;
      this.#releaseSocket();
      handler.onUpgrade(this.#switched, this.#socket, bytes.subarray(read));
      return;
    }
    const isWhole = this.#parser.mayContinue && this.#isBodySent && !this.#isRefused && read === bytes.length;
    if (!isWhole || request.isLast || this.maxIdleMs === 0 || this.#socket.readableEnded) this.#close();
    else this.#becomeIdle();
    handler.onEnd();
  }

  #becomeIdle(): void {
    this.isReused = true;
    // The socket must be read while idle, or the upstream's close goes unnoticed.
    if (this.#isPaused) this.resume(false);
    this.#idleDue = this.#options.ticks.after(this.maxIdleMs);
  }

  /** Checks the timeouts. */
  onTick(): void {
    const { ticks } = this.#options;
    if (this.#handler === null) {
      if (ticks.isPast(this.#idleDue)) this.#close();
      return;
    }
    if (!ticks.isPast(this.#responseDue)) return;
    // While the client's body or the client's reading is waited for, the client's own timeouts apply. This also holds
    // if the response has begun: the upstream may need the rest of the request to go on.
    const waitsForBody = !this.#isBodySent && !this.#socket.writableNeedDrain;
    if (waitsForBody || this.#isPaused) this.#wait();
    else this.#fail(new UpstreamFailure(this.#sawHead ? "UPSTREAM_BODY_TIMEOUT" : "UPSTREAM_RESPONSE_TIMEOUT"));
  }

  readonly #onEnd = (): void => {
    if (this.#handler !== null && this.#parser.end()) this.#complete(nothing, 0);
    else this.#fail(new UpstreamFailure("UPSTREAM_CLOSED_EARLY"));
  };

  readonly #onError = (error: Error): void => this.#fail(error);

  readonly #onSocketClose = (): void => {
    this.#fail(new UpstreamFailure("UPSTREAM_CLOSED_EARLY"));
  };

  #fail(error: Error): void {
    const handler = this.#handler;
    this.#forgetRequest();
    this.#close();
    handler?.onError(error, this.#parser.isUntouched);
  }

  #forgetRequest(): void {
    this.#request = null;
    this.#handler = null;
  }

  #close(): void {
    if (this.isClosed) return;
    this.#releaseSocket();
    this.#socket.on("error", ignoreError);
    this.#socket.destroy();
  }

  #releaseSocket(): void {
    this.isClosed = true;
    this.#options.ticks.delete(this);
    const socket = this.#socket;
    this.#reader.stop();
    socket.off("end", this.#onEnd).off("error", this.#onError);
    socket.off("close", this.#onSocketClose).off("drain", this.#onDrain);
    this.#options.onClose();
  }
}

const nothing = Buffer.alloc(0);

function writeHead(connection: OutboundConnection): void {
  connection.writeHead();
}

// The event loop takes what is ready on all sockets from the system in one batch and then handles one socket after the
// other. So bytes that are read in the batch in which a request was written, or in which its write was deferred, had come
// before the request was written, and cannot answer it. Bytes that come after the batch was taken, or that cross the
// request on its way, cannot be told from a response: HTTP/1.1 does not say which request a response answers. Such a
// response reaches the wrong client, which no proxy can prevent.
const { nodeTiming } = performance;

/** Returns a number that changes with each batch: both figures only grow, so their sum stays the same only if both do. */
function eventBatch(): number {
  const { loopCount, events } = nodeTiming.uvMetricsInfo;
  return loopCount + events;
}

/** A request to the upstream. */
export interface UpstreamRequest {
  readonly method: string;
  /**
   * The request line and the headers, without hop-by-hop headers and without the last line end. A body without
   * Content-Length is sent in chunks.
   */
  readonly start: string;
  /** The length of the body is known: it is among the headers, or there is no body. */
  readonly hasLength: boolean;
  /** A body that is whole when the head is written gets a Content-Length: the client has not chosen chunks. */
  readonly mayGetLength: boolean;
  readonly body: BodySource | Buffer | null;
  /** The upstream is asked to close the connection after the response. */
  readonly isLast: boolean;
  /** The value of Upgrade; empty if the request stays HTTP. */
  readonly upgrade: string;
}

/** A body that comes piece by piece. After `sendPiece` has returned false it waits for `resume`. */
export interface BodySource {
  start(sink: BodySink): void;
  resume(): void;
}

export interface BodySink {
  /** The bytes are overwritten after the call. */
  sendPiece(body: BodySource, bytes: Buffer): boolean;
  /** `last` may be empty, and is overwritten after the call. */
  endBody(body: BodySource, last: Buffer): void;
}

const keepAlive = "\r\nConnection: keep-alive\r\n\r\n";
const close = "\r\nConnection: close\r\n\r\n";

/**
 * Returns the head as text, one character for each byte: the given fields, then those for framing and for the connection.
 * `framing`: a field without its line end; empty if there is none.
 */
export function serializeHead(request: UpstreamRequest, framing: string): string {
  const { start, isLast, upgrade } = request;
  const text = framing === "" ? start : `${start}\r\n${framing}`;
  if (upgrade !== "") return `${text}\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`;
  return text + (isLast ? close : keepAlive);
}

/** What the connections to an upstream have in common: buffers, the heads that they remember, and one timer. */
export interface ConnectionResources {
  readonly heads: RememberedHeads;
  readonly ticks: Ticks;
  readonly buffers: ReadBuffers;
  readonly writeBuffer: WriteBuffer;
  readonly deferredWrites: DeferredWrites;
  readonly textWrites: TextWrites;
}

/** `maxHeaderBytes`: of a response. */
export function createConnectionResources(maxHeaderBytes?: number, textWrites = new TextWrites()): ConnectionResources {
  return {
    heads: new RememberedHeads(maxHeaderBytes),
    ticks: new Ticks(),
    buffers: new ReadBuffers(),
    writeBuffer: new WriteBuffer(),
    deferredWrites: new DeferredWrites(),
    textWrites,
  };
}

/** A timeout is noticed at most two of these late. */
const tickMs = 100;

interface Ticked {
  onTick(): void;
}

/**
 * The timeouts of all connections to an upstream, checked by one timer. A timer of its own for each connection would have
 * to be set again by each request and each piece of a body.
 */
export class Ticks {
  readonly #all = new Set<Ticked>();
  #timer: NodeJS.Timeout | null = null;
  #now = 0;

  /** Calls its `onTick` with each tick from now on. */
  add(each: Ticked): void {
    this.#all.add(each);
    this.#timer ??= setInterval(this.#onTick, tickMs).unref();
  }

  delete(each: Ticked): void {
    this.#all.delete(each);
  }

  /** Returns the tick at which so much time has passed, and at most two ticks more. */
  after(ms: number): number {
    // One more, because part of the current tick has passed already.
    return this.#now + Math.ceil(ms / tickMs) + 1;
  }

  isPast(tick: number): boolean {
    return this.#now >= tick;
  }

  readonly #onTick = (): void => {
    this.#now += 1;
    for (const each of this.#all) each.onTick();
    if (this.#all.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  };
}
