// A session reads whatever a client sends without failing, and reads the same however the network cuts it. Half a million
// conversations have been read with HEADGATE_FUZZ_CASES=500000 npm run test:long -- test/http2/mutated.
import { expect, test } from "vitest";
import { scaled } from "../support/runs.ts";
import { readMutated } from "./mutated.ts";

/** 20,000 in `npm run test:long`. */
const { HEADGATE_FUZZ_CASES = scaled(100_000, 250) } = process.env;
const count = Number(HEADGATE_FUZZ_CASES);
const batchSize = Math.min(count, 10_000);

test.each(Array.from({ length: Math.ceil(count / batchSize) }, (_, i) => i + 1))(
  `${batchSize} mutated conversations of batch %i become the same wherever they are cut, leave no stream, and keep the table in step`,
  (seed) => {
    const { connection, stream, none, inStep } = readMutated(batchSize, seed);
    expect(connection + stream + none).toBe(batchSize);
    for (const part of [connection, stream, none]) expect(part).toBeGreaterThan(batchSize / 40);
    expect(inStep).toBeGreaterThan(batchSize / 8);
  },
);
