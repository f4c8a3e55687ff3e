// Two thousand drawn runs, about half a minute. `npm run simulate:shared` tries as many seeds as you like.
import { expect, test } from "vitest";
import { drawPlan } from "./plan.ts";
import { run } from "./run.ts";

test("two thousand runs are right", { timeout: 600_000 }, async () => {
  const wrong: string[] = [];
  for (let seed = 0; seed < 2000; seed += 1) {
    const { violations } = await run(drawPlan(seed));
    wrong.push(...violations.map((violation) => `seed ${seed}: at ${violation}`));
  }
  expect(wrong).toEqual([]);
});
