// The elements of RFC 7239's Forwarded, from the right. A proxy appends a whole element after a comma, so what it wrote
// is read without looking at anything left of it: a quotation mark that a client left open further left swallows
// nothing. What does not follow the grammar to the letter is no address, and never skipped.
import { trimBlanks } from "./blanks.ts";
import { type IpAddress, parseIpAddress } from "./ip-address.ts";

/**
 * The addresses of the `for` parameters of one line, last element first. Ends with undefined at the first element that
 * names none: `unknown`, an obfuscated identifier, no `for` at all, or garbage. Empty elements are none (RFC 9110,
 * 5.6.1).
 */
export function* forwardedFor(line: string): Generator<IpAddress | undefined> {
  let end = line.length;
  while (end >= 0) {
    const start = elementStart(line, end);
    const element = trimBlanks(line.slice(start, end));
    end = start - 1;
    if (element === "") continue;
    const address = readElement(element);
    yield address;
    if (address === undefined) return;
  }
}

/** Where the element that ends before `end` begins: after the nearest comma that is in no quoted string. */
function elementStart(line: string, end: number): number {
  for (let i = end - 1; i >= 0; i -= 1) {
    if (line[i] === ",") return i + 1;
    // The nearest bare mark to the left opens the string: one that is part of it has a backslash before it.
    if (line[i] === '"') i = openingMark(line, i);
  }
  return 0;
}

/** -1 if there is none: the rest of the line is then one element, which follows no grammar. */
function openingMark(line: string, closing: number): number {
  for (let i = line.lastIndexOf('"', closing - 1); i > 0; i = line.lastIndexOf('"', i - 1)) {
    let backslashes = 0;
    while (line[i - 1 - backslashes] === "\\") backslashes += 1;
    if (backslashes % 2 === 0) return i;
  }
  return -1;
}

// RFC 9110, 5.6.2 and 5.6.4. Blanks around the semicolon are not in RFC 7239, but are written, and mean nothing else.
const pair =
  /[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)|"((?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*)")[ \t]*)?(?:;|$)/y;

function readElement(element: string): IpAddress | undefined {
  const names = new Set<string>();
  let node: string | undefined;
  pair.lastIndex = 0;
  while (pair.lastIndex < element.length) {
    const match = pair.exec(element);
    if (match === null) return undefined;
    const name = match[1]?.toLowerCase();
    if (name === undefined) continue;
    // Whichever of two one believes, somebody else believes the other.
    if (names.has(name)) return undefined;
    names.add(name);
    if (name === "for") node = match[2] ?? match[3]?.replace(/\\(.)/g, "$1");
  }
  return node === undefined ? undefined : readNode(node);
}

/** RFC 7239, 6: an IPv6 address always in brackets, then perhaps a port, which may be obfuscated. */
function readNode(node: string): IpAddress | undefined {
  const match = /^(?:([\d.]+)|\[([^\]]*:[^\]]*)\])(?::(?:\d{1,5}|_[A-Za-z0-9._-]+))?$/.exec(node);
  return match === null ? undefined : parseIpAddress(match[1] ?? match[2] ?? "");
}
