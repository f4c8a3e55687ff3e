// One request on its way to the upstream, and its response: sent once, never again. The client's bytes and headers go on
// as in the gateway, whatever undici or reply-from would make of them. A client that leaves cancels the request; a
// response that breaks off breaks off for the client too.
import type { Readable } from "node:stream";
import type { Dispatcher, Pool } from "undici";
import type { SharedResource } from "../../core/client-share.ts";
import { type HeaderList, listOf } from "../../core/headers.ts";
import { type LocalReply, localReplies, shareReplies } from "../../core/local-reply.ts";
import { downstreamResponseFields } from "../../core/response-fields.ts";
import type { UpstreamErrorReason, UpstreamFault } from "../../core/upstream.ts";
import type { Exchange, ExchangeListener } from "../../exchange/exchange.ts";
import type { ClientHolding } from "../../upstream/client-shares.ts";
import { maxInterimResponses } from "../../upstream/forward.ts";
import { MinRateTimeout, responseSlowness } from "../../upstream/min-rate-timeout.ts";
import type { BodyOptions } from "../../upstream/request-body.ts";
import { type RequestFieldsOptions, upstreamRequestFields } from "../../upstream/request-fields.ts";
import { misdirected, UpstreamFailure, upstreamErrorCode, upstreamReply } from "../../upstream/upstream-error.ts";
import { endsConnection } from "../../upstream/upstream-socket.ts";
import type { FastifyTransport } from "../fastify-transport.ts";
import { BodyStream } from "./body-stream.ts";
import type { PlaceWaiter, PoolPlaces } from "./pool-places.ts";
import { isInterim, isSound, reasonOf, trimmed, undiciErrorReason } from "./undici-response.ts";

export interface ProxyOptions extends BodyOptions, RequestFieldsOptions {
  readonly pool: Pool;
  readonly places: PoolPlaces;
  /** Of the upstream, as in its URL. */
  readonly address: string;
  /** No connection is used a second time. */
  readonly keepsNone: boolean;
  readonly onError: (fault: UpstreamFault) => void;
  /** `nowMs`: the instant of the answer. */
  readonly onAnswer: (nowMs: number) => void;
}

type Response = Pick<Dispatcher.ResponseData, "statusCode" | "statusText"> & { headers: HeaderList; body: Readable };

export class ProxiedRequest implements ExchangeListener, PlaceWaiter {
  readonly #exchange: Exchange;
  readonly #transport: FastifyTransport;
  readonly #options: ProxyOptions;
  readonly #abort = new AbortController();
  #onResponse: (statusCode: number, body: Readable) => void = () => {};
  #place: ClientHolding | null = null;
  #body: BodyStream | null = null;
  #response: Response | null = null;
  /** For a client that reads the response more slowly than the upstream sends it. */
  #minRate: MinRateTimeout | null = null;
  #interimResponses = 0;
  #hasWritten = false;
  #passedBytes = 0;
  #isOver = false;

  constructor(exchange: Exchange, transport: FastifyTransport, options: ProxyOptions) {
    this.#exchange = exchange;
    this.#transport = transport;
    this.#options = options;
  }

  /** `onResponse` is called when there is a head, unless the client is answered otherwise. */
  start(onResponse: (statusCode: number, body: Readable) => void): void {
    // The client has left while the app had the request.
    if (this.#exchange.isEnded) return;
    this.#onResponse = onResponse;
    this.#exchange.listener = this;
    this.#options.places.acquire(this);
    if (this.#place === null && !this.#isOver) this.#exchange.queuedMs = this.#options.nowMs();
  }

  get client(): string {
    return this.#exchange.client;
  }

  slowness(): number {
    const ofResponse = responseSlowness(this.#exchange.answeredMs, this.#options.nowMs(), this.#passedBytes);
    return Math.max(ofResponse, this.#body?.slowness() ?? 0, this.#minRate?.slowness() ?? 0);
  }

  onShareExceeded(resource: SharedResource): void {
    this.cancel(this.#place === null ? shareReplies[resource] : localReplies.slowWhileOthersWait);
  }

  onPlace(place: ClientHolding): void {
    this.#place = place;
    const exchange = this.#exchange;
    exchange.dispatchedMs = this.#options.nowMs();
    if (exchange.hasBody) {
      this.#body = new BodyStream(exchange, this.#options, this);
      this.#mayReclaim();
    }
    const { contentLength } = exchange.verdict.parsed.message;
    if (contentLength !== null || exchange.head.httpVersion !== "2") {
      this.send();
      return;
    }
    // Of a body over HTTP/2 that is read by the end of the turn, undici finds the length.
    this.#body?.read(0);
    setImmediate(send, this);
  }

  send(): void {
    if (this.#isOver) return;
    const exchange = this.#exchange;
    const request = {
      method: exchange.method as Dispatcher.HttpMethod,
      path: exchange.verdict.parsed.upstreamTarget ?? "/",
      headers: listOf(upstreamRequestFields(exchange, this.#options)),
      body: this.#body,
      reset: endsConnection(exchange) || this.#options.keepsNone,
      signal: this.#abort.signal,
      responseHeaders: "raw" as const,
      onInfo: this.#onInterim,
    };
    this.#options.pool.request(request, (error, response) => {
      if (error !== null) this.#fail(error);
      else this.#take(response as unknown as Response);
    });
  }

  onNoPlace(): void {
    this.#failFor("overloaded", null);
  }

  /** Sends what `start` has announced. */
  pass(): void {
    const response = this.#response;
    if (this.#isOver || response === null) return;
    const { statusCode: status, statusText, headers, body } = response;
    const fields = downstreamResponseFields(trimmed(headers), status);
    try {
      this.#transport.pass({ status, reason: reasonOf(status, statusText), ...fields });
    } catch {
      // Node found a header invalid.
      this.#fail(new UpstreamFailure("ERR_MALFORMED_RESPONSE"));
      return;
    }
    // undici would miss the body that a 304 announces and does not have.
    if (status === 304) {
      this.#end();
      return;
    }
    body.on("data", (chunk: Buffer) => this.#write(chunk));
    body.on("end", () => this.#end());
    setImmediate(flushHead, this);
  }

  /** Node keeps a head for the first piece of the body, which may be long in coming. */
  flushHead(): void {
    if (this.#isOver) return;
    this.#mayReclaim();
    if (!this.#hasWritten) this.#transport.flushHead();
  }

  cancel(reply: LocalReply): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#exchange.localReply(reply);
    this.#breakOff();
  }

  onDrain(): void {
    this.#minRate?.pause();
    this.#response?.body.resume();
  }

  onExchangeEnd(): void {
    this.#isOver = true;
    this.#breakOff();
  }

  readonly #onInterim = ({ statusCode, headers }: { statusCode: number; headers: unknown }): void => {
    this.#interimResponses += 1;
    // What is thrown here fails the request.
    if (this.#interimResponses > maxInterimResponses || !isInterim(statusCode)) {
      throw new UpstreamFailure("ERR_BAD_INTERIM_RESPONSE");
    }
    const { lines } = downstreamResponseFields(trimmed(headers as HeaderList), statusCode);
    this.#transport.sendInterim(statusCode, lines);
  };

  #take(response: Response): void {
    response.body.on("error", (error: Error) => this.#fail(error));
    if (this.#isOver) {
      response.body.destroy();
      return;
    }
    if (!isSound(response.statusCode, response.statusText, response.headers)) {
      this.#fail(new UpstreamFailure("ERR_MALFORMED_RESPONSE"));
      return;
    }
    this.#response = response;
    this.#exchange.answeredMs = this.#options.nowMs();
    if (response.statusCode === 421) this.#exchange.detail = misdirected;
    this.#options.onAnswer(this.#exchange.answeredMs);
    this.#onResponse(response.statusCode, response.body);
  }

  #write(chunk: Buffer): void {
    this.#hasWritten = true;
    this.#passedBytes += chunk.length;
    const mayGoOn = this.#transport.write(chunk);
    if (!mayGoOn) {
      this.#minRate ??= new MinRateTimeout(this.#options, this);
      this.#minRate.begin();
      this.#response?.body.pause();
    }
    this.#minRate?.moved(chunk.length);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#letGo();
    this.#transport.end("");
  }

  #fail(error: Error): void {
    this.#failFor(undiciErrorReason(error), error);
  }

  #failFor(reason: UpstreamErrorReason, error: Error | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const code = error === null ? null : upstreamErrorCode(error);
    this.#exchange.fault = { reason, code, address: this.#options.address, id: this.#exchange.id };
    this.#options.onError(this.#exchange.fault);
    this.#exchange.localReply(upstreamReply(reason));
    this.#breakOff();
  }

  #breakOff(): void {
    this.#abort.abort();
    this.#letGo();
  }

  #letGo(): void {
    const { places } = this.#options;
    this.#exchange.listener = null;
    // What is left of it, behind an early response, is not wanted.
    this.#body?.destroy();
    this.#minRate?.end();
    if (this.#place !== null) places.release(this.#place, this);
    else places.leave(this);
    this.#place = null;
  }

  #mayReclaim(): void {
    if (this.#place !== null) this.#options.places.mayReclaim(this.#place, this);
  }
}

function flushHead(request: ProxiedRequest): void {
  request.flushHead();
}

function send(request: ProxiedRequest): void {
  request.send();
}
