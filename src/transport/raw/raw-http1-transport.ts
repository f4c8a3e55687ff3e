// Writes the responses of a raw HTTP/1.1 connection, one after the other. Head, framing and body are written as text.
// The checks of Node's response are not needed, because the response parser has checked the upstream's headers. One
// object serves all requests of a connection, so that a request allocates none.
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type HeaderList, headerValue } from "../../core/header-list.ts";
import { serializeHead } from "../../core/response-head.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Transport } from "../../exchange/transport.ts";
import type { Http1Owner } from "../http1-socket.ts";

export interface RawHttp1Owner extends Http1Owner {
  /** Sent with each response that is not the last one. */
  readonly keepAliveHeaders: HeaderList;
  /** Set when a head has announced that the connection closes. */
  isClosing: boolean;
}

const closeHeaders: HeaderList = ["Connection", "close"];
const lastChunk = "0\r\n\r\n";
const noBody = Buffer.alloc(0);

export class RawHttp1Transport implements Transport {
  readonly isUpgrade = false;
  body: Buffer = noBody;
  readonly #owner: RawHttp1Owner;
  readonly #socket: Socket;
  exchange: Exchange | null = null;
  /** The head until it is written. */
  #head = "";
  #isHeadWritten = false;
  #isChunked = false;
  /** The response to a HEAD, and one with status 204 or 304, has no body (RFC 9112, 6.3). */
  #endsWithHead = false;
  #isEnded = false;

  constructor(owner: RawHttp1Owner) {
    this.#owner = owner;
    this.#socket = owner.socket;
  }

  begin(exchange: Exchange, body: Buffer): void {
    this.exchange = exchange;
    this.body = body;
    this.#head = "";
    this.#isHeadWritten = false;
    this.#isEnded = false;
  }

  get scheme(): "http" | "https" {
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

  /** Does nothing, because Node's parser reads the requests with Expect. */
  sendContinue(): void {}

  sendInterim(status: number, headers: HeaderList): void {
    if (this.#head !== "" || this.#isHeadWritten) return;
    this.#socket.write(serializeHead(status, STATUS_CODES[status] ?? "", headers), "latin1");
  }

  sendHead(status: number, reason: string, headers: string[], mustClose: boolean): void {
    this.#endsWithHead = this.exchange?.method === "HEAD" || status === 204 || status === 304;
    this.#isChunked = !this.#endsWithHead && headerValue(headers, "content-length") === undefined;
    if (this.#isChunked) headers.push("Transfer-Encoding", "chunked");
    const isLast = mustClose || this.#owner.isLastRequest;
    if (isLast) this.#owner.isClosing = true;
    headers.push(...(isLast ? closeHeaders : this.#owner.keepAliveHeaders));
    this.#head = serializeHead(status, reason, headers);
  }

  flushHead(): void {
    if (this.#head !== "") this.#socket.write(this.#takeHead(), "latin1");
  }

  write(piece: Buffer | string): boolean {
    const socket = this.#socket;
    if (piece.length === 0 || this.#endsWithHead) {
      this.flushHead();
      return true;
    }
    const size = this.#isChunked ? `${piece.length.toString(16)}\r\n` : "";
    if (typeof piece === "string") {
      return socket.write(this.#takeHead() + size + piece + (this.#isChunked ? "\r\n" : ""), "latin1");
    }
    const before = this.#takeHead() + size;
    if (before === "") return socket.write(piece);
    socket.cork();
    socket.write(before, "latin1");
    socket.write(piece);
    if (this.#isChunked) socket.write("\r\n", "latin1");
    socket.uncork();
    return !socket.writableNeedDrain;
  }

  end(last: string): void {
    if (this.#isEnded || this.isGone) return;
    this.#isEnded = true;
    const socket = this.#socket;
    let text = this.#takeHead();
    if (this.#isChunked) text += last === "" ? lastChunk : `${last.length.toString(16)}\r\n${last}\r\n${lastChunk}`;
    else if (!this.#endsWithHead) text += last;
    if (text !== "") socket.write(text, "latin1");
    // Usually the kernel has taken it. Otherwise an empty write reports when it has.
    if (socket.writableLength === 0) this.#finish();
    else socket.write("", "latin1", this.#onFlushed);
  }

  abort(): void {
    this.#socket.destroy();
  }

  switchProtocols(): null {
    return null;
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
    this.#owner.endRequest();
  }
}
