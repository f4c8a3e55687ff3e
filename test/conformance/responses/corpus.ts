// The response corpus, as data: what an upstream may send, what it must not, and how it can break off.
import { broken, chunked, failed, passed, type ResponseCase, response } from "./response-case.ts";

const end = "0\r\n\r\n";
const length = (count: number): string => `Content-Length: ${count}`;
const two = [length(2)];
const ok = { lines: two, body: "ok" };
const close = { closes: true };
const none: { status: number; lines: string[] }[] = [{ status: 103, lines: [] }];
const head = (fields: string, statusLine = "HTTP/1.1 200 OK"): string => `${statusLine}\r\n${fields}\r\n`;
const joined = (lines: readonly string[]): string => lines.map((line) => `${line}\r\n`).join("");
const kept = (section: string, name: string, ...lines: string[]): ResponseCase =>
  passed(section, name, response("ok", joined(lines)), { lines: [...two, ...lines], body: "ok" });
const dropped = (section: string, name: string, ...lines: string[]): ResponseCase =>
  passed(section, name, response("ok", joined(lines)), ok);
const invalid = (section: string, name: string, fields: string): ResponseCase =>
  failed(section, name, response("ok", fields));
const status = (name: string, statusLine: string, code = 200): ResponseCase =>
  passed("RFC 9112 4", name, response("ok", "", statusLine), { ...ok, status: code });
const noStatus = (section: string, name: string, statusLine: string): ResponseCase =>
  failed(section, name, response("ok", "", statusLine));

const statusLines: readonly ResponseCase[] = [
  status("a plain response", "HTTP/1.1 200 OK"),
  status("an empty reason", "HTTP/1.1 200 "),
  status("no reason and no space", "HTTP/1.1 200"),
  status("a reason with bytes over 127", "HTTP/1.1 200 \xe4\xff"),
  status("a status nobody knows", "HTTP/1.1 299 Odd", 299),
  status("a status of 599", "HTTP/1.1 599 Odd", 599),
  noStatus("RFC 9112 4", "a status of two digits", "HTTP/1.1 20 OK"),
  noStatus("RFC 9112 4", "a status of four digits", "HTTP/1.1 2000 OK"),
  noStatus("RFC 9112 4", "a status of letters", "HTTP/1.1 2xx OK"),
  noStatus("RFC 9112 4", "a status of 0", "HTTP/1.1 000 OK"),
  noStatus("RFC 9112 4", "a status of 99", "HTTP/1.1 099 OK"),
  status("a status of 600", "HTTP/1.1 600 Odd", 600),
  status("a status of 999", "HTTP/1.1 999 Odd", 999),
  noStatus("RFC 9112 4", "no status", "HTTP/1.1"),
  noStatus("RFC 9112 4", "NUL in the reason", "HTTP/1.1 200 O\0K"),
  noStatus("RFC 9112 2.3", "another protocol", "ICY 200 OK"),
  noStatus("RFC 9112 2.3", "a version of letters", "HTTP/x.y 200 OK"),
  noStatus("RFC 9112 2.3", "HTTP/2.0 in text, with a space too many", "HTTP/ 2.0 200 OK"),
  failed("RFC 9112 2.3", "nonsense", "nonsense\r\n\r\n"),
  failed("RFC 9112 2.3", "a body without a head", "<html></html>\r\n\r\n"),
  failed("RFC 9112 2.3", "TLS", "\x15\x03\x01\0\x02\x02\x46"),
];

const retryAfter = "Retry-After: 1\r\nRetry-After: 2\r\n";

const fields: readonly ResponseCase[] = [
  kept("RFC 9110 5.3", "lines of one name, in their order and spelling", "X-A: 1", "x-a: 2", "X-B: 3", "X-a: 4"),
  kept("RFC 9110 5.3", "two Set-Cookies", "Set-Cookie: a=1; Path=/", "Set-Cookie: b=2"),
  kept("RFC 9110 5.1", "integer-like names and a prototype's", "1: a", "0: b", "constructor: c", "__proto__: d"),
  kept("RFC 9110 5.5", "an empty value", "X-Empty: "),
  kept("RFC 9110 5.5", "bytes over 127", "X: \xe4\xff"),
  kept("RFC 9110 5.5", "white space inside a value", "X: a \t b"),
  passed("RFC 9110 5.5", "white space around a value", response("ok", "X: \t y \t\r\n"), {
    lines: [...two, "X: y"],
    body: "ok",
  }),
  kept("RFC 9110 7.7", "a coding is not touched", "Content-Encoding: gzip", "Cache-Control: no-transform", 'ETag: "a"'),
  kept("RFC 9110 11.6.1", "an upstream's challenge", 'WWW-Authenticate: Bearer realm="x", Basic'),
  kept("RFC 9110 7.6.3", "an upstream's Via and Server", "Via: 1.1 inner", "Server: x"),
  dropped("RFC 9110 7.6.1", "what Connection names", "Connection: X-A", "X-A: 1"),
  dropped(
    "RFC 9110 7.6.1",
    "what two Connections name",
    "X-A: 1",
    "X-b: 2",
    "Connection: x-a",
    "connection: X-B, keep-alive",
  ),
  dropped(
    "RFC 9110 7.6.1",
    "the gateway's fields in Connection",
    "Connection: RateLimit-Limit, Date, X-RateLimit-Reset",
  ),
  dropped("RFC 9110 7.6.1", "the body's length in Connection", "Connection: Content-Length"),
  dropped("RFC 9110 7.6.1", "Keep-Alive", "Keep-Alive: timeout=5"),
  dropped("RFC 9110 7.6.1", "Proxy-Connection, TE and Upgrade", "Proxy-Connection: x", "TE: x", "Upgrade: h2c"),
  dropped("RFC 7540 3.2.1", "HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"),
  dropped("RFC 9110 11.7", "Proxy-Authenticate", "Proxy-Authenticate: Basic"),
  dropped(
    "contract 4",
    "an upstream's quota",
    "RateLimit-Limit: 7",
    "ratelimit-remaining: 7",
    "X-RateLimit-Reset: 7",
    "RateLimit: x",
    "RateLimit-Policy: y",
  ),
  ...["200 OK", "301 Moved", "413 Too Large", "503 Down"].map((line) =>
    passed("contract 4", `an upstream's Retry-After of ${line}`, response("", retryAfter, `HTTP/1.1 ${line}`), {
      status: Number(line.slice(0, 3)),
      lines: [length(0), "Retry-After: 1", "Retry-After: 2"],
    }),
  ),
  dropped("contract 4", "an upstream's Date", "Date: Mon, 01 Jan 2001 00:00:00 GMT"),
  invalid("RFC 9112 5.1", "a space before the colon", "X : a\r\n"),
  invalid("RFC 9112 5", "a field without a colon", "Ab\r\n"),
  invalid("RFC 9112 5", "a field without a name", ": b\r\n"),
  invalid("RFC 9112 2.2", "a bare CR in a value", "X: a\rb\r\n"),
  invalid("RFC 9110 5.5", "NUL in a value", "X: a\0b\r\n"),
  invalid("RFC 9110 5.5", "a control byte in a value", "X: a\x01b\r\n"),
  invalid("RFC 9110 5.1", "NUL in a name", "X\0: a\r\n"),
  invalid("RFC 9110 5.1", "bytes over 127 in a name", "\xe4: a\r\n"),
  failed("RFC 9112 2.2", "white space before the first field", `${head(" X: a\r\n")}ok`),
  invalid("RFC 9110 5.4", "a head of 20 KiB", `X: ${"x".repeat(20 * 1024)}\r\n`),
  failed("RFC 9112 5.2", "a folded line behind a single LF", `${head("X: a\n b\n")}ok`),
  failed("RFC 9112 2.2", "a CR alone among single LFs", `${head("X: a\rY: b\n")}ok`),
];

const lines = "HTTP/1.1 200 OK\r\nX: a\r\nContent-Length: 2\r\n\r\nok";
/** The section of those rows that are read. */
export const singleLf = "RFC 9112 2.2, LF";
const lf = (
  name: string,
  bytes: string,
  seen: Parameters<typeof passed>[3] = { lines: ["X: a", ...two], body: "ok" },
) => passed(singleLf, name, bytes, { ...close, ...seen });

/** A single LF ends a line of a final head, and the connection is not used again. */
const singleLfs: readonly ResponseCase[] = [
  lf("a single LF for every line's end", lines.replaceAll("\r\n", "\n")),
  lf("behind the status line alone", lines.replace("\r\n", "\n")),
  lf("behind all but the status line, as scripts of CGI write", lines.replaceAll("\r\n", "\n").replace("\n", "\r\n")),
  lf("before an empty line with CRLF", lines.replace("2\r\n\r\n", "2\n\r\n")),
  lf("for the empty line alone", lines.replace("\r\n\r\n", "\r\n\n")),
  lf("an earlier empty line ends the head", "HTTP/1.1 200 OK\nX: a\n\nY: b\r\n\r\nbody", {
    lines: ["X: a"],
    body: "Y: b\r\n\r\nbody",
  }),
  lf("HTTP/1.0 to the connection's end", "HTTP/1.0 200 OK\nX: a\n\nbody\n", { lines: ["X: a"], body: "body\n" }),
  lf("no field at all", "HTTP/1.1 200 OK\n\nbody", { lines: [], body: "body" }),
  lf("before chunks", `HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\r\nhi\r\n${end}`, { lines: [], body: "hi" }),
  lf("HEAD", lines.replaceAll("\r\n", "\n").slice(0, -2), { lines: ["X: a", ...two], body: "", method: "HEAD" }),
  lf("204", "HTTP/1.1 204 No Content\nX: a\n\n", { status: 204, lines: ["X: a"], body: "" }),
  lf("behind an interim response with CRLF", `HTTP/1.1 103 E\r\n\r\n${lines.replaceAll("\r\n", "\n")}`, {
    lines: ["X: a", ...two],
    body: "ok",
    interim: none,
  }),
  failed("RFC 9112 2.2", "a single LF in a 103", `HTTP/1.1 103 Early Hints\nLink: </a>\r\n\r\n${lines}`),
  failed("RFC 9112 2.2", "a single LF for the empty line of a 100", `HTTP/1.1 100 Continue\r\n\n${lines}`),
  failed("RFC 9112 2.2", "a single LF in a 101", "HTTP/1.1 101 S\nConnection: Upgrade\nUpgrade: x\n\n"),
  failed("RFC 9112 2.2", "a single LF before the status line", `\n${lines}`),
];

const framing: readonly ResponseCase[] = [
  passed("RFC 9112 6.3", "a length", response("body"), { lines: [length(4)], body: "body" }),
  passed("RFC 9112 6.3", "a length of nothing", response(""), { lines: [length(0)] }),
  passed("RFC 9112 6.3", "a body to the connection's end", `${head("X: y\r\n")}body`, {
    lines: ["X: y"],
    body: "body",
    ...close,
  }),
  passed("RFC 9112 6.3", "no body to the connection's end", head("X: y\r\n"), { lines: ["X: y"], ...close }),
  passed("RFC 9112 6.3", "HTTP/1.0, to the connection's end", `${head("", "HTTP/1.0 200 OK")}body`, {
    body: "body",
    ...close,
  }),
  passed("RFC 9112 6.3", "HTTP/1.0 with a length", response("ok", "", "HTTP/1.0 200 OK"), { ...ok, ...close }),
  passed("RFC 9112 9.6", "Connection: close with a length", response("ok", "Connection: close\r\n"), {
    ...ok,
    ...close,
  }),
  passed("RFC 9112 7.1", "chunks", chunked(`2\r\nhi\r\n${end}`), { body: "hi" }),
  passed("RFC 9112 7.1", "many chunks", chunked(`${"1\r\nx\r\n".repeat(50)}${end}`), { body: "x".repeat(50) }),
  passed("RFC 9112 7.1", "chunks of nothing", chunked(end)),
  passed("RFC 9112 7.1", "a chunk that looks like the last", chunked(`5\r\n${end}\r\n${end}`), { body: end }),
  passed("RFC 9112 7.1.1", "extensions are dropped", chunked(`2;a=b;c="d"\r\nhi\r\n0;e\r\n\r\n`), { body: "hi" }),
  passed("RFC 9112 7.1.2", "trailers are dropped", chunked("2\r\nhi\r\n0\r\nX-T: v\r\n\r\n"), { body: "hi" }),
  passed("RFC 9110 6.5", "trailers go with Trailer", chunked("2\r\nhi\r\n0\r\nX-T: v\r\n\r\n", "Trailer: X-T\r\n"), {
    body: "hi",
  }),
  passed("RFC 9110 6.5.1", "a quota as a trailer is dropped", chunked("2\r\nhi\r\n0\r\nRateLimit-Limit: 7\r\n\r\n"), {
    body: "hi",
  }),
  failed("RFC 9112 6.1", "another encoding", head("Transfer-Encoding: gzip\r\n") + end),
  failed(
    "RFC 9112 6.1",
    "another encoding before chunks",
    chunked("2\r\nhi\r\n0\r\n\r\n").replace("chunked", "gzip, chunked"),
  ),
  failed("RFC 9112 6.3", "length and encoding", head(`${length(2)}\r\nTransfer-Encoding: chunked\r\n`) + end),
  failed("RFC 9112 6.3", "encoding and length", head(`Transfer-Encoding: chunked\r\n${length(2)}\r\n`) + end),
  invalid("RFC 9112 6.3", "two different lengths", "Content-Length: 3\r\n"),
  dropped("RFC 9112 6.3", "the same length twice", "Content-Length: 2"),
  dropped(
    "RFC 9112 6.3",
    "the same length twice, named in Connection",
    "content-length: 02",
    "Connection: x, Content-Length",
  ),
  invalid("RFC 9112 6.3", "an equal length, then another one", "Content-Length: 2\r\nContent-Length: 3\r\n"),
  failed("RFC 9112 6.3", "a list of lengths", `${head("Content-Length: 2, 2\r\n")}ok`),
  failed("RFC 9112 6.3", "a negative length", `${head("Content-Length: -1\r\n")}ok`),
  failed("RFC 9112 6.3", "a signed length", `${head("Content-Length: +2\r\n")}ok`),
  failed("RFC 9112 6.3", "a hex length", `${head("Content-Length: 0x2\r\n")}ok`),
  failed("RFC 9112 6.3", "an empty length", `${head("Content-Length: \r\n")}ok`),
  failed("RFC 9112 6.3", "a length over 64 bits", `${head("Content-Length: 99999999999999999999\r\n")}ok`),
  failed("RFC 9112 5.2", "a folded length", `${head("Content-Length:\r\n 2\r\n")}ok`),
  failed("RFC 9112 5.1", "a space before a length's colon", `${head("Content-Length : 2\r\n")}ok`),
];

const notModified = "HTTP/1.1 304 Not Modified";
const noContent = "HTTP/1.1 204 No Content";
const toHead = { method: "HEAD" };

const bodiless: readonly ResponseCase[] = [
  passed("RFC 9110 9.3.2", "HEAD with a length", head(`${length(1234)}\r\n`), { lines: [length(1234)], ...toHead }),
  passed("RFC 9110 9.3.2", "HEAD with chunks", head("Transfer-Encoding: chunked\r\n"), toHead),
  passed("RFC 9110 9.3.2", "HEAD without either", head("X: y\r\n"), { lines: ["X: y"], ...toHead }),
  passed("RFC 9110 9.3.2", "HEAD answered by a 404", head(`${length(9)}\r\n`, "HTTP/1.1 404 Not Found"), {
    status: 404,
    lines: [length(9)],
    ...toHead,
  }),
  passed("RFC 9110 15.3.5", "204", head("X: y\r\n", noContent), { status: 204, lines: ["X: y"] }),
  ...[0, 5].map((count) =>
    passed("RFC 9110 8.6", `204 with a length of ${count}`, head(`${length(count)}\r\n`, noContent), { status: 204 }),
  ),
  passed("RFC 9110 15.4.5", "304 with its 200's length", head(`${length(1234)}\r\nETag: "a"\r\n`, notModified), {
    status: 304,
    lines: [length(1234), 'ETag: "a"'],
  }),
  passed("RFC 9110 15.4.5", "304 without a length", head('ETag: "a"\r\n', notModified), {
    status: 304,
    lines: ['ETag: "a"'],
  }),
  passed("RFC 9110 15.3.6", "205", response("", "", "HTTP/1.1 205 Reset Content"), { status: 205, lines: [length(0)] }),
];

const early = (fields = ""): string => `HTTP/1.1 103 Early Hints\r\n${fields}\r\n`;

const interim: readonly ResponseCase[] = [
  passed("RFC 9110 15.2", "103, then the response", early("Link: </a>\r\nlink: </b>\r\n") + response("ok"), {
    ...ok,
    interim: [{ status: 103, lines: ["Link: </a>", "link: </b>"] }],
  }),
  passed(
    "RFC 9110 15.2",
    "102, 103 and one nobody knows",
    `HTTP/1.1 102 P\r\n\r\n${early("X: y\r\n")}HTTP/1.1 199 Odd\r\n\r\n${response("ok")}`,
    {
      ...ok,
      interim: [
        { status: 102, lines: [] },
        { status: 103, lines: ["X: y"] },
        { status: 199, lines: [] },
      ],
    },
  ),
  passed(
    "RFC 9110 7.6.1",
    "an interim response's own connection",
    early(
      "Connection: X-A\r\nX-A: 1\r\nKeep-Alive: x\r\nTrailer: X\r\nContent-Length: 5\r\nRateLimit-Limit: 7\r\n" +
        "Date: Mon, 01 Jan 2001 00:00:00 GMT\r\nX-Stays: 1\r\n",
    ) + response("ok"),
    { ...ok, interim: [{ status: 103, lines: ["X-Stays: 1"] }] },
  ),
  passed("RFC 9110 15.2", "103 before a HEAD's response", early() + head(`${length(9)}\r\n`), {
    lines: [length(9)],
    interim: none,
    ...toHead,
  }),
  passed("RFC 9110 15.2", "103 before chunks", early() + chunked(`2\r\nhi\r\n${end}`), { body: "hi", interim: none }),
  passed("RFC 9110 15.2.1", "100 that nobody asked for", `HTTP/1.1 100 Continue\r\n\r\n${response("ok")}`, ok),
  failed(
    "RFC 9110 15.2.2",
    "101 that nobody asked for",
    head("Connection: Upgrade\r\nUpgrade: x\r\n", "HTTP/1.1 101 Switching Protocols"),
  ),
  failed("RFC 9110 15.2.2", "101 to no protocol", head("", "HTTP/1.1 101 Switching Protocols") + response("ok")),
  failed("RFC 9110 15.2", "NUL in an interim response", early("X: a\0b\r\n") + response("ok")),
];

const half = `${head(`${length(100)}\r\n`)}half`;

const brokenOff: readonly ResponseCase[] = [
  failed("RFC 9110 15.6.3", "closed without a byte", "", close),
  failed("RFC 9110 15.6.3", "closed inside the status line", "HTTP/1.1 2", close),
  failed("RFC 9110 15.6.3", "closed inside the head", "HTTP/1.1 200 OK\r\nA", close),
  failed("RFC 9110 15.6.3", "closed before the head's end", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", close),
  broken("RFC 9112 8", "shorter than its length", half, close),
  broken("RFC 9112 8", "nothing of its length", head(`${length(100)}\r\n`), close),
  broken("RFC 9112 8", "chunks without an end", chunked("4\r\nhalf\r\n"), close),
  broken("RFC 9112 8", "cut inside a chunk", chunked("9\r\nhalf"), close),
  broken("RFC 9112 8", "cut inside a chunk's size", chunked("4\r\nhalf\r\n1"), close),
  broken("RFC 9112 8", "cut before the last line", chunked("4\r\nhalf\r\n0\r\n"), close),
  broken("RFC 9112 8", "cut inside the trailers", chunked("4\r\nhalf\r\n0\r\nX: y\r\n"), close),
  broken("RFC 9112 7.1", "nonsense for a chunk", chunked("4\r\nhalf\r\nzz\r\n")),
  broken("RFC 9112 7.1", "a chunk size over 64 bits", chunked("4\r\nhalf\r\nfffffffffffffffff\r\n")),
  broken("RFC 9112 7.1", "a signed chunk size", chunked(`4\r\nhalf\r\n+2\r\nhi\r\n${end}`)),
  broken("RFC 9112 7.1", "a chunk longer than its size", chunked(`2\r\nhalf\r\n${end}`)),
  broken("RFC 9112 7.1", "bare LF behind a chunk's size", chunked(`4\nhalf\r\n${end}`)),
  broken("RFC 9112 7.1", "bare LF behind a chunk", chunked(`4\r\nhalf\n${end}`)),
  broken("RFC 9112 7.1.2", "bare LF behind a trailer", chunked("4\r\nhalf\r\n0\r\nX: y\n\r\n")),
  broken("RFC 9112 7.1.1", "a bare CR in an extension", chunked(`4;a=\rb\r\nhalf\r\n${end}`)),
  broken("RFC 9112 7.1.2", "a trailer without a colon", chunked("4\r\nhalf\r\n0\r\nX\r\n\r\n")),
];

const spare: readonly ResponseCase[] = [
  passed("RFC 9112 9.2", "more than its length", `${response("ok")}more`, ok),
  passed("RFC 9112 9.2", "a spare response", response("ok") + response("spare"), ok),
  passed("RFC 9112 9.2", "a spare 408", response("ok") + response("", "", "HTTP/1.1 408 Request Timeout"), ok),
  passed("RFC 9112 9.2", "a spare response behind chunks", chunked(`2\r\nhi\r\n${end}`) + response("spare"), {
    body: "hi",
  }),
  passed("RFC 9112 9.2", "a response behind a 204", head("", noContent) + response("spare"), { status: 204 }),
  passed("RFC 9112 9.2", "a body behind a HEAD's response", `${head(`${length(2)}\r\n`)}ok`, { lines: two, ...toHead }),
  passed("RFC 9112 9.2", "an empty line behind the response", `${response("ok")}\r\n`, ok),
];

export const responseCases: readonly ResponseCase[] = [
  ...statusLines,
  ...fields,
  ...singleLfs,
  ...framing,
  ...bodiless,
  ...interim,
  ...brokenOff,
  ...spare,
];
