// Sends a response on a stream of HTTP/2. An incomplete response resets the stream and never ends well-formed. Node
// does not check headers here: those of the upstream have been checked by the response parser.
import { constants, type ServerHttp2Stream } from "node:http2";
import { type HeaderLines, linesOf, listOf } from "../../core/header-lines.ts";
import type { HeaderList } from "../../core/header-list.ts";
import { localReplies } from "../../core/local-reply.ts";
import { reasonPhrase } from "../../core/reason-phrases.ts";
import { serializeHead } from "../../core/response-head.ts";
import { countBody, countedBytes } from "../../exchange/counted-body.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Transport } from "../../exchange/transport.ts";

/** The gateway aborted the response, so its reset does not count as one by the client. */
export class ResponseAbortedError extends Error {
  constructor() {
    super("The response broke off.");
  }
}

export class Http2Transport implements Transport {
  readonly body: ServerHttp2Stream;
  readonly scheme = "https";
  /** HTTP/2 has no Upgrade, and extended CONNECT (RFC 8441) is not offered. */
  readonly isUpgrade = false;
  exchange: Exchange | null = null;
  readonly #stream: ServerHttp2Stream;
  bytesSent = 0;

  constructor(stream: ServerHttp2Stream) {
    this.body = stream;
    this.#stream = stream;
    if (!stream.endAfterHeaders) countBody(stream);
  }

  get bodyBytesReceived(): number {
    return countedBytes(this.#stream);
  }

  get isHeadSent(): boolean {
    return this.#stream.headersSent;
  }

  get isGone(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  get isEnded(): boolean {
    return this.#stream.writableEnded;
  }

  /** The session keeps written bytes until the stream's window allows to send them. */
  get isFlushed(): boolean {
    return false;
  }

  sendContinue(): void {
    if (this.isGone) return;
    this.#stream.additionalHeaders({ ":status": 100 });
    this.#countHead(100, "");
  }

  sendInterim(status: number, lines: HeaderLines): void {
    if (this.isGone || this.#stream.headersSent) return;
    const headers = listOf(lines);
    const byName: Record<string, string[]> = Object.create(null);
    for (let i = 0; i < headers.length; i += 2) {
      const name = (headers[i] ?? "").toLowerCase();
      byName[name] ??= [];
      byName[name].push(headers[i + 1] ?? "");
    }
    this.#stream.additionalHeaders({ ":status": status, ...byName });
    this.#countHead(status, lines);
  }

  /** As HTTP/1 would send it. */
  #countHead(status: number, lines: HeaderLines): void {
    this.bytesSent += serializeHead(status, reasonPhrase(status), lines).length;
  }

  sendHead(status: number, _reason: string, lines: HeaderLines): void {
    if (this.isGone) return;
    const headers = listOf(lines);
    // A 205 has no body, so no length may be announced (RFC 9110, 15.3.6).
    const head = status === 205 ? withoutLength(headers) : headers;
    this.#stream.respond([":status", `${status}`, ...head]);
    this.#countHead(status, head === headers ? lines : linesOf(head));
    // A response without a body has finished with its head, before a listener for its end could exist.
    if (this.#stream.writableFinished) this.refuseBody();
  }

  /** Does nothing, because heads are sent at once. */
  flushHead(): void {}

  write(piece: Buffer | string): boolean {
    this.bytesSent += piece.length;
    return this.#stream.write(piece, "latin1");
  }

  /**
   * Without an empty piece: Node never reports one that waits for the client's window as sent, and the stream stays
   * open.
   */
  end(last: string): void {
    this.bytesSent += last.length;
    if (last === "") this.#stream.end();
    else this.#stream.end(last, "latin1");
  }

  abort(): void {
    this.#stream.destroy(new ResponseAbortedError());
  }

  switchProtocols(): null {
    return null;
  }

  /**
   * After the response: tells a client that is still sending to stop (RFC 9113, 8.1). A reset that is queued in the
   * same turn as a head without a body would replace the head.
   */
  refuseBody(): void {
    const isUnread = !this.body.endAfterHeaders && !this.body.readableEnded;
    if (!this.#stream.headersSent || !isUnread) return;
    const isCostly = this.exchange?.problem === localReplies.smallPieces.reason;
    setImmediate(isCostly ? calmStream : closeStream, this.#stream);
  }
}

/**
 * Returns whether the whole response has been given to the session, which is all that can be known. The writing side of
 * a HEAD ends before there is a response.
 */
export function isAnswered(stream: ServerHttp2Stream): boolean {
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

function closeStream(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_NO_ERROR);
}

function calmStream(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
}

function withoutLength(headers: HeaderList): string[] {
  return headers.filter((_, i) => headers[i - (i % 2)]?.toLowerCase() !== "content-length");
}
