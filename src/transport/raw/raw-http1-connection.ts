// One client connection past Node's HTTP server, for as long as it brings simple requests, one after the other: reading
// and answering them costs a fraction there. The first packet that is anything else goes to Node's parser untouched, and
// with it the connection for good.
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Peer } from "../../core/client-address.ts";
import { newRecord } from "../../core/exchange-record.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";
import type { RequestHead, Verdict } from "../../core/request-head.ts";
import type { ExchangeContext, RequestSteps } from "../../exchange/exchange.ts";
import type { Accepted } from "../../listener/acceptor.ts";
import { endAndLinger, firstRequestMs, maxWaitingBytes } from "../node/node-http1-connection.ts";
import { RawHttp1Exchange } from "./raw-http1-exchange.ts";
import { readSimpleRequest, type SimpleRequest } from "./simple-request.ts";

export interface RawHttp1Options extends RequestSteps {
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** At the end of each head that is not the last one. */
  readonly keepAliveFields: readonly string[];
  /** How long nothing may move in either direction while a request is answered. */
  readonly stallTimeoutMs: number;
  readonly maxRequests: number;
  /** Answers where there is no request to answer. */
  readonly answerRaw: (connection: RawHttp1Connection, problem: LocalReply) => void;
  /** The socket is as if what it holds had not been read; `requests` have been answered on it. */
  readonly leave: (lane: RawHttp1Connection, accepted: Accepted, requests: number) => void;
}

/** Clients are told of a second less, so that their next request does not meet the close. */
const keepAliveGraceMs = 1_000;

export class RawHttp1Connection {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  readonly scheme: "http" | "https";
  readonly keepAliveFields: readonly string[];
  /** Told when a request begins and when it is over. */
  onTurns: (isIdle: boolean) => void = () => {};
  /** A last answer is on its way: whatever else arrives is not a request any more. */
  isClosing = false;
  readonly #options: RawHttp1Options;
  readonly #context: ExchangeContext;
  #active: RawHttp1Exchange | null = null;
  /** A request is being decided or answered. */
  #isTaken = false;
  #requests = 0;
  #isLast = false;
  #endsWhenIdle = false;
  /** What came while a request was being answered. */
  #next: Buffer[] = [];
  #nextBytes = 0;
  #firstRequestTimer: NodeJS.Timeout | null = null;

  constructor({ socket, tcp, peer }: Accepted, options: RawHttp1Options, context: ExchangeContext) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.scheme = socket instanceof TLSSocket ? "https" : "http";
    this.keepAliveFields = options.keepAliveFields;
    this.#options = options;
    this.#context = context;
    socket.setTimeout(options.stallTimeoutMs);
    socket.on("timeout", this.#onStall).on("drain", this.#onDrain);
    socket.on("data", this.#onData).on("end", this.#onEnd).on("error", ignoreReset).on("close", this.#onClose);
  }

  get activeCount(): number {
    return this.#isTaken ? 1 : 0;
  }

  /** How long it may be without a request. */
  get idleTimeoutMs(): number {
    const { headTimeoutMs, keepAliveTimeoutMs } = this.#options;
    return this.#requests === 0 ? headTimeoutMs : keepAliveTimeoutMs + keepAliveGraceMs;
  }

  /** The client says so, or it has had as many requests as one connection may. */
  get isLastRequest(): boolean {
    return this.#isLast || this.#requests >= this.#options.maxRequests;
  }

  /** The answer is over and has left. */
  endTurn(): void {
    this.#active = null;
    this.#isTaken = false;
    this.onTurns(true);
    if (this.isClosing) this.#end();
    else if (this.#nextBytes > 0) this.#leave(Buffer.concat(this.#next));
    else if (this.#endsWhenIdle) this.#end();
  }

  /** Ends now if nothing is under way, else with what is. */
  endWhenIdle(): void {
    this.#endsWhenIdle = true;
    if (this.#isTaken) return;
    // Whoever has just connected is about to ask for something, and would take the end for a failure.
    if (this.#requests > 0) this.#end();
    else this.#firstRequestTimer = setTimeout(() => this.#isTaken || this.#end(), firstRequestMs);
  }

  /** Writes a last answer where there is no request. */
  endWith(answer: string): void {
    this.socket.write(answer, "latin1");
    this.#end();
  }

  #end(): void {
    this.isClosing = true;
    endAndLinger(this.socket);
  }

  #begin(packet: Buffer): void {
    const request = readSimpleRequest(packet);
    if (request === null) {
      this.#leave(packet);
      return;
    }
    this.#isTaken = true;
    this.#requests += 1;
    this.#isLast = request.isLast;
    this.onTurns(false);
    const facts: RequestHead = {
      peer: this.peer,
      rawHeaders: request.rawHeaders,
      method: request.method,
      target: request.target,
      httpVersion: "1.1",
      nowMs: this.#context.nowMs(),
    };
    try {
      const verdict = this.#options.decide(facts);
      if (verdict instanceof Promise) this.#concludeLater(request, facts, verdict);
      else this.#conclude(request, facts, verdict);
    } catch (error) {
      this.#fail(error);
    }
  }

  #concludeLater(request: SimpleRequest, facts: RequestHead, verdict: Promise<Verdict>): void {
    verdict.then((decided) => this.#conclude(request, facts, decided)).catch((error) => this.#fail(error));
  }

  #conclude({ body }: SimpleRequest, facts: RequestHead, verdict: Verdict): void {
    const exchange = newRecord(facts, verdict, this.#options.requestId(facts));
    const active = new RawHttp1Exchange(this, body, { facts, verdict, exchange }, this.#context);
    this.#active = active;
    // It left while it was being decided, and was charged all the same.
    if (this.socket.destroyed) active.onClientGone();
    else if (verdict.problem === null) this.#options.forward(active);
    else active.refuse(verdict.problem);
  }

  /** A bug: the client is told no more than that. */
  #fail(error: unknown): void {
    this.#options.onFailure(error);
    if (this.#active === null) this.#options.answerRaw(this, localReplies.internal);
    else this.#active.refuse(localReplies.internal);
  }

  #leave(packet: Buffer): void {
    const { socket, tcp, peer } = this;
    this.#letGoOfSocket();
    // So that nothing flows while nobody listens.
    socket.pause();
    socket.unshift(packet);
    const accepted = { socket, tcp, peer, headerBytes: socket.bytesRead - packet.length };
    this.#options.leave(this, accepted, this.#requests);
    socket.resume();
  }

  #letGoOfSocket(): void {
    const { socket } = this;
    if (this.#firstRequestTimer !== null) clearTimeout(this.#firstRequestTimer);
    socket.setTimeout(0);
    socket.off("timeout", this.#onStall).off("drain", this.#onDrain);
    socket.off("data", this.#onData).off("end", this.#onEnd).off("error", ignoreReset).off("close", this.#onClose);
  }

  readonly #onData = (bytes: Buffer): void => {
    // Behind a last answer they belong to nothing.
    if (this.isClosing) return;
    if (!this.#isTaken) {
      // Empty lines, which some clients send behind a body (RFC 9112, 2.2), are no beginning that would be timed.
      if (this.#requests === 0 || !isEmptyLines(bytes)) this.#begin(bytes);
      return;
    }
    this.#next.push(bytes);
    this.#nextBytes += bytes.length;
    if (this.#nextBytes >= maxWaitingBytes) this.socket.pause();
  };

  /** As everywhere: a client that closes its sending side before the answer counts as gone. */
  readonly #onEnd = (): void => {
    if (this.#isTaken) this.socket.destroy();
    else if (!this.isClosing) this.socket.end();
  };

  readonly #onDrain = (): void => this.#active?.listener?.onDrain();

  readonly #onStall = (): void => {
    if (this.#isTaken) this.socket.destroy();
  };

  readonly #onClose = (): void => {
    if (this.#firstRequestTimer !== null) clearTimeout(this.#firstRequestTimer);
    this.#active?.onClientGone();
    this.#active = null;
  };
}

function isEmptyLines(bytes: Buffer): boolean {
  return bytes[0] === 0x0d && /^(?:\r\n)+$/.test(bytes.toString("latin1"));
}

function ignoreReset(): void {}
