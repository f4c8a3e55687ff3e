// The constant tables of HPACK (RFC 7541, appendices A and B): the static table, with the sizes of its entries, and the
// lengths of the Huffman codes, with a state machine that measures them.

/** Appendix A, from index 1 on: the name and, if there is one, the value. */
const staticFields = `\
:authority
:method GET
:method POST
:path /
:path /index.html
:scheme http
:scheme https
:status 200
:status 204
:status 206
:status 304
:status 400
:status 404
:status 500
accept-charset
accept-encoding gzip, deflate
accept-language
accept-ranges
accept
access-control-allow-origin
age
allow
authorization
cache-control
content-disposition
content-encoding
content-language
content-length
content-location
content-range
content-type
cookie
date
etag
expect
expires
from
host
if-match
if-modified-since
if-none-match
if-range
if-unmodified-since
last-modified
link
location
max-forwards
proxy-authenticate
proxy-authorization
range
referer
refresh
retry-after
server
set-cookie
strict-transport-security
transfer-encoding
user-agent
vary
via
www-authenticate`;

/** name, value, name, value…, from index 1 on. A value may be empty. */
export const staticTable: readonly string[] = staticFields.split("\n").flatMap((field) => {
  const name = /^\S+/.exec(field)?.[0] ?? "";
  return [name, field.slice(name.length + 1)];
});

/** Lengths of name and value, as `packLengths` packs them. */
export const staticLengths: readonly number[] = staticFields.split("\n").map((field) => {
  const nameLength = /^\S+/.exec(field)?.[0].length ?? 0;
  return packLengths(nameLength, Math.max(0, field.length - nameLength - 1));
});

/** Two lengths in one number, so that an entry of a table needs no object. Both are below 2^16. */
export function packLengths(name: number, value: number): number {
  return name * 0x1_00_00 + value;
}

/** Appendix B: the length of each octet's code in bits; the last one is EOS. */
// biome-ignore format: rows of sixteen
export const codeLengths: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
  30,
];

/**
 * A state machine that counts the octets of a Huffman text without decoding them, four bits at a time. The entry at
 * `state * 16 + bits` is `2 * next`, plus 1 if an octet is complete. The first state is 0.
 */
export const huffmanSteps: Uint16Array = buildSteps();

/** No code is shorter than five bits, so four bits complete at most one octet. */
function buildSteps(): Uint16Array {
  const children = buildTree();
  const steps = new Uint16Array(16 * children.length);
  for (let state = 0; state < children.length; state += 1) {
    for (let bits = 0; bits < 16; bits += 1) {
      let at = state;
      let complete = 0;
      for (let bit = 3; bit >= 0; bit -= 1) {
        const next = children[at]?.[(bits >> bit) & 1] ?? 0;
        if (next === 0) complete = 1;
        at = next;
      }
      steps[state * 16 + bits] = 2 * at + complete;
    }
  }
  return steps;
}

/** The inner nodes of the code's tree with their two children: another node, or 0 for a complete code. */
function buildTree(): (readonly [number, number])[] {
  const children: [number, number][] = [[0, 0]];
  let code = 0;
  for (let length = 1; length <= 30; length += 1) {
    // The code is canonical: within one length, codes ascend in the order of the octets.
    for (const its of codeLengths) {
      if (its !== length) continue;
      addCode(children, code, length);
      code += 1;
    }
    code *= 2;
  }
  return children;
}

function addCode(children: [number, number][], code: number, length: number): void {
  let at = 0;
  for (let bit = length - 1; bit > 0; bit -= 1) {
    const pair = children[at] as [number, number];
    const side = (code >> bit) & 1;
    if (pair[side] === 0) pair[side] = children.push([0, 0]) - 1;
    at = pair[side] as number;
  }
}
