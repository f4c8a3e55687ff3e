// A transport that sends its response in one piece and has no request body.
import type { HeaderLines } from "../core/headers.ts";
import type { Exchange } from "./exchange.ts";
import type { Transport } from "./transport.ts";

export abstract class WholeReplyTransport implements Transport {
  readonly scheme = "http";
  readonly body = Buffer.alloc(0);
  readonly isUpgrade = false;
  readonly isFlushed = true;
  /** What carries the request itself is elsewhere. */
  readonly bodyBytesReceived: number | null = null;
  bytesSent: number | null = null;
  isEnded = false;
  exchange: Exchange | null = null;
  #status = 0;
  #reason = "";
  #lines: HeaderLines = "";

  abstract readonly isGone: boolean;
  abstract abort(): void;
  /** `body`: one character is one byte. */
  protected abstract sendWhole(status: number, reason: string, lines: HeaderLines, body: string): void;

  get isHeadSent(): boolean {
    return this.isEnded;
  }

  sendHead(status: number, reason: string, lines: HeaderLines): void {
    this.#status = status;
    this.#reason = reason;
    this.#lines = lines;
  }

  end(last: string): void {
    this.isEnded = true;
    this.sendWhole(this.#status, this.#reason, this.#lines, last);
    this.exchange?.finished();
  }

  write(): boolean {
    throw new Error("a whole reply has no pieces");
  }

  sendContinue(): void {}

  sendInterim(): void {}

  flushHead(): void {}

  switchProtocols(): null {
    return null;
  }
}
