// How the body of a request is framed when it reaches the upstream, read from the bytes on the wire.
import type { Socket } from "node:net";
import type { Cleanup } from "../../support/cleanup.ts";
import { response } from "../../support/stage.ts";
import { startRawUpstream } from "../../support/upstream.ts";

export interface Arrived {
  /** The values of Content-Length, and "chunks" for a Transfer-Encoding: "" without either. */
  readonly framing: string;
  readonly body: string;
}

export interface WireUpstream {
  readonly url: string;
  /** Requests that came whole, in order. */
  readonly arrived: readonly Arrived[];
}

/** Answers each request when its framing says that it is whole. A byte behind its end is a fault of the next request. */
export async function startWireUpstream(cleanup: Cleanup, answer = response("ok")): Promise<WireUpstream> {
  const arrived: Arrived[] = [];
  const unread = new WeakMap<Socket, string>();
  const upstream = await startRawUpstream((socket, data) => {
    const text = (unread.get(socket) ?? "") + data.toString("latin1");
    const whole = readWhole(text);
    unread.set(socket, whole === null ? text : "");
    if (whole === null) return;
    arrived.push(whole);
    socket.write(answer);
  });
  cleanup(() => upstream.close());
  return { url: upstream.url, arrived };
}

/** Returns null while there is less than the framing says. */
export function readWhole(text: string): Arrived | null {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd === -1) return null;
  const fields = text.slice(0, headEnd).split("\r\n").slice(1);
  const framing = fields.flatMap((line) => {
    const [name = "", value = ""] = line.split(": ");
    if (name.toLowerCase() === "content-length") return [value];
    return name.toLowerCase() === "transfer-encoding" ? ["chunks"] : [];
  });
  const body = text.slice(headEnd + 4);
  const told = framing.join(" and ");
  if (told === "chunks") return body.endsWith("0\r\n\r\n") ? { framing: told, body: withoutChunks(body) } : null;
  if (body.length < Number(told)) return null;
  return { framing: told, body };
}

function withoutChunks(body: string): string {
  const sizeEnd = body.indexOf("\r\n");
  const size = Number.parseInt(body.slice(0, sizeEnd), 16);
  const end = sizeEnd + 2 + size;
  return size === 0 ? "" : body.slice(sizeEnd + 2, end) + withoutChunks(body.slice(end + 2));
}
