// The breaks can be put into the sources as they are: see run.ts for what they are there for.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { replaceOnce } from "../support/replacement.ts";
import { breaks } from "./breaks.ts";

test.for(breaks)("the text of $id is in its file once", (each) => {
  const source = readFileSync(join(import.meta.dirname, "../..", each.file), "utf8");
  expect(replaceOnce(source, each)).not.toBe(source);
});
