// A session reads whatever a client sends without failing, and reads the same however the network cuts it.
import { expect, test } from "vitest";
import { readMutated } from "./mutated.ts";

test("400 mutated conversations become the same wherever they are cut, leave no stream, and keep the table in step", () => {
  const { connection, stream, none, inStep } = readMutated(400, 1);
  for (const count of [connection, stream, none]) expect(count).toBeGreaterThan(10);
  expect(inStep).toBeGreaterThan(50);
});
