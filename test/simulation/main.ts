// npm run simulate:shared -- [--seeds 1000] [--from 0] [--breaks] [--mutation name]: tries seeds, and says which of them fail.
// With a mutation, one of them should, and the first is enough. With --breaks, units are given back while connections break.
// npm run simulate:shared -- --seed N [--whole] [--breaks] [--mutation name]: prints the timeline of a seed; if it fails, of the
// smallest part of it that does.
// npm run simulate:shared -- --scale: prints what sharing costs.
import { parseArgs } from "node:util";
import { mutate } from "./mutations.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "0" },
    seed: { type: "string" },
    whole: { type: "boolean", default: false },
    breaks: { type: "boolean", default: false },
    mutation: { type: "string" },
    scale: { type: "boolean", default: false },
  },
});
const print = (line: string): void => void process.stdout.write(`${line}\n`);

const mutation = values.mutation === undefined ? null : mutate(values.mutation);
// Loaded only now, since a mutation is about modules that are loaded after it.
const { drawPlan } = await import("./plan.ts");
const { run, shrink } = await import("./run.ts");
const { drawBreaks, runBreaks } = await import("./draw-breaks.ts");
const [draw, tried] = values.breaks || mutation?.isOfBreaks ? [drawBreaks, runBreaks] : [drawPlan, run];

if (values.scale) await (await import("./scale.ts")).printScale(print);
else if (values.seed !== undefined) await replay(Number(values.seed));
else await tryAll(Number(values.from), Number(values.seeds));

async function replay(seed: number): Promise<void> {
  const whole = draw(seed);
  const fails = (await tried(whole)).violations.length > 0;
  const plan = fails && !values.whole ? await shrink(whole, tried) : whole;
  print(JSON.stringify(plan, null, 1));
  const { violations } = await tried(plan, print);
  for (const violation of violations) print(`VIOLATION at ${violation}`);
  if (violations.length > 0) process.exitCode = 1;
}

async function tryAll(from: number, seeds: number): Promise<void> {
  const beginMs = performance.now();
  let [count, failed, requests] = [0, 0, 0];
  for (let seed = from; seed < from + seeds; seed += 1) {
    const plan = draw(seed);
    if (mutation?.concerns(plan) === false) continue;
    const result = await tried(plan);
    count += 1;
    requests += result.requests;
    const [first, ...others] = result.violations;
    if (first === undefined) continue;
    failed += 1;
    if (failed <= 30) print(`seed ${seed}: at ${first}${others.length > 0 ? ` (and ${others.length} more)` : ""}`);
    if (mutation !== null) break;
  }
  const msPerSeed = (performance.now() - beginMs) / count;
  print(`${count} seeds, ${requests} requests, ${failed} failed, ${msPerSeed.toFixed(1)} ms a seed`);
  if (failed > 0) process.exitCode = 1;
}
