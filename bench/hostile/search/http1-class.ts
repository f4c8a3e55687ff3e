// Seeds and tokens of HTTP/1: what clients send, and what parsers have spent time on.
import { sized, text } from "./input.ts";
import type { Dictionary } from "./mutate.ts";

const head = (line: string, ...fields: readonly string[]): string =>
  [line, "Host: a", "Authorization: Bearer t", ...fields, "", ""].join("\r\n");

export const ordinaryGet = head("GET /v1/x HTTP/1.1");

const tokens = [
  ...[
    "/",
    "\\",
    "//",
    "/./",
    "/../",
    "..",
    ".",
    "%",
    "%2f",
    "%5c",
    "%2e",
    "%25",
    "%252f",
    "%25252525",
    "%00",
    ";",
    ";a",
  ],
  ...["?", "#", "\0", "\x01", "\t", " ", "\x7f", "\x80", "\xff", "\xc0\xaf", "\xe0\x80\xaf", "\u00e9", "/v1/", "/v63/"],
  ...[":", ",", '"', "\\", "=", "[", "]", "::", "0", "00", "1", "a", "A", "_", "-", "+", "~", "\r", "\n", "\r\n", "*"],
  ...["\r\n\r\n", ",,", ", ", "a,", "a:b\r\n", "a:\r\n", "A: b\r\n", "X: y\r\n", "host: a\r\n", "x_y: z\r\n"],
  ...["Connection: close\r\n", "Connection: keep-alive\r\n", "Connection: ", "Upgrade: websocket\r\n", "Upgrade: "],
  ...[
    "Connection: upgrade\r\n",
    "Expect: 100-continue\r\n",
    "Expect: x\r\n",
    "TE: trailers\r\n",
    "Max-Forwards: 0\r\n",
  ],
  ...["Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\n", "Content-Length: 0\r\n", "Trailer: a\r\n"],
  ...[
    "X-Forwarded-For: 127.0.0.1\r\n",
    "X-Forwarded-For: ",
    "127.0.0.1,",
    "::1,",
    "[::1]:1,",
    "Forwarded: ",
    "for=1.2.3.4",
  ],
  ...[
    "for=127.0.0.1,",
    'for="[::1]",',
    "for=",
    "Authorization: bearer ",
    "bearer ",
    "Cookie: a=b\r\n",
    "X-Request-Id: a\r\n",
  ],
  ...[
    "traceparent: 00-",
    "Range: bytes=0-1\r\n",
    "GET ",
    "POST ",
    "OPTIONS ",
    "HEAD ",
    "CONNECT ",
    "http://a/",
    " HTTP/1.1\r\n",
  ],
  ...[
    "GET / HTTP/1.1\r\n\r\n",
    "GET /v1/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ordinaryGet,
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  ],
  ...["1\r\na\r\n", "0\r\n\r\n", "0\r\n", "1;a=b\r\nc\r\n", ";a=b", "f", "ffffffff", "0x"],
] as const;

const texts = tokens.map((token) => text(token)) as [ReturnType<typeof text>, ...ReturnType<typeof text>[]];

export const http1Dictionary: Dictionary = {
  outer: [text(ordinaryGet), sized("chunk", "", "a"), ...texts],
  inner: texts,
};

export const http1Seeds = [
  [text(ordinaryGet)],
  [text("GET /v1/"), text("a"), text("?"), text("b"), text(" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n")],
  [text("GET /none"), text("/x"), text(" HTTP/1.1\r\nHost: a\r\n"), text("X-A: b\r\n", 3), text("\r\n")],
  [text(head("POST /v1/x HTTP/1.1", "Transfer-Encoding: chunked")), sized("chunk", "", "abc", 3), text("0\r\n\r\n")],
  [text(head("POST /v1/x HTTP/1.1", "Content-Length: 1000")), text("x", 1000)],
  [
    text("GET /v1/ws HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nConnection: Upgrade\r\nUpgrade: "),
    text("websocket"),
    text("\r\n\r\n"),
  ],
  [text(ordinaryGet, 5)],
  [
    text("GET /v1/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nConnection: "),
    text("close"),
    text("\r\nX-Forwarded-For: "),
    text("127.0.0.1,"),
    text("\r\nForwarded: "),
    text("for=127.0.0.1"),
    text("\r\n\r\n"),
  ],
];

/** As many bytes of an ordinary request: a small one as a GET, a larger one with a body. */
export function ordinaryRequest(bytes: number): string {
  const post = head("POST /v1/x HTTP/1.1", "Content-Length: 000000");
  if (bytes <= post.length) return ordinaryGet;
  const body = bytes - post.length;
  return post.replace("000000", String(body).padStart(6, "0")) + "x".repeat(body);
}
