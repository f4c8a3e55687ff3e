// A session reads whatever a client sends without failing, and reads the same however the network cuts it.
import { expect, test } from "vitest";
import { readMutated } from "./mutated.ts";

test("2,000 mutated conversations become the same wherever they are cut, and leave no stream", () => {
  const { connection, stream, none } = readMutated(2_000, 1);
  for (const count of [connection, stream, none]) expect(count).toBeGreaterThan(50);
});
