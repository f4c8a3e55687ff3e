// What RFC 9112 allows and nothing else, for both directions: lines that end in CRLF, fields of a name, a colon and a
// value, and bodies by length or by chunks. Where two readers could disagree, this one reads nothing.

export type Field = readonly [name: string, value: string];

export interface Head {
  /** Request line or status line. */
  readonly line: string;
  readonly fields: readonly Field[];
  /** Where the body begins. */
  readonly end: number;
}

const fieldLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*$/;
/** What may stand in a line. */
export const visible = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Null if there is no whole head there, or its fields are none; the first line is the caller's to judge. */
export function readHead(bytes: string, start: number): Head | null {
  const end = bytes.indexOf("\r\n\r\n", start);
  if (end === -1) return null;
  const [line = "", ...lines] = bytes.slice(start, end).split("\r\n");
  const fields: Field[] = [];
  for (const text of lines) {
    const match = visible.test(text) ? fieldLine.exec(text) : null;
    if (match === null) return null;
    fields.push([match[1] ?? "", match[2] ?? ""]);
  }
  return { line, fields, end: end + 4 };
}

export function valuesIn(fields: readonly Field[], name: string): string[] {
  return fields.filter(([other]) => other.toLowerCase() === name).map(([, value]) => value);
}

export interface Body {
  readonly text: string;
  readonly end: number;
  /** False if not all of it is there, or it is not well-formed from some point on; `text` is what was sound. */
  readonly isWhole: boolean;
}

export function readLength(bytes: string, start: number, length: number): Body {
  const text = bytes.slice(start, start + length);
  return { text, end: start + text.length, isWhole: text.length === length };
}

// A quoted extension may hold anything but control bytes (RFC 9112, 7.1.1).
const chunkLine = /^(0*[0-9A-Fa-f]{1,16})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/;

export function readChunks(bytes: string, start: number): Body {
  let text = "";
  let at = start;
  for (;;) {
    const lineEnd = bytes.indexOf("\r\n", at);
    const match = lineEnd === -1 ? null : chunkLine.exec(bytes.slice(at, lineEnd));
    if (match === null) return { text, end: at, isWhole: false };
    const size = Number.parseInt(match[1] ?? "", 16);
    if (size === 0) return readTrailers(bytes, lineEnd, text);
    const data = bytes.slice(lineEnd + 2, lineEnd + 2 + size);
    text += data;
    at = lineEnd + 2 + size + 2;
    if (data.length < size || bytes.slice(at - 2, at) !== "\r\n") return { text, end: at, isWhole: false };
  }
}

/** `lineEnd` is where the last chunk's line ends, so that no trailers at all look like the end of a head. */
function readTrailers(bytes: string, lineEnd: number, text: string): Body {
  if (bytes.startsWith("\r\n\r\n", lineEnd)) return { text, end: lineEnd + 4, isWhole: true };
  const trailers = readHead(`\r\n${bytes.slice(lineEnd + 2)}`, 0);
  return trailers === null
    ? { text, end: lineEnd, isWhole: false }
    : { text, end: lineEnd + trailers.end, isWhole: true };
}
