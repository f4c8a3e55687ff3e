// A thousand drawn runs, and 300 with breaks, half a minute; five times as many in test:nightly. `npm run simulate:shared` tries as many seeds as you like.
import { expect, test } from "vitest";
import { fifth } from "../support/runs.ts";
import { drawBreaks, runBreaks } from "./draw-breaks.ts";
import { drawPlan } from "./plan.ts";
import { run } from "./run.ts";

test.each([
  ["runs", fifth(5_000), drawPlan, run],
  ["runs in which connections break while units are given back", fifth(1_500), drawBreaks, runBreaks],
] as const)("%s are right: %i", { timeout: 600_000 }, async (_, runs, draw, tried) => {
  const wrong: string[] = [];
  for (let seed = 0; seed < runs; seed += 1) {
    const { violations } = await tried(draw(seed));
    wrong.push(...violations.map((violation) => `seed ${seed}: at ${violation}`));
  }
  expect(wrong).toEqual([]);
});
