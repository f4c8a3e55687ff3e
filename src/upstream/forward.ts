// Forwards one request to the upstream and its response to the client. Both bodies stream with backpressure. A client
// that leaves cancels the request to the upstream. A response that breaks off breaks off for the client too and never
// ends well-formed. A request is sent twice only if it is a GET, HEAD or QUERY without a body and the upstream closed the
// idle connection it was sent on.
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { brokenRule } from "../core/broken-rule.ts";
import type { ClientBytes, SharedResource } from "../core/client-share.ts";
import { ignoreError } from "../core/failure.ts";
import { connectionOptions } from "../core/headers.ts";
import { type LocalReply, localReplies, shareReplies } from "../core/local-reply.ts";
import { answersOffer, upgradeProtocols } from "../core/upgrade.ts";
import type { UpstreamErrorReason, UpstreamFault } from "../core/upstream.ts";
import type { Exchange, ExchangeListener } from "../exchange/exchange.ts";
import type { PushedBody } from "../exchange/transport.ts";
import { malformed, type ResponseHead } from "../http1/response-head.ts";
import type { Endpoint } from "./endpoints.ts";
import { MinRateTimeout, responseSlowness } from "./min-rate-timeout.ts";
import type { ResponseHandler } from "./outbound-connection.ts";
import { type BodyOptions, type BodyWaiter, RequestBody } from "./request-body.ts";
import { type RequestFieldsOptions, upstreamRequestStart } from "./request-fields.ts";
import type { Tunnels } from "./tunnels.ts";
import type { ConnectionPool, PoolWaiter, UpstreamConnection, UpstreamConnections } from "./upstream-connections.ts";
import { brokenBy, misdirected, upstreamErrorCode, upstreamErrorReason, upstreamReply } from "./upstream-error.ts";
import { endsConnection } from "./upstream-socket.ts";

/** A body up to this length is written in one piece with its head, which costs less than two writes. */
const maxDelayedBytes = 4 * 1024;

/** Interim responses are buffered for a client that reads slowly, so their number is bounded. */
export const maxInterimResponses = 16;

const noProtocols: readonly string[] = [];

/** Returns what forwards each admitted request. */
export function createForward(options: ForwardingOptions): (exchange: Exchange) => void {
  return (exchange) => new Forwarding(exchange, options).start();
}

class Forwarding implements ResponseHandler, PoolWaiter, BodyWaiter, ExchangeListener {
  readonly #exchange: Exchange;
  readonly #options: ForwardingOptions;
  /** The protocols that the client offers in Upgrade; empty if the request stays HTTP. */
  readonly #upgrade: readonly string[];
  #connection: UpstreamConnection | null = null;
  #body: RequestBody | null = null;
  /** For a client that reads the response more slowly than the upstream sends it. */
  #minRate: MinRateTimeout | null = null;
  /** The head waits for the bytes behind it in the same packet. */
  #isHeadDelayed = false;
  /** The first piece of the body, which waits for the rest of its packet. */
  #delayed: string | null = null;
  #interimResponses = 0;
  #passedBytes = 0;
  #wasRetried = false;
  /** The client has left, or has been answered. */
  #isOver = false;

  constructor(exchange: Exchange, options: ForwardingOptions) {
    this.#exchange = exchange;
    this.#options = options;
    this.#upgrade = exchange.transport.isUpgrade ? upgradeProtocols(exchange.head.rawHeaders) : noProtocols;
  }

  start(): void {
    this.#exchange.listener = this;
    const { body, hasBody, expectsContinue, transport } = this.#exchange;
    if (hasBody && expectsContinue) transport.sendContinue();
    if (!hasBody || Buffer.isBuffer(body)) this.onBodyReady();
    else this.#gather(body);
  }

  /** The time until the body is there counts as waiting: it is neither the gateway's nor the upstream's. */
  #gather(body: Readable | PushedBody): void {
    const exchange = this.#exchange;
    exchange.queuedMs = this.#options.nowMs();
    this.#body = new RequestBody(body, this.#options, this);
    // While there are plenty of connections, the upstream gets each piece of the body as it comes.
    if (this.#options.connections.isScarce) this.#body.gather(this);
    else this.onBodyReady();
  }

  onBodyMemory(bytes: number): boolean {
    return this.#options.waitingBodies.add(this.#exchange.client, bytes);
  }

  onBodyReady(): void {
    this.#connections().acquire(this);
    if (this.#exchange.dispatchedMs === null && !this.#isOver) this.#exchange.queuedMs ??= this.#options.nowMs();
  }

  onOpening(): void {
    this.#exchange.dispatchedMs ??= this.#options.nowMs();
  }

  onConnection(connection: UpstreamConnection): void {
    this.#connection = connection;
    this.#dispatch(connection);
  }

  onNoConnection(error: Error | null, at?: Endpoint): void {
    this.#fail(error === null ? "overloaded" : upstreamErrorReason(error), error, at);
  }

  get client(): string {
    return this.#exchange.client;
  }

  /** Whether sending the request twice has the effect of sending it once, and no body has to be kept for that. */
  get mayRepeat(): boolean {
    const { hasBody, method } = this.#exchange;
    return !hasBody && (method === "GET" || method === "HEAD" || method === "QUERY");
  }

  slowness(): number {
    const ofResponse = responseSlowness(this.#exchange.answeredMs, this.#options.nowMs(), this.#passedBytes);
    return Math.max(ofResponse, this.#body?.slowness() ?? 0, this.#minRate?.slowness() ?? 0);
  }

  onShareExceeded(resource: SharedResource): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const reply = this.#connection === null ? shareReplies[resource] : localReplies.slowWhileOthersWait;
    this.#cancelRequest();
    replyAfterPacket(this.#exchange, reply);
  }

  #connections(): ConnectionPool {
    return this.#upgrade.length > 0 ? this.#options.tunnels : this.#options.connections;
  }

  /** Answers with a local reply, and cancels the request to the upstream. */
  cancel(reply: LocalReply): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#exchange.localReply(reply);
    this.#cancelRequest();
  }

  #dispatch(connection: UpstreamConnection): void {
    const exchange = this.#exchange;
    const { body, method, hasBody } = exchange;
    exchange.dispatchedMs ??= this.#options.nowMs();
    const hasLength = exchange.verdict.parsed.message.contentLength !== null;
    const whole = hasBody && Buffer.isBuffer(body) ? body : hasLength ? (this.#body?.takeWhole() ?? null) : null;
    if (whole === null && this.#body !== null) this.#connections().mayReclaim(connection, this);
    const request = {
      method,
      start: upstreamRequestStart(exchange, this.#options),
      hasLength,
      mayGetLength: exchange.head.httpVersion === "2",
      body: whole ?? this.#body,
      isLast: endsConnection(exchange) || connection.maxIdleMs === 0,
      upgrade: this.#upgrade.length === 0 ? "" : this.#upgrade.join(", "),
    };
    connection.send(request, this);
    exchange.isBodySent = whole !== null;
  }

  onHead({ status, reason, lines, hasLength }: ResponseHead): void {
    const exchange = this.#exchange;
    const nowMs = this.#options.nowMs();
    exchange.answeredMs = nowMs;
    if (status === 421) exchange.detail = misdirected;
    exchange.respond(status, reason, lines, hasLength, nowMs);
    this.#noteAnswer(nowMs);
    // The head is written together with the first piece of the body if that came in the same packet.
    this.#isHeadDelayed = true;
  }

  onPacketEnd(): void {
    if (this.#isOver) return;
    if (this.#connection !== null) this.#connections().mayReclaim(this.#connection, this);
    if (this.#isHeadDelayed) this.#writeDelayed();
  }

  /** Writes the head and the piece that waited for the end of the packet. */
  #writeDelayed(): void {
    this.#isHeadDelayed = false;
    const delayed = this.#delayed;
    this.#delayed = null;
    if (delayed === null) this.#exchange.transport.flushHead();
    else this.#pass(delayed);
  }

  /** An error that is thrown here, or in onHead, fails the request. */
  onInterim({ status, lines }: ResponseHead): void {
    this.#interimResponses += 1;
    if (this.#interimResponses > maxInterimResponses) throw malformed(brokenRule("too many interim responses"));
    // A client that waits for a 100 has had one from the gateway.
    if (status !== 100) this.#exchange.transport.sendInterim(status, lines);
  }

  /** Passes the upstream's 101 on. Before it the client gets no 101, and its bytes go nowhere. */
  onUpgrade({ received, lines }: ResponseHead, socket: Socket, early: Buffer): void {
    socket.on("error", ignoreError);
    const exchange = this.#exchange;
    const protocols = upgradeProtocols(received);
    const isWanted = answersOffer(protocols, this.#upgrade) && connectionOptions(received).has("upgrade");
    if (!isWanted) {
      socket.destroy();
      this.#fail("malformed", malformed(brokenRule("a 101 that was not asked for")));
      return;
    }
    this.#isOver = true;
    exchange.answeredMs = this.#options.nowMs();
    this.#noteAnswer(exchange.answeredMs);
    this.#release();
    if (early.length > 0) socket.unshift(early);
    const client = exchange.switchProtocols(protocols.join(", "), lines);
    if (client === null) socket.destroy();
    else this.#options.tunnels.join(client, socket, exchange);
  }

  onBody(bytes: Buffer, from: number, to: number): boolean {
    // A response whose status allows no body ended with its head, whatever the upstream sends.
    if (this.#exchange.transport.isEnded) return false;
    if (this.#isHeadDelayed && this.#delayed === null && to - from <= maxDelayedBytes) {
      this.#delayed = bytes.toString("latin1", from, to);
      return false;
    }
    if (this.#delayed !== null) this.#writeDelayed();
    this.#isHeadDelayed = false;
    return this.#pass(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to));
  }

  #pass(chunk: Buffer | string): boolean {
    this.#passedBytes += chunk.length;
    if (this.#exchange.transport.write(chunk)) {
      this.#minRate?.moved(chunk.length);
    } else {
      this.#minRate ??= new MinRateTimeout(this.#options, this);
      this.#minRate.begin();
      this.#minRate.moved(chunk.length);
      if (this.#connection !== null) {
        this.#connection.pausedSinceMs ??= this.#options.nowMs();
        this.#connection.pause();
      }
    }
    return !this.#exchange.transport.isFlushed;
  }

  onEnd(): void {
    this.#isOver = true;
    this.#release();
    const delayed = this.#delayed;
    this.#isHeadDelayed = false;
    this.#delayed = null;
    this.#exchange.transport.end(delayed ?? "");
  }

  onError(error: Error, isUntouched: boolean): void {
    const reason = upstreamErrorReason(error);
    const connection = this.#connection;
    if (connection !== null && isUntouched && this.#mayRetry(connection, reason)) {
      this.#wasRetried = true;
      this.#connection = null;
      this.#options.connections.replace(connection, this);
    } else {
      if (isUntouched && reason === "reset" && !connection?.isReused)
        this.#options.connections.resetUnanswered(connection);
      this.#fail(reason, error);
    }
  }

  #noteAnswer(nowMs: number): void {
    this.#connection?.endpoint.answered(nowMs);
    this.#options.onAnswer(nowMs);
  }

  #mayRetry({ isReused }: UpstreamConnection, reason: UpstreamErrorReason): boolean {
    const wasIdleClose = isReused && (reason === "reset" || reason === "closed_early");
    return this.mayRepeat && wasIdleClose && !this.#wasRetried;
  }

  #fail(reason: UpstreamErrorReason, error: Error | null, at = this.#connection?.endpoint): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const exchange = this.#exchange;
    const code = error === null ? null : upstreamErrorCode(error);
    const broken = brokenBy(error);
    const { isReused = false, idleSinceMs = 0 } = this.#connection ?? {};
    const idleMs = Math.round((exchange.dispatchedMs ?? 0) - idleSinceMs);
    const reuse = isReused && { reused: true as const, idleMs };
    exchange.fault = { reason, code, address: at?.name ?? null, id: exchange.id, ...broken, ...reuse };
    this.#options.onError(exchange.fault);
    this.#release();
    replyAfterPacket(exchange, { ...upstreamReply(reason), ...(broken && { detail: broken }) });
  }

  onExchangeEnd(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelRequest();
  }

  onDrain(): void {
    this.#minRate?.pause();
    this.#connection?.resume(this.#exchange.transport.isFlushed);
  }

  #cancelRequest(): void {
    this.#connections().cancel(this);
    this.#connection?.abort();
    this.#release();
  }

  #release(): void {
    this.#exchange.listener = null;
    this.#body?.stop();
    this.#minRate?.end();
    if (this.#connection !== null) this.#connections().release(this.#connection, this);
    this.#connection = null;
  }
}

/**
 * Replies to a request that cannot be forwarded. The packet that is being read may contain the end of the request's
 * body. If the body is read to its end before the reply is sent, the client's connection can stay open.
 */
function replyAfterPacket(exchange: Exchange, reply: LocalReply): void {
  if (exchange.hasBody) setImmediate(replyNow, exchange, reply);
  else replyNow(exchange, reply);
}

function replyNow(exchange: Exchange, reply: LocalReply): void {
  // In the meantime the request's body may have been found malformed, and answered as such.
  if (!exchange.isEnded && exchange.problem === null) exchange.localReply(reply);
}

/**
 * Bounds the memory of bodies that wait for a connection to the upstream, in the whole process. By default, at most 256
 * requests wait. Together they use half of this if each of them keeps 64 KiB.
 */
export const maxWaitingBodyBytes = 32 * 1024 * 1024;

/** Of all requests. */
export interface ForwardingOptions extends BodyOptions, RequestFieldsOptions {
  /** The memory of bodies that wait for a connection. A body over a bound is not refused: it asks for a connection at once. */
  readonly waitingBodies: ClientBytes;
  readonly connections: UpstreamConnections;
  readonly tunnels: Tunnels;
  /** Called once for each request that the upstream failed. */
  readonly onError: (fault: UpstreamFault) => void;
  /** `nowMs`: the instant of the answer. */
  readonly onAnswer: (nowMs: number) => void;
}
