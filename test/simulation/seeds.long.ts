// A thousand drawn runs, a quarter of a minute; 5,000 in test:nightly. `npm run simulate:shared` tries as many seeds as you like.
import { expect, test } from "vitest";
import { fifth } from "../support/runs.ts";
import { drawPlan } from "./plan.ts";
import { run } from "./run.ts";

const runs = fifth(5_000);

test(`${runs} runs are right`, { timeout: 600_000 }, async () => {
  const wrong: string[] = [];
  for (let seed = 0; seed < runs; seed += 1) {
    const { violations } = await run(drawPlan(seed));
    wrong.push(...violations.map((violation) => `seed ${seed}: at ${violation}`));
  }
  expect(wrong).toEqual([]);
});
