// HTTP/1.1's message syntax, section by section: what a recipient must accept, what it must refuse, and what it must
// close after.
import {
  broken,
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
  token,
} from "./request-case.ts";

const get = (line: string): string => message("", line);
const hosted = (host: string): string => `GET /v2/x HTTP/1.1\r\nHost: ${host}\r\n${token}\r\n\r\n`;
const unsupported = (section: string, name: string, bytes: string): RequestCase => refused(section, name, 501, bytes);
const targeted = (section: string, name: string, target: string): RequestCase =>
  forwarded(section, name, get(`GET ${target} HTTP/1.1`));
const kibibytes = (count: number): string => "x".repeat(count * 1024);
const end = "0\r\n\r\n";

const plain = { line: "GET /v2/x HTTP/1.1", host: "a", lines: [token], body: "" };
const posted = { ...plain, line: "POST /v2/x HTTP/1.1", body: "hi" };
const plainGet = message();
const hi = post("Content-Length: 2\r\n", "hi");
/** Processed as HTTP/1.1. */
const higherMinor = (name: string, bytes: string, seen: Partial<typeof plain> = {}): RequestCase =>
  forwarded("RFC 9110 2.5", name, bytes, { line: `${bytes.split(" ")[0]} /v2/x HTTP/1.1`, ...seen });

const syntax: readonly RequestCase[] = [
  forwarded("RFC 9112 2.2", "a plain request", message()),
  forwarded("RFC 9112 2.2", "one empty line before the request", `\r\n${message()}`, { line: "GET /v2/x HTTP/1.1" }),
  forwarded("RFC 9112 2.2", "two empty lines before the request", `\r\n\r\n${message()}`, {
    line: "GET /v2/x HTTP/1.1",
  }),
  malformed("RFC 9112 2.2", "bare LF for every line's end", message().replaceAll("\r\n", "\n")),
  malformed("RFC 9112 2.2", "bare LF behind the request line", message().replace("\r\n", "\n")),
  malformed("RFC 9112 2.2", "bare LF between fields", message("A: b\nC: d\r\n")),
  malformed("RFC 9112 2.2", "bare LF at the head's end", `${message().slice(0, -2)}\n`),
  malformed("RFC 9112 2.2", "bare CR in a value", message("A: b\rC: d\r\n")),
  malformed("RFC 9112 2.2", "bare CR in the request line", get("GET /v2/x\r HTTP/1.1")),
  malformed("RFC 9112 2.2", "bare CR before a field's name", message("\rA: b\r\n")),
  malformed("RFC 9112 2.2", "CR CR LF behind a field", message("A: b\r\r\n")),
  malformed(
    "RFC 9112 2.2",
    "white space before the first field",
    `GET /v2/x HTTP/1.1\r\n X: y\r\nHost: a\r\n${token}\r\n\r\n`,
  ),
  malformed(
    "RFC 9112 2.2",
    "a tab before the first field",
    `GET /v2/x HTTP/1.1\r\n\tX: y\r\nHost: a\r\n${token}\r\n\r\n`,
  ),
  malformed("RFC 9112 2.2", "an empty line with white space before the request", ` \r\n${message()}`),
  malformed("RFC 9112 2.2", "TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
  malformed("RFC 9112 2.2", "a NUL before the request", `\0${message()}`),
  malformed("RFC 9112 2.2", "a byte order mark before the request", `\xef\xbb\xbf${message()}`),
  unsupported("RFC 9112 2.2", "the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  higherMinor("HTTP/1.2", get("GET /v2/x HTTP/1.2")),
  higherMinor("HTTP/1.9 with an Upgrade that nobody asks for", message("Upgrade: x\r\n", "GET /v2/x HTTP/1.9")),
  higherMinor(
    "HTTP/1.2 in chunks",
    message("Transfer-Encoding: chunked\r\n", "POST /v2/x HTTP/1.2", `2\r\nhi\r\n${end}`),
    { body: "hi" },
  ),
  higherMinor("absolute form in HTTP/1.2", get("GET http://b/v2/x HTTP/1.2"), { host: "b" }),
  {
    ...forwarded("RFC 9110 2.5", "HTTP/1.2, 1.1 and 1.3 on one connection", ""),
    bytes: `${message("Upgrade: x\r\n", "GET /v2/x HTTP/1.2")}${message()}${get("GET /v2/x HTTP/1.3")}`,
    expected: { kind: "forwarded", requests: [plain, plain, plain], closes: false },
  },
  malformed("RFC 9110 2.5", "no Host in HTTP/1.2", `GET /v2/x HTTP/1.2\r\n${token}\r\n\r\n`),
  malformed("RFC 9110 2.5", "HTTP/3.1", get("GET /v2/x HTTP/3.1")),
  malformed("RFC 9112 2.3", "HTTP/2.0 in text", get("GET /v2/x HTTP/2.0")),
  malformed("RFC 9112 2.3", "HTTP/0.9 with fields", get("GET /v2/x HTTP/0.9")),
  malformed("RFC 9112 2.3", "HTTP/0.9", "GET /v2/x\r\n"),
  malformed("RFC 9112 2.3", "HTTP/11", get("GET /v2/x HTTP/11")),
  malformed("RFC 9112 2.3", "HTTP/1.10", get("GET /v2/x HTTP/1.10")),
  malformed("RFC 9112 2.3", "the version in lower case", get("GET /v2/x http/1.1")),
  malformed("RFC 9112 2.3", "RTSP", get("GET /v2/x RTSP/1.0")),
  malformed("RFC 9112 2.3", "ICE", get("SOURCE /v2/x ICE/1.0")),
  malformed("RFC 9112 2.3", "another protocol", get("GET /v2/x SIP/2.0")),
  malformed("RFC 9112 2.3", "a version of letters", get("GET /v2/x HTTP/x.y")),
];

const requestLine: readonly RequestCase[] = [
  forwarded("RFC 9112 3", "two spaces behind the method become one", get("GET  /v2/x HTTP/1.1"), {
    line: "GET /v2/x HTTP/1.1",
  }),
  malformed("RFC 9112 3", "a tab behind the method", get("GET\t/v2/x HTTP/1.1")),
  malformed("RFC 9112 3", "a space behind the version", get("GET /v2/x HTTP/1.1 ")),
  malformed("RFC 9112 3", "a space before the method", get(" GET /v2/x HTTP/1.1")),
  malformed("RFC 9112 3", "a space in the target", get("GET /v2/x y HTTP/1.1")),
  malformed("RFC 9112 3", "no target", get("GET HTTP/1.1")),
  malformed("RFC 9112 3.1", "a method that is no token", get("G(T /v2/x HTTP/1.1")),
  unsupported("RFC 9112 3.1", "a method in lower case", get("get /v2/x HTTP/1.1")),
  unsupported("RFC 9112 3.1", "a method that is the beginning of another", get("GE /v2/x HTTP/1.1")),
  unsupported("RFC 9112 3.1", "a method of 2,000 bytes", get(`${"x".repeat(2_000)} /v2/x HTTP/1.1`)),
  malformed("RFC 9112 3.1", "an empty method", get("/v2/x HTTP/1.1")),
  targeted("RFC 9112 3.2.1", "a query", "/v2/x?a=b&c"),
  targeted("RFC 9112 3.2.1", "an empty query", "/v2/x?"),
  targeted("RFC 9112 3.2.1", "question marks and slashes in a query", "/v2/x?a=/b?c//../v1"),
  targeted("RFC 9112 3.2.1", "an empty segment", "/v2//x"),
  targeted("RFC 9112 3.2.1", "a target of 8,192 bytes", `/v2/${"x".repeat(8188)}`),
  {
    ...refused("RFC 9112 3", "a target of 17 KiB", 414, get(`GET /v2/${kibibytes(17)} HTTP/1.1`)),
    // In pieces it is the head that is known to be too large, which is true as well.
    statusInPieces: 431,
  },
  malformed("RFC 9112 3.2", "a target that is too long, and no Host", `GET /v2/${"x".repeat(8189)} HTTP/1.1\r\n\r\n`),
  declined("RFC 9112 3", "a target of 8,193 bytes", 414, get(`GET /v2/${"x".repeat(8189)} HTTP/1.1`)),
  malformed("RFC 9112 3.2", "NUL in the target", get("GET /v2/\0 HTTP/1.1")),
  malformed("RFC 9112 3.2", "DEL in the target", get("GET /v2/\x7f HTTP/1.1")),
  malformed("RFC 9112 3.2", "bytes over 127 in the target", get("GET /v2/\xe4 HTTP/1.1")),
  malformed("RFC 9112 3.2", "bytes over 127 in the query", get("GET /v2/x?\xc3\xa4 HTTP/1.1")),
  forwarded("RFC 9112 3.2.2", "absolute form: its authority is the Host", get("GET http://b.test/v2/x?y HTTP/1.1"), {
    line: "GET /v2/x?y HTTP/1.1",
    host: "b.test",
  }),
  forwarded("RFC 9112 3.2.2", "absolute form with a port", get("GET http://b.test:81/v2/x HTTP/1.1"), {
    line: "GET /v2/x HTTP/1.1",
    host: "b.test:81",
  }),
  forwarded("RFC 9112 3.2.2", "absolute form, scheme in capitals", get("GET HTTP://b/v2/x HTTP/1.1"), {
    line: "GET /v2/x HTTP/1.1",
    host: "b",
  }),
  forwarded("RFC 9112 3.2.2", "absolute form of https", get("GET https://b/v2/x HTTP/1.1"), {
    line: "GET /v2/x HTTP/1.1",
    host: "b",
  }),
  declined("RFC 9112 3.2.2", "absolute form without a path", 404, get("GET http://b HTTP/1.1")),
  declined("RFC 9112 3.2.2", "absolute form without a path, with a query", 404, get("GET http://b?/v2/x HTTP/1.1")),
  malformed("RFC 9112 3.2.2", "absolute form with an empty authority", get("GET http:///v2/x HTTP/1.1")),
  malformed("RFC 9110 4.2.4", "absolute form with a user", get("GET http://u@b/v2/x HTTP/1.1")),
  malformed("RFC 9110 4.2.4", "absolute form with user and password", get("GET http://u:p@b/v2/x HTTP/1.1")),
  malformed("RFC 9112 3.2.2", "absolute form with an impossible port", get("GET http://b:99999/v2/x HTTP/1.1")),
  malformed("RFC 9112 3.2.2", "absolute form of another scheme", get("GET ftp://b/v2/x HTTP/1.1")),
  malformed("RFC 9112 3.2.2", "absolute form of a file", get("GET file:///v2/x HTTP/1.1")),
  malformed("RFC 9112 3.2.2", "absolute form and two Hosts", message("Host: b\r\n", "GET http://b/v2/x HTTP/1.1")),
  malformed("RFC 9112 3.2.2", "absolute form without a Host", `GET http://b/v2/x HTTP/1.1\r\n${token}\r\n\r\n`),
  declined("RFC 9112 3.2.2", "absolute form under no route", 404, get("GET http://b/x HTTP/1.1")),
  malformed("RFC 9112 3.2.3", "authority form with GET", get("GET a:80 HTTP/1.1")),
  unsupported("RFC 9112 3.2.3", "CONNECT", `CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n`),
  unsupported("RFC 9112 3.2.3", "CONNECT with a path", "CONNECT /v2/x HTTP/1.1\r\nHost: a\r\n\r\n"),
  declined("RFC 9112 3.2.4", "OPTIONS *", 204, get("OPTIONS * HTTP/1.1")),
  malformed("RFC 9112 3.2.4", "GET *", get("GET * HTTP/1.1")),
  malformed("RFC 9112 3.2.4", "OPTIONS *x", get("OPTIONS *x HTTP/1.1")),
  forwarded("RFC 9112 3.2.4", "OPTIONS of a path", get("OPTIONS /v2/x HTTP/1.1")),
  forwarded("RFC 9112 3.2.2", "OPTIONS of an absolute form", get("OPTIONS http://b/v2/x HTTP/1.1"), {
    line: "OPTIONS /v2/x HTTP/1.1",
    host: "b",
  }),
];

const host: readonly RequestCase[] = [
  malformed("RFC 9112 3.2", "no Host", `GET /v2/x HTTP/1.1\r\n${token}\r\n\r\n`),
  malformed("RFC 9112 3.2", "two Hosts in HTTP/1.0", message("Host: b\r\n", "GET /v2/x HTTP/1.0")),
  malformed("RFC 9112 3.2", "an empty Host in HTTP/1.0", `GET /v2/x HTTP/1.0\r\nHost:\r\n${token}\r\n\r\n`),
  forwarded(
    "RFC 9112 3.2.2",
    "absolute form without a Host in HTTP/1.0",
    `GET http://b/v2/x HTTP/1.0\r\n${token}\r\n\r\n`,
    { line: "GET /v2/x HTTP/1.1", host: "b", closes: true },
  ),
  malformed("RFC 9112 3.2", "an empty Host", hosted("")),
  malformed("RFC 9112 3.2", "two Hosts", message("Host: b\r\n")),
  malformed("RFC 9112 3.2", "two Hosts alike, in two cases", message("host: a\r\n")),
  malformed("RFC 9112 3.2", "a list of Hosts", hosted("a, b")),
  malformed("RFC 9112 3.2", "a Host with a user", hosted("u@a")),
  malformed("RFC 9112 3.2", "a Host with a path", hosted("a/b")),
  malformed("RFC 9112 3.2", "a Host with a query", hosted("a?b")),
  malformed("RFC 9112 3.2", "a Host with a scheme", hosted("http://a")),
  malformed("RFC 9112 3.2", "a Host with a space", hosted("a b")),
  malformed("RFC 9112 3.2", "a Host with a backslash", hosted("a\\b")),
  malformed("RFC 9112 3.2", "a Host with bytes over 127", hosted("\xe4")),
  malformed("RFC 9112 3.2", "a Host with a port over 65535", hosted("a:65536")),
  malformed("RFC 9112 3.2", "a Host with a port of letters", hosted("a:b")),
  malformed("RFC 9112 3.2", "a Host with two ports", hosted("a:1:2")),
  malformed("RFC 9112 3.2", "a port without a Host", hosted(":80")),
  malformed("RFC 9112 3.2", "an open bracket", hosted("[::1")),
  forwarded("RFC 9112 3.2", "a Host with a port", hosted("a:8080"), { host: "a:8080" }),
  forwarded("RFC 9112 3.2", "a Host with an empty port", hosted("a:"), { host: "a:" }),
  forwarded("RFC 9112 3.2", "an IPv6 Host", hosted("[::1]:80"), { host: "[::1]:80" }),
  forwarded("RFC 9112 3.2", "a Host in capitals", hosted("API.Test"), { host: "API.Test" }),
  forwarded("RFC 9112 3.2", "a Host with white space around it", hosted(" \ta\t "), { host: "a" }),
  forwarded("RFC 9112 3.2", "a Host behind the other fields", `GET /v2/x HTTP/1.1\r\n${token}\r\nHost: a\r\n\r\n`),
];

const fields: readonly RequestCase[] = [
  kept("RFC 9112 5", "an empty value", "X-Empty: "),
  forwarded("RFC 9112 5", "no white space behind the colon", message("X:y\r\n"), { lines: [token, "X: y"] }),
  forwarded("RFC 9112 5", "white space around a value", message("X: \t y \t\r\n"), { lines: [token, "X: y"] }),
  kept("RFC 9112 5", "white space inside a value", "X: a \t b"),
  kept("RFC 9112 5", "colons in a value", "X: a:b: c"),
  malformed("RFC 9112 5.1", "a space before the colon", message("X : y\r\n")),
  malformed("RFC 9112 5.1", "a tab before the colon", message("X\t: y\r\n")),
  malformed("RFC 9112 5.1", "a space before the colon of Host", `GET /v2/x HTTP/1.1\r\nHost : a\r\n${token}\r\n\r\n`),
  malformed("RFC 9112 5.1", "a space before the colon of Content-Length", post("Content-Length : 2\r\n", "hi")),
  malformed(
    "RFC 9112 5.1",
    "a space before the colon of Transfer-Encoding",
    post("Transfer-Encoding : chunked\r\n", end),
  ),
  malformed("RFC 9112 5.1", "a space in a name", message("X Y: z\r\n")),
  malformed("RFC 9112 5.1", "a field without a name", message(": b\r\n")),
  malformed("RFC 9112 5.1", "a field without a colon", message("Ab\r\n")),
  malformed("RFC 9112 5.2", "a folded field", message("X: a\r\n b\r\n")),
  malformed("RFC 9112 5.2", "a field folded with a tab", message("X: a\r\n\tb\r\n")),
  malformed("RFC 9112 5.2", "a folded Host", `GET /v2/x HTTP/1.1\r\nHost:\r\n a\r\n${token}\r\n\r\n`),
  malformed("RFC 9112 5.2", "a folded encoding", post("Transfer-Encoding:\r\n chunked\r\n", end)),
  malformed("RFC 9112 5.2", "a folded length", post("Content-Length:\r\n 2\r\n", "hi")),
  malformed("RFC 9112 5.2", "a fold of nothing", message("X: a\r\n \r\n")),
];

const bodyLength: readonly RequestCase[] = [
  forwarded("RFC 9112 6.1", "chunks", chunked(`2\r\nhi\r\n${end}`), { body: "hi" }),
  forwarded("RFC 9112 6.1", "chunks, in capitals", post("TRANSFER-ENCODING: ChunkeD\r\n", `2\r\nhi\r\n${end}`), {
    body: "hi",
  }),
  forwarded("RFC 9112 6.1", "chunks of nothing", chunked(end)),
  malformed("RFC 9112 6.1", "length, then encoding", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", end)),
  malformed("RFC 9112 6.1", "encoding, then length", post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", end)),
  malformed(
    "RFC 9112 6.1",
    "chunked in HTTP/1.0",
    message("Transfer-Encoding: chunked\r\n", "POST /v2/x HTTP/1.0", end),
  ),
  unsupported("RFC 9112 6.1", "gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", end)),
  unsupported(
    "RFC 9112 6.1",
    "gzip and chunked in two lines",
    post("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", end),
  ),
  unsupported("RFC 9112 6.1", "xchunked", post("Transfer-Encoding: xchunked\r\n", end)),
  unsupported("RFC 9112 6.1", "chunkedx", post("Transfer-Encoding: chunkedx\r\n", end)),
  malformed("RFC 9112 6.3", "chunked is not the last", post("Transfer-Encoding: chunked, gzip\r\n", end)),
  malformed("RFC 9112 6.3", "chunked, identity", post("Transfer-Encoding: chunked, identity\r\n", end)),
  unsupported("RFC 9112 6.3", "identity", post("Transfer-Encoding: identity\r\n", end)),
  unsupported("RFC 9112 6.3", "gzip alone", post("Transfer-Encoding: gzip\r\n", end)),
  malformed(
    "RFC 9112 7",
    "chunked twice, in two lines",
    post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", end),
  ),
  malformed("RFC 9112 7", "chunked twice, in one line", post("Transfer-Encoding: chunked, chunked\r\n", end)),
  unsupported("RFC 9112 6.1", "chunked with a parameter", post("Transfer-Encoding: chunked;q=1\r\n", end)),
  unsupported("RFC 9112 6.1", "chunked in quotes", post('Transfer-Encoding: "chunked"\r\n', end)),
  malformed("RFC 9112 6.1", "chunked behind a vertical tab", post("Transfer-Encoding: \vchunked\r\n", end)),
  malformed("RFC 9112 6.1", "an empty encoding", post("Transfer-Encoding: \r\n", end)),
  unsupported("RFC 9112 6.1", "an encoding of commas", post("Transfer-Encoding: , ,\r\n", end)),
  forwarded("RFC 9112 6.2", "a length", post("Content-Length: 2\r\n", "hi"), { lines: [token], body: "hi" }),
  forwarded("RFC 9112 6.2", "a length of nothing", post("Content-Length: 0\r\n"), { lines: [token] }),
  forwarded("RFC 9112 6.2", "a length with white space around it", post("Content-Length: \t2 \r\n", "hi"), {
    body: "hi",
  }),
  forwarded("RFC 9112 6.3", "no length is no body", post()),
  forwarded("RFC 9112 6.2", "a GET with a body", message("Content-Length: 2\r\n", "GET /v2/x HTTP/1.1", "hi"), {
    body: "hi",
  }),
  forwarded("RFC 9112 6.2", "a DELETE with a body", message("Content-Length: 2\r\n", "DELETE /v2/x HTTP/1.1", "hi"), {
    body: "hi",
  }),
  malformed("RFC 9112 6.3", "two different lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n", "abc")),
  malformed("RFC 9112 6.3", "the same length twice", post("Content-Length: 2\r\nContent-Length: 2\r\n", "ab")),
  malformed("RFC 9112 6.3", "a list of lengths", post("Content-Length: 2, 2\r\n", "ab")),
  malformed("RFC 9112 6.3", "a negative length", post("Content-Length: -1\r\n")),
  malformed("RFC 9112 6.3", "a signed length", post("Content-Length: +2\r\n", "ab")),
  malformed("RFC 9112 6.3", "a hex length", post("Content-Length: 0x2\r\n", "ab")),
  malformed("RFC 9112 6.3", "a length with a fraction", post("Content-Length: 2.0\r\n", "ab")),
  malformed("RFC 9112 6.3", "a length with an exponent", post("Content-Length: 2e0\r\n", "ab")),
  malformed("RFC 9112 6.3", "a length with a blank inside", post("Content-Length: 1 0\r\n", "0123456789")),
  malformed("RFC 9112 6.3", "a length with an underscore", post("Content-Length: 1_0\r\n", "0123456789")),
  malformed("RFC 9112 6.3", "an empty length", post("Content-Length: \r\n")),
  malformed("RFC 9112 6.3", "a length over 64 bits", post("Content-Length: 99999999999999999999\r\n")),
  malformed("RFC 9112 6.3", "a length over 53 bits", post("Content-Length: 9007199254740993\r\n")),
  refused(
    "RFC 9110 15.5.14",
    "a body over the limit, with nothing of it sent",
    413,
    post("Content-Length: 10485761\r\n"),
  ),
];

const chunks: readonly RequestCase[] = [
  forwarded("RFC 9112 7.1", "two chunks", chunked(`2\r\nhi\r\n3\r\n you\r\n`.replace("3\r\n you", "4\r\n you") + end), {
    body: "hi you",
  }),
  forwarded("RFC 9112 7.1", "a chunk size in both cases", chunked(`a\r\n0123456789\r\nA\r\n0123456789\r\n${end}`), {
    body: "01234567890123456789",
  }),
  forwarded("RFC 9112 7.1", "zeros before a chunk size", chunked(`0002\r\nhi\r\n${end}`), { body: "hi" }),
  forwarded("RFC 9112 7.1", "zeros for the last chunk", chunked("2\r\nhi\r\n000\r\n\r\n"), { body: "hi" }),
  forwarded("RFC 9112 7.1", "line ends inside a chunk", chunked(`4\r\n\r\n\r\n\r\n${end}`), { body: "\r\n\r\n" }),
  forwarded("RFC 9112 7.1", "a chunk that looks like the last", chunked(`5\r\n${end}\r\n${end}`), { body: end }),
  forwarded("RFC 9112 7.1.1", "an extension is dropped", chunked(`2;a\r\nhi\r\n${end}`), { body: "hi" }),
  forwarded("RFC 9112 7.1.1", "an extension with a value is dropped", chunked(`2;a=b;c\r\nhi\r\n0;d=e\r\n\r\n`), {
    body: "hi",
  }),
  forwarded("RFC 9112 7.1.1", "an extension in quotes is dropped", chunked(`2;a="b;c \\" d"\r\nhi\r\n${end}`), {
    body: "hi",
  }),
  broken("RFC 9112 7.1.1", "an extension with a bare CR", 400, chunked(`2;a=\rb\r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1.1", "an extension with a bare LF", 400, chunked(`2;a=\nb\r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1.1", "CR LF in a quoted extension", 400, chunked(`2;a="\r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1.1", "17 KiB of an extension", 400, chunked(`2;x=${kibibytes(17)}\r\nhi\r\n${end}`)),
  forwarded("RFC 9112 7.1.2", "a trailer is dropped", chunked("2\r\nhi\r\n0\r\nX-T: v\r\n\r\n"), { body: "hi" }),
  forwarded(
    "RFC 9112 7.1.2",
    "trailers are dropped together with Trailer",
    chunked("2\r\nhi\r\n0\r\nX-T: v\r\nX-U: w\r\n\r\n", "Trailer: X-T, X-U\r\n"),
    { body: "hi" },
  ),
  forwarded(
    "RFC 9112 7.1.2",
    "trailers that look like framing are dropped",
    chunked("2\r\nhi\r\n0\r\nX-Content-Length: 9\r\nHost: b\r\nAuthorization: Bearer u\r\n\r\n"),
    { body: "hi" },
  ),
  broken("RFC 9112 7.1.2", "a length as a trailer", 400, chunked("2\r\nhi\r\n0\r\nContent-Length: 9\r\n\r\n")),
  broken(
    "RFC 9112 7.1.2",
    "an encoding as a trailer",
    400,
    chunked("2\r\nhi\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
  ),
  broken("RFC 9112 7.1.2", "a trailer without a colon", 400, chunked("2\r\nhi\r\n0\r\nX\r\n\r\n")),
  broken("RFC 9112 7.1.2", "a folded trailer", 400, chunked("2\r\nhi\r\n0\r\nX: a\r\n b\r\n\r\n")),
  broken("RFC 9112 7.1.2", "17 KiB of trailers", 431, chunked(`2\r\nhi\r\n0\r\nX: ${kibibytes(17)}\r\n\r\n`)),
  broken("RFC 9112 7.1", "a chunk size that is no number", 400, chunked("zz\r\nhi\r\n")),
  broken("RFC 9112 7.1", "a chunk size over 64 bits", 400, chunked("fffffffffffffffff\r\nhi\r\n")),
  broken("RFC 9112 7.1", "a signed chunk size", 400, chunked(`+2\r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1", "a negative chunk size", 400, chunked(`-2\r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1", "an underscore in a chunk size", 400, chunked(`1_0\r\n0123456789abcdef\r\n${end}`)),
  broken("RFC 9112 7.1", "a hex prefix", 400, chunked(`0x2\r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1", "a space before a chunk size", 400, chunked(` 2\r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1", "a space behind a chunk size", 400, chunked(`2 \r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1", "an empty chunk size", 400, chunked(`\r\n${end}`)),
  broken("RFC 9112 7.1", "bare LF behind a chunk size", 400, chunked(`2\nhi\r\n${end}`)),
  broken("RFC 9112 7.1", "bare LF behind a chunk", 400, chunked(`2\r\nhi\n${end}`)),
  broken("RFC 9112 7.1", "a chunk longer than its size", 400, chunked(`2\r\nhi!\r\n${end}`)),
  broken("RFC 9112 7.1", "bare LF at the end", 400, chunked("2\r\nhi\r\n0\r\n\n")),
];

const connections: readonly RequestCase[] = [
  forwarded("RFC 9112 9.3", "Connection: close", message("Connection: close\r\n"), { closes: true }),
  forwarded("RFC 9112 9.3", "close in a list, in capitals", message("Connection: X-A, CLOSE\r\nX-A: b\r\n"), {
    closes: true,
  }),
  forwarded("RFC 9112 9.3", "HTTP/1.0", message("", "GET /v2/x HTTP/1.0"), {
    line: "GET /v2/x HTTP/1.1",
    closes: true,
  }),
  forwarded("RFC 9112 9.3", "HTTP/1.0 that asks to stay", message("Connection: keep-alive\r\n", "GET /v2/x HTTP/1.0"), {
    line: "GET /v2/x HTTP/1.1",
  }),
  dropped("RFC 9112 9.3", "Connection: keep-alive", "Connection: keep-alive"),
  ...[
    { name: "two requests at once are answered in their order", bytes: plainGet + hi, requests: [plain, posted] },
    { name: "a body with a length, then a request", bytes: hi + plainGet, requests: [posted, plain] },
    {
      name: "a chunked body, then a request",
      bytes: chunked(`2\r\nhi\r\n${end}`) + plainGet,
      requests: [posted, plain],
    },
  ].map(
    ({ name, bytes, requests }): RequestCase => ({
      ...{ section: "RFC 9112 9.3.2", name, bytes },
      expected: { kind: "forwarded", requests, closes: false },
    }),
  ),
  forwarded(
    "RFC 9112 9.6",
    "nothing behind Connection: close is served",
    message("Connection: close\r\n") + message("", "GET /v2/never HTTP/1.1"),
    { closes: true },
  ),
  forwarded(
    "RFC 9112 9.6",
    "nothing behind HTTP/1.0 is served",
    message("", "GET /v2/x HTTP/1.0") + message("", "GET /v2/never HTTP/1.1"),
    { line: "GET /v2/x HTTP/1.1", closes: true },
  ),
  forwarded(
    "RFC 9112 11.2",
    "a request inside a body is a body",
    post("Content-Length: 36\r\n", "GET /v2/smuggled HTTP/1.1\r\nHost: a\r\n".slice(0, 36)),
    { body: "GET /v2/smuggled HTTP/1.1\r\nHost: a\r\n".slice(0, 36) },
  ),
];

export const rfc9112: readonly RequestCase[] = [
  ...syntax,
  ...requestLine,
  ...host,
  ...fields,
  ...bodyLength,
  ...chunks,
  ...connections,
];
