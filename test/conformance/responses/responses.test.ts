// Every case of the response corpus, whole and split at some of the places where parsers have stumbled. All splits run
// in responses.long.ts.
import { afterAll, beforeAll, expect, test } from "vitest";
import { fewSplits } from "../pieces.ts";
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
  for (const at of fewSplits(row.bytes, responseCases.indexOf(row)))
    await lane.run(row, [row.bytes.slice(0, at), row.bytes.slice(at)]);
});
