// A request of HTTP/1.1 that is being answered, through Node's response. The connection is closed exactly when the rest of
// a body would otherwise be read as a request.
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { hasLength } from "../../core/has-length.ts";
import { serializeHead } from "../../core/response-head.ts";
import { type DecidedRequest, Exchange, type ExchangeContext } from "../../exchange/exchange.ts";
import type { Connection } from "./node-http1-connection.ts";
import type { UpgradeRequest } from "./upgrade-request.ts";

const nothing = Buffer.alloc(0);

export class NodeHttp1Exchange extends Exchange {
  readonly body: IncomingMessage;
  readonly #out: ServerResponse;
  readonly #connection: Connection;
  /** Set when it asks for another protocol: its connection carries no further request. */
  readonly #upgrade: UpgradeRequest | null;
  #hasLength = false;

  constructor(
    parts: DecidedRequest & {
      readonly req: IncomingMessage;
      readonly res: ServerResponse;
      readonly connection: Connection;
      readonly upgrade: UpgradeRequest | null;
    },
    context: ExchangeContext,
  ) {
    super(parts, context);
    this.body = parts.req;
    this.#out = parts.res;
    this.#connection = parts.connection;
    this.#upgrade = parts.upgrade;
    parts.connection.active = this;
    parts.res.once("close", () => this.#end());
    // A response that broke off is told by "close"; without a listener the error would end the process.
    parts.res.on("error", ignoreBrokenPipe);
    parts.req.on("error", ignoreBrokenPipe);
  }

  get scheme(): "http" | "https" {
    return this.#connection.scheme;
  }

  get isUpgrade(): boolean {
    return this.#upgrade !== null;
  }

  get isGone(): boolean {
    return this.#out.destroyed;
  }

  get isEnded(): boolean {
    return this.#out.writableEnded;
  }

  get isFlushed(): boolean {
    return this.#out.socket?.writableLength === 0;
  }

  protected get isHeadSent(): boolean {
    return this.#out.headersSent;
  }

  writeContinue(): void {
    this.#out.writeContinue();
  }

  /**
   * Past Node's response, which knows few of them and none of their fields as they came. They are out at once, so the
   * response's own head cannot overtake them. HTTP/1.0 has none (RFC 9110, 15.2).
   */
  inform(status: number, fields: readonly string[]): void {
    if (this.body.httpVersion !== "1.1" || this.#out.headersSent) return;
    this.#out.socket?.write(serializeHead(status, STATUS_CODES[status] ?? "", fields), "latin1");
  }

  /**
   * Node sends a head with the first write; a response that has not begun its body yet must not keep its head back.
   * Its own flushHeaders would write the head as UTF-8, and bytes over 127 in a field would become two.
   */
  flushHead(): void {
    if (!this.#out.writableEnded) this.#out.write(nothing);
  }

  /**
   * Head and body as one text in one write: given a buffer, or left to itself, Node writes them and an empty end as a
   * list, which costs the system and Node more.
   */
  end(piece = ""): void {
    // Without a length the end belongs to the text: it goes in chunks.
    if (this.#hasLength && piece !== "") this.write(piece);
    this.#out.end(this.#hasLength ? undefined : piece, "latin1");
  }

  write(piece: Buffer | string): boolean {
    const { socket } = this.#out;
    // Node corks a socket that is not, and that until the next tick.
    socket?.cork();
    const mayGoOn = this.#out.write(piece, "latin1");
    socket?.uncork();
    if (!mayGoOn) this.#out.once("drain", () => this.listener?.onDrain());
    return mayGoOn;
  }

  /**
   * The 101, and with it the request is over and told of: a tunnel's length would say nothing about how long requests
   * take, and nobody would hear of it for hours. It goes past Node's response, which would make a message of it.
   */
  switchProtocols(protocol: string, fields: readonly string[]): { socket: Socket; early: readonly Buffer[] } | null {
    const { socket } = this.#connection;
    const early = this.#upgrade?.take() ?? null;
    if (early === null || !socket.writable) return null;
    const own = ["Connection", "Upgrade", "Upgrade", protocol, ...this.context.fields.always(this.decisionToShow())];
    socket.write(serializeHead(101, "Switching Protocols", [...fields, ...own]), "latin1");
    this.exchange.status = 101;
    this.exchange.respondedMs = this.context.nowMs();
    this.observe(true);
    return { socket, early };
  }

  protected breakOff(): void {
    // To a client without framing a plain end would be a well-formed one.
    if (this.body.httpVersion === "1.0") this.#connection.reset();
    this.#out.destroy();
  }

  protected writeHead(status: number, statusText: string, fields: string[]): void {
    const isUnread = this.hasBody && !this.body.complete;
    // Behind an Upgrade the parser leaves bytes of the same packet out, even if the upgrade is declined.
    const { asksToLeave } = this.verdict.reading.message;
    const mustEnd = asksToLeave || this.#connection.isLastTurn || this.context.isDraining();
    const isLast = isUnread || mustEnd || this.isDoubtful;
    if (isLast) fields.push("Connection", "close");
    this.#out.writeHead(status, statusText, fields);
    this.#hasLength = hasLength(fields);
    if (isLast) this.#connection.endAfterAnswer(isUnread ? this.body : null);
  }

  #end(): void {
    this.observe(this.#out.writableFinished);
    this.listener?.onClientGone();
    this.#connection.endTurn();
  }
}

function ignoreBrokenPipe(): void {}
