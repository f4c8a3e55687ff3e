// Every case of the response corpus, whole and split where parsers have stumbled. All other splits run in
// responses.long.ts.
import { afterAll, beforeAll, expect, test } from "vitest";
import { someSplits } from "../pieces.ts";
import { responseCases } from "./corpus.ts";
import { ResponseLane } from "./lane.ts";

let lane: ResponseLane;
beforeAll(async () => {
  lane = await ResponseLane.start();
});
afterAll(() => lane.close());

test("the corpus has at least 80 cases, each with a name of its own", () => {
  expect(responseCases.length).toBeGreaterThanOrEqual(80);
  expect(new Set(responseCases.map(({ section, name }) => `${section} ${name}`)).size).toBe(responseCases.length);
});

test.each(responseCases)("$section: $name", async (row) => {
  await lane.run(row);
  if (row.isWhole) return;
  for (const at of someSplits(row.bytes)) await lane.run(row, [row.bytes.slice(0, at), row.bytes.slice(at)]);
});
