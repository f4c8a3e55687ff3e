// A request in parts that can be changed one by one, the valid requests that every case begins with, and the lists of
// spellings that proxies and servers have disagreed about.
import type { Random } from "./random.ts";

export interface RequestParts {
  method: string;
  target: string;
  version: string;
  /** Whole lines without their ends. */
  lines: string[];
  body: string;
}

export const token = "Authorization: Bearer t";

/** `mark` stands in every target, so that what a server saw can be told to be this case's. */
export function validRequest(random: Random, mark: string): RequestParts {
  const target = `/v2/x?m=${mark}`;
  const lines = ["Host: a", token];
  const request = (method: string, more: readonly string[], body = "", at = target): RequestParts => ({
    method,
    target: at,
    version: "HTTP/1.1",
    lines: [...lines, ...more],
    body,
  });
  const text = "a=1&b=2".repeat(1 + random.int(4));
  const length = `Content-Length: ${text.length}`;
  const chunks = `7\r\n${text.slice(0, 7)}\r\n0\r\n\r\n`;
  const inside = `GET /v2/inside?m=${mark}i HTTP/1.1\r\nHost: a\r\n${token}\r\n\r\n`;
  switch (random.int(12)) {
    case 0:
      return request("POST", ["Content-Type: text/plain", length], text);
    case 1:
      return request("POST", ["Transfer-Encoding: chunked"], chunks);
    case 2:
      return request("PUT", ["X-A: 1", `Content-Length: ${inside.length}`, "X-B: 2"], inside);
    case 3:
      return request("POST", ["Transfer-Encoding: chunked"], `${inside.length.toString(16)}\r\n${inside}\r\n0\r\n\r\n`);
    case 4:
      return request("HEAD", ["X-A: 1"]);
    case 5:
      return request("OPTIONS", ["Max-Forwards: 3"]);
    case 6:
      return request("POST", ["Expect: 100-continue", length], text);
    case 7:
      return request("GET", ["Cookie: a=1", "X-C: 3"], "", `http://b.test${target}`);
    case 8:
      return request("DELETE", [length], text);
    case 9:
      return request("GET", ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"]);
    case 10:
      return request("POST", ["Connection: X-A, close", "X-A: 1", length], text);
    default:
      return request("GET", ["X-A: 1", "Cookie: a=1", "Range: bytes=0-1"]);
  }
}

export function serialize({ method, target, version, lines, body }: RequestParts): string {
  return `${method} ${target} ${version}\r\n${lines.map((line) => `${line}\r\n`).join("")}\r\n${body}`;
}

type List = readonly [string, ...string[]];

/** Lines that speak of the body's length; `n` is the true one. */
export const framingLines = (n: number): List => [
  `content-length:${n}`,
  ...lengthValues(n).map((value) => `Content-Length: ${value}`),
  `Content-Length : ${n}`,
  ` Content-Length: ${n}`,
  `Content-Length\t: ${n}`,
  `Content_Length: ${n}`,
  `Content-Length\0: ${n}`,
  `X: y\r\n Content-Length: ${n}`,
  `Content-Length:\r\n ${n}`,
  `Content-Length: ${n}\r\nContent-Length: ${n}`,
  `Content-Length: ${n}\r\nContent-Length: ${n + 1}`,
  `Content-Length: ${n}\r\nTransfer-Encoding: chunked`,
  `Transfer-Encoding: chunked\r\nContent-Length: ${n}`,
  `X: y\nContent-Length: ${n}`,
  `X: y\rTransfer-Encoding: chunked`,
  `X: y\nTransfer-Encoding: chunked`,
  "Transfer-Encoding : chunked",
  " Transfer-Encoding: chunked",
  "Transfer_Encoding: chunked",
  "Transfer-Encoding\x0b: chunked",
  "Transfer-Encoding:\r\n chunked",
  "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
  "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
  "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
  `Connection: Content-Length\r\nContent-Length: ${n}`,
  ...encodings.map((value) => `Transfer-Encoding: ${value}`),
];

const lengthValues = (n: number): List => [
  `${n}`,
  `${n + 1}`,
  `${Math.max(0, n - 1)}`,
  `${n + 3}`,
  "0",
  `+${n}`,
  `-${n}`,
  "-0",
  `0${n}`,
  `0x${n.toString(16)}`,
  `${n},${n}`,
  `${n}, ${n + 1}`,
  `${n} `,
  `\t${n}`,
  `${n}.0`,
  `${n}e0`,
  `"${n}"`,
  `${n} ${n}`,
  `${n};a`,
  `${n}\0`,
  `\x0b${n}`,
  `${n}\x0c`,
  "",
  "x",
  "99999999999999999999",
  "18446744073709551616",
  "4294967296",
  `1_0`,
];

const encodings: List = [
  "chunked",
  "Chunked",
  "CHUNKED",
  "chunked ",
  "\tchunked",
  "\x0bchunked",
  "chunked\x0c",
  "identity",
  "gzip",
  "gzip, chunked",
  "chunked, gzip",
  "chunked, chunked",
  "chunked, identity",
  "identity, chunked",
  "xchunked",
  "chunkedx",
  '"chunked"',
  "chunked;q=1",
  ",chunked",
  "chunked,",
  "chunke",
  "chun\0ked",
  "chun ked",
  "chun\xeb\x64",
  "\xa0chunked",
  "",
];

export const methods: List = [
  "GET",
  "POST",
  "PUT",
  "PATCH",
  "DELETE",
  "OPTIONS",
  "HEAD",
  "TRACE",
  "CONNECT",
  "QUERY",
  "PROPFIND",
  "LOCK",
  "PURGE",
  "PRI",
  "get",
  "Post",
  "GE T",
  "G\0ET",
  "GET\t",
  "",
  "M-SEARCH",
  "SOURCE",
  "FOO",
  "GÉT",
  '"GET"',
  "\x16\x03\x01",
];

export const versions: List = [
  "HTTP/1.0",
  "HTTP/1.1",
  "HTTP/1.2",
  "HTTP/2.0",
  "HTTP/0.9",
  "HTTP/1",
  "http/1.1",
  "HTTP/1.10",
  "HTTP/01.1",
  "HTTP/1.1 ",
  "HTTP /1.1",
  "HTTP/1.1\0",
  "HTTP/1.1\tx",
  "XTTP/1.1",
  "RTSP/1.0",
  "ICE/1.0",
  "",
];

/** `m` is the query that marks the case. */
export const targets = (m: string): List => [
  `/v1/x${m}`,
  `//v2/x${m}`,
  `/v2//x${m}`,
  `/v2/./x${m}`,
  `/V2/x${m}`,
  `/%76%32/x${m}`,
  `/v2/..%2fx${m}`,
  `/v2/../v1/x${m}`,
  `/v2/x%00${m}`,
  `/v2/x%20${m}`,
  `/v2/x%0d%0aX:y${m}`,
  `/v2/x;a=b${m}`,
  `/v2/\xe4${m}`,
  `/v2/x${m}&q="<>"`,
  `/v2/x${m}&q={}|^\``,
  `/v2/x${m}#f`,
  `/v2/x${m}&\xff`,
  `/v2/x ${m}`,
  `/v2/x${m} HTTP/1.1`,
  `/v2/x\t${m}`,
  `/v2/x${m}&q=\0`,
  `/v2/x${m}&q=\x7f`,
  `http://b.test/v2/x${m}`,
  `HTTP://b.test/v2/x${m}`,
  `http://u@b.test/v2/x${m}`,
  `http:///v2/x${m}`,
  `https://b.test:8/v2/x${m}`,
  `ftp://b.test/v2/x${m}`,
  `http://b.test${m}`,
  `b.test:80`,
  "*",
  `v2/x${m}`,
  `\\v2\\x${m}`,
  `/v2/x${m}&${"y".repeat(9_000)}`,
  "",
  `?${m}`,
];

export const hosts: List = [
  "Host: b",
  "host:b",
  "Host: a:80",
  "Host: [::1]:8080",
  "Host: a:99999",
  "Host: a b",
  "Host: a, b",
  "Host: u@a",
  "Host: a/b",
  "Host: ",
  "Host : a",
  " Host: a",
  "Host: a\r\nHost: a",
  "Host: a\r\nHost: b",
  "Host: a\0",
  "Host: \xe4",
  "Host: a#",
  "Host: a?b",
  "Host: a\\b",
  "X-A: 1",
];

export const connections: List = [
  "close",
  "keep-alive",
  "Keep-Alive, close",
  "close, keep-alive",
  "X-A",
  "x-a, X-B,cookie",
  "Authorization",
  "Host",
  "Content-Length",
  "Transfer-Encoding",
  "X-Forwarded-For, Via",
  "X-Request-Id",
  "upgrade",
  "Upgrade, HTTP2-Settings",
  ",,,",
  "",
  '"close"',
  "clo se",
  "TE",
  "close\0",
  "\xff",
  "Connection",
  "Expect",
];

/** Lines of every other kind; some are two. */
export const otherLines: List = [
  "Expect: 100-continue",
  "Expect: 100-Continue",
  "Expect: 200-ok",
  "Expect: ",
  "expect:100-continue, x",
  "Upgrade: websocket",
  "Upgrade: h2c",
  "Upgrade: websocket, h2c",
  "Upgrade: ",
  "TE: trailers",
  "TE: chunked",
  "Trailer: X-T",
  "Keep-Alive: timeout=5",
  "Proxy-Connection: close",
  "Proxy-Authorization: Basic eDp5",
  "X-Forwarded-For: 1.2.3.4",
  "X-Forwarded-Host: evil",
  "Forwarded: for=1.2.3.4",
  "X-Real-IP: 1.2.3.4",
  "X-Request-Id: mine",
  "Via: 1.1 x",
  "X_A: 1",
  "Client-IP: 1.2.3.4",
  "True_Client-IP: 1.2.3.4",
  "SFDC_STACK_DEPTH: 1",
  "X-A 1",
  ": 1",
  "X-A:1",
  "X-A:",
  "X-A : 1",
  "\tX-A: 1",
  " X-A: 1",
  "X-A: 1\r\n 2",
  "X-A: 1\r\n\t2",
  "X-A: a\0b",
  "X-A: a\x01b",
  "X-A: a\x7fb",
  "X-A: \xe4\xff",
  "X-A: \t y \t",
  "X-\xe4: 1",
  "X-A\0: 1",
  "X-A: a\rb",
  "X-A: a\nX-B: b",
  "X-A: 1\r\nx-a: 2",
  "__proto__: 1",
  "constructor: 1",
  "0: 1",
  "Max-Forwards: 0",
  "Max-Forwards: 99999999999999999",
  "Cookie: a=1\r\nCookie: b=2",
  "Authorization: Bearer u",
  "Authorization: Basic eDp5",
  "Range: bytes=0-",
  "HTTP2-Settings: x",
  `X-A: ${"y".repeat(8_000)}`,
  `X-A: ${"y".repeat(17_000)}`,
  Array.from({ length: 190 }, () => "X-A: 1").join("\r\n"),
  Array.from({ length: 205 }, () => "X-A: 1").join("\r\n"),
  "GET /v2/y HTTP/1.1",
  "\r\nGET /v2/y HTTP/1.1\r\nHost: a",
  "Content-Encoding: gzip",
];
