// An upstream that keeps every request it is sent as lines and bytes, and reads them by the rules of RFC 9112 alone:
// what it cannot read to the end, it says so. Answers each whole request with `ok`.
import type { Socket } from "node:net";
import { type RawUpstream, startRawUpstream } from "../support/upstream.ts";

export interface RecordedRequest {
  /** Request line and fields as they came, less the ones that frame the body. */
  readonly lines: readonly string[];
  /** The lines that frame the body: at most one, or two readers could disagree. */
  readonly framing: readonly string[];
  readonly body: string;
}

export interface RecordingUpstream {
  readonly url: string;
  /** The requests that arrived whole since the last call. */
  readonly take: () => RecordedRequest[];
  /** Everything that arrived since the last call, requests that broke off too. */
  readonly takeBytes: () => string;
  close(): Promise<void>;
}

export async function startRecordingUpstream(): Promise<RecordingUpstream> {
  const requests: RecordedRequest[] = [];
  const unread = new Map<Socket, string>();
  let arrived = "";
  const raw: RawUpstream = await startRawUpstream((socket, data) => {
    arrived += data.toString("latin1");
    let text = (unread.get(socket) ?? "") + data.toString("latin1");
    for (let next = parseRequest(text); next !== null; next = parseRequest(text)) {
      requests.push(next.request);
      text = text.slice(next.length);
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
    if (!unread.has(socket)) socket.once("close", () => unread.delete(socket));
    unread.set(socket, text);
  });
  return {
    url: raw.url,
    take: () => requests.splice(0),
    takeBytes: () => {
      const bytes = arrived;
      arrived = "";
      return bytes;
    },
    close: raw.close,
  };
}

function parseRequest(text: string): { request: RecordedRequest; length: number } | null {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd === -1) return null;
  const head = text.slice(0, headEnd).split("\r\n");
  const start = headEnd + 4;
  const fieldOf = (name: string) =>
    head.find((line) => line.toLowerCase().startsWith(`${name}: `))?.slice(name.length + 2);
  const isFraming = (line: string) => /^(?:content-length|transfer-encoding):/i.test(line);
  const framed = { lines: head.filter((line) => !isFraming(line)), framing: head.filter(isFraming) };
  if (fieldOf("transfer-encoding") !== undefined) {
    const { text: body, length } = readChunks(text, start);
    return length === -1 ? null : { request: { ...framed, body }, length };
  }
  const end = start + Number(fieldOf("content-length") ?? 0);
  return text.length < end ? null : { request: { ...framed, body: text.slice(start, end) }, length: end };
}

/** A length of -1: not all of it is there. */
function readChunks(text: string, start: number): { text: string; length: number } {
  let body = "";
  for (let at = start; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    const end = lineEnd + 2 + size + 2;
    if (lineEnd === -1 || text.length < end) return { text: body, length: -1 };
    if (size === 0) return { text: body, length: end };
    body += text.slice(lineEnd + 2, end - 2);
    at = end;
  }
}
