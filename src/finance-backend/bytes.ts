// Bytes that are not part of a request's meaning: bodies, which are read up to a bound and discarded so that the next request
// on the connection can be read, and bytes that are no request.
import { type IncomingMessage, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type ApiAnswer, headTooLarge, malformedRequest, requestTimeout } from "./answers.ts";

export function drain(request: IncomingMessage, maxBytes: number): Promise<"whole" | "too large" | "cut off"> {
  const { "content-length": length, "transfer-encoding": coding } = request.headers;
  if (Number(length ?? 0) > maxBytes) return Promise.resolve("too large");
  if (length === undefined && coding === undefined) return Promise.resolve("whole");
  return new Promise((resolve) => {
    let bytes = 0;
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      // The rest is discarded: the response closes the connection.
      if (bytes > maxBytes) resolve("too large");
    });
    request.once("end", () => resolve("whole"));
    request.once("close", () => resolve("cut off"));
    request.once("error", () => resolve("cut off"));
  });
}

/** Answers what the parser refused, in the error format, and closes. */
export function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  const answer = refusals.get(error.code) ?? malformedRequest;
  const body = answer.body ?? "";
  const fields = { ...answer.headers, "content-length": Buffer.byteLength(body), connection: "close" };
  const head = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${answer.status} ${STATUS_CODES[answer.status]}\r\n${head.join("")}\r\n${body}`);
}

const refusals = new Map<string | undefined, ApiAnswer>([
  ["HPE_HEADER_OVERFLOW", headTooLarge],
  ["ERR_HTTP_REQUEST_TIMEOUT", requestTimeout],
]);
