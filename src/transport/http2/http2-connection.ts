// One HTTP/2 connection: its streams are requests like any other, each decided and charged by itself. Bounded in streams at
// once, in requests, in resets, and in the time it may be without a stream; it ends with a GOAWAY that loses no request.
import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Peer } from "../../core/client-address.ts";
import { newRecord, unparsedRecord } from "../../core/exchange-record.ts";
import { maxFields, maxHeadBytes } from "../../core/head-bounds.ts";
import { http2HeadBytes, readHttp2Head } from "../../core/http2-head.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";
import type { Decision } from "../../core/policy.ts";
import type { RequestHead, Verdict } from "../../core/request-head.ts";
import type { ExchangeContext, RequestSteps } from "../../exchange/exchange.ts";
import type { Accepted } from "../../listener/acceptor.ts";
import { Http2Exchange, isAnswered, ResponseBrokeOff } from "./http2-exchange.ts";
import { ResetAllowance } from "./reset-allowance.ts";
import { StreamErrors } from "./stream-errors.ts";

export interface Http2Options extends RequestSteps {
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** How long nothing may move in either direction of a stream. */
  readonly stallTimeoutMs: number;
  readonly maxRequests: number;
}

const maxStreams = 100;

/** How long a client that has been told of the end may keep its side open. */
const lingerMs = 2_000;

const sessionOptions = {
  // nghttp2 refuses streams beyond the bound itself, whether or not the client has agreed to it.
  // Twice what is accepted: what is larger is reset without an answer, and what is not can be told that it is too large.
  settings: { maxConcurrentStreams: maxStreams, maxHeaderListSize: 2 * maxHeadBytes, enablePush: false },
  maxHeaderListPairs: 2 * maxFields,
  // Else a value with a blank around it is dropped, where the request has to be refused.
  strictFieldWhitespaceValidation: false,
  // What upstreams send twice is passed on twice.
  strictSingleValueFields: false,
};

export class Http2Connection {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  /** It has timers of its own; this is for the preface that never comes. */
  readonly idleTimeoutMs: number;
  /** Told when the first stream opens and when the last one has closed. */
  onTurns: (isIdle: boolean) => void = () => {};
  readonly #options: Http2Options;
  readonly #context: ExchangeContext;
  readonly #session: ServerHttp2Session;
  readonly #streamErrors: StreamErrors;
  readonly #resets: ResetAllowance;
  /** Streams that are open. */
  #open = 0;
  #requests = 0;
  #isLeaving = false;
  /** The client did what it may not: nothing more of it is looked at. */
  #isOver = false;
  #timer: NodeJS.Timeout | null = null;

  constructor({ socket, tcp, peer }: Accepted, options: Http2Options, context: ExchangeContext) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.#options = options;
    this.idleTimeoutMs = options.keepAliveTimeoutMs + options.headTimeoutMs;
    this.#context = context;
    this.#resets = new ResetAllowance(context.nowMs);
    this.#session = performServerHandshake(socket, sessionOptions);
    this.#streamErrors = new StreamErrors(this.#session);
    this.#session.on("stream", (stream, _head, _flags, rawHead) => this.#onStream(stream, rawHead));
    // What a client did wrong it has been told by a GOAWAY; the end is told by the socket's "close".
    this.#session.on("error", ignoreBreak);
    socket.once("close", () => this.#stopTimer());
    this.#endIn(options.headTimeoutMs);
  }

  /** Requests that are being answered. */
  get activeCount(): number {
    return this.#open;
  }

  /**
   * A GOAWAY that names the last stream: what crosses it has not been looked at, and the client may send it again
   * elsewhere (RFC 9113, 6.8). Streams that are open finish. No GOAWAY without a last stream goes before it, which would
   * let clients finish what they are sending: Node's parser takes no stream after either.
   */
  endWhenIdle(): void {
    if (this.#isLeaving || this.#isOver) return;
    this.#isLeaving = true;
    this.#stopTimer();
    // Node ends a session by itself for what breaks the protocol, and waits for a client that reads nothing.
    if (!this.#session.destroyed) this.#session.close();
    if (this.#open === 0) this.#linger();
  }

  #onStream(stream: ServerHttp2Stream, rawHead: readonly string[]): void {
    // A break is told by "close"; without a listener the error would end the process.
    stream.on("error", ignoreBreak);
    if (this.#session.destroyed) return;
    if (this.#isOver) {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    this.#begin(stream);
    if (rawHead.length / 2 > maxFields || http2HeadBytes(rawHead) > maxHeadBytes) {
      this.#answerUndecided(stream, localReplies.headTooLarge);
      return;
    }
    const { method, target, rawHeaders } = readHttp2Head(rawHead);
    const facts: RequestHead = {
      peer: this.peer,
      rawHeaders,
      method,
      target,
      httpVersion: "2",
      endsWithHead: stream.endAfterHeaders,
      nowMs: this.#context.nowMs(),
    };
    const fail = (error: unknown): void => {
      this.#options.onFailure(error);
      this.#answerUndecided(stream, localReplies.internal);
    };
    try {
      const verdict = this.#options.decide(facts);
      if (verdict instanceof Promise) verdict.then((decided) => this.#conclude(stream, facts, decided)).catch(fail);
      else this.#conclude(stream, facts, verdict);
    } catch (error) {
      fail(error);
    }
  }

  #begin(stream: ServerHttp2Stream): void {
    this.#open += 1;
    this.#streamErrors.opened(stream);
    this.#requests += 1;
    this.#stopTimer();
    if (this.#open === 1) this.onTurns(false);
    stream.setTimeout(this.#options.stallTimeoutMs, () => stream.close(constants.NGHTTP2_CANCEL));
    if (stream.destroyed) this.#onStreamEnd(stream);
    else stream.once("close", () => this.#onStreamEnd(stream));
    if (this.#requests >= this.#options.maxRequests) this.endWhenIdle();
  }

  /** A stream that was reset before it could be decided was charged all the same. */
  #conclude(stream: ServerHttp2Stream, facts: RequestHead, verdict: Verdict): void {
    const exchange = newRecord(facts, verdict, this.#options.requestId(facts));
    if (stream.destroyed) {
      exchange.endedMs = this.#context.nowMs();
      this.#context.onEnd(exchange, verdict.reading.target?.path ?? "");
      return;
    }
    const active = new Http2Exchange(stream, { facts, verdict, exchange }, this.#context);
    try {
      if (verdict.problem === null) this.#options.forward(active);
      else active.refuse(verdict.problem);
    } catch (error) {
      // It has been decided: answered as undecided it would be told of twice, with another quota than it was charged.
      this.#options.onFailure(error);
      active.refuse(localReplies.internal);
    }
  }

  /** What could not be read as a request, or met a bug: shown the quota without spending it. */
  #answerUndecided(stream: ServerHttp2Stream, problem: LocalReply): void {
    if (stream.destroyed || stream.closed || stream.headersSent) {
      stream.destroy();
      return;
    }
    const { fields, observe, nowMs, onEnd } = this.#context;
    const answer = (decision: Decision): void => {
      if (stream.destroyed || stream.closed) return;
      const { fields: head, body } = fields.problem(problem, decision);
      stream.respond([":status", `${problem.status}`, ...head]);
      if (!stream.writableEnded) stream.end(body);
      onEnd(unparsedRecord(this.peer.key, decision, problem, nowMs()), "");
    };
    const decision = observe(this.peer.key);
    if (decision instanceof Promise) decision.then(answer).catch(() => stream.destroy());
    else answer(decision);
  }

  #onStreamEnd(stream: ServerHttp2Stream): void {
    this.#open -= 1;
    this.#streamErrors.closed(stream);
    const isReset = !isAnswered(stream) && !(stream.errored instanceof ResponseBrokeOff);
    if (isReset && !this.#session.destroyed && !this.#isOver && !this.#resets.take()) this.#breakOff();
    if (this.#open > 0 || this.#isOver) return;
    this.onTurns(true);
    if (this.#isLeaving || this.#session.destroyed) this.#linger();
    else this.#endIn(this.#options.keepAliveTimeoutMs);
  }

  /** It is told why, which a socket that is closed at once would not let it hear; what it sends meanwhile is dropped. */
  #breakOff(): void {
    this.#isOver = true;
    this.#session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    this.#linger();
  }

  #endIn(timeoutMs: number): void {
    this.#stopTimer();
    this.#timer = setTimeout(() => this.endWhenIdle(), timeoutMs);
  }

  /** A client that has been told of the end and keeps its side open. */
  #linger(): void {
    this.#stopTimer();
    if (!this.tcp.destroyed) this.#timer = setTimeout(() => this.tcp.destroy(), lingerMs);
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

function ignoreBreak(): void {}
