// Decodes the Huffman code of HPACK (RFC 7541, 5.2 and appendix B), four bits at a time.
import { codeLengths } from "./hpack-tables.ts";

/** The last symbol of the code, which no text may contain. */
const eos = 256;

/** An entry of `steps`: the next state in the lowest eight bits, then the octet that is complete, and two flags. */
const hasOctet = 1 << 16;
const hasEos = 1 << 17;

const { steps, mayEnd } = buildTables();

/**
 * Decodes `bytes` from `from` to `to` into `into`, which must have room for 8/5 of their number. Returns the number of octets;
 * -1 if the text contains EOS, or does not end with less than eight bits of padding that are all 1.
 */
export function decodeHuffman(bytes: Uint8Array, from: number, to: number, into: Uint8Array): number {
  let state = 0;
  let length = 0;
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] as number;
    const high = steps[(state << 4) | (byte >> 4)] as number;
    if ((high & hasOctet) !== 0) {
      into[length] = (high >> 8) & 0xff;
      length += 1;
    }
    const low = steps[((high & 0xff) << 4) | (byte & 0xf)] as number;
    if ((low & hasOctet) !== 0) {
      into[length] = (low >> 8) & 0xff;
      length += 1;
    }
    if (((high | low) & hasEos) !== 0) return -1;
    state = low & 0xff;
  }
  return mayEnd[state] === 1 ? length : -1;
}

/** An inner node of the code's tree: each child is another inner node, or a symbol, which is stored as `-1 - symbol`. */
type Node = [zero: number, one: number];

function buildTables(): { steps: Uint32Array; mayEnd: Uint8Array } {
  const nodes = buildTree();
  const steps = new Uint32Array(16 * nodes.length);
  const step = (from: number, bits: number): number => {
    let node = from;
    let complete = 0;
    for (let bit = 3; bit >= 0; bit -= 1) {
      const next = nodes[node]?.[(bits >> bit) & 1] as number;
      if (next < 0) complete = -1 - next === eos ? hasEos : hasOctet | ((-1 - next) << 8);
      node = Math.max(0, next);
    }
    return complete | node;
  };
  for (let i = 0; i < steps.length; i += 1) steps[i] = step(i >> 4, i & 15);
  // Padding is the beginning of EOS, which is all ones.
  const mayEnd = new Uint8Array(nodes.length);
  for (let node = 0, bits = 0; bits < 8; bits += 1) {
    mayEnd[node] = 1;
    node = nodes[node]?.[1] as number;
  }
  return { steps, mayEnd };
}

/** No code is shorter than five bits, so four bits complete at most one symbol, and the code has 256 inner nodes. */
function buildTree(): Node[] {
  const nodes: Node[] = [[0, 0]];
  let code = 0;
  for (let length = 1; length <= 30; length += 1) {
    // The code is canonical: within one length, codes ascend in the order of the symbols.
    for (const [symbol, its] of codeLengths.entries()) {
      if (its !== length) continue;
      addCode(nodes, code, length, symbol);
      code += 1;
    }
    code *= 2;
  }
  return nodes;
}

function addCode(nodes: Node[], code: number, length: number, symbol: number): void {
  let at = 0;
  for (let bit = length - 1; bit > 0; bit -= 1) {
    const node = nodes[at] as Node;
    const side = (code >> bit) & 1;
    if (node[side] === 0) node[side] = nodes.push([0, 0]) - 1;
    at = node[side] as number;
  }
  (nodes[at] as Node)[code & 1] = -1 - symbol;
}
