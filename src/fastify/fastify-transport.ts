// A response of a Fastify app as a transport. Node sends every head by the response's own writeHead, however the app
// answers (reply.send, a stream, an error handler, a hijacked reply). It is replaced here, so no head goes out without the
// fields of the exchange, and nothing of the app comes behind them.
import type { IncomingMessage, ServerResponse } from "node:http";
import { constants, type Http2ServerResponse, type ServerHttp2Stream } from "node:http2";
import type { TLSSocket } from "node:tls";
import type { FastifyReply } from "fastify";
import type { Exchange } from "../exchange/exchange.ts";
import type { Transport } from "../exchange/transport.ts";
import { isAnswered } from "../transport/http2/http2-transport.ts";
import { type AppHeaders, appHeaders } from "./app-headers.ts";
import type { ClientSocket } from "./client-socket.ts";
import { HeadWriter } from "./head-writer.ts";

/** What a transport needs of the app. */
export interface TransportOwner {
  /** Every response from now on is the last on its connection. */
  readonly isClosing: boolean;
  /** The response has ended, or its connection has. */
  onClose(exchange: Exchange): void;
}

export interface FastifyRequestParts {
  readonly reply: FastifyReply;
  /** Null over HTTP/2. */
  readonly client: ClientSocket | null;
  /** Whether the client waits for a 100. */
  readonly awaitsContinue: boolean;
  /** Lets the app handle the request. */
  readonly proceed: () => void;
}

const transports = new WeakMap<ServerResponse, FastifyTransport>();

export class FastifyTransport implements Transport {
  readonly body: IncomingMessage;
  readonly isUpgrade = false;
  exchange: Exchange | null = null;
  readonly #reply: FastifyReply;
  readonly #raw: ServerResponse;
  /** Of HTTP/2; null over HTTP/1. */
  readonly #stream: ServerHttp2Stream | null;
  readonly #client: ClientSocket | null;
  readonly #owner: TransportOwner;
  readonly #head: HeadWriter;
  readonly #proceed: () => void;
  readonly #awaitsContinue: boolean;
  #isAdmitted = false;
  /** What the app gives with its head, while that is sent; null for a local reply. */
  #given: AppHeaders | null = null;

  constructor({ reply, client, proceed, awaitsContinue }: FastifyRequestParts, owner: TransportOwner) {
    const { raw, request } = reply;
    this.body = request.raw;
    this.#reply = reply;
    this.#raw = raw;
    this.#stream = request.raw.httpVersionMajor === 2 ? (raw as unknown as Http2ServerResponse).stream : null;
    this.#client = client;
    this.#owner = owner;
    this.#proceed = proceed;
    this.#awaitsContinue = awaitsContinue;
    this.#head = new HeadWriter(raw, this.#stream !== null);
    transports.set(raw, this);
    raw.writeHead = writeHead as ServerResponse["writeHead"];
    raw.once("close", onClose);
  }

  /** The transport of a response; undefined if no exchange was begun for its request. */
  static of(raw: ServerResponse): FastifyTransport | undefined {
    return transports.get(raw);
  }

  get scheme(): "http" | "https" {
    return (this.body.socket as TLSSocket).encrypted === true ? "https" : "http";
  }

  get isGone(): boolean {
    // Of a response that waits behind another one, Node does not say that its connection is gone.
    return this.#stream?.destroyed ?? (this.#raw.destroyed || this.body.socket.destroyed);
  }

  get isHeadSent(): boolean {
    return this.#raw.headersSent;
  }

  get isEnded(): boolean {
    return this.#raw.writableEnded;
  }

  get isFlushed(): boolean {
    return this.#raw.writableLength === 0;
  }

  /** Lets the app answer. */
  proceed(): void {
    this.#isAdmitted = true;
    if (this.#awaitsContinue) this.sendContinue();
    this.#proceed();
  }

  /** The app sends its head. */
  answer(status: number, first: unknown, second: unknown): void {
    const { exchange } = this;
    // The app cannot answer what is not decided: only a timeout of its own does.
    if (!this.#isAdmitted) exchange?.abort();
    if (exchange === null || exchange.isEnded || this.isHeadSent || status < 200) {
      this.#head.pass(status, first, second);
      return;
    }
    const [reason, given] =
      typeof first === "string" ? [first, second] : [this.#head.reasonOf(status), second ?? first];
    this.#given = appHeaders(given);
    try {
      exchange.respond(status, reason, [], this.#head.retryAfter(this.#given));
    } finally {
      this.#given = null;
    }
  }

  sendContinue(): void {
    this.#raw.writeContinue();
  }

  sendInterim(): void {}

  sendHead(status: number, reason: string, own: string[], mustClose: boolean): void {
    const isLast = this.#stream === null && this.#isLast(mustClose);
    if (isLast) own.push("Connection", "close");
    const given = this.#given ?? this.#head.takeOver(this.#reply);
    this.#head.write({ status, reason, given, own, isLast });
    if (isLast && this.#client !== null) this.#client.isClosing = true;
  }

  flushHead(): void {
    this.#raw.flushHeaders();
  }

  write(piece: Buffer | string): boolean {
    return this.#raw.write(piece, "latin1");
  }

  end(last: string): void {
    if (last === "") this.#raw.end();
    else this.#raw.end(last, "latin1");
  }

  abort(): void {
    if (this.#stream !== null) this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    // To a client without framing a plain end would be a well-formed one. TLS has an end of its own, which is left out.
    else if (this.body.httpVersion === "1.0" && this.scheme === "http") this.body.socket.resetAndDestroy();
    else this.#raw.destroy();
  }

  switchProtocols(): null {
    return null;
  }

  onClose(): void {
    const { exchange } = this;
    if (exchange === null) return;
    if (this.#isWhole) exchange.finished();
    else exchange.clientGone();
    this.#client?.end(exchange);
    this.#owner.onClose(exchange);
  }

  get #isWhole(): boolean {
    if (this.#stream === null) return this.#raw.writableFinished;
    // Node ends the writing side of a stream that a client resets without an error.
    return isAnswered(this.#stream) && !this.#stream.aborted;
  }

  #isLast(mustClose: boolean): boolean {
    const isUnread = this.exchange?.hasBody === true && !this.body.complete;
    // Behind an Upgrade the parser leaves bytes of the same packet out, even if the upgrade is declined.
    const asksToUpgrade = this.exchange?.verdict.parsed.message.asksToUpgrade === true;
    return mustClose || isUnread || asksToUpgrade || this.#owner.isClosing;
  }
}

function writeHead(this: ServerResponse, status: number, first?: unknown, second?: unknown): ServerResponse {
  const transport = transports.get(this);
  if (transport === undefined) throw new Error("a response without its transport");
  transport.answer(status, first, second);
  return this;
}

function onClose(this: ServerResponse): void {
  transports.get(this)?.onClose();
}
