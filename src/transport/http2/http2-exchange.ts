// A request of HTTP/2 that is being answered, on a stream of its own. A stream that breaks takes the request back from the
// upstream; a response that breaks resets the stream, and never ends it well-formed.
import { validateHeaderName, validateHeaderValue } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import { type DecidedRequest, Exchange, type ExchangeContext } from "../../exchange/exchange.ts";

/** Not the client's doing: the upstream's response ended before its end. */
export class ResponseBrokeOff extends Error {
  constructor() {
    super("The response broke off.");
  }
}

export class Http2Exchange extends Exchange {
  readonly body: ServerHttp2Stream;
  readonly #stream: ServerHttp2Stream;
  readonly scheme = "https";
  /** HTTP/2 has no Upgrade, and its own way (RFC 8441) is not announced. */
  readonly isUpgrade = false;

  constructor(stream: ServerHttp2Stream, request: DecidedRequest, context: ExchangeContext) {
    super(request, context);
    this.body = stream;
    this.#stream = stream;
    stream.once("close", () => {
      this.observe(isAnswered(stream));
      this.listener?.onClientGone();
    });
    // A client may reset without an error; what has come of the body would then end as if it were whole.
    stream.once("aborted", () => stream.destroy());
    stream.once("finish", () => this.#forgetBody());
  }

  protected get isHeadSent(): boolean {
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

  writeContinue(): void {
    if (!this.isGone) this.#stream.additionalHeaders({ ":status": 100 });
  }

  inform(status: number, fields: readonly string[]): void {
    if (this.isGone || this.#stream.headersSent) return;
    checkFields(fields);
    const byName: Record<string, string[]> = Object.create(null);
    for (let i = 0; i < fields.length; i += 2) {
      const name = (fields[i] ?? "").toLowerCase();
      byName[name] ??= [];
      byName[name].push(fields[i + 1] ?? "");
    }
    this.#stream.additionalHeaders({ ":status": status, ...byName });
  }

  /** Heads are never kept back. */
  flushHead(): void {}

  /** An empty piece behind one that waits for the client's window is never told of as sent: the stream would not close. */
  end(piece = ""): void {
    if (piece === "") this.#stream.end();
    else this.#stream.end(piece, "latin1");
  }

  write(piece: Buffer | string): boolean {
    const mayGoOn = this.#stream.write(piece, "latin1");
    if (!mayGoOn) this.#stream.once("drain", () => this.listener?.onDrain());
    return mayGoOn;
  }

  switchProtocols(): null {
    return null;
  }

  protected breakOff(): void {
    this.#stream.destroy(new ResponseBrokeOff());
  }

  protected writeHead(status: number, _statusText: string, fields: string[]): void {
    if (this.isGone) return;
    checkFields(fields);
    // RFC 9110, 15.3.6: an answer with this status has nothing behind its head, so no length may be promised.
    const head = status === 205 ? withoutLength(fields) : fields;
    this.#stream.respond([":status", `${status}`, ...head]);
    // An answer without a body is over with its head, before anyone could tell of its end.
    if (this.#stream.writableFinished) this.#forgetBody();
  }

  /** The answer is over: a client that is still sending need not go on (RFC 9113, 8.1). */
  #forgetBody(): void {
    const isUnread = !this.body.endAfterHeaders && !this.body.readableEnded;
    if (this.#stream.headersSent && isUnread) this.#stream.close(constants.NGHTTP2_NO_ERROR);
  }
}

/** Whole, as far as can be known: handed over to the session. The writing side of HEAD ends before there is an answer. */
export function isAnswered(stream: ServerHttp2Stream): boolean {
  return stream.headersSent && stream.writableFinished && stream.rstCode === constants.NGHTTP2_NO_ERROR;
}

function withoutLength(fields: readonly string[]): string[] {
  return fields.filter((_, i) => fields[i - (i % 2)]?.toLowerCase() !== "content-length");
}

/** As Node's response does for HTTP/1.1; its HTTP/2 would send a field with a line break in it. */
function checkFields(fields: readonly string[]): void {
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    validateHeaderName(name);
    validateHeaderValue(name, fields[i + 1] ?? "");
  }
}
