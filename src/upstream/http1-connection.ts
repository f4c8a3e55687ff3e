// HTTP/1.1 on one socket to the upstream: one request at a time, written as it was given. The connection is closed, not
// used again, after anything it did not expect: spare bytes, a response before its request was whole, bytes that nobody
// asked for.
import type { Socket } from "node:net";
import { asError } from "../core/failure.ts";
import { hasLength } from "../core/has-length.ts";
import { eventBatch } from "./event-batch.ts";
import { defaultIdleMs, idleMsOf } from "./keep-alive.ts";
import { ResponseParser, type ResponseSink } from "./response-parser.ts";
import type { SocketReader } from "./socket-reader.ts";
import { UpstreamFailure } from "./upstream-error.ts";
import { type BodySource, serializeHead, type UpstreamRequest } from "./upstream-request.ts";

export interface ResponseHandler extends ResponseSink {
  /** Nothing more is here for now. */
  onPacketEnd(): void;
  /** The response is whole, and the connection free or gone. */
  onEnd(): void;
  /** A 101: the socket is the handler's from now on, and `early` came behind the head. */
  onUpgrade(fields: readonly string[], socket: Socket, early: Buffer): void;
  /** There was no response, not even a byte of one if `isUntouched`, or none that was whole. The connection is gone. */
  onError(error: Error, isUntouched: boolean): void;
}

/** A body no longer than this goes as text with its head, which costs less than a list of two. */
const maxTextBytes = 8 * 1024;
const lastChunk = "0\r\n\r\n";

interface Turn {
  readonly request: UpstreamRequest;
  readonly handler: ResponseHandler;
  isBodySent: boolean;
  sawHead: boolean;
  /** A 101's fields, until the bytes behind it are known. */
  switched: readonly string[] | null;
}

export class Http1Connection {
  readonly #reader: SocketReader;
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  readonly #onClose: () => void;
  /** One for each connection, set back with each request and piece: the system keeps timers of one length in a list. */
  readonly #responseTimer: NodeJS.Timeout;
  #idleTimer: NodeJS.Timeout | null = null;
  #idleMs = defaultIdleMs;
  #turn: Turn | null = null;
  #sentInBatch = 0;
  #isPaused = false;
  /** Somebody has kept bytes that are being read. */
  #isKept = false;
  #isClosed = false;
  /** A response has been completed on it, so the next request may meet an idle close. */
  isReused = false;

  constructor(reader: SocketReader, options: { readonly responseTimeoutMs: number; readonly onClose: () => void }) {
    const { socket } = reader;
    this.#reader = reader;
    this.#socket = socket;
    this.#onClose = options.onClose;
    this.#parser = new ResponseParser({
      onInterim: (head) => this.#turn?.handler.onInterim(head),
      onHead: (head) => {
        if (this.#turn === null) return;
        this.#turn.sawHead = true;
        this.#takeIdleTime(head.fields);
        if (head.status === 101) this.#turn.switched = head.fields;
        else this.#turn.handler.onHead(head);
      },
      onBody: (bytes) => {
        const isKept = this.#turn?.handler.onBody(bytes) ?? false;
        this.#isKept ||= isKept;
        return isKept;
      },
    });
    this.#responseTimer = setTimeout(this.#onTimeout, options.responseTimeoutMs);
    socket.on("end", this.#onEnd);
    socket.on("error", this.#onError);
    socket.on("close", this.#onSocketClose);
    socket.on("drain", this.#onDrain);
    reader.start(this.#onBytes);
  }

  /** Only while it is free. */
  send(request: UpstreamRequest, handler: ResponseHandler): void {
    const { body } = request;
    this.#turn = { request, handler, isBodySent: body === null || isWhole(body), sawHead: false, switched: null };
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
    // The head leaves with what has come of the body in the same packet, of which Node's parser makes several ticks.
    this.#socket.cork();
    const isChunked = !hasLength(request.fields);
    this.#socket.write(serializeHead(request, isChunked), "latin1");
    this.#sendBody(body, isChunked);
    setImmediate(uncork, this.#socket);
  }

  /** The handler hears nothing more. */
  abort(): void {
    this.#turn = null;
    this.#close();
  }

  /** The body's next pieces wait for `resume`; those that have been read already still come. */
  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  /** `isFlushed`: nothing that was handed on is kept any more. */
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

  #sendBody(body: BodySource, isChunked: boolean): void {
    const turn = this.#turn;
    // What comes after the turn is over belongs to nothing.
    const isOver = (): boolean => this.#turn !== turn || turn === null;
    body.start(
      (bytes) => {
        if (isOver() || bytes.length === 0) return true;
        this.#responseTimer.refresh();
        if (!isChunked) return this.#socket.write(bytes);
        this.#socket.cork();
        this.#socket.write(`${bytes.length.toString(16)}\r\n`, "latin1");
        this.#socket.write(bytes);
        const isTaken = this.#socket.write("\r\n", "latin1");
        process.nextTick(uncork, this.#socket);
        return isTaken;
      },
      () => {
        if (isOver() || turn === null) return;
        turn.isBodySent = true;
        this.#responseTimer.refresh();
        if (isChunked) this.#socket.write(lastChunk, "latin1");
      },
    );
  }

  readonly #onDrain = (): void => {
    this.#responseTimer.refresh();
    const body = this.#turn?.request.body ?? null;
    if (body !== null && !isWhole(body)) body.resume();
  };

  readonly #onBytes = (bytes: Buffer): "read" | "kept" | "lent" => {
    const turn = this.#turn;
    this.#isKept = false;
    this.#read(bytes);
    if (!this.#isKept) return "read";
    // Of a turn that is over nobody tells when the client has it.
    return this.#turn === turn ? "lent" : "kept";
  };

  #read(bytes: Buffer): void {
    // Bytes that nobody asked for answer nothing that is still to come.
    if (this.#turn === null) {
      this.#close();
      return;
    }
    if (this.#parser.isUntouched && eventBatch() === this.#sentInBatch) {
      this.#fail(new UpstreamFailure("UPSTREAM_UNSOLICITED_RESPONSE"));
      return;
    }
    if (this.#turn.sawHead) this.#responseTimer.refresh();
    try {
      const read = this.#parser.execute(bytes);
      if (this.#parser.isOver) this.#complete(bytes.subarray(read));
      else this.#turn?.handler.onPacketEnd();
    } catch (error) {
      this.#fail(asError(error));
    }
  }

  #complete(spare: Buffer): void {
    const turn = this.#turn;
    // It was given up while its last bytes were handed on.
    if (turn === null) return;
    this.#turn = null;
    if (turn.switched !== null) {
      this.#isKept = true;
      this.#letGoOfSocket();
      turn.handler.onUpgrade(turn.switched, this.#socket, spare);
      return;
    }
    const mayContinue = this.#parser.mayContinue && turn.isBodySent && !turn.request.isLast;
    if (spare.length > 0 || !mayContinue || this.#socket.readableEnded) this.#close();
    else this.#rest();
    turn.handler.onEnd();
  }

  #rest(): void {
    this.isReused = true;
    // A client that read slowly is gone by now, and an end must be seen.
    if (this.#isPaused) this.resume(false);
    if (this.#idleTimer === null) this.#idleTimer = setTimeout(this.#onIdle, this.#idleMs);
    else this.#idleTimer.refresh();
  }

  #takeIdleTime(fields: readonly string[]): void {
    const idleMs = idleMsOf(fields) ?? this.#idleMs;
    if (idleMs === this.#idleMs) return;
    this.#idleMs = idleMs;
    if (this.#idleTimer !== null) clearTimeout(this.#idleTimer);
    this.#idleTimer = null;
  }

  readonly #onIdle = (): void => {
    if (this.#turn === null) this.#close();
  };

  readonly #onTimeout = (): void => {
    const turn = this.#turn;
    if (turn === null) return;
    // Then it is the client that is waited for, which has a time of its own: an upstream whose answer has begun may need
    // the rest of the request to go on.
    const waitsForBody = !turn.isBodySent && !this.#socket.writableNeedDrain;
    if (waitsForBody || this.#isPaused) this.#responseTimer.refresh();
    else this.#fail(new UpstreamFailure(turn.sawHead ? "UPSTREAM_BODY_TIMEOUT" : "UPSTREAM_RESPONSE_TIMEOUT"));
  };

  readonly #onEnd = (): void => {
    if (this.#turn !== null && this.#parser.end()) this.#complete(nothing);
    else this.#fail(new UpstreamFailure("UPSTREAM_CLOSED_EARLY"));
  };

  readonly #onError = (error: Error): void => this.#fail(error);

  readonly #onSocketClose = (): void => {
    this.#fail(new UpstreamFailure("UPSTREAM_CLOSED_EARLY"));
  };

  #fail(error: Error): void {
    const handler = this.#turn?.handler;
    this.#turn = null;
    this.#close();
    handler?.onError(error, this.#parser.isUntouched);
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#letGoOfSocket();
    // A reset may still be told of.
    this.#socket.on("error", ignoreReset);
    this.#socket.destroy();
  }

  #letGoOfSocket(): void {
    this.#isClosed = true;
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

function ignoreReset(): void {}
