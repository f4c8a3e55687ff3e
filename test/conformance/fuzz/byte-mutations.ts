// What may happen to any bytes, whatever they mean: flipped, lost, doubled, put in between.
import type { Random } from "./random.ts";

/** Bytes that parsers have read in more than one way. */
const odd: readonly [string, ...string[]] = [
  "\0",
  "\x01",
  "\t",
  "\n",
  "\r",
  "\x0b",
  "\x0c",
  " ",
  "\x7f",
  "\x80",
  "\x85",
  "\xa0",
  "\xff",
  ":",
  ";",
  ",",
  "\r\n",
  "\n\n",
  "\r\n\r\n",
  "\r\r\n",
  "\n\r",
  "0",
  "-",
  "+",
  "_",
  "%",
  "#",
  "?",
  '"',
  "\\",
  "/",
];

export function mutateBytes(random: Random, bytes: string): string {
  const at = random.int(bytes.length + 1);
  const length = 1 + random.int(4);
  switch (random.int(7)) {
    case 0: {
      const flipped = bytes.charCodeAt(Math.min(at, bytes.length - 1)) ^ (1 << random.int(8));
      return bytes.slice(0, at) + String.fromCharCode(flipped & 0xff) + bytes.slice(at + 1);
    }
    case 1:
      return bytes.slice(0, at) + random.pick(odd) + bytes.slice(at + 1);
    case 2:
      return bytes.slice(0, at) + random.pick(odd) + bytes.slice(at);
    case 3:
      return bytes.slice(0, at) + bytes.slice(at + length);
    case 4:
      return bytes.slice(0, at + length) + bytes.slice(at);
    case 5:
      return bytes.slice(0, at) + String.fromCharCode(random.int(256)) + bytes.slice(at);
    default:
      return mutateLineEnd(random, bytes);
  }
}

/** Another spelling for the end of one line. */
export function mutateLineEnd(random: Random, bytes: string): string {
  const ends = [...bytes.matchAll(/\r\n/g)].map(({ index }) => index);
  const at = random.any(ends);
  if (at === undefined) return bytes;
  const end = random.pick([
    "\n",
    "\r",
    "\r\r\n",
    "\n\r",
    "\r\n\r\n",
    "\r\n ",
    "\r\n\t",
    "\0\r\n",
    " \r\n",
    "\x0b\r\n",
    "",
  ]);
  return bytes.slice(0, at) + end + bytes.slice(at + 2);
}
