// Carries one request to the upstream and its response back: both bodies stream with backpressure, a client that leaves
// cancels the upstream's work, and a response that breaks in the middle breaks for the client too, never ends
// well-formed. Sends a request twice only if it had no body, was a GET or HEAD, and met the close of an idle
// connection.
import type { Socket } from "node:net";
import { type LocalReply, localReplies } from "../core/local-reply.ts";
import type { RequestListener } from "../core/request-listener.ts";
import { answersOffer, upgradeProtocols } from "../core/upgrade.ts";
import type { UpstreamErrorReason, UpstreamFault } from "../core/upstream.ts";
import type { Downstream } from "./downstream.ts";
import type { Endpoint } from "./endpoint.ts";
import { connectionOptions } from "./hop-by-hop.ts";
import type { ResponseHandler } from "./http1-connection.ts";
import { endsConnection } from "./last-request.ts";
import { MinRateTimeout } from "./min-rate-timeout.ts";
import { RequestBody } from "./request-body.ts";
import { downstreamResponseFields } from "./response-fields.ts";
import type { ResponseHead } from "./response-parser.ts";
import type { Tunnels } from "./tunnels.ts";
import type { Connections, PoolWaiter, UpstreamConnection } from "./upstream-connection.ts";
import type { UpstreamConnections } from "./upstream-connections.ts";
import { BadInterimResponse, upstreamErrorCode, upstreamErrorReason, upstreamProblem } from "./upstream-error.ts";

export interface ForwardRequest {
  /** Origin form. */
  readonly path: string;
  readonly fields: string[];
  /** The protocols that are offered to the upstream, as the client offered them; empty if the request stays HTTP. */
  readonly upgrade: readonly string[];
}

export interface ForwarderOptions {
  readonly connections: UpstreamConnections;
  readonly tunnels: Tunnels;
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  readonly nowMs: () => number;
  /** Told once for each failed request. */
  readonly onError: (fault: UpstreamFault) => void;
  readonly onAnswer: () => void;
}

/** A body no longer than this is copied behind its head, which costs less than writing two pieces. */
const maxHeldBytes = 4 * 1024;

/** Each is kept in memory for a client that reads slowly. */
const maxInterimResponses = 16;

export class Forwarding implements ResponseHandler, PoolWaiter, RequestListener {
  readonly #downstream: Downstream;
  readonly #request: ForwardRequest;
  readonly #options: ForwarderOptions;
  #connection: UpstreamConnection | null = null;
  #body: RequestBody | null = null;
  /** With a client that reads its answer more slowly than the upstream writes it. */
  #patience: MinRateTimeout | null = null;
  /** It went out on a connection that had been idle. */
  #wasReused = false;
  /** The head waits for what comes behind it in the same packet. */
  #isHeadHeld = false;
  /** A body's first piece that waits for its end. */
  #held: string | null = null;
  #interimResponses = 0;
  #wasRetried = false;
  /** Nothing more is to be said to the client: it has left, or it has been answered. */
  #isOver = false;

  constructor(downstream: Downstream, request: ForwardRequest, options: ForwarderOptions) {
    this.#downstream = downstream;
    this.#request = request;
    this.#options = options;
  }

  start(): void {
    this.#downstream.listener = this;
    this.#connections.acquire(this);
    const { exchange } = this.#downstream;
    if (exchange.dispatchedMs === null && !this.#isOver) exchange.queuedMs = this.#options.nowMs();
  }

  onOpening(): void {
    this.#downstream.exchange.dispatchedMs ??= this.#options.nowMs();
  }

  onConnection(connection: UpstreamConnection): void {
    this.#connection = connection;
    this.#dispatch(connection);
  }

  onNoConnection(error: Error | null, at?: Endpoint): void {
    this.#fail(error === null ? "overloaded" : upstreamErrorReason(error), error, at);
  }

  get #connections(): Connections {
    return this.#request.upgrade.length > 0 ? this.#options.tunnels : this.#options.connections;
  }

  /** Answers `problem` and takes the request back from the upstream. */
  cancel(problem: LocalReply): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#downstream.refuse(problem);
    this.#abandon();
  }

  #dispatch(connection: UpstreamConnection): void {
    const { body, exchange, hasBody, expectsContinue } = this.#downstream;
    if (expectsContinue && hasBody) this.#downstream.writeContinue();
    if (hasBody && !Buffer.isBuffer(body)) this.#body = new RequestBody(body, this.#bodyBounds(), this.#refuseBody);
    exchange.dispatchedMs ??= this.#options.nowMs();
    const { path, fields } = this.#request;
    this.#wasReused = connection.isReused;
    const upgrade = this.#request.upgrade.join(", ");
    const isLast = endsConnection(exchange.method, hasBody);
    const whole = hasBody && Buffer.isBuffer(body) ? body : null;
    connection.send({ path, method: exchange.method, fields, body: whole ?? this.#body, isLast, upgrade }, this);
  }

  onHead({ status, reason, fields: received }: ResponseHead): void {
    const { exchange } = this.#downstream;
    exchange.answeredMs = this.#options.nowMs();
    const { fields, retryAfter } = downstreamResponseFields(received, status);
    this.#downstream.respond(status, reason, fields, retryAfter);
    this.#noteAnswer(exchange.answeredMs);
    // The head goes out with the first piece of the body if that came in the same packet, alone if it did not.
    this.#isHeadHeld = true;
  }

  /** Sends what was kept back for the rest of its packet, unless something else was answered in its place. */
  onPacketEnd(): void {
    if (!this.#isHeadHeld || this.#isOver) return;
    this.#isHeadHeld = false;
    const held = this.#held;
    this.#held = null;
    if (held === null) this.#downstream.flushHead();
    else this.#pass(held);
  }

  /** What is thrown here fails the request, as it does in onHead. */
  onInterim({ status, fields }: ResponseHead): void {
    this.#interimResponses += 1;
    if (this.#interimResponses > maxInterimResponses) throw new BadInterimResponse();
    // Nobody waits for it: the client was told to continue before.
    if (status !== 100) this.#downstream.inform(status, downstreamResponseFields(fields, status).fields);
  }

  /** The upstream's 101: only now does the client get one, and its bytes go nowhere before that. */
  onUpgrade(received: readonly string[], socket: Socket, early: Buffer): void {
    // A reset would end the process.
    socket.on("error", ignoreReset);
    const { exchange } = this.#downstream;
    const protocols = upgradeProtocols(received);
    const isWanted = answersOffer(protocols, this.#request.upgrade) && connectionOptions(received).has("upgrade");
    if (!isWanted) {
      socket.destroy();
      this.#fail("malformed", null);
      return;
    }
    this.#isOver = true;
    exchange.answeredMs = this.#options.nowMs();
    this.#noteAnswer(exchange.answeredMs);
    this.#letGo();
    if (early.length > 0) socket.unshift(early);
    const { fields } = downstreamResponseFields(received, 101);
    const client = this.#downstream.switchProtocols(protocols.join(", "), fields);
    if (client === null) socket.destroy();
    else this.#options.tunnels.join(client.socket, socket, client.early, exchange.id);
  }

  onBody(chunk: Buffer): boolean {
    // A status that has none ended the answer with its head, whatever the upstream sends.
    if (this.#downstream.isEnded) return false;
    if (this.#isHeadHeld && this.#held === null && chunk.length <= maxHeldBytes) {
      this.#held = chunk.toString("latin1");
      return false;
    }
    if (this.#held !== null) this.onPacketEnd();
    this.#isHeadHeld = false;
    return this.#pass(chunk);
  }

  #pass(chunk: Buffer | string): boolean {
    if (this.#downstream.write(chunk)) {
      this.#patience?.moved(chunk.length);
    } else {
      this.#patience ??= this.#newPatience();
      this.#patience.begin();
      this.#patience.moved(chunk.length);
      this.#connection?.pause();
    }
    return !this.#downstream.isFlushed;
  }

  onEnd(): void {
    this.#isOver = true;
    this.#letGo();
    const held = this.#held;
    this.#isHeadHeld = false;
    this.#held = null;
    this.#downstream.end(held ?? "");
  }

  onError(error: Error, isUntouched: boolean): void {
    const reason = upstreamErrorReason(error);
    const connection = this.#connection;
    if (connection !== null && isUntouched && this.#mayRetry(reason)) {
      this.#wasRetried = true;
      this.#connection = null;
      this.#options.connections.replace(connection, this);
    } else {
      if (isUntouched && reason === "reset" && !this.#wasReused) this.#options.connections.resetUnanswered(connection);
      this.#fail(reason, error);
    }
  }

  #noteAnswer(nowMs: number): void {
    this.#connection?.endpoint.answered(nowMs);
    this.#options.onAnswer();
  }

  #mayRetry(reason: UpstreamErrorReason): boolean {
    const { hasBody, exchange } = this.#downstream;
    const isSafe = !hasBody && (exchange.method === "GET" || exchange.method === "HEAD");
    const wasIdleClose = this.#wasReused && (reason === "reset" || reason === "closed_early");
    return isSafe && wasIdleClose && !this.#wasRetried;
  }

  #fail(reason: UpstreamErrorReason, error: Error | null, at = this.#connection?.endpoint): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const code = error === null ? null : upstreamErrorCode(error);
    this.#options.onError({ reason, code, address: at?.name ?? null, id: this.#downstream.exchange.id });
    this.#letGo();
    const { hasBody, exchange } = this.#downstream;
    const refuse = (): void => {
      // Its body may have turned out broken in the meantime, and been answered.
      if (!this.#downstream.isGone && exchange.problem === null) this.#downstream.refuse(upstreamProblem(reason));
    };
    // The body's end may stand in the packet that is being read: then the client's connection can stay.
    if (hasBody) setImmediate(refuse);
    else refuse();
  }

  onClientGone(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#abandon();
  }

  readonly #refuseBody = (why: "too_large" | "too_slow"): void => {
    this.cancel(why === "too_large" ? localReplies.bodyTooLarge : localReplies.slowRequest);
  };

  onDrain(): void {
    this.#patience?.pause();
    this.#connection?.resume(this.#downstream.isFlushed);
  }

  #newPatience(): MinRateTimeout {
    const { bodyTimeoutMs: timeoutMs, nowMs } = this.#options;
    return new MinRateTimeout({ timeoutMs, nowMs, onExhausted: () => this.cancel(localReplies.slowRequest) });
  }

  #bodyBounds() {
    const { maxBodyBytes, bodyTimeoutMs: timeoutMs, nowMs } = this.#options;
    return { maxBodyBytes, timeoutMs, nowMs };
  }

  /** Breaks the upstream's connection: what is on its way there is not wanted any more. */
  #abandon(): void {
    this.#connections.leave(this);
    this.#connection?.abort();
    this.#letGo();
  }

  #letGo(): void {
    this.#downstream.listener = null;
    this.#body?.giveUp();
    this.#patience?.end();
    if (this.#connection !== null) this.#connections.release(this.#connection);
    this.#connection = null;
  }
}

function ignoreReset(): void {}
