// Header blocks of whole connections, made at random and some of them damaged, as our decoder reads them and as nghttp2 and
// python3-hpack do. The blocks change the size of the table, fill it and refer to it, with and without the Huffman code.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { codeLengths, encodeFields, HpackDecoder, noDynamicTable, staticTable } from "../../src/http2/hpack.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { integer } from "../support/http2-frames.ts";
import { seededRandom } from "../support/random.ts";

const python = "/usr/bin/python3";
const script = fileURLToPath(new URL("hpack-judges.py", import.meta.url));
const needs = 'import hpack, ctypes; ctypes.CDLL("libnghttp2.so.14")';
export const hasJudges = (): boolean => spawnSync(python, ["-c", needs]).status === 0;

type Below = (max: number) => number;

interface Sequence {
  readonly blocks: readonly Buffer[];
  /** One byte of it was changed, lost or added. */
  readonly isDamaged: boolean;
}

export interface SequenceFigures {
  sequences: number;
  blocks: number;
  /** Each decoder found them malformed. */
  refused: number;
  /** Only ours, because of a bound that RFC 7541 (5.1, 5.2) lets a decoder set. */
  bounded: number;
}

/** Reads as many sequences as `count` says. Returns the differences, too. */
export async function compareSequences(
  cleanup: Cleanup,
  count: number,
  seed: number,
): Promise<{ figures: SequenceFigures; differences: string[] }> {
  const figures: SequenceFigures = { sequences: 0, blocks: 0, refused: 0, bounded: 0 };
  const differences: string[] = [];
  const random = seededRandom(seed);
  const below: Below = (max) => Math.floor(random() * max);
  const judges = spawn(python, [script], { stdio: ["pipe", "pipe", "inherit"] });
  cleanup(() => judges.kill());
  const lines = createInterface({ input: judges.stdout })[Symbol.asyncIterator]();
  for (let left = count; left > 0; left -= batchSize) {
    const batch = Array.from({ length: Math.min(left, batchSize) }, () => sequenceOf(below));
    judges.stdin.write(
      batch.map(({ blocks }) => `${blocks.map((block) => block.toString("hex")).join(",")}\n`).join(""),
    );
    for (const sequence of batch) {
      const { value: line } = await lines.next();
      const difference = compare(sequence, String(line), figures);
      if (difference !== null) differences.push(difference);
    }
  }
  return { figures, differences };
}

/** Few enough that neither side waits for the other with its pipe full. */
const batchSize = 50;

function compare({ blocks, isDamaged }: Sequence, line: string, figures: SequenceFigures): string | null {
  figures.sequences += 1;
  figures.blocks += blocks.length;
  const { words, mayBeBounded } = ours(blocks);
  const [nghttp2 = "", pythonHpack = ""] = line.split("|");
  const own = words.join(" ");
  const isRefused = own.endsWith("error");
  const isSame = nghttp2 === own && pythonHpack === own;
  const begun = own.slice(0, -"error".length);
  const isBounded = !isSame && isRefused && mayBeBounded && nghttp2.startsWith(begun) && pythonHpack.startsWith(begun);
  if (isBounded) figures.bounded += 1;
  else if (isRefused) figures.refused += 1;
  if ((isSame || isBounded) && (isDamaged || !isRefused)) return null;
  const hex = blocks.map((block) => block.toString("hex")).join(" ");
  return `${hex}\n  ours ${own}\n  nghttp2 ${nghttp2}\n  python3-hpack ${pythonHpack}`;
}

function ours(blocks: readonly Buffer[]): { words: string[]; mayBeBounded: boolean } {
  const decoder = new HpackDecoder();
  const words: string[] = [];
  for (const block of blocks) {
    const fields = decoder.decode(block, 0, block.length);
    words.push(typeof fields === "string" ? "error" : digest(fields));
    if (typeof fields === "string") {
      return { words, mayBeBounded: fields === "head_too_large" || mayHaveLongInteger(block) };
    }
  }
  return { words, mayBeBounded: false };
}

/** The first octet of an integer that has more. */
const beginsInteger = new Set([0x0f, 0x1f, 0x3f, 0x7f, 0xff]);

/** Whether an integer may be there of more than four octets, which ours refuses whatever its value. */
const mayHaveLongInteger = (block: Buffer): boolean =>
  block.some((octet, i) => beginsInteger.has(octet) && [1, 2, 3].every((behind) => (block[i + behind] ?? 0) >= 0x80));

function digest(fields: readonly string[]): string {
  const sha = createHash("sha1");
  for (const text of fields) sha.update(`${text.length}:${text}`, "latin1");
  return sha.digest("hex");
}

function sequenceOf(below: Below): Sequence {
  const blocks = below(6) === 0 ? responses(below) : requests(below);
  const isDamaged = below(3) === 0;
  if (isDamaged) damage(blocks, below);
  return { blocks, isDamaged };
}

/** As our encoder makes them. */
function responses(below: Below): Buffer[] {
  return Array.from({ length: 1 + below(4) }, (_, i) => {
    const fields = Array.from({ length: below(20) }, () => [nameOf(below), textOf(below)]);
    const block = encodeFields([":status", `${100 + below(500)}`, ...fields.flat()]);
    return Buffer.from((i === 0 ? noDynamicTable : "") + block, "latin1");
  });
}

function requests(below: Below): Buffer[] {
  const table = new Table();
  return Array.from({ length: 1 + below(6) }, () => {
    const updates = below(4) === 0 ? Array.from({ length: 1 + below(2) }, () => table.resize(sizeOf(below))) : [];
    const fields = Array.from({ length: below(below(4) === 0 ? 60 : 12) }, () => fieldOf(table, below));
    return Buffer.concat([...updates, ...fields]);
  });
}

function sizeOf(below: Below): number {
  return below(3) === 0 ? below(120) : below(4097);
}

/** A representation of any of the kinds of RFC 7541, 6. */
function fieldOf(table: Table, below: Below): Buffer {
  const indexes = staticTable.length / 2 + table.sizes.length;
  const index = 1 + (below(2) === 0 ? below(indexes) : Math.max(0, indexes - 1 - below(8)));
  if (below(3) === 0) return integer(index, 7, 0x80);
  const [bits, above] = [[6, 0x40] as const, [6, 0x40] as const, [4, 0x00] as const, [4, 0x10] as const][below(4)] ?? [
    4, 0,
  ];
  const isNamed = below(2) === 0;
  const name = isNamed ? "" : nameOf(below);
  const value = textOf(below);
  if (bits === 6)
    table.add(
      (isNamed ? table.nameBytes(index) : name.length) + value.length + 32,
      isNamed ? table.nameBytes(index) : name.length,
    );
  return Buffer.concat([
    integer(isNamed ? index : 0, bits, above),
    isNamed ? Buffer.alloc(0) : coded(name, below),
    coded(value, below),
  ]);
}

const names = ["x-a", "x-long-name-of-a-field", "accept", ":path", "cookie", "e\u00e9", "\u0000"] as const;
const nameOf = (below: Below): string => names[below(names.length)] ?? "";

function textOf(below: Below): string {
  const length = below(below(40) === 0 ? 4_200 : 40);
  if (below(2) === 0) return "0123456789abcdef%~".repeat(length).slice(0, length);
  return Array.from({ length }, () => String.fromCharCode(below(256))).join("");
}

/** Which entries there are, by their sizes alone, the newest last. */
class Table {
  readonly sizes: { readonly bytes: number; readonly nameBytes: number }[] = [];
  #max = 4_096;

  add(bytes: number, nameBytes: number): void {
    this.sizes.push({ bytes, nameBytes });
    this.#evict();
  }

  resize(bytes: number): Buffer {
    this.#max = bytes;
    this.#evict();
    return integer(bytes, 5, 0x20);
  }

  nameBytes(index: number): number {
    const entries = staticTable.length / 2;
    return index <= entries
      ? (staticTable[2 * index - 2] ?? "").length
      : (this.sizes.at(entries - index)?.nameBytes ?? 0);
  }

  #evict(): void {
    while (this.sizes.reduce((sum, { bytes }) => sum + bytes, 0) > this.#max) this.sizes.shift();
  }
}

/** A text with the Huffman code or without it. */
function coded(value: string, below: Below): Buffer {
  const bytes = Buffer.from(value, "latin1");
  if (below(2) === 0) return Buffer.concat([integer(bytes.length), bytes]);
  let bits = "";
  for (const octet of bytes) bits += codes[octet];
  bits += "1".repeat((8 - (bits.length % 8)) % 8);
  const octets = Array.from({ length: bits.length / 8 }, (_, i) => Number.parseInt(bits.slice(8 * i, 8 * i + 8), 2));
  return Buffer.concat([integer(octets.length, 7, 0x80), Buffer.from(octets)]);
}

/** RFC 7541, appendix B, whose codes follow from their lengths: the shortest first, of equals the lowest octet. */
const codes: readonly string[] = codesOf(codeLengths);

function codesOf(lengths: readonly number[]): string[] {
  const codes: string[] = [];
  let next = 0n;
  let before = 0;
  for (const [octet, length] of [...lengths.entries()].sort(([a, x], [b, y]) => x - y || a - b)) {
    next <<= BigInt(length - before);
    codes[octet] = next.toString(2).padStart(length, "0");
    next += 1n;
    before = length;
  }
  return codes;
}

function damage(blocks: Buffer[], below: Below): void {
  const at = below(blocks.length);
  const block = blocks[at] ?? Buffer.alloc(0);
  const place = below(block.length + 1);
  const [before, behind] = [block.subarray(0, place), block.subarray(place)];
  const octet = Buffer.of(below(256));
  blocks[at] = [
    Buffer.concat([before, octet, behind.subarray(1)]),
    Buffer.concat([before, octet, behind]),
    Buffer.concat([before, behind.subarray(1)]),
    before,
  ][below(4)] as Buffer;
}
