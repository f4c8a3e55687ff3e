// The head of a response as text, for whoever answers past Node's response objects: where there is no request, or none
// that Node could answer. What it is given is written as it is.
import type { HeaderList } from "./header-list.ts";

/** The head of a response; one character is one byte. */
export function serializeHead(status: number, reason: string, fields: HeaderList): string {
  let text = `HTTP/1.1 ${status} ${reason}\r\n`;
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`;
  return `${text}\r\n`;
}
