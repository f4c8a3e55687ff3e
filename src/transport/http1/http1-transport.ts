// Writes the responses of a connection of HTTP/1, one after the other. Head, framing and body are written as text; the
// response parser has checked the upstream's headers. One object serves all requests of a connection, so that a request
// allocates none.
import type { Socket } from "node:net";
import { type HeaderLines, reasonPhrase, serializeHead } from "../../core/headers.ts";
import type { Scheme } from "../../core/settings.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { DeferredWriter, DeferredWrites, TextWrites } from "../../exchange/socket-writes.ts";
import { copyOf } from "../../exchange/sockets.ts";
import type { SwitchedConnection, Transport } from "../../exchange/transport.ts";
import { IncomingBody } from "./incoming-body.ts";

/** What the responses of many connections have in common. */
export interface Http1Writing {
  readonly deferredWrites: DeferredWrites;
  readonly textWrites: TextWrites;
  /** The end of the head of each response that is not the last one. */
  readonly keepAliveEnd: string;
}

/** The connection that a transport writes to. */
export interface Http1Owner {
  readonly socket: Socket;
  readonly scheme: Scheme;
  /** Whether the socket is encrypted. Behind a PROXY header, the scheme does not say it. */
  readonly isTls: boolean;
  /** Whether the response to the current request is the last on this connection. */
  readonly isLastRequest: boolean;
  /** Set when a head has announced that the connection closes. */
  isClosing: boolean;
  /** Is called when the response is complete and sent. */
  endRequest(exchange: Exchange): void;
  /**
   * Reads no more requests. Returns what the client has sent behind the current one, and its socket is a stream from now on;
   * null if the client has ended its side.
   */
  releaseSocket(): readonly Buffer[] | null;
  /** Resets the connection: a normal close could be the end of the response. */
  reset(): void;
}

const closeEnd = "Connection: close\r\n\r\n";
const chunkedLine: HeaderLines = "Transfer-Encoding: chunked\r\n";
const lastChunk = "0\r\n\r\n";
const continueHead = "HTTP/1.1 100 Continue\r\n\r\n";
const noBody = Buffer.alloc(0);

export class Http1Transport implements Transport, DeferredWriter {
  isUpgrade = false;
  body: Buffer | IncomingBody = noBody;
  readonly #owner: Http1Owner;
  readonly #writing: Http1Writing;
  readonly #socket: Socket;
  exchange: Exchange | null = null;
  /** The head until it is written. */
  #head = "";
  #isHeadWritten = false;
  #isChunked = false;
  /** The response to a HEAD, and one with status 204 or 304, has no body (RFC 9112, 6.3). */
  #endsWithHead = false;
  /** The end of the connection is that of the body: the client of HTTP/1.0 knows no chunks. */
  #endsWithConnection = false;
  #isEnded = false;
  /** The end of the response until it is written. */
  #unwritten = "";
  /** Bytes behind the request came in the same read. */
  #isPipelined = false;
  /** Without a 100, the client may send its body or not. */
  #awaitsContinue = false;
  bodyBytesReceived = 0;
  bytesSent = 0;

  constructor(owner: Http1Owner, writing: Http1Writing) {
    this.#owner = owner;
    this.#writing = writing;
    this.#socket = owner.socket;
  }

  begin(
    exchange: Exchange,
    body: Buffer | IncomingBody,
    isPipelined: boolean,
    awaitsContinue: boolean,
    isUpgrade: boolean,
  ): void {
    this.exchange = exchange;
    this.body = body;
    this.isUpgrade = isUpgrade;
    this.#head = "";
    this.#isHeadWritten = false;
    this.#endsWithConnection = false;
    this.#isEnded = false;
    this.#isPipelined = isPipelined;
    this.#awaitsContinue = awaitsContinue;
    this.bodyBytesReceived = body instanceof IncomingBody ? body.receivedBytes : body.length;
    this.bytesSent = 0;
  }

  /** Takes what belongs to the body of the current request. Returns how many bytes that are. */
  receive(bytes: Buffer): number {
    if (!(this.body instanceof IncomingBody)) return 0;
    const taken = this.body.receive(bytes);
    this.bodyBytesReceived = this.body.receivedBytes;
    return taken;
  }

  /** Copies what has not been sent of the body, because its bytes are about to be overwritten. */
  keepBody(): void {
    if (this.body instanceof IncomingBody) this.body.keep();
    else if (this.body.length > 0) this.body = copyOf(this.body);
  }

  /** The client left before its response was complete. */
  clientGone(): void {
    const { exchange } = this;
    this.exchange = null;
    exchange?.clientGone();
    this.#dropBody();
  }

  /** Frees what is left of the body. */
  #dropBody(): void {
    if (this.body instanceof IncomingBody) this.body.destroy();
    this.body = noBody;
  }

  get scheme(): Scheme {
    return this.#owner.scheme;
  }

  get isGone(): boolean {
    return this.#socket.destroyed;
  }

  get isHeadSent(): boolean {
    return this.#isHeadWritten;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  get isFlushed(): boolean {
    return this.#socket.writableLength === 0;
  }

  sendContinue(): void {
    if (this.#head !== "" || this.#isHeadWritten || this.isGone) return;
    this.#awaitsContinue = false;
    this.bytesSent += continueHead.length;
    // If it is not taken at once, the empty write learns of an error.
    if (!this.#writing.textWrites.write(this.#socket, continueHead)) this.#socket.write("");
  }

  /** HTTP/1.0 has no interim responses (RFC 9110, 15.2). */
  sendInterim(status: number, lines: HeaderLines): void {
    if (this.#isVersion0() || this.#head !== "" || this.#isHeadWritten) return;
    this.#writeText(serializeHead(status, reasonPhrase(status), lines));
  }

  sendHead(status: number, reason: string, lines: HeaderLines, hasLength: boolean, mustClose: boolean): void {
    this.#endsWithHead = this.exchange?.method === "HEAD" || status === 204 || status === 304;
    this.#endsWithConnection = !hasLength && this.#isVersion0();
    this.#isChunked = !this.#endsWithHead && !hasLength && !this.#endsWithConnection;
    const isUnread = this.body instanceof IncomingBody && !this.body.isComplete;
    const isLast =
      mustClose || isUnread || this.#endsWithConnection || this.#awaitsContinue || this.#owner.isLastRequest;
    if (isLast) this.#owner.isClosing = true;
    const framed = this.#isChunked ? lines + chunkedLine : lines;
    this.#head = serializeHead(status, reason, framed, isLast ? closeEnd : this.#writing.keepAliveEnd);
  }

  flushHead(): void {
    if (this.#head !== "") this.#writeText(this.#takeHead());
  }

  write(piece: Buffer | string): boolean {
    const socket = this.#socket;
    if (piece.length === 0 || this.#endsWithHead) {
      this.flushHead();
      return true;
    }
    const size = this.#isChunked ? `${piece.length.toString(16)}\r\n` : "";
    if (typeof piece === "string") {
      return this.#writeText(this.#takeHead() + size + piece + (this.#isChunked ? "\r\n" : ""));
    }
    const before = this.#takeHead() + size;
    this.bytesSent += piece.length;
    if (before === "") return socket.write(piece);
    socket.cork();
    this.#writeText(before);
    socket.write(piece);
    if (this.#isChunked) this.#writeText("\r\n");
    socket.uncork();
    return !socket.writableNeedDrain;
  }

  end(last: string): void {
    if (this.#isEnded || this.isGone) return;
    this.#isEnded = true;
    let text = this.#takeHead();
    if (this.#isChunked) text += last === "" ? lastChunk : `${last.length.toString(16)}\r\n${last}\r\n${lastChunk}`;
    else if (!this.#endsWithHead) text += last;
    this.#unwritten = text;
    if (text !== "" && this.#mayWait()) this.#writing.deferredWrites.defer(this);
    else this.writeDeferred();
  }

  /**
   * Each of several pipelined responses would wait for a batch of its own. What the limiter holds for a request is free
   * when its response is written, and must not be missing for others in the same batch.
   */
  #mayWait(): boolean {
    const held = this.exchange?.verdict.decision.held ?? null;
    return !this.#isPipelined && held === null;
  }

  writeDeferred(): void {
    const text = this.#unwritten;
    const socket = this.#socket;
    this.#unwritten = "";
    if (this.isGone) return;
    if (text !== "" && this.#owner.isTls) {
      // A write over TLS never completes at once. Its own callback saves the empty write below.
      this.#writeText(text, this.#onFlushed);
      return;
    }
    this.bytesSent += text.length;
    // Usually the kernel has taken it. Otherwise an empty write reports when it has.
    const isTaken = text === "" ? this.isFlushed : this.#writing.textWrites.write(socket, text);
    if (isTaken) this.#finish();
    else socket.write("", "latin1", this.#onFlushed);
  }

  abort(): void {
    // Only a reset shows that such a body is incomplete.
    if (this.#endsWithConnection) this.#owner.reset();
    this.#socket.destroy();
  }

  #isVersion0(): boolean {
    return this.exchange?.head.httpVersion === "1.0";
  }

  switchProtocols(lines: HeaderLines): SwitchedConnection | null {
    const early = this.#owner.releaseSocket();
    if (early === null) return null;
    this.#isHeadWritten = true;
    this.#isEnded = true;
    this.#writeText(serializeHead(101, "Switching Protocols", lines));
    return { socket: this.#socket, early };
  }

  #writeText(text: string, onFlushed?: (error?: Error | null) => void): boolean {
    this.bytesSent += text.length;
    return this.#socket.write(text, "latin1", onFlushed);
  }

  /** Returns the head, which counts as sent from now on. */
  #takeHead(): string {
    const head = this.#head;
    this.#head = "";
    this.#isHeadWritten = true;
    return head;
  }

  readonly #onFlushed = (error?: Error | null): void => {
    if (error === undefined || error === null) this.#finish();
  };

  #finish(): void {
    const { exchange } = this;
    // Null: the client has left in the meantime.
    if (exchange === null) return;
    this.exchange = null;
    exchange.finished();
    this.#dropBody();
    this.#owner.endRequest(exchange);
  }
}
