// A request of the fast lane that is being answered. Head, framing and body are written as text of our own making: what
// Node's response would check has been checked where the fields come from, by the parser of the upstream's responses.
import { STATUS_CODES } from "node:http";
import { hasLength } from "../../core/has-length.ts";
import { serializeHead } from "../../core/response-head.ts";
import { type DecidedRequest, Exchange, type ExchangeContext } from "../../exchange/exchange.ts";
import type { RawHttp1Connection } from "./raw-http1-connection.ts";

const closeFields: readonly string[] = ["Connection", "close"];
const lastChunk = "0\r\n\r\n";

export class RawHttp1Exchange extends Exchange {
  readonly body: Buffer;
  readonly isUpgrade = false;
  readonly #lane: RawHttp1Connection;
  /** Until it is written. */
  #head = "";
  #isHeadWritten = false;
  #isChunked = false;
  /** The answer to HEAD, and some statuses, end with the head (RFC 9112, 6.3). */
  #endsWithHead = false;
  #isEnded = false;
  /** It has been answered, or the client has left. */
  #isOver = false;

  constructor(lane: RawHttp1Connection, body: Buffer, request: DecidedRequest, context: ExchangeContext) {
    super(request, context);
    this.body = body;
    this.#lane = lane;
  }

  get scheme(): "http" | "https" {
    return this.#lane.scheme;
  }

  get isGone(): boolean {
    return this.#isOver || this.#lane.socket.destroyed;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  get isFlushed(): boolean {
    return this.#lane.socket.writableLength === 0;
  }

  protected get isHeadSent(): boolean {
    return this.#isHeadWritten;
  }

  /** Whoever waits for it is not in the fast lane. */
  writeContinue(): void {}

  switchProtocols(): null {
    return null;
  }

  inform(status: number, fields: readonly string[]): void {
    if (this.#head !== "" || this.#isHeadWritten) return;
    this.#lane.socket.write(serializeHead(status, STATUS_CODES[status] ?? "", fields), "latin1");
  }

  flushHead(): void {
    if (this.#head !== "") this.#lane.socket.write(this.#takeHead(), "latin1");
  }

  write(piece: Buffer | string): boolean {
    const { socket } = this.#lane;
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

  end(piece = ""): void {
    if (this.#isEnded || this.isGone) return;
    this.#isEnded = true;
    const { socket } = this.#lane;
    let text = this.#takeHead();
    if (this.#isChunked) text += piece === "" ? lastChunk : `${piece.length.toString(16)}\r\n${piece}\r\n${lastChunk}`;
    else if (!this.#endsWithHead) text += piece;
    if (text !== "") socket.write(text, "latin1");
    // The system has it, as a rule; else it is known to have left when what is written behind it has.
    if (socket.writableLength === 0) this.#finish();
    else socket.write("", "latin1", (error) => error || this.#finish());
  }

  /** The connection is gone. */
  onClientGone(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.observe(false);
    this.listener?.onClientGone();
  }

  protected breakOff(): void {
    this.#lane.socket.destroy();
  }

  protected writeHead(status: number, statusText: string, fields: string[]): void {
    this.#endsWithHead = this.facts.method === "HEAD" || status === 204 || status === 304;
    this.#isChunked = !this.#endsWithHead && !hasLength(fields);
    if (this.#isChunked) fields.push("Transfer-Encoding", "chunked");
    const isLast = this.isDoubtful || this.#lane.isLastRequest || this.context.isDraining();
    if (isLast) this.#lane.isClosing = true;
    fields.push(...(isLast ? closeFields : this.#lane.keepAliveFields));
    this.#head = serializeHead(status, statusText, fields);
  }

  /** From here on it is out. */
  #takeHead(): string {
    const head = this.#head;
    this.#head = "";
    this.#isHeadWritten = true;
    return head;
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.observe(true);
    this.#lane.endTurn();
  }
}
