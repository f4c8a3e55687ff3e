// The requests in a client's bytes as RFC 9112 allows them to be read, up to the first doubt, and what a proxy may make
// of each: nothing else may have been forwarded.
import { vouchingNames } from "../../../src/core/field-names.ts";
import { type Body, type Field, readChunks, readHead, readLength, valuesIn } from "./strict-message.ts";

export interface StrictRequest {
  readonly method: string;
  /** Origin form, as it may arrive upstream. */
  readonly target: string;
  /** Null: the client named none, and the upstream gets its own. */
  readonly host: string | null;
  /** What arrives upstream besides Host, the connection's own and what the gateway adds; in lower case, in order. */
  readonly passedOn: readonly string[];
  readonly body: Body;
}

export function readStrictRequests(bytes: string): StrictRequest[] {
  const requests: StrictRequest[] = [];
  for (let at = 0; ; ) {
    // RFC 9112, 2.2: empty lines before a request are ignored; nobody sees them again.
    while (bytes[at] === "\r" || bytes[at] === "\n") at += 1;
    const request = parseRequest(bytes, at);
    if (request === null) return requests;
    requests.push(request);
    if (!request.body.isWhole) return requests;
    at = request.body.end;
  }
}

// RFC 9112, 3 allows several spaces to be read as one; only one goes upstream.
// RFC 9110, 2.5: a higher minor version is processed as 1.1.
const requestLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+) +([\x21-\x7e\x80-\xff]+) +HTTP\/1\.\d$/;

function parseRequest(bytes: string, start: number): StrictRequest | null {
  const head = readHead(bytes, start);
  const match = head === null ? null : requestLine.exec(head.line);
  if (head === null || match === null) return null;
  const { fields } = head;
  const hosts = valuesIn(fields, "host");
  const isOld = head.line.endsWith("/1.0");
  const body = readBody(bytes, head.end, fields, isOld);
  // RFC 9112, 3.2: HTTP/1.0 may have no Host.
  if ((hosts.length !== 1 && !(isOld && hosts.length === 0)) || body === null) return null;
  const [method = "", target = ""] = match.slice(1);
  const absolute = /^https?:\/\/([^/?#]*)(.*)$/i.exec(target);
  const rest = absolute?.[2] ?? target;
  return {
    method,
    target: absolute !== null && !rest.startsWith("/") ? `/${rest}` : rest,
    host: absolute?.[1] ?? hosts[0] ?? null,
    passedOn: passedOn(method, fields),
    body,
  };
}

/** Null if the framing is one that may not be believed (RFC 9112, 6.1 and 6.3). */
function readBody(bytes: string, start: number, fields: readonly Field[], isOld: boolean): Body | null {
  const lengths = valuesIn(fields, "content-length");
  const encodings = valuesIn(fields, "transfer-encoding");
  if (encodings.length > 0) {
    const isChunked = encodings.length === 1 && encodings[0]?.toLowerCase() === "chunked";
    return isChunked && lengths.length === 0 && !isOld ? readChunks(bytes, start) : null;
  }
  const [length = "0"] = lengths;
  return lengths.length <= 1 && /^\d{1,15}$/.test(length) ? readLength(bytes, start, Number(length)) : null;
}

const ended = new Set(
  "connection keep-alive proxy-connection proxy-authorization proxy-authenticate te trailer transfer-encoding upgrade http2-settings".split(
    " ",
  ),
);
const replaced = new Set([...vouchingNames, ..."host expect x-request-id content-length".split(" ")]);
/** What the request was judged by, and what is for the upstream, goes on, whatever Connection says. */
const kept = new Set(
  "content-length authorization cookie origin access-control-request-method max-forwards via traceparent tracestate".split(
    " ",
  ),
);

function passedOn(method: string, fields: readonly Field[]): string[] {
  const named = new Set(valuesIn(fields, "connection").flatMap((value) => value.toLowerCase().split(/[ \t]*,[ \t]*/)));
  return fields.flatMap(([name, value]) => {
    const lower = name.toLowerCase();
    const isDropped = ended.has(lower) || replaced.has(lower) || (named.has(lower) && !kept.has(lower));
    if (isDropped || lower.startsWith("x-forwarded-")) return [];
    const isCounted = method === "OPTIONS" && lower === "max-forwards" && /^\d{1,15}$/.test(value);
    return [`${lower}: ${isCounted ? Number(value) - 1 : value}`];
  });
}
