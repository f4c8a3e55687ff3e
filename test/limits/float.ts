// The smallest step of time that a reading can show.

const float = new Float64Array(1);
const bits = new BigInt64Array(float.buffer);

/** The greatest number below a positive one. */
export function justBefore(instantMs: number): number {
  float[0] = instantMs;
  bits[0] = (bits[0] ?? 0n) - 1n;
  return float[0];
}
