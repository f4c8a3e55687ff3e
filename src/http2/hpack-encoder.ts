// Encodes header blocks with the static table and literals without indexing (RFC 7541, 6.1 and 6.2.2). There is no dynamic
// table, so a block is a text that can be prepared once for all connections, and no peer makes the gateway keep anything.
import type { HeaderLines, HeaderList } from "../core/headers.ts";
import { staticTable } from "./hpack-tables.ts";

/**
 * Sets the size of the dynamic table to 0. A connection sends it before its first block, so that it need not answer a peer
 * that lowers SETTINGS_HEADER_TABLE_SIZE (RFC 7541, 4.2).
 */
export const noDynamicTable = "\x20";

const nameIndexes = new Map<string, number>();
const fieldIndexes = new Map<string, number>();
for (let i = staticTable.length - 2; i >= 0; i -= 2) {
  const [name = "", value = ""] = staticTable.slice(i, i + 2);
  nameIndexes.set(name, i / 2 + 1);
  if (value !== "") fieldIndexes.set(`${name}\0${value}`, i / 2 + 1);
}

/** Returns the block of the fields; one character is one byte. Names are sent in lower case (RFC 9113, 8.2.1). */
export function encodeFields(fields: HeaderList): string {
  let block = "";
  for (let i = 0; i < fields.length; i += 2) block += encodeField((fields[i] ?? "").toLowerCase(), fields[i + 1] ?? "");
  return block;
}

/** The beginning of a field up to its value, by its name as it was given. */
const begins = new Map<string, string>();
const maxBegins = 500;

/** By status. */
const statusBlocks = new Map<number, string>();

/** Returns the block of a response's head. Values are not looked for in the static table, which has none of them. */
export function encodeHead(status: number, lines: HeaderLines): string {
  let block = statusBlocks.get(status);
  if (block === undefined) {
    block = encodeField(":status", `${status}`);
    statusBlocks.set(status, block);
  }
  for (let at = 0; at < lines.length; ) {
    const colon = lines.indexOf(": ", at);
    const end = lines.indexOf("\r\n", colon);
    const length = end - colon - 2;
    const begin = beginOf(lines.slice(at, colon));
    // Most values are shorter than 127 bytes.
    block +=
      begin + (length < 0x7f ? String.fromCharCode(length) : integer(length, 0x7f, 0)) + lines.slice(colon + 2, end);
    at = end + 2;
  }
  return block;
}

function beginOf(name: string): string {
  const known = begins.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  const index = nameIndexes.get(lower) ?? 0;
  const begin = integer(index, 0x0f, 0) + (index === 0 ? text(lower) : "");
  // The upstream chooses names, too.
  if (begins.size < maxBegins) begins.set(name, begin);
  return begin;
}

function encodeField(name: string, value: string): string {
  const known = fieldIndexes.get(`${name}\0${value}`);
  if (known !== undefined) return integer(known, 0x7f, 0x80);
  const index = nameIndexes.get(name) ?? 0;
  return integer(index, 0x0f, 0) + (index === 0 ? text(name) : "") + text(value);
}

function text(value: string): string {
  return integer(value.length, 0x7f, 0) + value;
}

/** RFC 7541, 5.1. `above`: the bits of the first octet that are not the integer's. */
function integer(value: number, mask: number, above: number): string {
  if (value < mask) return String.fromCharCode(above | value);
  let bytes = String.fromCharCode(above | mask);
  let rest = value - mask;
  for (; rest >= 128; rest >>>= 7) bytes += String.fromCharCode((rest & 0x7f) | 0x80);
  return bytes + String.fromCharCode(rest);
}
