// Parses the Forwarded header (RFC 7239) from the right. A proxy appends a whole element after a comma, so its element
// is parsed independently of what is left of it: a quotation mark that a client did not close has no effect. An element
// that violates the grammar counts as having no address, and is not skipped.
import { trimBlanks } from "./blanks.ts";
import { type IpAddress, parseIpAddress } from "./ip-address.ts";

/**
 * The number of elements that may still be read, in all headers of a request together. Each costs a search among the
 * trusted networks. A real chain of proxies has fewer than ten.
 */
export interface ElementBudget {
  left: number;
}

/** Empty elements count too (RFC 9110, 5.6.1.2: a reasonable number of them is ignored). */
export const maxElements = 100;

export function newBudget(): ElementBudget {
  return { left: maxElements };
}

/**
 * Yields the addresses of the `for` parameters of one header, the last element first. Ends with undefined at the first
 * element without an address: `unknown`, an obfuscated identifier, no `for`, or a violation of the grammar. Empty
 * elements are ignored (RFC 9110, 5.6.1).
 */
export function* forwardedFor(line: string, elements: ElementBudget = newBudget()): Generator<IpAddress | undefined> {
  let end = line.length;
  while (end >= 0 && elements.left > 0) {
    elements.left -= 1;
    const start = elementStart(line, end);
    const element = trimBlanks(line.slice(start, end));
    end = start - 1;
    if (element === "") continue;
    const address = readElement(element);
    yield address;
    if (address === undefined) return;
  }
}

/** Returns where the element that ends before `end` begins: after the nearest comma outside of quoted strings. */
function elementStart(line: string, end: number): number {
  for (let i = end - 1; i >= 0; i -= 1) {
    if (line[i] === ",") return i + 1;
    // The nearest unescaped mark on the left opens the string, because a mark inside it is escaped by a backslash.
    if (line[i] === '"') i = openingMark(line, i);
  }
  return 0;
}

/** Returns -1 if no mark opens the string: the rest of the header is then one element that violates the grammar. */
function openingMark(line: string, closing: number): number {
  for (let i = line.lastIndexOf('"', closing - 1); i > 0; i = line.lastIndexOf('"', i - 1)) {
    let backslashes = 0;
    while (line[i - 1 - backslashes] === "\\") backslashes += 1;
    if (backslashes % 2 === 0) return i;
  }
  return -1;
}

// RFC 9110, 5.6.2 and 5.6.4. RFC 7239 has no blanks around the semicolon, but some proxies write them.
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
    // Of a repeated parameter, the gateway and the upstream could each use another value.
    if (names.has(name)) return undefined;
    names.add(name);
    if (name === "for") node = match[2] ?? match[3]?.replace(/\\(.)/g, "$1");
  }
  return node === undefined ? undefined : readNode(node);
}

/** RFC 7239, 6: an IPv6 address is in brackets; a port may follow, which may be obfuscated. */
function readNode(node: string): IpAddress | undefined {
  // What precedes the first colon must not match colons. Otherwise each colon of a node is tried as the first one, which
  // takes time that grows with the square of its length.
  const match = /^(?:([\d.]+)|\[([^\]:]*:[^\]]*)\])(?::(?:\d{1,5}|_[A-Za-z0-9._-]+))?$/.exec(node);
  return match === null ? undefined : parseIpAddress(match[1] ?? match[2] ?? "");
}
