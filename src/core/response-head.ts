// Renders the head of a response that is written without Node's response objects, which would check and change it.
import type { HeaderList } from "./header-list.ts";

export function serializeHead(status: number, reason: string, fields: HeaderList): string {
  let text = `HTTP/1.1 ${status} ${reason}\r\n`;
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`;
  return `${text}\r\n`;
}
