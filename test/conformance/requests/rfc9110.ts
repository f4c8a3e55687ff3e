// HTTP's semantics as far as they concern one that passes messages on, and the RFCs beside it on quotas, tokens and
// origins.
import {
  chunked,
  declined,
  dropped,
  forwarded,
  kept,
  malformed,
  message,
  post,
  type RequestCase,
  refused,
  throttled,
  token,
} from "./request-case.ts";

const bearing = (authorization: string): string => `GET /v2/x HTTP/1.1\r\nHost: a\r\n${authorization}\r\n\r\n`;
const anonymous = (method: string, fields = ""): string => `${method} /v2/x HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;
const method = (name: string, fields = "", body = ""): string => message(fields, `${name} /v2/x HTTP/1.1`, body);

const fields: readonly RequestCase[] = [
  forwarded("RFC 9110 2.5", "HTTP/1.0 goes on as HTTP/1.1", message("X: y\r\n", "GET /v2/x HTTP/1.0"), {
    line: "GET /v2/x HTTP/1.1",
    lines: [token, "X: y"],
    closes: true,
  }),
  kept("RFC 9110 5.1", "an unknown name", "X-Unheard-Of: 1"),
  kept("RFC 9110 5.1", "odd but valid names", "!#$%&'*+-.^`|~: v"),
  kept("RFC 9110 5.1", "integer-like names, in their order", "1: a", "0: b", "1: c"),
  kept("RFC 9110 5.1", "names of an object's prototype", "constructor: 1", "toString: 2", "hasOwnProperty: 3"),
  kept("RFC 9110 5.3", "lines of one name, in their order and spelling", "X-A: 1", "x-a: 2", "X-a: 3"),
  kept("RFC 9110 5.3", "lines of one name, apart", "X-A: 1", "X-B: 2", "X-A: 3"),
  kept("RFC 9110 5.3", "two Cookies", "Cookie: a=1", "Cookie: b=2"),
  kept("RFC 9110 5.3", "two Content-Types", "Content-Type: text/plain", "Content-Type: text/html"),
  kept("RFC 9110 5.3", "a list on one line", "Accept: a/b, c/d;q=0.5,,e/f"),
  kept("RFC 9110 5.3", "two User-Agents", "User-Agent: a", "User-Agent: b"),
  kept("RFC 9110 5.5", "bytes over 127", "X: \xe4\xff"),
  kept("RFC 9110 5.5", "quotes and commas", 'X: "a, \\"b", c'),
  malformed("RFC 9110 5.5", "NUL in a value", message("A: b\0c\r\n")),
  malformed("RFC 9110 5.5", "a control byte in a value", message("A: b\x01c\r\n")),
  malformed("RFC 9110 5.5", "DEL in a value", message("A: b\x7fc\r\n")),
  malformed("RFC 9110 5.5", "an escape in a value", message("A: \x1b[2J\r\n")),
  malformed("RFC 9110 5.1", "NUL in a name", message("A\0: b\r\n")),
  malformed("RFC 9110 5.1", "bytes over 127 in a name", message("\xc3\xa4: b\r\n")),
  malformed("RFC 9110 5.1", "a name in quotes", message('"A": b\r\n')),
  malformed("RFC 9110 5.1", "a name with parentheses", message("A(b): c\r\n")),
  refused("RFC 9110 5.4", "200 fields and one", 431, message("X: y\r\n".repeat(199))),
  forwarded("RFC 9110 5.4", "200 fields", message("X: y\r\n".repeat(198)), {
    lines: [token, ...Array.from({ length: 198 }, () => "X: y")],
  }),
  forwarded("RFC 9110 6.5", "Trailer goes with the trailers", chunked("0\r\nX-T: v\r\n\r\n", "Trailer: X-T\r\n")),
];

const hopByHop: readonly string[] = [
  ...["Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic c2VjcmV0"],
  ...["Proxy-Authenticate: Basic", "TE: trailers", "TE: gzip", "Trailer: X-T", "Upgrade: h2c"],
  "HTTP2-Settings: AAMAAABkAAQAAP__",
];

const nameOf = (line: string): string => line.slice(0, line.indexOf(":"));

const hops: readonly RequestCase[] = [
  ...hopByHop.flatMap((line) => [
    dropped("RFC 9110 7.6.1", line, line),
    forwarded("RFC 9110 7.6.1", `${line}, named in Connection`, message(`Connection: ${nameOf(line)}\r\n${line}\r\n`), {
      // It may speak another protocol.
      closes: nameOf(line) === "Upgrade",
    }),
  ]),
  dropped("RFC 9110 7.6.1", "what Connection names", "Connection: X-A", "X-A: 1"),
  dropped("RFC 9110 7.6.1", "what Connection names, before it", "X-A: 1", "Connection: x-a"),
  dropped(
    "RFC 9110 7.6.1",
    "what two Connections name",
    "Connection: x-a ,, X-B",
    "connection:X-C",
    "x-A: 1",
    "X-b: 2",
    "X-C: 3",
  ),
  forwarded("RFC 9110 7.6.1", "a name and a byte of 0xa0", message("Connection: X-A\xa0\r\nX-A: 1\r\n"), {
    lines: [token, "X-A: 1"],
  }),
  forwarded("RFC 9110 7.6.1", "what Connection names and is not there", message("Connection: X-A\r\nX-B: 1\r\n"), {
    lines: [token, "X-B: 1"],
  }),
  dropped(
    "RFC 9110 7.6.1",
    "every field that the gateway adds, in Connection",
    "Connection: Host, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, Via, X-Request-Id",
  ),
  forwarded(
    "RFC 9110 7.6.1",
    "the body's length in Connection",
    post("Connection: Content-Length\r\nContent-Length: 2\r\n", "hi"),
    { body: "hi" },
  ),
  forwarded(
    "RFC 9110 7.6.1",
    "the body's encoding in Connection",
    chunked("2\r\nhi\r\n0\r\n\r\n", "Connection: Transfer-Encoding\r\n"),
    { body: "hi" },
  ),
  kept("RFC 9110 7.6.2", "Max-Forwards concerns OPTIONS and TRACE alone", "Max-Forwards: 0"),
  forwarded("RFC 9110 7.6.2", "Max-Forwards of OPTIONS is one less", method("OPTIONS", "Max-Forwards: 10\r\n"), {
    lines: [token, "Max-Forwards: 9"],
  }),
  declined("RFC 9110 7.6.2", "OPTIONS that may not be forwarded", 404, method("OPTIONS", "Max-Forwards: 0\r\n")),
  forwarded("RFC 9110 7.6.2", "Max-Forwards that is no number", method("OPTIONS", "Max-Forwards: x\r\n"), {
    lines: [token, "Max-Forwards: x"],
  }),
  kept("RFC 9110 7.6.3", "Via of those before is kept, the gateway's follows", "Via: 1.0 first, 1.1 second (comment)"),
  kept(
    "RFC 9110 7.7",
    "conditions and codings are none of the gateway's",
    'If-None-Match: "a"',
    "Accept-Encoding: gzip",
    "Cache-Control: no-transform",
  ),
  kept("RFC 9110 7.7", "a range is none of the gateway's", "Range: bytes=0-1", 'If-Range: "a"'),
  forwarded(
    "RFC 9110 7.7",
    "a body is not transformed",
    post("Content-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n", "\x1f\x8b\0\xff"),
    { lines: [token, "Content-Type: text/plain", "Content-Encoding: gzip"], body: "\x1f\x8b\0\xff" },
  ),
  forwarded(
    "RFC 9110 7.7",
    "a multipart body is not transformed",
    post("Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 7\r\n", "--b--\r\n"),
    {
      lines: [token, "Content-Type: multipart/form-data; boundary=b"],
      body: "--b--\r\n",
    },
  ),
  forwarded(
    "RFC 9110 7.8",
    "Upgrade with a body and what looks like a request behind it",
    post("Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 4\r\n", "GET "),
    { body: "GET " },
  ),
];

const methods: readonly RequestCase[] = [
  ...[
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "PROPFIND",
    "QUERY",
    "REPORT",
    "LOCK",
    "MKCOL",
    "MERGE",
    "MKCALENDAR",
    "COPY",
    "M-SEARCH",
    "PURGE",
  ].map((name) =>
    forwarded("RFC 9110 9.1", `${name} with a body`, method(name, "Content-Length: 2\r\n", "hi"), { body: "hi" }),
  ),
  ...["PUT", "PATCH", "DELETE", "PROPFIND", "QUERY"].map((name) =>
    forwarded("RFC 9110 9.1", `${name} without a body`, method(name)),
  ),
  refused("RFC 9110 9.1", "a method that the parser does not know", 501, method("FOO")),
  refused("RFC 9110 9.1", "a method like a known one", 501, method("GETS")),
  forwarded("RFC 9110 9.3.2", "HEAD", method("HEAD")),
  declined("RFC 9110 9.3.2", "HEAD that is refused has no body", 404, message("", "HEAD /x HTTP/1.1")),
  forwarded("RFC 9110 9.3.2", "HEAD with a body", method("HEAD", "Content-Length: 2\r\n", "hi"), { body: "hi" }),
  declined("RFC 9110 9.3.8", "TRACE", 501, method("TRACE")),
  refused("RFC 9110 9.3.8", "TRACE with a body", 501, method("TRACE", "Content-Length: 2\r\n", "hi")),
  refused(
    "RFC 9110 9.3.6",
    "CONNECT to the gateway itself",
    501,
    "CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n",
  ),
  forwarded(
    "RFC 9110 10.1.1",
    "100-continue ends at the gateway",
    post("Expect: 100-continue\r\nContent-Length: 2\r\n", "hi"),
    { body: "hi" },
  ),
  forwarded(
    "RFC 9110 10.1.1",
    "100-continue in other case, with chunks",
    chunked("2\r\nhi\r\n0\r\n\r\n", "expect: 100-Continue\r\n"),
    { body: "hi" },
  ),
  forwarded("RFC 9110 10.1.1", "100-continue without a body", message("Expect: 100-continue\r\n"), { closes: true }),
  forwarded(
    "RFC 9110 10.1.1",
    "100-continue of HTTP/1.0",
    message("Expect: 100-continue\r\nContent-Length: 2\r\n", "POST /v2/x HTTP/1.0", "hi"),
    { line: "POST /v2/x HTTP/1.1", body: "hi", closes: true },
  ),
  declined("RFC 9110 10.1.1", "another expectation", 417, message("Expect: 200-ok\r\n")),
  refused("RFC 9110 10.1.1", "100-continue and another", 417, message("Expect: 100-continue, x\r\n")),
  declined("RFC 9110 10.1.1", "an empty expectation", 417, message("Expect:\r\n")),
  refused(
    "RFC 9110 10.1.1",
    "100-continue without a token: no 100",
    401,
    anonymous("POST", "Expect: 100-continue\r\nContent-Length: 2\r\n"),
  ),
  refused(
    "RFC 9110 10.1.1",
    "100-continue over the limit: no 100",
    413,
    post("Expect: 100-continue\r\nContent-Length: 99999999\r\n"),
  ),
];

const access: readonly RequestCase[] = [
  dropped("RFC 9110 11.7", "Proxy-Authorization", "Proxy-Authorization: Basic c2VjcmV0"),
  dropped("RFC 9110 11.7", "Proxy-Authenticate", "Proxy-Authenticate: Basic"),
  kept("RFC 9110 11.7", "Proxy-Authentication-Info is no field of a request", "Proxy-Authentication-Info: x"),
  throttled("RFC 6585 4", "no quota", message(), false),
  throttled("RFC 9112 3.2", "no quota and no Host", "GET /v2/x HTTP/1.1\r\n\r\n", true),
  throttled("RFC 6585 4", "no quota, to HEAD", method("HEAD"), false),
  throttled("RFC 6585 4", "no quota, without a token", anonymous("GET"), false),
  throttled("RFC 6585 4", "no quota, on an odd spelling", message("", "GET //V2/./x HTTP/1.1"), false),
  throttled("RFC 6585 4", "no quota, a body unread", post("Content-Length: 2000\r\n", "hi"), true),
  throttled("RFC 6585 4", "no quota, a body awaiting 100", post("Expect: 100-continue\r\nContent-Length: 2\r\n"), true),
  refused("RFC 6585 5", "17 KiB in one field", 431, message(`X: ${"y".repeat(17 * 1024)}\r\n`)),
  refused("RFC 6585 5", "17 KiB in many fields", 431, message(`X-Long: ${"y".repeat(170)}\r\n`.repeat(100))),
  refused("RFC 6585 5", "a name of 17 KiB", 431, message(`${"y".repeat(17 * 1024)}: 1\r\n`)),
  forwarded("RFC 6585 5", "8 KiB in one field", message(`X: ${"y".repeat(8192)}\r\n`), {
    lines: [token, `X: ${"y".repeat(8192)}`],
  }),
  declined("RFC 6750 3", "no token", 401, anonymous("GET")),
  declined("RFC 6750 3", "no token, to HEAD", 401, anonymous("HEAD")),
  declined("RFC 6750 3", "no token, to OPTIONS", 401, anonymous("OPTIONS")),
  declined("RFC 6750 3", "another scheme", 401, bearing("Authorization: Basic YTpi")),
  declined("RFC 6750 3.1", "two tokens", 401, message(`${token}\r\n`)),
  declined("RFC 6750 2.1", "no token behind Bearer", 401, bearing("Authorization: Bearer")),
  declined("RFC 6750 2.1", "a token with a space", 401, bearing("Authorization: Bearer a b")),
  declined("RFC 6750 2.1", "a token that is not ASCII", 401, bearing("Authorization: Bearer \xe4")),
  declined("RFC 6750 2.1", "a token with a comma", 401, bearing("Authorization: Bearer a,b")),
  forwarded("RFC 9110 5.4", "a token of 9 KiB", bearing(`Authorization: Bearer ${"t".repeat(9 * 1024)}`), {
    lines: [`Authorization: Bearer ${"t".repeat(9 * 1024)}`],
  }),
  declined("RFC 6750 2.3", "a token in the query alone", 401, `GET /v2/x?access_token=t HTTP/1.1\r\nHost: a\r\n\r\n`),
  forwarded("RFC 6750 2.1", "Bearer in another case goes on as it is", bearing("authorization: bEARER t/+~-._=="), {
    lines: ["authorization: bEARER t/+~-._=="],
  }),
  dropped("RFC 7239 8.1", "Forwarded of a stranger", "Forwarded: for=1.2.3.4", "forwarded: for=5.6.7.8"),
  dropped(
    "RFC 7239 7.4",
    "X-Forwarded-For of a stranger, in lines",
    "X-Forwarded-For: 1.2.3.4",
    "x-forwarded-for: 5.6.7.8",
  ),
  dropped(
    "RFC 7239 7.4",
    "all of a stranger's X-Forwarded",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: b",
    "X-Forwarded-Port: 1",
    "X-Forwarded-Prefix: /v1",
  ),
  dropped("RFC 7239 8.1", "X-Real-IP of a stranger", "X-Real-IP: 1.2.3.4"),
  dropped("RFC 7239 8.1", "X-Request-Id of a stranger, which the gateway writes last", "X-Request-Id: mine"),
];

export const rfc9110: readonly RequestCase[] = [...fields, ...hops, ...methods, ...access];
