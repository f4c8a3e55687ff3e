// A body as chunks, with one thing wrong or unusual about them.
import type { Random } from "./random.ts";

type List = readonly [string, ...string[]];

const extensions: List = [
  ";a",
  ";a=b",
  ';a="b"',
  "; a = b",
  ";",
  ";;",
  ';a="\r\n"',
  ';a="x\n"',
  ";a\0",
  ";\xff",
  " ;a",
  "\t",
  " ",
  ";a=b\r",
  `;${"e".repeat(20_000)}`,
];

const ends: List = ["\n", "\r", "", "\r\r\n", "\n\r\n", "\r\n\r\n", "xx", "\0\r\n", " \r\n"];

const lastChunks: List = [
  "0\r\n\r\n",
  "00\r\n\r\n",
  "0;a=b\r\n\r\n",
  "0\n\n",
  "0\r\n\n",
  "0\r\n",
  "0\r\n\r",
  "-0\r\n\r\n",
  "+0\r\n\r\n",
  "0x0\r\n\r\n",
  "\r\n\r\n",
  "",
  "0 \r\n\r\n",
  "0\r\nX-T: 1\r\n\r\n",
  "0\r\nX-T: 1\r\nX-U: 2\r\n\r\n",
  "0\r\nContent-Length: 5\r\n\r\n",
  "0\r\nTransfer-Encoding: chunked\r\n\r\n",
  "0\r\nHost: evil\r\nAuthorization: x\r\n\r\n",
  "0\r\nX-T : 1\r\n\r\n",
  "0\r\n X-T: 1\r\n\r\n",
  "0\r\nX-T: 1\r\n 2\r\n\r\n",
  "0\r\nX-T\r\n\r\n",
  "0\r\nX-T: a\0b\r\n\r\n",
  "0\r\nX-T: 1\n\r\n",
  `0\r\nX-T: ${"y".repeat(20_000)}\r\n\r\n`,
  "0\r\nGET /v2/y HTTP/1.1\r\n\r\n",
];

const sizes = (n: number): List => [
  n.toString(16).toUpperCase(),
  `0${n.toString(16)}`,
  `${"0".repeat(20)}${n.toString(16)}`,
  `0x${n.toString(16)}`,
  `+${n.toString(16)}`,
  `-${n.toString(16)}`,
  ` ${n.toString(16)}`,
  `${n.toString(16)} `,
  `${n.toString(16)}_`,
  `${n.toString(16)}g`,
  (n + 1).toString(16),
  Math.max(1, n - 1).toString(16),
  "",
  "ffffffffffffffff",
  `10000000000000000${n.toString(16)}`,
  `1${"0".repeat(15)}`,
  "\0",
  `${n.toString(16)}\r`,
  `${n}.0`,
];

export function chunksOf(random: Random, text: string): string {
  const chunks: string[] = [];
  const cut = random.int(text.length + 1);
  for (const data of [text.slice(0, cut), text.slice(cut)]) {
    if (data !== "") chunks.push(`${data.length.toString(16)}\r\n${data}\r\n`);
  }
  const at = random.int(chunks.length);
  const data = (at === 0 && cut > 0 ? text.slice(0, cut) : text.slice(cut)) || text;
  const plain = data.length.toString(16);
  switch (random.int(6)) {
    case 0:
      chunks[at] = `${random.pick(sizes(data.length))}\r\n${data}\r\n`;
      break;
    case 1:
      chunks[at] = `${plain}${random.pick(extensions)}\r\n${data}\r\n`;
      break;
    case 2:
      chunks[at] = `${plain}${random.pick(ends)}${data}\r\n`;
      break;
    case 3:
      chunks[at] = `${plain}\r\n${data}${random.pick(ends)}`;
      break;
    case 4:
      return chunks.join("") + random.pick(lastChunks);
  }
  return `${chunks.join("")}0\r\n\r\n`;
}
