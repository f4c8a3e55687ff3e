// Bytes in pieces, each read by its receiver before the next is written, as far as one process can see to that.
import { setImmediate } from "node:timers/promises";
import { sharesReads } from "../support/reads.ts";

/** Split in two at every position, and once into single bytes. */
export function allPieces(bytes: string): string[][] {
  const inTwo = allSplits(bytes.length).map((at) => [bytes.slice(0, at), bytes.slice(at)]);
  return bytes.length > 2_000 ? inTwo : [...inTwo, [...bytes]];
}

const maxEveryPosition = 600;

/** Every position; of long bytes the beginning, the end and a sample of what lies between. */
function allSplits(length: number): number[] {
  const positions = Array.from({ length: Math.max(0, length - 1) }, (_, i) => i + 1);
  if (length <= maxEveryPosition) return positions;
  return positions.filter((at) => at <= 200 || at >= length - 100 || at % 1009 === 0);
}

/**
 * A few that have been wrong in parsers before: inside the first line, between CR and LF, and around the end of the
 * head.
 */
export function someSplits(bytes: string): number[] {
  const headEnd = bytes.indexOf("\r\n\r\n");
  const positions = [3, bytes.indexOf("\r\n") + 1, headEnd + 3, headEnd + 4, bytes.length - 1];
  return [...new Set(positions)].filter((at) => at > 0 && at < bytes.length);
}

/** A third of them, by turns, where `npm run test:long` tries every position: not of long bytes, and not read as streams. */
export function fewSplits(bytes: string, nth: number): number[] {
  const hasAll = sharesReads && bytes.length <= maxEveryPosition;
  return someSplits(bytes).filter((_, i) => !hasAll || (i + nth) % 3 === 0);
}

export async function writePieces(write: (piece: string) => void, pieces: readonly string[]): Promise<void> {
  for (const [i, piece] of pieces.entries()) {
    if (i > 0) await turns();
    write(piece);
  }
}

/** Loopback delivers at once, so after two turns of the loop everyone in this process has read. */
async function turns(): Promise<void> {
  await setImmediate();
  await setImmediate();
}
