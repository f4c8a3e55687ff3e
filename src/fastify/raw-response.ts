// The part of a transport that knows of Node's response alone, over HTTP/1 or HTTP/2: writes, ends and breaks it.
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { constants, Http2ServerResponse, type ServerHttp2Stream } from "node:http2";
import { Readable } from "node:stream";
import type { TLSSocket } from "node:tls";
import { type HeaderLines, serializeHead } from "../core/headers.ts";
import type { Transport } from "../exchange/transport.ts";

const nothing = Buffer.alloc(0);

export abstract class RawResponse implements Transport {
  readonly body: IncomingMessage;
  readonly isUpgrade = false;
  /** The client knows the length of the body: the upstream, or the gateway, has announced it. */
  protected hasLength = false;
  protected readonly raw: ServerResponse;
  /** Of HTTP/2; null over HTTP/1. A text of HTTP/1 can call itself HTTP/2. */
  readonly #stream: ServerHttp2Stream | null;
  /** `bytesWritten` of the connection when this response began to be written, and when it was complete. */
  #writtenFrom: number | null = null;
  #writtenTo: number | null = null;

  constructor(body: IncomingMessage, raw: object) {
    this.body = body;
    // The types of an app know only of HTTP/1.
    this.raw = raw as ServerResponse;
    this.#stream = raw instanceof Http2ServerResponse ? raw.stream : null;
    countBody(body);
  }

  get bodyBytesReceived(): number {
    return countedBytes(this.body);
  }

  /** Over HTTP/2, and in a request that an app injects, the app writes where nobody counts. */
  get bytesSent(): number | null {
    if (this.#stream !== null || this.body.socket.bytesWritten === undefined) return null;
    if (this.#writtenFrom === null) return 0;
    return (this.#writtenTo ?? this.body.socket.bytesWritten) - this.#writtenFrom;
  }

  /** The connection writes this response from now on. */
  beginCount(): void {
    this.#writtenFrom = this.body.socket.bytesWritten;
  }

  /** The connection may write another response from now on. */
  endCount(): void {
    this.#writtenTo = this.body.socket.bytesWritten;
  }

  abstract sendHead(status: number, reason: string, lines: HeaderLines, hasLength: boolean, mustClose: boolean): void;

  get isHttp2(): boolean {
    return this.#stream !== null;
  }

  get scheme(): "http" | "https" {
    return (this.body.socket as TLSSocket).encrypted === true ? "https" : "http";
  }

  get isGone(): boolean {
    // Of a response that waits behind another one, Node 24 does not say that its connection is gone.
    return this.#stream?.destroyed ?? (this.raw.destroyed || this.body.socket.destroyed);
  }

  get isHeadSent(): boolean {
    return this.raw.headersSent;
  }

  get isEnded(): boolean {
    return this.raw.writableEnded;
  }

  get isFlushed(): boolean {
    return this.raw.writableLength === 0;
  }

  /** The client has all of it, as far as can be known. */
  protected get isWhole(): boolean {
    if (this.#stream === null) return this.raw.writableFinished;
    // Node ends the writing side of a stream that a client resets without an error.
    return isAnswered(this.#stream) && !this.#stream.aborted;
  }

  sendContinue(): void {
    this.raw.writeContinue();
  }

  /** Past Node's response, which knows few of them. HTTP/1.0 has none (RFC 9110, 15.2); over HTTP/2 they are left out. */
  sendInterim(status: number, lines: HeaderLines): void {
    if (this.isHttp2 || this.body.httpVersion !== "1.1" || this.isHeadSent) return;
    this.raw.socket?.write(serializeHead(status, STATUS_CODES[status] ?? "", lines), "latin1");
  }

  flushHead(): void {
    // Node's flushHeaders would write bytes over 127 as UTF-8.
    this.raw.write(nothing);
  }

  write(piece: Buffer | string): boolean {
    return this.raw.write(piece, "latin1");
  }

  end(last: string): void {
    if (last === "") this.raw.end();
    else this.raw.end(last, "latin1");
  }

  abort(): void {
    if (this.#stream !== null) this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    // To a client without framing a plain end would be a well-formed one. TLS has an end of its own, which is left out.
    else if (this.body.httpVersion === "1.0" && this.scheme === "http" && !this.hasLength)
      this.body.socket.resetAndDestroy();
    else this.raw.destroy();
  }

  switchProtocols(): null {
    return null;
  }
}

/**
 * Returns whether the whole response has been given to the session, which is all that can be known. The writing side of
 * a HEAD ends before there is a response.
 */
function isAnswered(stream: ServerHttp2Stream): boolean {
  const { rstCode } = stream;
  const isOurs = rstCode === constants.NGHTTP2_NO_ERROR || rstCode === constants.NGHTTP2_ENHANCE_YOUR_CALM;
  return stream.headersSent && isOurs && (stream.writableFinished || isClosedEarly(stream));
}

/**
 * Node destroys a stream whose request with a body has been read to its end as soon as the last frame of the response is in
 * the session, and then never reports its end. A connection that breaks off resets its streams with another code.
 */
function isClosedEarly(stream: ServerHttp2Stream): boolean {
  return (
    !stream.endAfterHeaders &&
    stream.readableEnded &&
    stream.writableEnded &&
    // Node ends the writing side of a stream that a client resets without an error.
    !stream.aborted &&
    stream.rstCode === constants.NGHTTP2_NO_ERROR
  );
}

const received = Symbol("received bytes");

type CountedBody = Readable & { [received]?: number };

/** To be called before the body is read. */
function countBody(body: CountedBody): void {
  body[received] = body.readableLength;
  body.push = countingPush;
}

/** Returns the bytes that have been received, without their framing. */
function countedBytes(body: CountedBody): number {
  return body[received] ?? 0;
}

function countingPush(this: CountedBody, piece: Buffer | null, encoding?: BufferEncoding): boolean {
  if (piece !== null) this[received] = countedBytes(this) + piece.length;
  return Readable.prototype.push.call(this, piece, encoding);
}
