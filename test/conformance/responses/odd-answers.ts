// Answers that upstreams are known to send and that RFC 9112 does not allow, or hardly. Of each: what the client gets here, or which
// rule is named in the log, and what nginx 1.22 and HAProxy 2.6 make of it, which `odd-answers.long.ts` asks them.
//
// What both of them take and we do not, and why:
// - LF in an interim response, or in the lines of chunks: another message follows on the connection (contract, 8);
// - control characters in a value or the reason: Node's and Go's clients, and Apache, refuse such a response, and some readers
//   take VT, FF and FS for the end of a line;
// - "2, 2" as a length: nginx reads to the end of the connection, HAProxy two bytes. An empty encoding likewise;
// - a length of 16 digits and more: larger than a number holds exactly, but for zeros in front, which nobody sends;
// - a length beside chunks: ought to be handled as an error (RFC 9112, 6.1), because it is how responses are split;
// - a status below 100 or of another number of digits: HAProxy reads some of them as interim, and Apache all of it as a body;
// - two blanks before the status, HTTP/2.0 in text: Apache reads the one as a body, and refuses the other.

/** `garbled`: the client gets something else, such as the head as a body of HTTP/0.9. */
export type Verdict = "passed" | "refused" | "garbled";

export type OddAnswer = readonly [
  name: string,
  bytes: string,
  /** The body, or which rule is broken: the rule, the line and the field. */
  ours: string | readonly [rule: string, line: number | null, field: string | null],
  nginx: Verdict,
  haproxy: Verdict,
];

type Rest = readonly [ours: OddAnswer[2], nginx: Verdict, haproxy: Verdict];
const head = (name: string, bytes: string, ...rest: Rest): OddAnswer => [name, `HTTP/1.1 200 OK\r\n${bytes}`, ...rest];
const status = (name: string, line: string, ...rest: Rest): OddAnswer => [
  name,
  `${line}\r\nContent-Length: 2\r\n\r\nok`,
  ...rest,
];
const field = (name: string, line: string, ...rest: Rest): OddAnswer =>
  status(name, `HTTP/1.1 200 OK\r\n${line}`, ...rest);
const chunks = (name: string, bytes: string, ...rest: Rest): OddAnswer =>
  head(name, `Transfer-Encoding: chunked\r\n\r\n${bytes}`, ...rest);

const badVersion: OddAnswer[2] = ["a version other than HTTP/1", 1, null];
const badLength: OddAnswer[2] = ["a Content-Length other than 1 to 15 digits", 2, "Content-Length"];
const badStatus: OddAnswer[2] = ["a status other than 100 to 999", 1, null];
const badEncoding: OddAnswer[2] = ["a Transfer-Encoding other than chunked", 2, "Transfer-Encoding"];
const folded: OddAnswer[2] = ["a folded line", 3, null];
const badSize: OddAnswer[2] = ["the size of a chunk", null, null];
const control: OddAnswer[2] = ["a control character", 2, "X"];
const badName: OddAnswer[2] = ["a name that is no token", 2, "X"];
const lf: OddAnswer[2] = ["an LF without a CR", 1, null];
const cr: OddAnswer[2] = ["a CR without an LF", 1, null];
const lfInChunks: OddAnswer[2] = ["an LF without a CR, in a line about chunks", null, null];
const badTrailer: OddAnswer[2] = ["a trailer", null, null];

export const oddAnswers: readonly OddAnswer[] = [
  status("a plain answer", "HTTP/1.1 200 OK", "ok", "passed", "passed"),
  ["LF alone", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "ok", "passed", "passed"],
  head("LF behind the fields alone", "Content-Type: text/plain\n\nok", "ok", "passed", "passed"),
  head("LF for the empty line alone", "Content-Length: 2\r\n\nok", "ok", "passed", "passed"),
  head("LF, then an empty line of CRLF", "Content-Length: 2\n\r\nok", "ok", "passed", "passed"),
  ["HTTP/1.0 with LF", "HTTP/1.0 200 OK\nContent-Type: text/plain\n\nok", "ok", "passed", "passed"],
  head("an empty line of LF, then one of CRLF", "X: y\n\nok\r\n\r\nok", "ok\r\n\r\nok", "passed", "passed"),
  status("LF in a 103", "HTTP/1.1 103 Early Hints\nLink: </a>\n\nHTTP/1.1 200 OK", lf, "passed", "passed"),
  status("LF in a 100", "HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK", lf, "passed", "passed"),
  ["CR alone", "HTTP/1.1 200 OK\rContent-Length: 2\r\rok", cr, "garbled", "refused"],
  field("CR in a value", "X: a\rb", ["a CR without an LF", 2, "X"], "refused", "refused"),
  ["CR CR LF", "HTTP/1.1 200 OK\r\r\nContent-Length: 2\r\r\n\r\r\nok", cr, "garbled", "refused"],
  field("a folded line", "X: a\r\n b", folded, "refused", "passed"),
  ["a folded line behind LF", "HTTP/1.1 200 OK\nX: a\n\tb\nContent-Length: 2\n\nok", folded, "refused", "passed"],
  head("a folded length", "Content-Length:\r\n 2\r\n\r\nok", folded, "refused", "passed"),
  field("a blank before the first field", " X: a", ["a folded line", 2, null], "refused", "refused"),
  field("a blank before the colon", "X-E : y", ["a blank in or behind a name", 2, "X-E"], "refused", "refused"),
  field("a blank in a name", "X E: y", ["a blank in or behind a name", 2, "X"], "refused", "refused"),
  field("a line without a colon", "XE", ["a line without a colon", 2, null], "passed", "refused"),
  field("an empty name", ": y", ["a name that is no token", 2, null], "refused", "refused"),
  field("a name in UTF-8", "\xc3\xa4: y", ["a name that is no token", 2, null], "passed", "refused"),
  field("a name with brackets", "X(E): y", badName, "passed", "refused"),
  field("a name with @", "X@E: y", badName, "passed", "refused"),
  field("a name with a slash", "X/E: y", badName, "passed", "refused"),
  field("a name with an underscore", "X_E: y", "ok", "passed", "passed"),
  field("no value and no blank", "X-E:", "ok", "passed", "passed"),
  field("NUL in a value", "X: a\0b", control, "refused", "passed"),
  field("a control character in a value", "X: a\x01b", control, "passed", "passed"),
  field("an escape in a value", "X: a\x1b[0mb", control, "passed", "passed"),
  field("a vertical tab in a value", "X: a\vb", control, "passed", "passed"),
  field("a form feed in a value", "X: a\x0cb", control, "passed", "passed"),
  field("DEL in a value", "X: a\x7fb", control, "passed", "passed"),
  field("UTF-8 in a value", "X: \xc3\xa4", "ok", "passed", "passed"),
  field("a control character in a name", "X\x01: a", control, "refused", "refused"),
  field("two equal lengths", "Content-Length: 2", "ok", "passed", "passed"),
  head("two equal lengths in one line", "Content-Length: 2, 2\r\n\r\nok", badLength, "passed", "passed"),
  head(
    "two equal lengths of other digits",
    "Content-Length: 2\r\nContent-Length: 02\r\n\r\nok",
    "ok",
    "passed",
    "passed",
  ),
  head(
    "two lengths",
    "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    ["the same field for a second time", 3, "Content-Length"],
    "passed",
    "refused",
  ),
  head("a length with a plus", "Content-Length: +2\r\n\r\nok", badLength, "passed", "refused"),
  head("a length below zero", "Content-Length: -1\r\n\r\nok", badLength, "passed", "refused"),
  head("an empty length", "Content-Length:\r\n\r\nok", badLength, "passed", "refused"),
  head("a length in hex", "Content-Length: 0x2\r\n\r\nok", badLength, "passed", "refused"),
  head("a length with a fraction", "Content-Length: 2.0\r\n\r\nok", badLength, "passed", "refused"),
  head(
    "a length of 16 digits, most zeros",
    "Content-Length: 0000000000000002\r\n\r\nok",
    badLength,
    "passed",
    "passed",
  ),
  head("a length of 20 digits", "Content-Length: 99999999999999999999\r\n\r\nok", badLength, "passed", "refused"),
  head(
    "a length beside chunks",
    "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ["a Content-Length beside a Transfer-Encoding", 3, "Transfer-Encoding"],
    "passed",
    "passed",
  ),
  head(
    "chunks beside a length",
    "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ["a Content-Length beside a Transfer-Encoding", 3, "Content-Length"],
    "passed",
    "passed",
  ),
  [
    "chunks in HTTP/1.0",
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ["a Transfer-Encoding in HTTP/1.0", 2, "Transfer-Encoding"],
    "passed",
    "garbled",
  ],
  head("identity", "Transfer-Encoding: identity\r\n\r\nok", badEncoding, "passed", "refused"),
  field("identity beside a length", "Transfer-Encoding: identity", badEncoding, "passed", "refused"),
  head(
    "gzip, chunked",
    "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    badEncoding,
    "passed",
    "refused",
  ),
  head(
    "chunked twice",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ["the same field for a second time", 3, "Transfer-Encoding"],
    "passed",
    "refused",
  ),
  head(
    "chunked twice in a list",
    "Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    badEncoding,
    "passed",
    "refused",
  ),
  head("an empty encoding", "Transfer-Encoding:\r\n\r\nok", badEncoding, "passed", "passed"),
  head("Chunked in capitals", "Transfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", "passed", "passed"),
  status("a status of 600", "HTTP/1.1 600 Odd", "ok", "passed", "passed"),
  status("a status of 999", "HTTP/1.1 999 Odd", "ok", "passed", "passed"),
  status("a status of 0", "HTTP/1.1 000 Odd", badStatus, "passed", "passed"),
  status("a status of 99", "HTTP/1.1 099 Odd", badStatus, "passed", "passed"),
  status("a status of two digits", "HTTP/1.1 20 OK", badStatus, "garbled", "passed"),
  status("a status of four digits", "HTTP/1.1 2000 OK", badStatus, "garbled", "passed"),
  status("no reason", "HTTP/1.1 200", "ok", "passed", "passed"),
  status("an empty reason", "HTTP/1.1 200 ", "ok", "passed", "passed"),
  status("a reason in UTF-8", "HTTP/1.1 200 \xc3\xa4", "ok", "passed", "passed"),
  status(
    "a control character in the reason",
    "HTTP/1.1 200 O\x01K",
    ["a control character", 1, null],
    "passed",
    "passed",
  ),
  status("two blanks before the status", "HTTP/1.1  200 OK", badStatus, "passed", "passed"),
  status("a tab before the status", "HTTP/1.1\t200 OK", badVersion, "garbled", "garbled"),
  status("a tab behind the status", "HTTP/1.1 200\tOK", badStatus, "garbled", "passed"),
  status("no status", "HTTP/1.1", badStatus, "garbled", "refused"),
  status("HTTP/2 200", "HTTP/2 200", badVersion, "garbled", "refused"),
  status("HTTP/2.0 200", "HTTP/2.0 200 OK", badVersion, "passed", "passed"),
  status("HTTP/1.2", "HTTP/1.2 200 OK", "ok", "passed", "passed"),
  status("HTTP/0.9 200", "HTTP/0.9 200 OK", badVersion, "garbled", "garbled"),
  status("HTTP/1.10", "HTTP/1.10 200 OK", badVersion, "garbled", "refused"),
  status("http/1.1 in lower case", "http/1.1 200 OK", badVersion, "garbled", "refused"),
  status("ICY", "ICY 200 OK", badVersion, "garbled", "refused"),
  status("Status: 200 instead of a status line", "Status: 200 OK", badVersion, "garbled", "refused"),
  status("an empty line before the answer", "\r\nHTTP/1.1 200 OK", badVersion, "garbled", "passed"),
  status("a byte order mark before the answer", "\xef\xbb\xbfHTTP/1.1 200 OK", badVersion, "garbled", "refused"),
  ["plain garbage", "hello\r\n\r\n", badVersion, "garbled", "refused"],
  ["a body without a head", "<html></html>\r\n\r\n", badVersion, "garbled", "refused"],
  chunks("LF in the lines of chunks", "2\nok\n0\n\n", lfInChunks, "passed", "passed"),
  chunks("LF behind the last chunk", "2\r\nok\r\n0\r\n\n", lfInChunks, "passed", "passed"),
  chunks("a blank behind a size", "2 \r\nok\r\n0 \r\n\r\n", "ok", "passed", "passed"),
  chunks("a blank before a size", " 2\r\nok\r\n 0\r\n\r\n", badSize, "refused", "refused"),
  chunks("0x before a size", "0x2\r\nok\r\n0\r\n\r\n", badSize, "refused", "refused"),
  chunks("no CRLF behind a chunk", "2\r\nok0\r\n\r\n", ["the end of a chunk", null, null], "refused", "refused"),
  chunks("nonsense for a size", "zz\r\nok\r\n0\r\n\r\n", badSize, "refused", "refused"),
  chunks("a trailer without a colon", "2\r\nok\r\n0\r\nXT\r\n\r\n", badTrailer, "passed", "refused"),
  chunks("a folded trailer", "2\r\nok\r\n0\r\nX: a\r\n b\r\n\r\n", badTrailer, "passed", "garbled"),
];

/** Judges what a proxy has sent its client in place of these bytes, whose body is "ok" in each row that is passed on. */
export function verdictOn(sent: string, got: string): Verdict {
  const [, status = "none"] = /^HTTP\/\d\.\d +((?!1)\d+)/m.exec(sent) ?? [];
  const own = got.replace(/^(?:HTTP\/1\.1 1\d\d .*\r\n(?:.+\r\n)*\r\n)*/, "");
  if (own === "" || own.startsWith("HTTP/1.1 502")) return "refused";
  // Unchanged: without a head that nginx has read, as HTTP/0.9.
  if (own === sent) return "garbled";
  const [, version, head = "", body = ""] = /^HTTP\/1\.([01]) (.*?)\r\n\r\n(.*)$/s.exec(own) ?? [];
  const isChunked = /^transfer-encoding: chunked/im.test(head);
  if (isChunked && version === "0") return "garbled";
  const content = isChunked ? (/^[0-9a-f]+\r\n(.*)\r\n0\r\n\r\n$/s.exec(body)?.[1] ?? "") : body;
  const isOwn = /^\d+/.exec(head)?.[0] === status;
  return isOwn && content.endsWith("ok") && !content.includes("Length") ? "passed" : "garbled";
}
