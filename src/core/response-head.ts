// Renders the head of a response that is written without Node's response objects, which would check and change it.
import { type HeaderLines, inOnePiece } from "./header-lines.ts";
import { reasonPhrase } from "./reason-phrases.ts";

/** Status lines with the registered reason, by status. Without gaps, as the reasons are. */
const registered = new Array<string>(600).fill("");

/** `end`: the last headers and the empty line. */
export function serializeHead(status: number, reason: string, lines: HeaderLines, end = "\r\n"): string {
  return statusLine(status, reason) + lines + end;
}

function statusLine(status: number, reason: string): string {
  if (reason === "" || reason !== reasonPhrase(status)) return `HTTP/1.1 ${status} ${reason}\r\n`;
  const known = registered[status];
  if (known) return known;
  const line = inOnePiece(`HTTP/1.1 ${status} ${reason}\r\n`);
  registered[status] = line;
  return line;
}
