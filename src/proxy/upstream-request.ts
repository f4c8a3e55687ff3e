// A request as it goes to the upstream, and its head as text: the fields as they were given, then what concerns the
// connection and the framing.

export interface UpstreamRequest {
  readonly method: string;
  /** Origin form, or `*`. */
  readonly path: string;
  /** Names and values alternating; none about the connection or about chunks. A body without a length goes in chunks. */
  readonly fields: readonly string[];
  readonly body: BodySource | Buffer | null;
  /** The upstream is asked to close the connection behind the response. */
  readonly isLast: boolean;
  /** What is offered as Upgrade; empty if the request stays HTTP. */
  readonly upgrade: string;
}

/** A body that comes piece by piece. After `onPiece` has returned false it waits for `resume`. */
export interface BodySource {
  start(onPiece: (bytes: Buffer) => boolean, onEnd: () => void): void;
  resume(): void;
}

const keepAlive = "Connection: keep-alive\r\n\r\n";
const close = "Connection: close\r\n\r\n";

/** A body without a length goes in chunks. */
export function isChunked({ fields }: UpstreamRequest): boolean {
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]?.length === 14 && fields[i]?.toLowerCase() === "content-length") return false;
  }
  return true;
}

/** One character is one byte. */
export function serializeHead(request: UpstreamRequest): string {
  const { method, path, fields, body, isLast, upgrade } = request;
  let text = `${method} ${path} HTTP/1.1\r\n`;
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`;
  if (body !== null && isChunked(request)) text += "Transfer-Encoding: chunked\r\n";
  if (upgrade !== "") return `${text}Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n\r\n`;
  return text + (isLast ? close : keepAlive);
}
