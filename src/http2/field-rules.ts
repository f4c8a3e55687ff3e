// What the fields of a request over HTTP/2 must look like (RFC 9113, 8.2 and 8.3). A request that breaks these rules is
// malformed: it could be read as another one by whoever it is forwarded to.
import { type HeaderList, isBlank, namesIn } from "../core/headers.ts";

/** What they ask for is a matter of HTTP/1 (RFC 9113, 8.2.2). */
const connectionFields = namesIn("connection keep-alive proxy-connection transfer-encoding upgrade");

const requestPseudo = namesIn(":method :scheme :authority :path");

/**
 * Returns whether a request has these fields. `mayHaveBlanks`: a blank around the value of a field is left to the caller, who
 * refuses it with a response.
 */
export function isRequest(fields: HeaderList, mayHaveBlanks = false): boolean {
  const pseudo = new Map<string, string>();
  let at = 0;
  for (; at < fields.length && fields[at]?.[0] === ":"; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    if (!requestPseudo.has(name) || pseudo.has(name) || !isValue(value)) return false;
    pseudo.set(name, value);
  }
  return hasTarget(pseudo) && areRegular(fields, at, mayHaveBlanks);
}

/** Returns whether trailers have these fields. */
export function areTrailers(fields: HeaderList): boolean {
  return areRegular(fields, 0, false);
}

/** Returns the announced length of the body; -1 without one, and undefined if it is no number, or there are several. */
export function announcedBytes(fields: HeaderList): number | undefined {
  let announced: string | null = null;
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] !== "content-length") continue;
    const value = fields[i + 1] ?? "";
    if (!/^\d{1,15}$/.test(value) || announced !== null) return undefined;
    announced = value;
  }
  return announced === null ? -1 : Number(announced);
}

/** RFC 9113, 8.3.1 and 8.5. */
function hasTarget(pseudo: ReadonlyMap<string, string>): boolean {
  const method = pseudo.get(":method") ?? "";
  const path = pseudo.get(":path");
  if (method === "CONNECT") return path === undefined && !pseudo.has(":scheme") && pseudo.has(":authority");
  const scheme = pseudo.get(":scheme") ?? "";
  if (!isToken(method) || scheme === "" || path === undefined || !isVisible(path)) return false;
  if (scheme !== "http" && scheme !== "https") return path !== "";
  return path.startsWith("/") || (path === "*" && method === "OPTIONS");
}

function areRegular(fields: HeaderList, from: number, mayHaveBlanks: boolean): boolean {
  for (let i = from; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    const value = fields[i + 1] ?? "";
    if (!isName(name) || !isValue(value, mayHaveBlanks) || connectionFields.has(name)) return false;
    if (name === "te" && value.toLowerCase() !== "trailers") return false;
  }
  return true;
}

/** RFC 9113, 8.2.1: without capitals, and no pseudo-header behind the others. */
function isName(name: string): boolean {
  for (let i = 0; i < name.length; i += 1) {
    const code = name.charCodeAt(i);
    if (!isTokenCode(code) || (code >= 0x41 && code <= 0x5a)) return false;
  }
  return name.length > 0;
}

function isToken(text: string): boolean {
  for (let i = 0; i < text.length; i += 1) if (!isTokenCode(text.charCodeAt(i))) return false;
  return text.length > 0;
}

/** RFC 9110, 5.6.2. */
const tokenCodes = new Set(
  [...Array(0x7f).keys()].filter((code) => /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(code))),
);
const isTokenCode = (code: number): boolean => tokenCodes.has(code);

/** No blank or control byte, either of which would end a target in a request line of HTTP/1. */
function isVisible(text: string): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code <= 0x20 || code === 0x7f) return false;
  }
  return true;
}

function isValue(value: string, mayHaveBlanks = false): boolean {
  if (!mayHaveBlanks && (isBlank(value.charCodeAt(0)) || isBlank(value.charCodeAt(value.length - 1)))) return false;
  for (let i = 0; i < value.length; i += 1) {
    const code = value.charCodeAt(i);
    if (code === 0x00 || code === 0x0a || code === 0x0d) return false;
  }
  return true;
}
