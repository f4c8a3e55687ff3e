// Renders the head of a response that is written without Node's response objects, which would check and change it.
import { type HeaderLines, inOnePiece } from "./header-lines.ts";

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
