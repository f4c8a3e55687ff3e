// Gateways that share a store while anything fails, in a few runs; seeds.long.ts tries more of them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { replaceOnce } from "../support/replacement.ts";
import { spread } from "../support/runs.ts";
import { drawBreaks, runBreaks } from "./draw-breaks.ts";
import { mutations } from "./mutations.ts";
import { drawPlan } from "./plan.ts";
import { run } from "./run.ts";

test("in two drawn runs nothing is admitted, refused, stranded or waited for wrongly", async () => {
  const wrong: string[] = [];
  let admitted = 0;
  for (let seed = 0; seed < 2; seed += 1) {
    const result = await run(drawPlan(seed));
    admitted += result.admitted;
    wrong.push(...result.violations.map((violation) => `seed ${seed}: at ${violation}`));
  }
  // To see one: npm run simulate:shared -- --seed N
  expect(wrong).toEqual([]);
  expect(admitted).toBeGreaterThan(30);
});

test.each([
  ["runs", drawPlan, run],
  ["runs with breaks", drawBreaks, runBreaks],
] as const)("nothing is wrong in the %s that miss a safeguard when it is taken out", async (_, draw, tried) => {
  const missing = mutations.filter(({ isOfBreaks }) => isOfBreaks === (draw === drawBreaks));
  const seeds = [...new Set(missing.map((mutation) => mutation.seed))];
  for (const seed of spread(seeds, 3)) {
    expect((await tried(draw(seed))).violations, `seed ${seed}`).toEqual([]);
  }
});

test("a run can be repeated", async () => {
  const lines = async (): Promise<readonly string[]> => {
    const timeline: string[] = [];
    await run(drawPlan(12), (line) => timeline.push(line));
    return timeline;
  };
  const first = await lines();
  expect(first.length).toBeGreaterThan(100);
  expect(await lines()).toEqual(first);
});

test("what a gateway has admitted in a period is not told to a shard that is in the next one", async () => {
  for (const seed of [8713, 63129]) {
    const { violations } = await run({ ...drawPlan(seed), people: [] });
    expect(violations, `seed ${seed}`).toEqual([]);
  }
});

test("a client of a cluster whose clocks differ is told when the period of its own shard ends", async () => {
  for (const seed of [306702, 530144, 345447, 334661]) {
    const { violations } = await run({ ...drawPlan(seed), people: [] });
    expect(violations, `seed ${seed}`).toEqual([]);
  }
});

test.each([
  ["a rule that is read is newer than one whose writing was answered late", 739_510],
  ["what was admitted at the border of a period is not told to a shard that has counted it in the one before", 759_137],
  ["a client that waits beside units that are held is told when the store has room", 1_011_747],
  ["a rule that was removed without the store stays so, although the store has an older removal", 716_404],
  ["a gateway whose probe was answered just before the store forgot has not found out", 911_360],
  ["what a gateway has forgotten hides what the store has lost, until that is out of the window", 990_336],
])("%s", async (_, seed) => {
  expect((await run(drawPlan(seed))).violations).toEqual([]);
});

test.for(mutations)("what a mutation takes out is there: $name", ({ replacements }) => {
  for (const replacement of replacements) {
    replaceOnce(readFileSync(join(import.meta.dirname, "../..", replacement.file), "utf8"), replacement);
  }
});
