// A case is a seed: the bytes an upstream answers one request with, mutated, in the pieces they are written in. The
// marker stands in a field and in the body, so an answer can be told to be this case's.
import { mutateBytes, mutateLineEnd } from "./byte-mutations.ts";
import { chunksOf } from "./chunk-mutations.ts";
import { Random } from "./random.ts";
import { readStrictResponse } from "./strict-response.ts";

export interface ResponseCase {
  readonly seed: number;
  readonly marker: string;
  readonly method: "GET" | "HEAD" | "POST";
  readonly bytes: string;
  readonly pieces: readonly string[];
  /** What the upstream does behind the bytes; where it does nothing, it goes on listening. */
  readonly ending: "close" | "reset" | "stay";
}

interface Parts {
  interim: string;
  statusLine: string;
  lines: string[];
  body: string;
  /** Behind the response. */
  spare: string;
}

type List = readonly [string, ...string[]];

export function responseCase(seed: number): ResponseCase {
  const random = new Random(seed);
  const marker = random.marker();
  const method = random.pick(["GET", "GET", "GET", "HEAD", "POST"] as const);
  const parts = validResponse(random, marker);
  let bytes: string | null = null;
  for (let i = random.oneIn(3) ? 2 + random.int(2) : 1; i > 0; i -= 1) {
    if (bytes !== null) bytes = mutateBytes(random, bytes);
    else if (random.oneIn(4)) bytes = mutateBytes(random, serialize(parts));
    else if (random.oneIn(12)) bytes = mutateLineEnd(random, serialize(parts));
    else mutateParts(random, parts, marker);
  }
  bytes ??= serialize(parts);
  if (random.oneIn(20)) bytes = bytes.slice(0, random.int(bytes.length));
  const pieces = random.oneIn(4) ? random.pieces(bytes, 1 + random.int(4)) : [bytes];
  const ending = random.pick(["close", "reset", "stay", "stay"] as const);
  // Staying behind half a response costs a timeout, so that is seldom.
  const isUnfinished = readStrictResponse(bytes, method, false).kind !== "whole";
  const isPatient = ending !== "stay" || !isUnfinished || random.oneIn(150);
  return { seed, marker, method, bytes, pieces, ending: isPatient ? ending : "close" };
}

function validResponse(random: Random, marker: string): Parts {
  const text = `m=${marker} `.repeat(1 + random.int(3));
  const parts = (statusLine: string, lines: readonly string[], body: string): Parts => ({
    interim: "",
    statusLine,
    lines: [`X-Marker: ${marker}`, ...lines],
    body,
    spare: "",
  });
  const length = `Content-Length: ${text.length}`;
  switch (random.int(9)) {
    case 0:
      return parts(
        "HTTP/1.1 200 OK",
        ["Transfer-Encoding: chunked"],
        `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`,
      );
    case 1:
      return parts("HTTP/1.1 200 OK", ["Connection: close"], text);
    case 2:
      return parts("HTTP/1.1 204 No Content", ["X-A: 1"], "");
    case 3:
      return parts("HTTP/1.1 304 Not Modified", ['ETag: "a"'], "");
    case 4:
      return parts("HTTP/1.0 200 OK", [length], text);
    case 5:
      return { ...parts("HTTP/1.1 200 OK", [length], text), interim: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" };
    case 6:
      return parts("HTTP/1.1 500 Internal Server Error", ["Content-Type: text/plain", length], text);
    default:
      return parts("HTTP/1.1 200 OK", ["Content-Type: text/plain", length, "Set-Cookie: a=1", "Set-Cookie: b=2"], text);
  }
}

function serialize({ interim, statusLine, lines, body, spare }: Parts): string {
  return `${interim}${statusLine}\r\n${lines.map((line) => `${line}\r\n`).join("")}\r\n${body}${spare}`;
}

function mutateParts(random: Random, parts: Parts, marker: string): void {
  const { lines } = parts;
  const put = (line: string): void => void lines.splice(random.int(lines.length + 1), 0, line);
  switch (random.int(10)) {
    case 0:
    case 1:
      if (random.oneIn(2)) parts.lines = lines.filter((line) => !isFraming(line));
      parts.lines.push(random.pick(framing(parts.body.length)));
      break;
    case 2:
      parts.lines = [...lines.filter((line) => !isFraming(line)), "Transfer-Encoding: chunked"];
      parts.body = chunksOf(random, `m=${marker}`);
      break;
    case 3:
      parts.statusLine = random.pick(statusLines);
      break;
    case 4:
      put(random.pick(otherLines));
      break;
    case 5:
      put(lines[random.int(lines.length)] ?? "X-A: 1");
      break;
    case 6:
      lines.splice(random.int(lines.length), 1);
      break;
    case 7:
      parts.interim += random.pick(interim);
      break;
    case 8:
      parts.spare = random.pick(spare(marker));
      break;
    default:
      parts.body = random.oneIn(2)
        ? parts.body.slice(0, -1 - random.int(3))
        : `${parts.body}${"xyz".slice(random.int(3))}`;
  }
}

const isFraming = (line: string): boolean => /^(?:content-length|transfer-encoding)/i.test(line);

const framing = (n: number): List => [
  `Content-Length: ${n + 1}`,
  `Content-Length: ${Math.max(0, n - 1)}`,
  `Content-Length: ${n}`,
  "Content-Length: 0",
  `Content-Length: +${n}`,
  "Content-Length: -1",
  `Content-Length: 0${n}`,
  `Content-Length: 0x${n}`,
  `Content-Length: ${n},${n}`,
  `Content-Length: ${n}, ${n + 1}`,
  `Content-Length: ${n}\r\nContent-Length: ${n}`,
  `Content-Length: ${n}\r\nContent-Length: ${n + 1}`,
  `Content-Length : ${n}`,
  `Content-Length:\r\n ${n}`,
  `Content-Length: ${n} ${n}`,
  `Content-Length: ${n}\0`,
  "Content-Length: x",
  "Content-Length: ",
  "Content-Length: 99999999999999999999",
  `Content-Length: ${n}\r\nTransfer-Encoding: chunked`,
  `Transfer-Encoding: chunked\r\nContent-Length: ${n}`,
  "Transfer-Encoding: chunked",
  "Transfer-Encoding: Chunked",
  "Transfer-Encoding: identity",
  "Transfer-Encoding: gzip",
  "Transfer-Encoding: gzip, chunked",
  "Transfer-Encoding: chunked, gzip",
  "Transfer-Encoding: chunked, chunked",
  "Transfer-Encoding: xchunked",
  "Transfer-Encoding: ,chunked",
  "Transfer-Encoding : chunked",
  "Transfer-Encoding:\x0bchunked",
  "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
  "X: y\nContent-Length: 0",
  "X: y\rContent-Length: 0",
  "Connection: Content-Length",
  "Connection: Transfer-Encoding",
  "Connection: close",
  "Connection: keep-alive",
];

const statusLines: List = [
  "HTTP/1.1 200",
  "HTTP/1.1 200 ",
  "HTTP/1.1 20 OK",
  "HTTP/1.1 2000 OK",
  "HTTP/1.1 000 OK",
  "HTTP/1.1 099 OK",
  "HTTP/1.1 100 Continue",
  "HTTP/1.1 101 Switching",
  "HTTP/1.1 102 Processing",
  "HTTP/1.1 199 Odd",
  "HTTP/1.1 204 No Content",
  "HTTP/1.1 205 Reset",
  "HTTP/1.1 206 Partial",
  "HTTP/1.1 299 Odd",
  "HTTP/1.1 301 Moved",
  "HTTP/1.1 304 Not Modified",
  "HTTP/1.1 401 No",
  "HTTP/1.1 429 Slow",
  "HTTP/1.1 599 Odd",
  "HTTP/1.1 600 Odd",
  "HTTP/1.1 999 Odd",
  "HTTP/1.1 -200 OK",
  "HTTP/1.1  200 OK",
  "HTTP/1.1\t200 OK",
  "HTTP/1.1 200\tOK",
  "HTTP/1.1 200 O\0K",
  "HTTP/1.1 200 O\rK",
  "HTTP/1.1 200 \xe4",
  "HTTP/1.0 200 OK",
  "HTTP/0.9 200 OK",
  "HTTP/2.0 200 OK",
  "HTTP/1.2 200 OK",
  "http/1.1 200 OK",
  "HTTP/11 200 OK",
  "HTTP/1.1200 OK",
  "ICY 200 OK",
  "RTSP/1.0 200 OK",
  " HTTP/1.1 200 OK",
  "",
  "\r\nHTTP/1.1 200 OK",
  "GET / HTTP/1.1",
  "<html>",
];

const otherLines: List = [
  "RateLimit-Limit: 7",
  "ratelimit-remaining: 7",
  "X-RateLimit-Reset: 7",
  "Date: Mon, 01 Jan 2001 00:00:00 GMT",
  "Retry-After: 5",
  "Retry-After: x",
  "Connection: X-Marker, close",
  "Connection: RateLimit-Limit",
  "Connection: upgrade",
  "Upgrade: websocket",
  "Keep-Alive: timeout=5, max=1",
  "Trailer: X-T",
  "TE: trailers",
  "Proxy-Authenticate: Basic",
  "X-A 1",
  ": 1",
  "X-A : 1",
  " X-A: 1",
  "X-A: 1\r\n 2",
  "X-A: a\0b",
  "X-A: a\x01b",
  "X-A: a\x7fb",
  "X-A: \xe4\xff",
  "X-\xe4: 1",
  "X-A: a\rb",
  "X-A: a\nX-B: b",
  "__proto__: 1",
  "constructor: 1",
  "0: 1",
  "X-A: \t y \t",
  "X-A:",
  `X-A: ${"y".repeat(8_000)}`,
  `X-A: ${"y".repeat(20_000)}`,
  Array.from({ length: 300 }, () => "X-A: 1").join("\r\n"),
  "Location: http://127.0.0.1/",
  "Content-Encoding: gzip",
  "Content-Type: text/html",
  "Via: 1.1 x",
  "HTTP/1.1 200 OK",
  "Expect: 100-continue",
];

const interim: List = [
  "HTTP/1.1 100 Continue\r\n\r\n",
  "HTTP/1.1 102 Processing\r\n\r\n",
  "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
  "HTTP/1.1 199 Odd\r\nX-A: 1\r\n\r\n",
  "HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\n",
  "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
  "HTTP/1.1 103 Early Hints\r\nX-A: a\0b\r\n\r\n",
  "HTTP/1.1 103 x\r\n\r\n".repeat(20),
  "\r\n",
  "HTTP/1.0 100 Continue\r\n\r\n",
  "HTTP/1.1 099 Odd\r\n\r\n",
];

/** Another response, for nobody. */
const spare = (marker: string): List => {
  const stray = `HTTP/1.1 200 OK\r\nX-Marker: ${marker}\r\nContent-Length: 12\r\n\r\n${marker}`;
  return [
    stray,
    stray + stray,
    `HTTP/1.1 103 Early Hints\r\nX-Marker: ${marker}\r\n\r\n`,
    "\r\n",
    "x",
    "\0",
    stray.slice(0, -3),
    stray.slice(0, 20),
    `\r\n${stray}`,
    "HTTP/1.1 ",
  ];
};
