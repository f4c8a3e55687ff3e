// Every case of the request corpus, whole and split at some of the places where parsers have stumbled. All splits run
// in requests.long.ts.
import { afterAll, beforeAll, expect, test } from "vitest";
import { fewSplits } from "../pieces.ts";
import { requestCases } from "./corpus.ts";
import { RequestLane } from "./lane.ts";

let lane: RequestLane;
beforeAll(async () => {
  lane = await RequestLane.start();
});
afterAll(() => lane.close());

test("the corpus has at least 215 cases, each with a name of its own", () => {
  expect(requestCases.length).toBeGreaterThanOrEqual(215);
  expect(new Set(requestCases.map(({ section, name }) => `${section} ${name}`)).size).toBe(requestCases.length);
});

test.each(requestCases)("$section: $name", async (row) => {
  await lane.run(row);
  for (const at of fewSplits(row.bytes, requestCases.indexOf(row)))
    await lane.run(row, [row.bytes.slice(0, at), row.bytes.slice(at)]);
});
