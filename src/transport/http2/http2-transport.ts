// A response on a stream of HTTP/2. A response that breaks resets the stream, and never ends it well-formed. Node
// checks no byte of a header here: those that come from the upstream have been checked by the parser of its responses.
import { constants, type ServerHttp2Stream } from "node:http2";
import type { HeaderList } from "../../core/header-list.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { Transport } from "../../exchange/transport.ts";

/** The response ended before its end, which is not the client's doing. */
export class ResponseAbortedError extends Error {
  constructor() {
    super("The response broke off.");
  }
}

export class Http2Transport implements Transport {
  readonly body: ServerHttp2Stream;
  readonly scheme = "https";
  /** HTTP/2 has no Upgrade, and its own way (RFC 8441) is not announced. */
  readonly isUpgrade = false;
  exchange: Exchange | null = null;
  readonly #stream: ServerHttp2Stream;

  constructor(stream: ServerHttp2Stream) {
    this.body = stream;
    this.#stream = stream;
  }

  get isHeadSent(): boolean {
    return this.#stream.headersSent;
  }

  get isGone(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  get isEnded(): boolean {
    return this.#stream.writableEnded;
  }

  /** The session keeps what it is given until the stream's window lets it go. */
  get isFlushed(): boolean {
    return false;
  }

  sendContinue(): void {
    if (!this.isGone) this.#stream.additionalHeaders({ ":status": 100 });
  }

  sendInterim(status: number, headers: HeaderList): void {
    if (this.isGone || this.#stream.headersSent) return;
    const byName: Record<string, string[]> = Object.create(null);
    for (let i = 0; i < headers.length; i += 2) {
      const name = (headers[i] ?? "").toLowerCase();
      byName[name] ??= [];
      byName[name].push(headers[i + 1] ?? "");
    }
    this.#stream.additionalHeaders({ ":status": status, ...byName });
  }

  sendHead(status: number, _reason: string, headers: string[]): void {
    if (this.isGone) return;
    // RFC 9110, 15.3.6: a response with this status has nothing behind its head, so no length may be promised.
    const head = status === 205 ? withoutLength(headers) : headers;
    this.#stream.respond([":status", `${status}`, ...head]);
    // A response without a body is over with its head, before anyone could tell of its end.
    if (this.#stream.writableFinished) this.refuseBody();
  }

  /** Heads are never kept back. */
  flushHead(): void {}

  write(piece: Buffer | string): boolean {
    return this.#stream.write(piece, "latin1");
  }

  /**
   * An empty piece behind one that waits for the client's window is never told of as sent: the stream would not close.
   */
  end(last: string): void {
    if (last === "") this.#stream.end();
    else this.#stream.end(last, "latin1");
  }

  abort(): void {
    this.#stream.destroy(new ResponseAbortedError());
  }

  switchProtocols(): null {
    return null;
  }

  /**
   * The response is over: a client that is still sending need not go on (RFC 9113, 8.1). A reset that is queued in the same
   * turn as a head without a body would replace the head.
   */
  refuseBody(): void {
    const isUnread = !this.body.endAfterHeaders && !this.body.readableEnded;
    if (this.#stream.headersSent && isUnread) setImmediate(closeStream, this.#stream);
  }
}

/**
 * Whole, as far as can be known: handed over to the session. The writing side of HEAD ends before there is a response.
 */
export function isAnswered(stream: ServerHttp2Stream): boolean {
  return stream.headersSent && stream.writableFinished && stream.rstCode === constants.NGHTTP2_NO_ERROR;
}

function closeStream(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_NO_ERROR);
}

function withoutLength(headers: HeaderList): string[] {
  return headers.filter((_, i) => headers[i - (i % 2)]?.toLowerCase() !== "content-length");
}
