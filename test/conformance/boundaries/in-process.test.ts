// The boundaries of mutated messages by our codec and by llhttp: 500 requests and 600 responses. in-process.long.ts reads
// more.
import { expect, test } from "vitest";
import { compareRequests, compareResponsesOf } from "./in-process.ts";

test("500 mutated requests have the same boundaries for us and for llhttp, or one of us refuses", () => {
  const { verdicts, flaws } = compareRequests(500, 1);
  expect(flaws.slice(0, 3).join("\n\n")).toBe("");
  for (const verdict of ["same", "we refuse"]) expect(verdicts[verdict]).toBeGreaterThan(100);
});

test("600 mutated responses have the same boundaries for us and for llhttp, or one of us refuses", () => {
  const { verdicts, flaws } = compareResponsesOf(600, 1);
  expect(flaws.slice(0, 3).join("\n\n")).toBe("");
  expect(verdicts["same"]).toBeGreaterThan(300);
  expect(verdicts["we refuse"]).toBeGreaterThan(12);
});
