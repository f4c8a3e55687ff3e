// Two thousand drawn runs, about half a minute; and each safeguard taken out in turn, which takes a few minutes: a seed
// must fail then. `npm run simulate:shared` tries as many seeds as you like.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mutations } from "./mutations.ts";
import { drawPlan } from "./plan.ts";
import { run } from "./run.ts";

const main = join(import.meta.dirname, "main.ts");

test("two thousand runs are right", { timeout: 600_000 }, async () => {
  const wrong: string[] = [];
  for (let seed = 0; seed < 2000; seed += 1) {
    const { violations } = await run(drawPlan(seed));
    wrong.push(...violations.map((violation) => `seed ${seed}: at ${violation}`));
  }
  expect(wrong).toEqual([]);
});

test.for(mutations)("a seed fails with: $name", { timeout: 900_000 }, ({ name, from = 0 }) => {
  const seeds = ["--from", `${from}`, "--seeds", "10000"];
  const { status, stdout } = spawnSync(process.execPath, [main, "--mutation", name, ...seeds], { encoding: "utf8" });
  expect(stdout).toMatch(/^seed \d+: at /);
  expect(status).toBe(1);
});
