// The same as mutated.test.ts, with 100,000 conversations in test:nightly, or as many as HEADGATE_FUZZ_CASES says. Half a million
// have been read with HEADGATE_FUZZ_CASES=500000 npm run test:long -- test/http2/mutated.
import { expect, test } from "vitest";
import { fifth } from "../support/runs.ts";
import { readMutated } from "./mutated.ts";

const { HEADGATE_FUZZ_CASES = fifth(100_000) } = process.env;
const batchSize = 10_000;
const batches = Array.from({ length: Math.ceil(Number(HEADGATE_FUZZ_CASES) / batchSize) }, (_, i) => i + 2);

test.each(batches)(
  "10,000 mutated conversations of batch %i become the same wherever they are cut, and keep the table in step",
  (seed) => {
    const { connection, stream, none, inStep } = readMutated(batchSize, seed);
    expect(connection + stream + none).toBe(batchSize);
    expect(inStep).toBeGreaterThan(batchSize / 8);
  },
);
