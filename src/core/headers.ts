// The headers of a message: as they stand on the wire, which keeps their order, spelling and number; as the text that
// goes over HTTP/1; and the head of a response.

/** name, value, name, value…; one character is one byte. */
export type HeaderList = readonly string[];

const none: readonly string[] = [];

/** Returns the values of a header. `name` is in lower case, here and below. */
export function headerValues(headers: HeaderList, name: string): readonly string[] {
  let values: string[] | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (!isNamed(headers[i] ?? "", name)) continue;
    values ??= [];
    values.push(headers[i + 1] ?? "");
  }
  return values ?? none;
}

/** Returns the first value of a header; undefined without one. */
export function headerValue(headers: HeaderList, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (isNamed(headers[i] ?? "", name)) return headers[i + 1];
  return undefined;
}

/** Returns the value of a header that occurs exactly once; undefined otherwise. */
export function onlyHeaderValue(headers: HeaderList, name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (!isNamed(headers[i] ?? "", name)) continue;
    if (value !== undefined) return undefined;
    value = headers[i + 1] ?? "";
  }
  return value;
}

/**
 * Compares the lengths first, because most names differ in length, and all messages are searched. Character by character,
 * because most others differ in their first characters, and a lower-case copy costs more.
 */
export function isNamed(candidate: string, name: string): boolean {
  if (candidate.length !== name.length) return false;
  for (let i = 0; i < name.length; i += 1) {
    const code = candidate.charCodeAt(i);
    if ((isCapital(code) ? code | 0x20 : code) !== name.charCodeAt(i)) return false;
  }
  return true;
}

function isCapital(code: number): boolean {
  return code >= 0x41 && code <= 0x5a;
}

/** Returns the function that finds which of these names a header has, mostly by its length; null: it has none of them. */
export function nameFinder<Name extends string>(names: readonly Name[]): (candidate: string) => Name | null {
  const longest = Math.max(...names.map(({ length }) => length));
  const byLength = Array.from({ length: longest + 1 }, (_, length) => names.filter((name) => name.length === length));
  return (candidate) => {
    const names = byLength[candidate.length];
    if (names === undefined) return null;
    for (const name of names) if (isNamed(candidate, name)) return name;
    return null;
  };
}

/** `Name: value\r\n` for each header; one character is one byte. No value contains a line end. */
export type HeaderLines = string;

/** Returns the same text. One that is put together from many pieces and used often costs less in one piece. */
export function inOnePiece(text: string): string {
  return Buffer.from(text, "latin1").toString("latin1");
}

/**
 * A text that is put together from pieces and kept for several messages. It is copied into one piece when it is used for
 * the second time: a text that is used once is not worth the copy.
 */
export class KeptText {
  #text = "";
  /** Since it was set; counted up to 2. */
  #uses = 0;

  set(text: string): void {
    this.#text = text;
    this.#uses = 0;
  }

  use(): string {
    if (this.#uses === 1) this.#text = inOnePiece(this.#text);
    if (this.#uses < 2) this.#uses += 1;
    return this.#text;
  }
}

/** Returns the text of headers whose values contain no line end. Text takes less work than lists of names and values. */
export function linesOf(headers: HeaderList): HeaderLines {
  let lines = "";
  for (let i = 0; i < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`;
  return lines;
}

/** Returns the names and values of lines that `linesOf` could have made. */
export function listOf(lines: HeaderLines): string[] {
  const headers: string[] = [];
  for (let at = 0; at < lines.length; ) {
    const colon = lines.indexOf(": ", at);
    const end = lines.indexOf("\r\n", colon);
    headers.push(lines.slice(at, colon), lines.slice(colon + 2, end));
    at = end + 2;
  }
  return headers;
}

// Renders the head of a response that is written without Node's response objects, which would check and change it.

/** Status lines with the registered reason, by status. Without gaps, as the reasons are. */
const statusLines = new Array<string>(600).fill("");

/** `end`: the last headers and the empty line. */
export function serializeHead(status: number, reason: string, lines: HeaderLines, end = "\r\n"): string {
  return statusLine(status, reason) + lines + end;
}

function statusLine(status: number, reason: string): string {
  if (reason === "" || reason !== reasonPhrase(status)) return `HTTP/1.1 ${status} ${reason}\r\n`;
  const known = statusLines[status];
  if (known) return known;
  const line = inOnePiece(`HTTP/1.1 ${status} ${reason}\r\n`);
  statusLines[status] = line;
  return line;
}

/** As Node has them, without loading its module for HTTP. A few are older than those of RFC 9110, which local replies have. */
const registered: Readonly<Record<number, string>> = {
  100: "Continue",
  101: "Switching Protocols",
  102: "Processing",
  103: "Early Hints",
  200: "OK",
  201: "Created",
  202: "Accepted",
  203: "Non-Authoritative Information",
  204: "No Content",
  205: "Reset Content",
  206: "Partial Content",
  207: "Multi-Status",
  208: "Already Reported",
  226: "IM Used",
  300: "Multiple Choices",
  301: "Moved Permanently",
  302: "Found",
  303: "See Other",
  304: "Not Modified",
  305: "Use Proxy",
  307: "Temporary Redirect",
  308: "Permanent Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  407: "Proxy Authentication Required",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  411: "Length Required",
  412: "Precondition Failed",
  413: "Payload Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  416: "Range Not Satisfiable",
  417: "Expectation Failed",
  421: "Misdirected Request",
  422: "Unprocessable Entity",
  423: "Locked",
  424: "Failed Dependency",
  425: "Too Early",
  426: "Upgrade Required",
  428: "Precondition Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  451: "Unavailable For Legal Reasons",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
  506: "Variant Also Negotiates",
  507: "Insufficient Storage",
  508: "Loop Detected",
  511: "Network Authentication Required",
};

/** Without gaps, because V8 looks for a key of an object with gaps in a hash table. */
const phrases = Array.from({ length: 600 }, (_, status) => registered[status] ?? "");

/** Returns an empty text for a status that is not registered. */
export function reasonPhrase(status: number): string {
  return phrases[status] ?? "";
}

/**
 * The blanks that HTTP allows around a value or an element. `trim` would also remove others, such as a no-break space.
 * Returns the text from `from` to before `to` without the blanks around it, in linear time.
 */
export function trimBlanks(text: string, from = 0, to = text.length): string {
  let [start, end] = [from, to];
  while (start < end && isBlank(text.charCodeAt(start))) start += 1;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

export function isBlank(character: number): boolean {
  return character === 0x20 || character === 0x09;
}

/** Returns the names in lines, which blanks separate. */
export const namesIn = (...lines: string[]): ReadonlySet<string> => new Set(lines.flatMap((line) => line.split(" ")));

/**
 * Hop-by-hop fields (RFC 9110, 7.6.1), which are removed in both directions. Every field that Node refuses to send over
 * HTTP/2 is among them.
 */
export const hopByHopNames = namesIn(
  "connection keep-alive proxy-connection proxy-authorization proxy-authenticate te trailer transfer-encoding upgrade",
  "http2-settings",
);

/**
 * Fields that stay even if Connection names them: those by which the request was judged and logged, those that identify
 * its client, and those that trace its route. A sender must not name fields for all recipients (RFC 9110, 7.6.1).
 */
const endToEndNames = namesIn(
  "content-length authorization cookie origin access-control-request-method max-forwards via traceparent tracestate",
);

/**
 * Matches a WWW-Authenticate or Authorization with a scheme that logs in the connection instead of the request: NTLM,
 * Negotiate, Kerberos and CredSSP (RFC 4559; RFC 9110, 3.3). The upstream takes the next request on the connection for one
 * of the same user.
 */
export const connectionLogin = /(?:^|[\t ,])(?:ntlm|nego|kerberos|credssp)/i;

export const noOptions: ReadonlySet<string> = new Set();

/** The names in the message's Connection fields, in lower case. */
export function connectionOptions(rawHeaders: HeaderList): ReadonlySet<string> {
  let options: Set<string> | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name === undefined || name.length !== 10 || name.toLowerCase() !== "connection") continue;
    const value = rawHeaders[i + 1] ?? "";
    // What most upstreams send. Keep-Alive is removed anyway.
    if (value === "keep-alive") continue;
    options ??= new Set();
    for (const option of value.split(",")) options.add(trimBlanks(option).toLowerCase());
  }
  return options ?? noOptions;
}

export function isHopByHop(lowerCaseName: string, options: ReadonlySet<string>): boolean {
  return hopByHopNames.has(lowerCaseName) || (options.has(lowerCaseName) && !endToEndNames.has(lowerCaseName));
}
