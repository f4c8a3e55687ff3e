// A request to the upstream, and its head as text: the given fields, then those for framing and for the connection.
import type { HeaderList } from "../core/header-list.ts";

export interface UpstreamRequest {
  readonly method: string;
  /** Origin form, or `*`. */
  readonly path: string;
  /** Without hop-by-hop headers. A body without Content-Length is sent in chunks. */
  readonly fields: HeaderList;
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
  sendPiece(body: BodySource, bytes: Buffer): boolean;
  endBody(body: BodySource): void;
}

const keepAlive = "Connection: keep-alive\r\n\r\n";
const close = "Connection: close\r\n\r\n";

/** Each character is one byte. `isChunked`: the body has no length and is sent in chunks. */
export function serializeHead(request: UpstreamRequest, isChunked: boolean): string {
  const { method, path, fields, isLast, upgrade } = request;
  let text = `${method} ${path} HTTP/1.1\r\n`;
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`;
  if (isChunked) text += "Transfer-Encoding: chunked\r\n";
  if (upgrade !== "") return `${text}Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`;
  return text + (isLast ? close : keepAlive);
}
