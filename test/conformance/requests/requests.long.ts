// Every case of the request corpus, split at every position and sent one byte at a time.
import { afterAll, beforeAll, test } from "vitest";
import { allPieces } from "../pieces.ts";
import { sideBySide } from "../side-by-side.ts";
import { requestCases } from "./corpus.ts";
import { RequestLane } from "./lane.ts";

let lanes: RequestLane[] = [];
beforeAll(async () => {
  lanes = await Promise.all(Array.from({ length: 4 }, () => RequestLane.start()));
});
afterAll(() => Promise.all(lanes.map((lane) => lane.close())));

test.each(requestCases)("$section: $name", async (row) => {
  await sideBySide(lanes, allPieces(row.bytes), (lane, pieces) => lane.run(row, pieces));
});
