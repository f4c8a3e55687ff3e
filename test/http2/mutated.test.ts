// A session reads whatever a client sends without failing, and reads the same however the network cuts it.
import { expect, test } from "vitest";
import { readMutated } from "./mutated.ts";

test("2,000 mutated conversations become the same wherever they are cut, leave no stream, and keep the table in step", () => {
  const { connection, stream, none, inStep } = readMutated(2_000, 1);
  for (const count of [connection, stream, none]) expect(count).toBeGreaterThan(50);
  expect(inStep).toBeGreaterThan(250);
});
