// A response of HTTP/1.1 through Node's own. The connection is closed exactly when the rest of a body would otherwise
// be read as a request.
import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type HeaderList, headerValue } from "../../core/header-list.ts";
import { serializeHead } from "../../core/response-head.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { SwitchedConnection, Transport } from "../../exchange/transport.ts";
import { ignoreBreak, type NodeResponse, type ResponseListener } from "./node-response.ts";
import type { UpgradeRequest } from "./upgrade-request.ts";

/** What a transport needs of the connection that it writes to. */
export interface NodeHttp1Owner {
  readonly socket: Socket;
  readonly scheme: "http" | "https";
  /** The response to the request that is under way is the last on this connection. */
  readonly isLastRequest: boolean;
  /** The response being sent is the last; `unread` is a message whose body nobody will read. */
  endAfterResponse(unread: IncomingMessage | null): void;
  /** Breaks the connection, so that no client can take what it has read for the whole: a plain end could be one. */
  reset(): void;
  endRequest(): void;
}

const nothing = Buffer.alloc(0);

export class NodeHttp1Transport implements Transport, ResponseListener {
  readonly body: IncomingMessage;
  exchange: Exchange | null = null;
  readonly #response: NodeResponse;
  readonly #owner: NodeHttp1Owner;
  /** Set when the request asks for another protocol: its connection carries no further request. */
  readonly #upgrade: UpgradeRequest | null;
  #hasLength = false;

  constructor(req: IncomingMessage, response: NodeResponse, owner: NodeHttp1Owner, upgrade: UpgradeRequest | null) {
    this.body = req;
    this.#response = response;
    this.#owner = owner;
    this.#upgrade = upgrade;
    response.tell(this);
    req.on("error", ignoreBreak);
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

  sendContinue(): void {
    this.#response.writeContinue();
  }

  /**
   * Past Node's response, which knows few of them and none of their headers as they came. They are out at once, so the
   * response's own head cannot overtake them. HTTP/1.0 has none (RFC 9110, 15.2).
   */
  sendInterim(status: number, headers: HeaderList): void {
    if (this.body.httpVersion !== "1.1" || this.#response.headersSent) return;
    this.#response.socket?.write(serializeHead(status, STATUS_CODES[status] ?? "", headers), "latin1");
  }

  sendHead(status: number, reason: string, headers: string[], mustClose: boolean): void {
    const isUnread = this.exchange?.hasBody === true && !this.body.complete;
    // Behind an Upgrade the parser leaves bytes of the same packet out, even if the upgrade is declined.
    const asksToLeave = this.exchange?.verdict.parsed.message.asksToLeave === true;
    const isLast = mustClose || isUnread || asksToLeave || this.#owner.isLastRequest;
    if (isLast) headers.push("Connection", "close");
    this.#response.writeHead(status, reason, headers);
    this.#hasLength = headerValue(headers, "content-length") !== undefined;
    if (isLast) this.#owner.endAfterResponse(isUnread ? this.body : null);
  }

  /**
   * Node sends a head with the first write; a response that has not begun its body yet must not keep its head back.
   * Node's own flushHeaders would write the head as UTF-8, and bytes over 127 in a header would become two.
   */
  flushHead(): void {
    if (!this.#response.writableEnded) this.#response.write(nothing);
  }

  write(piece: Buffer | string): boolean {
    const { socket } = this.#response;
    // Node corks a socket that is not corked, and that until the next tick.
    socket?.cork();
    const mayGoOn = this.#response.write(piece, "latin1");
    socket?.uncork();
    return mayGoOn;
  }

  /**
   * Head and body as one text in one write: given a buffer, or left to itself, Node writes them and an empty end as a
   * list, which costs the system and Node more.
   */
  end(last: string): void {
    // Without a length the end belongs to the text: it goes in chunks.
    if (this.#hasLength && last !== "") this.write(last);
    this.#response.end(this.#hasLength ? undefined : last, "latin1");
  }

  abort(): void {
    // To a client without framing a plain end would be a well-formed one.
    if (this.body.httpVersion === "1.0") this.#owner.reset();
    this.#response.destroy();
  }

  /** Past Node's response, which would make a message of it. */
  switchProtocols(headers: HeaderList): SwitchedConnection | null {
    const { socket } = this.#owner;
    const early = this.#upgrade?.release() ?? null;
    if (early === null || !socket.writable) return null;
    socket.write(serializeHead(101, "Switching Protocols", headers), "latin1");
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
