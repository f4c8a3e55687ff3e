// The same as mutated.test.ts, with half a million conversations.
import { expect, test } from "vitest";
import { readMutated } from "./mutated.ts";

const batches = Array.from({ length: 50 }, (_, i) => i + 2);

test.each(batches)(
  "10,000 mutated conversations of batch %i become the same wherever they are cut",
  (seed) => {
    const { connection, stream, none } = readMutated(10_000, seed);
    expect(connection + stream + none).toBe(10_000);
  },
  120_000,
);
