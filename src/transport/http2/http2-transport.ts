// Sends a response on a stream of HTTP/2. An incomplete response resets the stream and never ends well-formed. Headers are
// not checked here: those of the upstream have been checked by the response parser.
import { type HeaderLines, linesOf, listOf, reasonPhrase, serializeHead } from "../../core/headers.ts";
import { localReplies } from "../../core/local-reply.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Transport } from "../../exchange/transport.ts";
import { encodeHead } from "../../http2/hpack.ts";
import { errorCodes } from "../../http2/protocol.ts";
import type { Http2Stream } from "../../http2/responses.ts";
import type { Http2Session } from "../../http2/session.ts";
import { StreamBody, type StreamBodyOwner, type TurnPieces } from "./stream-body.ts";

/** The connection of a stream. What a stream sends leaves at the end of the turn. */
export interface Http2Owner {
  readonly session: Http2Session<Http2Transport>;
  readonly turnPieces: TurnPieces;
  /** The system has taken everything that was written. */
  readonly isFlushed: boolean;
  /** The session may have something to write. */
  settleLater(): void;
}

const noBody = Buffer.alloc(0);

export class Http2Transport implements Transport, StreamBodyOwner {
  readonly scheme = "https";
  /** HTTP/2 has no Upgrade, and extended CONNECT (RFC 8441) is not offered. */
  readonly isUpgrade = false;
  readonly body: Buffer | StreamBody;
  exchange: Exchange | null = null;
  readonly #owner: Http2Owner;
  readonly #stream: Http2Stream<Http2Transport>;
  /** The block of the head until it is sent, and its bytes as HTTP/1 would send it. */
  #head = "";
  #headBytes = 0;
  isHeadSent = false;
  /** The response to a HEAD, and one with status 204, 205 or 304, has no body. */
  #endsWithHead = false;
  isEnded = false;
  bytesSent = 0;
  /** Received and sent, when they were last seen to have grown. */
  #movedBytes = -1;
  #movedMs = 0;

  constructor(owner: Http2Owner, stream: Http2Stream<Http2Transport>, nowMs: () => number) {
    this.#owner = owner;
    this.#stream = stream;
    this.body = stream.isReadEnded ? noBody : new StreamBody(this, owner.turnPieces, nowMs);
  }

  get bodyBytesReceived(): number {
    return this.body instanceof StreamBody ? this.body.receivedBytes : 0;
  }

  get isGone(): boolean {
    return this.#stream.isClosed;
  }

  get isFlushed(): boolean {
    return this.#stream.queuedBytes === 0 && this.#owner.isFlushed;
  }

  sendContinue(): void {
    this.sendInterim(100, "");
  }

  sendInterim(status: number, lines: HeaderLines): void {
    if (this.isGone || this.isHeadSent || this.#head !== "") return;
    this.#owner.session.respond(this.#stream, encodeHead(status, lines), false);
    this.bytesSent += serializeHead(status, reasonPhrase(status), lines).length;
    this.#owner.settleLater();
  }

  sendHead(status: number, _reason: string, lines: HeaderLines): void {
    this.#endsWithHead = this.exchange?.method === "HEAD" || status === 204 || status === 205 || status === 304;
    // A 205 has no body, so no length may be announced (RFC 9110, 15.3.6).
    const sent = status === 205 ? withoutLength(lines) : lines;
    this.#head = encodeHead(status, sent);
    this.#headBytes = serializeHead(status, reasonPhrase(status), sent).length;
    this.#stream.isTooSlow = this.exchange?.problem === localReplies.slowRequest.reason;
    if (this.exchange?.problem === localReplies.smallPieces.reason) {
      this.#stream.unreadCode = errorCodes.enhanceYourCalm;
    }
  }

  flushHead(): void {
    if (this.#head !== "") this.#sendHead(this.#endsWithHead);
  }

  write(piece: Buffer | string): boolean {
    this.flushHead();
    if (piece.length === 0 || this.#endsWithHead) return true;
    this.bytesSent += piece.length;
    this.#owner.settleLater();
    return this.#owner.session.write(this.#stream, piece);
  }

  end(last: string): void {
    if (this.isEnded) return;
    const isWithoutBody = this.#endsWithHead || last === "";
    if (this.#head !== "" && isWithoutBody) {
      this.#sendHead(true);
      return;
    }
    this.flushHead();
    this.isEnded = true;
    this.bytesSent += last.length;
    this.#owner.session.end(this.#stream, "", last);
    this.#owner.settleLater();
  }

  abort(): void {
    this.#owner.session.reset(this.#stream, errorCodes.internal);
    this.#owner.settleLater();
  }

  switchProtocols(): null {
    return null;
  }

  cancel(reply: Parameters<Exchange["cancel"]>[0]): void {
    this.exchange?.cancel(reply);
  }

  used(bytes: number): void {
    if (bytes === 0) return;
    const { session } = this.#owner;
    session.used(this.#stream, bytes);
    if (session.hasOutput) this.#owner.settleLater();
  }

  /** Takes a piece of the request's body. */
  receive(bytes: Buffer, isEnd: boolean): void {
    if (this.body instanceof StreamBody) this.body.receive(bytes, isEnd);
  }

  /** The stream is closed: the whole response has been sent, or never will be. */
  closed(): void {
    if (this.body instanceof StreamBody) this.body.destroy();
    // The stream may wait for its reset.
    this.#stream.owner = null;
    if (this.#stream.isBrokenOff) this.exchange?.clientGone();
    else this.exchange?.finished();
  }

  /** Returns whether nothing has moved on the stream for as long. */
  isStalled(nowMs: number, timeoutMs: number): boolean {
    const bytes = this.bodyBytesReceived + this.bytesSent - this.#stream.queuedBytes;
    if (bytes === this.#movedBytes) return nowMs - this.#movedMs >= timeoutMs;
    this.#movedBytes = bytes;
    this.#movedMs = nowMs;
    return false;
  }

  #sendHead(isEnd: boolean): void {
    this.isHeadSent = true;
    this.#stream.isAnswered = true;
    if (isEnd) this.isEnded = true;
    this.bytesSent += this.#headBytes;
    this.#owner.session.respond(this.#stream, this.#head, isEnd);
    this.#head = "";
    this.#owner.settleLater();
  }
}

function withoutLength(lines: HeaderLines): HeaderLines {
  const headers = listOf(lines);
  return linesOf(headers.filter((_, i) => headers[i - (i % 2)]?.toLowerCase() !== "content-length"));
}
