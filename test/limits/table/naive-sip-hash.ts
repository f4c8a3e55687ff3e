// SipHash-2-4 by its definition, word for word, in integers of any size.

/** Returns the hash of 8 or 16 bytes, in hex. */
export function naiveSipHash(key: Uint8Array, input: Uint8Array, outputBytes: 8 | 16): string {
  const word = (bytes: Uint8Array, at: number): bigint => Buffer.from(bytes).readBigUInt64LE(at);
  const isLong = outputBytes === 16;
  const [k0, k1] = [word(key, 0), word(key, 8)];
  const constants = [0x736f6d6570736575n, 0x646f72616e646f6dn, 0x6c7967656e657261n, 0x7465646279746573n] as const;
  const v = [k0 ^ constants[0], k1 ^ constants[1] ^ (isLong ? 0xeen : 0n), k0 ^ constants[2], k1 ^ constants[3]];
  const at = (i: number): bigint => v[i] ?? 0n;
  const rotate = (i: number, bits: bigint): void => {
    v[i] = BigInt.asUintN(64, at(i) << bits) | (at(i) >> (64n - bits));
  };
  const add = (i: number, j: number, bits: bigint): void => {
    v[i] = BigInt.asUintN(64, at(i) + at(j));
    rotate(j, bits);
    v[j] = at(j) ^ at(i);
  };
  const round = (): void => {
    add(0, 1, 13n);
    rotate(0, 32n);
    add(2, 3, 16n);
    add(0, 3, 21n);
    add(2, 1, 17n);
    rotate(2, 32n);
  };
  const padded = new Uint8Array(8 * (Math.floor(input.length / 8) + 1));
  padded.set(input);
  padded[padded.length - 1] = input.length & 0xff;
  for (let i = 0; i < padded.length; i += 8) {
    const block = word(padded, i);
    v[3] = at(3) ^ block;
    for (let rounds = 0; rounds < 2; rounds += 1) round();
    v[0] = at(0) ^ block;
  }
  const half = (i: number, constant: bigint): bigint => {
    v[i] = at(i) ^ constant;
    for (let rounds = 0; rounds < 4; rounds += 1) round();
    return at(0) ^ at(1) ^ at(2) ^ at(3);
  };
  const output = Buffer.alloc(outputBytes);
  output.writeBigUInt64LE(half(2, isLong ? 0xeen : 0xffn));
  if (isLong) output.writeBigUInt64LE(half(1, 0xddn), 8);
  return output.toString("hex");
}

/** Returns words as their bytes in hex, each low byte first. */
export function hexOfWords(...words: readonly number[]): string {
  const bytes = Buffer.alloc(words.length * 4);
  for (const [i, word] of words.entries()) bytes.writeInt32LE(word, i * 4);
  return bytes.toString("hex");
}
