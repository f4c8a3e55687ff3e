// A response of a Fastify app as a transport. Node sends every head by the response's own writeHead, however the app
// answers (reply.send, a stream, an error handler, a hijacked reply). It is replaced here, so no head goes out without the
// fields of the exchange, and nothing of the app comes behind them.
import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import { type HeaderLines, listOf } from "../core/headers.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { ClientSocket } from "./client-socket.ts";
import { type AppHeaders, appHeaders, HeadWriter } from "./head-writer.ts";
import { RawResponse } from "./raw-response.ts";

/** What a transport needs of the app. */
export interface TransportOwner {
  /** Every response from now on is the last on its connection. */
  readonly isClosing: boolean;
  /** The response has ended, or its connection has. */
  onClose(exchange: Exchange): void;
}

interface PassedHead {
  readonly status: number;
  readonly reason: string;
  /** The exchange's are added to them. */
  readonly lines: HeaderLines;
  /** A Content-Length is among them. */
  readonly hasLength: boolean;
}

/** On the response itself: a WeakMap with an entry for each response doubles what the garbage collector takes. */
const ofResponse = Symbol("headgate transport");

type OwnResponse = ServerResponse & { [ofResponse]?: FastifyTransport };

export class FastifyTransport extends RawResponse {
  exchange: Exchange | null = null;
  readonly #reply: FastifyReply;
  readonly #client: ClientSocket | null;
  readonly #owner: TransportOwner;
  readonly #head: HeadWriter;
  readonly #proceed: () => void;
  /** The client waits for a 100. Node ends the connection of one that gets a response instead. */
  #awaitsContinue: boolean;
  #isAdmitted = false;
  /** What the app gives with its head, while that is sent; null for a local reply. */
  #given: AppHeaders | null = null;
  /** What the app itself lets pages of other origins read, besides what the exchange does. */
  #exposes: readonly string[] = [];

  /** `client`: null over HTTP/2. `proceed`: lets the app handle the request. */
  constructor(
    reply: FastifyReply,
    client: ClientSocket | null,
    awaitsContinue: boolean,
    proceed: () => void,
    owner: TransportOwner,
  ) {
    const { raw, request } = reply;
    super(request.raw, raw);
    this.#reply = reply;
    this.#client = client;
    this.#owner = owner;
    this.#proceed = proceed;
    this.#awaitsContinue = awaitsContinue;
    this.#head = new HeadWriter(raw, this.isHttp2);
    (raw as OwnResponse)[ofResponse] = this;
    raw.writeHead = writeHead as ServerResponse["writeHead"];
    raw.once("close", onClose);
    // Before Node's own listener, which goes on with the next response.
    raw.prependOnceListener("finish", onFinish);
    if (raw.socket === null) raw.once("socket", onSocket);
    else this.beginCount();
  }

  /** The transport of a response; undefined if no exchange was begun for its request. */
  static of(raw: OwnResponse): FastifyTransport | undefined {
    return raw[ofResponse];
  }

  /** Lets the app answer. */
  proceed(): void {
    this.#isAdmitted = true;
    if (this.#awaitsContinue && this.exchange?.hasBody === true) this.sendContinue();
    // Its connection is going to end: what is behind it in the same packet is no request.
    else if (this.#awaitsContinue && this.#client !== null) this.#client.isClosing = true;
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
    const reason = typeof first === "string" ? first : this.#head.reasonOf(status);
    const given = appHeaders(typeof first === "string" ? second : (second ?? first));
    const lines = status === 429 ? this.#head.retryAfter(given) : "";
    this.#respond(exchange, { status, reason, lines, hasLength: false }, given);
  }

  /** Sends the head of the upstream's response, behind the headers that hooks of the app have set. */
  pass(head: PassedHead): void {
    const { exchange } = this;
    if (exchange === null) return;
    const given = appHeaders(this.#reply.getHeaders());
    this.#reply.hijack();
    this.raw.on("drain", onDrain);
    this.#respond(exchange, head, given);
  }

  override sendContinue(): void {
    this.#awaitsContinue = false;
    super.sendContinue();
  }

  sendHead(status: number, reason: string, lines: HeaderLines, hasLength: boolean, mustClose: boolean): void {
    this.hasLength = hasLength;
    const own = listOf(lines);
    for (const value of this.#exposes) own.push("Access-Control-Expose-Headers", value);
    const isLast = !this.isHttp2 && this.#isLast(mustClose);
    if (isLast) own.push("Connection", "close");
    const given = this.#given ?? this.#head.takeOver(this.#reply);
    this.#head.write(status, reason, given, own);
    if (isLast && this.#client !== null) this.#client.isClosing = true;
  }

  onClose(): void {
    const { exchange } = this;
    if (exchange === null) return;
    if (this.isWhole) exchange.finished();
    else exchange.clientGone();
    this.#client?.end(exchange);
    this.#owner.onClose(exchange);
  }

  #respond(exchange: Exchange, { status, reason, lines, hasLength }: PassedHead, given: AppHeaders): void {
    this.#given = given;
    const { exposed } = exchange;
    const isAdded = exposed !== "" && this.#head.valuesOf("access-control-allow-origin", given).length > 0;
    if (exposed !== "") this.#exposes = this.#head.valuesOf("access-control-expose-headers", given);
    try {
      exchange.respond(status, reason, isAdded ? lines + exposed : lines, hasLength);
    } finally {
      this.#given = null;
      this.#exposes = [];
    }
  }

  #isLast(mustClose: boolean): boolean {
    const isUnread = this.exchange?.hasBody === true && !this.body.complete;
    // Behind an Upgrade the parser leaves bytes of the same packet out, even if the upgrade is declined.
    const asksToUpgrade = this.exchange?.verdict.parsed.message.asksToUpgrade === true;
    return mustClose || isUnread || asksToUpgrade || this.#awaitsContinue || this.#owner.isClosing;
  }
}

// Listeners and method of every response, which is their `this`.

function writeHead(this: OwnResponse, status: number, first?: unknown, second?: unknown): ServerResponse {
  const transport = this[ofResponse];
  if (transport === undefined) throw new Error("a response without its transport");
  transport.answer(status, first, second);
  return this;
}

function onClose(this: OwnResponse): void {
  this[ofResponse]?.onClose();
}

function onSocket(this: OwnResponse): void {
  this[ofResponse]?.beginCount();
}

function onFinish(this: OwnResponse): void {
  this[ofResponse]?.endCount();
}

function onDrain(this: OwnResponse): void {
  this[ofResponse]?.exchange?.onDrain();
}
