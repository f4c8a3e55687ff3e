// The boundaries of mutated messages by our codec and by llhttp: 5,000 requests and 3,000 responses. in-process.long.ts reads
// more.
import { expect, test } from "vitest";
import { compareRequests, compareResponsesOf } from "./in-process.ts";

test("5,000 mutated requests have the same boundaries for us and for llhttp, or one of us refuses", () => {
  const { verdicts, flaws } = compareRequests(5_000, 1);
  expect(flaws.slice(0, 3).join("\n\n")).toBe("");
  for (const verdict of ["same", "we refuse"]) expect(verdicts[verdict]).toBeGreaterThan(1_000);
});

test("3,000 mutated responses have the same boundaries for us and for llhttp, or one of us refuses", () => {
  const { verdicts, flaws } = compareResponsesOf(3_000, 1);
  expect(flaws.slice(0, 3).join("\n\n")).toBe("");
  expect(verdicts["same"]).toBeGreaterThan(1_500);
  expect(verdicts["we refuse"]).toBeGreaterThan(60);
});
