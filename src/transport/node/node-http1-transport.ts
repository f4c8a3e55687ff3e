// Sends a response of HTTP/1.1 through Node's. Closes the connection exactly if the rest of a body would otherwise be
// read as a request.
import type { IncomingMessage } from "node:http";
import { ignoreError } from "../../core/failure.ts";
import { type HeaderLines, listOf } from "../../core/header-lines.ts";
import { reasonPhrase } from "../../core/reason-phrases.ts";
import { serializeHead } from "../../core/response-head.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { SwitchedConnection, Transport } from "../../exchange/transport.ts";
import type { Http1Owner } from "../http1-socket.ts";
import { CountedMessage } from "./counted-message.ts";
import type { NodeResponse, ResponseListener } from "./node-response.ts";
import type { UpgradeRequest } from "./upgrade-request.ts";

export interface NodeHttp1Owner extends Http1Owner {
  /** Closes the connection after the current response; the body of `unread` is discarded. */
  endAfterResponse(unread: IncomingMessage | null): void;
  /** Resets the connection: a normal close could be the end of the response. */
  reset(): void;
}

const nothing = Buffer.alloc(0);

export class NodeHttp1Transport implements Transport, ResponseListener {
  readonly body: IncomingMessage;
  exchange: Exchange | null = null;
  readonly #response: NodeResponse;
  readonly #owner: NodeHttp1Owner;
  /** Set for an Upgrade; its connection has no further request. */
  readonly #upgrade: UpgradeRequest | null;
  #hasLength = false;
  /** `bytesWritten` of the connection when this exchange began. */
  readonly #writtenBefore: number;

  constructor(req: IncomingMessage, response: NodeResponse, owner: NodeHttp1Owner, upgrade: UpgradeRequest | null) {
    this.body = req;
    this.#response = response;
    this.#owner = owner;
    this.#upgrade = upgrade;
    this.#writtenBefore = owner.socket.bytesWritten;
    response.reportTo(this);
    req.on("error", ignoreError);
  }

  get scheme(): "http" | "https" {
    return this.#owner.scheme;
  }

  get isUpgrade(): boolean {
    return this.#upgrade !== null;
  }

  get isGone(): boolean {
    return this.#response.destroyed;
  }

  get isHeadSent(): boolean {
    return this.#response.headersSent;
  }

  get isEnded(): boolean {
    return this.#response.writableEnded;
  }

  get isFlushed(): boolean {
    return this.#response.socket?.writableLength === 0;
  }

  get bodyBytesReceived(): number {
    return this.body instanceof CountedMessage ? this.body.bodyBytes : 0;
  }

  /** One response is written to the connection at a time. */
  get bytesSent(): number {
    return this.#owner.socket.bytesWritten - this.#writtenBefore;
  }

  sendContinue(): void {
    this.#response.writeContinue();
  }

  /**
   * Writes to the socket, because Node's response supports few statuses and changes headers. The response's head cannot
   * overtake it, because it is written at once. HTTP/1.0 has no interim responses (RFC 9110, 15.2).
   */
  sendInterim(status: number, lines: HeaderLines): void {
    if (this.body.httpVersion !== "1.1" || this.#response.headersSent) return;
    this.#response.socket?.write(serializeHead(status, reasonPhrase(status), lines), "latin1");
  }

  sendHead(status: number, reason: string, lines: HeaderLines, hasLength: boolean, mustClose: boolean): void {
    const isUnread = this.exchange?.hasBody === true && !this.body.complete;
    // After an Upgrade the parser skips bytes of the same packet, even if the upgrade is declined.
    const asksToUpgrade = this.exchange?.verdict.parsed.message.asksToUpgrade === true;
    const isLast = mustClose || isUnread || asksToUpgrade || this.#owner.isLastRequest;
    const headers = listOf(lines);
    if (isLast) headers.push("Connection", "close");
    this.#response.writeHead(status, reason, headers);
    this.#hasLength = hasLength;
    if (isLast) this.#owner.endAfterResponse(isUnread ? this.body : null);
  }

  /**
   * Node sends the head with the first write, here of no bytes. Its own flushHeaders would write the head as UTF-8, in
   * which a byte over 127 becomes two.
   */
  flushHead(): void {
    if (!this.#response.writableEnded) this.#response.write(nothing);
  }

  write(piece: Buffer | string): boolean {
    const { socket } = this.#response;
    // Node would cork the socket until the next tick.
    socket?.cork();
    const mayGoOn = this.#response.write(piece, "latin1");
    socket?.uncork();
    return mayGoOn;
  }

  /** Writes head and body as one text, because Node's list of head, body and an empty end costs more. */
  end(last: string): void {
    // Without a length the body is chunked, and the text and the last chunk are written together.
    if (this.#hasLength && last !== "") this.write(last);
    this.#response.end(this.#hasLength ? undefined : last, "latin1");
  }

  abort(): void {
    // To HTTP/1.0, which has no chunks, a normal close ends the response.
    if (this.body.httpVersion === "1.0") this.#owner.reset();
    this.#response.destroy();
  }

  /** Writes to the socket, because Node's response would add framing. */
  switchProtocols(lines: HeaderLines): SwitchedConnection | null {
    const { socket } = this.#owner;
    const early = this.#upgrade?.release() ?? null;
    if (early === null || !socket.writable) return null;
    socket.write(serializeHead(101, "Switching Protocols", lines), "latin1");
    return { socket, early };
  }

  onClose(): void {
    if (this.#response.writableFinished) this.exchange?.finished();
    else this.exchange?.clientGone();
    this.#owner.endRequest();
  }

  onDrain(): void {
    this.exchange?.onDrain();
  }
}
