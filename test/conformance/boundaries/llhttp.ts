// llhttp as Node has it, without leniency: the requests of a connection, and the response to one request.
import { createRequire } from "node:module";
import type { Reading, ReadRequest } from "./reading.ts";
import type { ReadResponse } from "./response-reading.ts";

interface Parser {
  [callback: number]: (...args: never[]) => number | undefined;
  initialize(type: number, resource: object, maxHeaderSize: number, flags: number): void;
  /** Returns how many bytes it took, which are fewer behind an Upgrade. */
  execute(bytes: Buffer): number | (Error & { readonly code: string; readonly bytesParsed: number });
  finish(): Error | undefined;
}

interface HttpParser {
  new (): Parser;
  readonly REQUEST: number;
  readonly RESPONSE: number;
  readonly kOnHeadersComplete: number;
  readonly kOnBody: number;
  readonly kOnMessageComplete: number;
}

const common: { readonly HTTPParser: HttpParser } = createRequire(import.meta.url)("_http_common");
const { HTTPParser } = common;
const { REQUEST, RESPONSE, kOnHeadersComplete, kOnBody, kOnMessageComplete } = HTTPParser;
const maxHeadBytes = 16 * 1024;
/** What the callback for a head may return. */
const [readsBody, hasNoBody] = [0, 1];

type OnHead = (
  major: number,
  minor: number,
  headers: unknown,
  method: unknown,
  target: string | undefined,
  status: number,
  message: unknown,
  upgrade: boolean,
) => number;

export function readByLlhttp(pieces: readonly string[]): Reading {
  const requests: { -readonly [K in keyof ReadRequest]: ReadRequest[K] }[] = [];
  let ending: Reading["ending"] = "waiting";
  let asksToUpgrade = false;
  const parser = new HTTPParser();
  parser.initialize(REQUEST, {}, maxHeadBytes, 0);
  const onHead: OnHead = (_major, _minor, _headers, _method, target, _status, _message, upgrade) => {
    requests.push({ target: target ?? "", body: "", isWhole: false });
    asksToUpgrade = upgrade;
    // A body comes before the other protocol (RFC 9110, 7.8).
    return readsBody;
  };
  parser[kOnHeadersComplete] = onHead;
  parser[kOnBody] = (bytes: Buffer) => {
    const request = requests.at(-1);
    if (request !== undefined) request.body += bytes.toString("latin1");
  };
  parser[kOnMessageComplete] = () => {
    const request = requests.at(-1);
    if (request !== undefined) request.isWhole = true;
    if (asksToUpgrade) ending = "ended";
  };
  for (const piece of pieces) {
    if (ending !== "waiting") break;
    const taken = parser.execute(Buffer.from(piece, "latin1"));
    if (taken instanceof Error && ending === "waiting") {
      ending = taken.code === "HPE_CLOSED_CONNECTION" ? "ended" : "refused";
    }
  }
  return { requests, ending };
}

export function readResponseByLlhttp(pieces: readonly string[], method: string, isClosed: boolean): ReadResponse {
  const parser = new HTTPParser();
  parser.initialize(RESPONSE, {}, maxHeadBytes, 0);
  const read = { status: 0, body: "", isWhole: false };
  const onHead: OnHead = (_major, _minor, _headers, _method, _target, status) => {
    if (status >= 200 || status === 101) read.status = status;
    return method === "HEAD" ? hasNoBody : readsBody;
  };
  parser[kOnHeadersComplete] = onHead;
  parser[kOnBody] = (bytes: Buffer) => {
    read.body += bytes.toString("latin1");
  };
  parser[kOnMessageComplete] = () => {
    read.isWhole = read.status !== 0;
  };
  // Byte by byte, so that nothing behind the response is read.
  let ownBytes = 0;
  const bytes = Buffer.from(pieces.join(""), "latin1");
  while (ownBytes < bytes.length && !read.isWhole) {
    if (parser.execute(bytes.subarray(ownBytes, ownBytes + 1)) instanceof Error) {
      return { ...read, outcome: read.isWhole ? "whole" : "refused", ownBytes };
    }
    ownBytes += 1;
  }
  if (!read.isWhole && isClosed && parser.finish() instanceof Error) return { ...read, outcome: "refused", ownBytes };
  return { status: read.status, body: read.body, outcome: read.isWhole ? "whole" : "waiting", ownBytes };
}
