// A request's body as the stream that undici reads: bounded and timed as in the gateway.
import { Readable } from "node:stream";
import type { Cancellable, Exchange } from "../../exchange/exchange.ts";
import type { BodySink } from "../../upstream/outbound-connection.ts";
import { type BodyOptions, RequestBody } from "../../upstream/request-body.ts";

export class BodyStream extends Readable implements BodySink {
  readonly #exchange: Exchange;
  readonly #options: BodyOptions;
  readonly #owner: Cancellable;
  /** Made when it is started: an empty body would end before. */
  #body: RequestBody | null = null;

  constructor(exchange: Exchange, options: BodyOptions, owner: Cancellable) {
    super();
    this.#exchange = exchange;
    this.#options = options;
    this.#owner = owner;
  }

  slowness(): number {
    return this.#body?.slowness() ?? 0;
  }

  override _read(): void {
    if (this.#body !== null) {
      this.#body.resume();
      return;
    }
    this.#body = new RequestBody(this.#exchange.body as Readable, this.#options, this.#owner);
    this.#body.start(this);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#body?.stop();
    done(error);
  }

  sendPiece(_body: unknown, bytes: Buffer): boolean {
    return this.push(bytes);
  }

  endBody(_body: unknown, last: Buffer): void {
    if (last.length > 0) this.push(last);
    this.push(null);
  }
}
