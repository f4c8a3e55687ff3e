// The gateway's own cases for the plugin, split where parsers have stumbled.
import { afterAll, afterEach, beforeAll, describe, test } from "vitest";
import { someSplits } from "../conformance/pieces.ts";
import { singleLf } from "../conformance/responses/corpus.ts";
import { type CorpusCase, corpusCases, Stage } from "./corpora.ts";
import { startServing } from "./serving.ts";

describe("split in two", () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.open(startServing);
  });
  afterEach(() => stage.clear());
  afterAll(() => stage.close());

  const isException = ({ bytes, name }: CorpusCase): boolean =>
    name.endsWith("100 that nobody asked for") ||
    name.startsWith(singleLf) ||
    name.includes("the same length twice") ||
    /a status of (?:600|999)$/.test(name) ||
    name.endsWith("a single LF before the status line") ||
    / (?:HTTP\/1\.[2-9]|RTSP\/1\.0|ICE\/1\.0)\r\n/.test(bytes);
  const split = corpusCases.filter((row) => row.bytes !== "" && !isException(row));
  test.each(split)("$corpus $name", async (row) => {
    for (const at of someSplits(row.bytes)) await row.run(stage, [row.bytes.slice(0, at), row.bytes.slice(at)]);
  });
});
