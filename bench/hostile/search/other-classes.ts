// Seeds and tokens of the other protocols: the PROXY header, checks over HTTP and gRPC, the admin port, and what an
// upstream answers.
import { http1Dictionary, http1Seeds, ordinaryGet } from "./http1-class.ts";
import { http2Dictionary, preface } from "./http2-class.ts";
import { type ContentPart, frame, frameTypes, type Part, sized, text } from "./input.ts";
import type { Dictionary } from "./mutate.ts";

type Texts = [ReturnType<typeof text>, ...ReturnType<typeof text>[]];
const texts = (...bytes: readonly string[]): Texts => bytes.map((each) => text(each)) as Texts;

const proxyLine = "PROXY TCP4 127.0.0.9 127.0.0.1 1 2\r\n";
const proxyBinary = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x09\x7f\0\0\x01\0\x01\0\x02";

export const proxySeeds: readonly (readonly Part[])[] = [
  ...http1Seeds.map((parts) => [text(proxyLine), ...parts]),
  [text(proxyBinary), text(ordinaryGet)],
  [text("\r\n\r\n\0\r\nQUIT\n\x21\x11\x10\0"), text("\0", 4000)],
];

export const proxyDictionary: Dictionary = {
  outer: [text(proxyLine), ...http1Dictionary.outer],
  inner: [
    ...texts("PROXY UNKNOWN", "\r\n\r\n\0\r\nQUIT\n", "\x20\0\0\0", "ffff:", "10.3.255.1,"),
    ...http1Dictionary.inner,
  ],
};

const answer = "HTTP/1.1 200 OK\r\n";

export const responseSeeds: readonly (readonly Part[])[] = [
  [text(`${answer}Content-Length: 2\r\n\r\nok`)],
  [text(`${answer}Transfer-Encoding: chunked\r\n\r\n`), sized("chunk", "", "abc", 3), text("0\r\n\r\n")],
  [text(`${answer}Content-Length: 1000\r\n`), text("X-A: b\r\n", 3), text("\r\n"), text("x", 1000)],
  [text("HTTP/1.1 103 Early\r\nLink: a\r\n\r\n"), text(`${answer}Content-Length: 0\r\n\r\n`)],
  [text("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\nRetry-After: "), text("1"), text("\r\n\r\n")],
  [text(answer), text("Connection: "), text("close"), text("\r\n\r\n"), text("x", 100)],
];

export const responseDictionary: Dictionary = {
  outer: [
    sized("chunk", "", "a"),
    sized("chunk", ";a=b", "a"),
    ...texts(
      answer,
      "HTTP/1.1 100 \r\n\r\n",
      "HTTP/1.1 304 x\r\n\r\n",
      "0\r\n",
      "\r\n",
      "a: b\r\n",
      "0\r\nA: b\r\n\r\n",
    ),
  ],
  inner: [
    ...texts(
      "HTTP/1.0 200 OK\r\n",
      "Retry-After: 1\r\n",
      "Retry-After: Thu, 01 Jan 2099 00:00:00 GMT\r\n",
      "Set-Cookie: a=b\r\n",
    ),
    ...texts("Keep-Alive: timeout=5\r\n", "1\r\na\r\n", "0", ";", ", close", "Date: x\r\n", "RateLimit: x\r\n"),
    ...http1Dictionary.inner,
  ],
};

const fields = "Authorization: Bearer t\r\nX-Forwarded-For: 10.100.100.100\r\n";
const check = `GET /ext-authz/v1/x HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;

export const checkSeeds: readonly (readonly Part[])[] = [
  [text(check)],
  [
    text("GET /ext-authz/v1/"),
    text("a"),
    text(` HTTP/1.1\r\nHost: a\r\n${fields}`),
    text("X-A: b\r\n", 3),
    text("\r\n"),
  ],
  [
    text("GET /auth-request HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /v1/"),
    text("a"),
    text(`\r\n${fields}\r\n`),
  ],
  [
    text(
      "GET /forward-auth HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /v1/x\r\nX-Forwarded-For: ",
    ),
    text("10.100.100.100,"),
    text("10.0.0.2\r\n\r\n"),
  ],
  [text(check, 5)],
];

export const checkDictionary: Dictionary = {
  outer: [text(check), ...http1Dictionary.outer],
  inner: [...texts("X-Original-URI: ", "X-Headgate-Secret: a\r\n", "x-forwarded-for: a\r\n"), ...http1Dictionary.inner],
};

export const adminSeeds: readonly (readonly Part[])[] = [
  [text("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")],
  [
    text("GET /readyz"),
    text("?a"),
    text(" HTTP/1.1\r\nHost: a\r\n"),
    text("Accept: "),
    text("a/b;q=1,"),
    text("\r\n\r\n"),
  ],
  [text("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n", 5)],
];

const grpcHead = (path: string): Part =>
  frame(frameTypes.headers, 4, "next", [
    text("\x83\x86"),
    sized("hpack", "\x01", "a"),
    sized("hpack", "\x04", path),
    sized("hpack", "\x0f\x10", "application/grpc"),
    sized("hpack", "\x00\x02te", "trailers"),
  ]);
const grpcData = (message: readonly ContentPart[]): Part =>
  frame(frameTypes.data, 1, "same", [sized("grpc", "\0", message)]);
const pb = (field: number, of: string | readonly ContentPart[]): ContentPart =>
  sized("protobuf", String.fromCharCode(field * 8 + 2), of);

export const checkMessage: readonly ContentPart[] = [
  pb(1, [
    pb(1, [pb(1, [pb(1, [pb(2, "10.100.100.100")])])]),
    pb(4, [pb(2, [pb(2, "GET"), pb(4, "/v1/x"), pb(5, "a"), pb(3, [pb(1, "authorization"), pb(2, "Bearer t")])])]),
  ]),
];
const entry = (key: string, of: string): ContentPart => pb(1, [pb(1, key), pb(2, of)]);

export const grpcCall = (path: string, message: readonly ContentPart[]): readonly Part[] => [
  grpcHead(path),
  grpcData(message),
];

export const rateLimitMessage: readonly ContentPart[] = [
  pb(1, "headgate"),
  pb(2, [entry("remote_address", "10.100.100.100"), entry("path", "/v1/x")]),
];

export const grpcCheck: readonly Part[] = [
  ...preface,
  grpcHead("/envoy.service.auth.v3.Authorization/Check"),
  grpcData(checkMessage),
];

export const grpcSeeds: readonly (readonly Part[])[] = [
  grpcCheck,
  [...preface, grpcHead("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"), grpcData(rateLimitMessage)],
  [...preface, grpcHead("/grpc.health.v1.Health/Check"), grpcData([])],
  [...preface, grpcHead("/grpc.health.v1.Health/Watch"), grpcData([])],
];

export const grpcDictionary: Dictionary = {
  outer: [grpcHead("/grpc.health.v1.Health/Check"), grpcData([]), ...http2Dictionary.outer],
  inner: [
    ...[
      pb(1, "a"),
      pb(2, "a"),
      pb(3, ""),
      pb(3, [pb(1, "host"), pb(2, "a")]),
      pb(3, [pb(1, "x"), pb(2, "y")]),
      pb(4, "/"),
    ],
    ...[
      pb(3, [pb(1, "content-length"), pb(2, "1")]),
      pb(3, [pb(1, "expect"), pb(2, "1")]),
      pb(2, []),
      entry("path", "/"),
    ],
    ...[pb(3, [pb(1, "x-forwarded-for"), pb(2, "10.100.100.100,")]), pb(3, [pb(1, "cookie"), pb(2, "a")])],
    ...texts("\x0b", "\x0c", "\x08\x01", "\x12\0", "\x1a\0", "/", "%2f", "\\", ";", "\xff"),
    ...http2Dictionary.inner,
  ],
};
