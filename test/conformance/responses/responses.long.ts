// Every case of the response corpus, split at every position and sent one byte at a time.
import { afterAll, beforeAll, test } from "vitest";
import { allPieces } from "../pieces.ts";
import { sideBySide } from "../side-by-side.ts";
import { responseCases } from "./corpus.ts";
import { ResponseLane } from "./lane.ts";

let lanes: ResponseLane[] = [];
beforeAll(async () => {
  lanes = await Promise.all(Array.from({ length: 4 }, () => ResponseLane.start()));
});
afterAll(() => Promise.all(lanes.map((lane) => lane.close())));

test.each(responseCases.filter(({ isWhole }) => !isWhole))("$section: $name", async (row) => {
  await sideBySide(lanes, allPieces(row.bytes), (lane, pieces) => lane.run(row, pieces));
});
