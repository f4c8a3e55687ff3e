// Messages with a few things wrong: bytes changed, taken out, put in twice, lengths made wrong. The same each time.
import { seededRandom } from "../../support/random.ts";

export function* mutated(seeds: readonly Buffer[], count: number, seed = 1): Generator<Buffer> {
  const random = seededRandom(seed);
  const below = (max: number): number => Math.floor(random() * max);
  for (let i = 0; i < count; i += 1) {
    let bytes: Buffer = Buffer.from(seeds[below(seeds.length)] ?? []);
    for (let left = 1 + below(4); left > 0; left -= 1) bytes = mutate(bytes, below);
    yield bytes;
  }
}

function mutate(bytes: Buffer, below: (max: number) => number): Buffer {
  const at = below(bytes.length + 1);
  const length = below(12);
  switch (below(5)) {
    case 0:
      if (at < bytes.length) bytes[at] = below(256);
      return bytes;
    case 1: // a bit, which is what makes lengths and tags almost right
      if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << below(8));
      return bytes;
    case 2:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + length)]);
    case 3:
      return Buffer.concat([bytes.subarray(0, at + length), bytes.subarray(at)]);
    default:
      return bytes.subarray(0, Math.max(1, at));
  }
}
