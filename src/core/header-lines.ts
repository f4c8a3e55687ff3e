// The headers of a message that is sent, as the text that goes over HTTP/1. Text is put together with less work than lists
// of names and values. Carriers that need names and values call `listOf`.
import type { HeaderList } from "./header-list.ts";

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

/** Returns the text of headers whose values contain no line end. */
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
