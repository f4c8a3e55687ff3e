// A request to the upstream, and its head as text: the given fields, then those for framing and for the connection.

export interface UpstreamRequest {
  readonly method: string;
  /**
   * The request line and the headers, without hop-by-hop headers and without the last line end. A body without
   * Content-Length is sent in chunks.
   */
  readonly start: string;
  /** The length of the body is known: it is among the headers, or there is no body. */
  readonly hasLength: boolean;
  readonly body: BodySource | Buffer | null;
  /** The upstream is asked to close the connection after the response. */
  readonly isLast: boolean;
  /** The value of Upgrade; empty if the request stays HTTP. */
  readonly upgrade: string;
}

/** A body that comes piece by piece. After `sendPiece` has returned false it waits for `resume`. */
export interface BodySource {
  start(sink: BodySink): void;
  resume(): void;
}

export interface BodySink {
  /** The bytes are overwritten after the call. */
  sendPiece(body: BodySource, bytes: Buffer): boolean;
  /** `last` may be empty, and is overwritten after the call. */
  endBody(body: BodySource, last: Buffer): void;
}

const keepAlive = "\r\nConnection: keep-alive\r\n\r\n";
const close = "\r\nConnection: close\r\n\r\n";

/** Each character is one byte. `isChunked`: the body has no length and is sent in chunks. */
export function serializeHead(request: UpstreamRequest, isChunked: boolean): string {
  const { start, isLast, upgrade } = request;
  const text = isChunked ? `${start}\r\nTransfer-Encoding: chunked` : start;
  if (upgrade !== "") return `${text}\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`;
  return text + (isLast ? close : keepAlive);
}
