// HTTP/1.1 on one socket to the upstream: one request at a time, written as it was given. The connection is closed, not
// used again, after anything unexpected: bytes behind a response, a response before its request was complete, bytes on
// an idle connection.
import type { Socket } from "node:net";
import { asError, ignoreError } from "../core/failure.ts";
import { type HeaderList, headerValue } from "../core/header-list.ts";
import { eventBatch } from "./event-batch.ts";
import { defaultIdleMs, idleMsOf } from "./keep-alive.ts";
import { ResponseParser, type ResponseSink } from "./response-parser.ts";
import type { SocketReader } from "./socket-reader.ts";
import { UpstreamFailure } from "./upstream-failure.ts";
import { type BodySink, type BodySource, serializeHead, type UpstreamRequest } from "./upstream-request.ts";

export interface ResponseHandler extends ResponseSink {
  /** All bytes that were read together have been handed over. */
  onPacketEnd(): void;
  /** The response is complete, and the connection idle or closed. */
  onEnd(): void;
  /** A 101: the handler owns the socket from now on; `early` came behind the head. */
  onUpgrade(fields: HeaderList, socket: Socket, early: Buffer): void;
  /** There is no complete response; not a byte of one has come if `isUntouched`. The connection is closed. */
  onError(error: Error, isUntouched: boolean): void;
}

export interface Http1ConnectionOptions {
  readonly responseTimeoutMs: number;
  readonly onClose: () => void;
}

/** A body up to this length is written as text with its head, which costs less than a list of two buffers. */
const maxTextBytes = 8 * 1024;
const lastChunk = "0\r\n\r\n";

interface InFlightRequest {
  readonly request: UpstreamRequest;
  readonly handler: ResponseHandler;
  readonly isChunked: boolean;
  isBodySent: boolean;
  sawHead: boolean;
  /** A 101's fields, until the bytes behind its head are known. */
  switched: HeaderList | null;
}

export class Http1Connection implements BodySink {
  readonly #reader: SocketReader;
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  readonly #onClose: () => void;
  /** One for each connection, refreshed with each request and piece: Node keeps timers of one length in one list. */
  readonly #responseTimer: NodeJS.Timeout;
  #idleTimer: NodeJS.Timeout | null = null;
  #idleMs = defaultIdleMs;
  #inFlight: InFlightRequest | null = null;
  #sentInBatch = 0;
  #isPaused = false;
  /** The handler has kept bytes of the read that is being handled. */
  #isKept = false;
  isClosed = false;
  /** A response has been completed on it, so the upstream may close it as idle while the next request is sent. */
  isReused = false;

  constructor(reader: SocketReader, options: Http1ConnectionOptions) {
    const { socket } = reader;
    this.#reader = reader;
    this.#socket = socket;
    this.#onClose = options.onClose;
    this.#parser = new ResponseParser({
      onInterim: (head) => this.#inFlight?.handler.onInterim(head),
      onHead: (head) => {
        if (this.#inFlight === null) return;
        this.#inFlight.sawHead = true;
        this.#takeIdleTime(head.fields);
        if (head.status === 101) this.#inFlight.switched = head.fields;
        else this.#inFlight.handler.onHead(head);
      },
      onBody: (bytes) => {
        const isKept = this.#inFlight?.handler.onBody(bytes) ?? false;
        this.#isKept ||= isKept;
        return isKept;
      },
    });
    this.#responseTimer = setTimeout(this.#onTimeout, options.responseTimeoutMs);
    socket.on("end", this.#onEnd).on("error", this.#onError);
    socket.on("close", this.#onSocketClose).on("drain", this.#onDrain);
    reader.start(this.#onBytes);
  }

  /** Sends a request; the connection must be idle. */
  send(request: UpstreamRequest, handler: ResponseHandler): void {
    const { body } = request;
    const isBodySent = body === null || isWhole(body);
    const isChunked = !isBodySent && headerValue(request.fields, "content-length") === undefined;
    this.#inFlight = { request, handler, isChunked, isBodySent, sawHead: false, switched: null };
    this.#reader.forget();
    this.#parser.begin(request.method);
    this.#sentInBatch = eventBatch();
    this.#responseTimer.refresh();
    if (body === null) {
      this.#socket.write(serializeHead(request, false), "latin1");
      return;
    }
    if (isWhole(body)) {
      this.#sendWhole(serializeHead(request, false), body);
      return;
    }
    // The head leaves in one packet with what has come of the body.
    this.#socket.cork();
    this.#socket.write(serializeHead(request, isChunked), "latin1");
    body.start(this);
    // Usually all of the body has been received by now.
    if (this.#inFlight?.isBodySent === true) this.#socket.uncork();
    else setImmediate(uncork, this.#socket);
  }

  /** Closes the connection. The handler is not called any more. */
  abort(): void {
    this.#inFlight = null;
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
    this.#responseTimer.refresh();
    this.#socket.resume();
  }

  #sendWhole(head: string, body: Buffer): void {
    if (body.length <= maxTextBytes) {
      this.#socket.write(head + body.toString("latin1"), "latin1");
      return;
    }
    this.#socket.cork();
    this.#socket.write(head, "latin1");
    this.#socket.write(body);
    this.#socket.uncork();
  }

  sendPiece(body: BodySource, bytes: Buffer): boolean {
    const inFlight = this.#inFlight;
    // A body may go on after its request is over.
    if (inFlight?.request.body !== body || bytes.length === 0) return true;
    this.#responseTimer.refresh();
    if (!inFlight.isChunked) return this.#socket.write(bytes);
    this.#socket.cork();
    this.#socket.write(`${bytes.length.toString(16)}\r\n`, "latin1");
    this.#socket.write(bytes);
    const mayGoOn = this.#socket.write("\r\n", "latin1");
    process.nextTick(uncork, this.#socket);
    return mayGoOn;
  }

  endBody(body: BodySource): void {
    const inFlight = this.#inFlight;
    if (inFlight?.request.body !== body) return;
    inFlight.isBodySent = true;
    this.#responseTimer.refresh();
    if (inFlight.isChunked) this.#socket.write(lastChunk, "latin1");
  }

  readonly #onDrain = (): void => {
    this.#responseTimer.refresh();
    const body = this.#inFlight?.request.body ?? null;
    if (body !== null && !isWhole(body)) body.resume();
  };

  readonly #onBytes = (bytes: Buffer): "read" | "kept" | "lent" => {
    const inFlight = this.#inFlight;
    this.#isKept = false;
    this.#read(bytes);
    if (!this.#isKept) return "read";
    // Once the request is over, `resume` no longer says when the client has the bytes.
    return this.#inFlight === inFlight ? "lent" : "kept";
  };

  #read(bytes: Buffer): void {
    if (this.#inFlight === null) {
      this.#close();
      return;
    }
    if (this.#parser.isUntouched && eventBatch() === this.#sentInBatch) {
      this.#fail(new UpstreamFailure("UPSTREAM_UNSOLICITED_RESPONSE"));
      return;
    }
    if (this.#inFlight.sawHead) this.#responseTimer.refresh();
    try {
      const read = this.#parser.execute(bytes);
      if (this.#parser.isOver) this.#complete(bytes.subarray(read));
      else this.#inFlight?.handler.onPacketEnd();
    } catch (error) {
      this.#fail(asError(error));
    }
  }

  #complete(spare: Buffer): void {
    const inFlight = this.#inFlight;
    // The handler aborted it while it was given the last bytes.
    if (inFlight === null) return;
    this.#inFlight = null;
    if (inFlight.switched !== null) {
      this.#isKept = true;
      this.#releaseSocket();
      inFlight.handler.onUpgrade(inFlight.switched, this.#socket, spare);
      return;
    }
    const mayContinue = this.#parser.mayContinue && inFlight.isBodySent && !inFlight.request.isLast;
    if (spare.length > 0 || !mayContinue || this.#socket.readableEnded) this.#close();
    else this.#becomeIdle();
    inFlight.handler.onEnd();
  }

  #becomeIdle(): void {
    this.isReused = true;
    // The socket must be read while idle, or the upstream's close goes unnoticed.
    if (this.#isPaused) this.resume(false);
    if (this.#idleTimer === null) this.#idleTimer = setTimeout(this.#onIdle, this.#idleMs);
    else this.#idleTimer.refresh();
  }

  #takeIdleTime(fields: HeaderList): void {
    const idleMs = idleMsOf(fields) ?? this.#idleMs;
    if (idleMs === this.#idleMs) return;
    this.#idleMs = idleMs;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
  }

  readonly #onIdle = (): void => {
    if (this.#inFlight === null) this.#close();
  };

  readonly #onTimeout = (): void => {
    const inFlight = this.#inFlight;
    if (inFlight === null) return;
    // While the client's body or the client's reading is waited for, the client's own timeouts apply. This also holds
    // if the response has begun: the upstream may need the rest of the request to go on.
    const waitsForBody = !inFlight.isBodySent && !this.#socket.writableNeedDrain;
    if (waitsForBody || this.#isPaused) this.#responseTimer.refresh();
    else this.#fail(new UpstreamFailure(inFlight.sawHead ? "UPSTREAM_BODY_TIMEOUT" : "UPSTREAM_RESPONSE_TIMEOUT"));
  };

  readonly #onEnd = (): void => {
    if (this.#inFlight !== null && this.#parser.end()) this.#complete(nothing);
    else this.#fail(new UpstreamFailure("UPSTREAM_CLOSED_EARLY"));
  };

  readonly #onError = (error: Error): void => this.#fail(error);

  readonly #onSocketClose = (): void => {
    this.#fail(new UpstreamFailure("UPSTREAM_CLOSED_EARLY"));
  };

  #fail(error: Error): void {
    const handler = this.#inFlight?.handler;
    this.#inFlight = null;
    this.#close();
    handler?.onError(error, this.#parser.isUntouched);
  }

  #close(): void {
    if (this.isClosed) return;
    this.#releaseSocket();
    this.#socket.on("error", ignoreError);
    this.#socket.destroy();
  }

  #releaseSocket(): void {
    this.isClosed = true;
    clearTimeout(this.#responseTimer);
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    const socket = this.#socket;
    this.#reader.stop();
    socket.off("end", this.#onEnd).off("error", this.#onError);
    socket.off("close", this.#onSocketClose).off("drain", this.#onDrain);
    this.#onClose();
  }
}

const nothing = Buffer.alloc(0);

function isWhole(body: BodySource | Buffer): body is Buffer {
  return Buffer.isBuffer(body);
}

function uncork(socket: Socket): void {
  socket.uncork();
}
