// Searches the gateway for inputs that cost much CPU: `npm run bench:search -- --minutes 60 --seed 1`. Prints tables of
// the most expensive inputs, and writes the inputs as JSON to `--out`.
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { classes } from "./classes.ts";
import { corpus } from "./corpus.ts";
import { FunctionSearch } from "./function-search.ts";
import { functions } from "./functions.ts";
import { type ClassReport, reportOn, tableOf, tableOfFunctions } from "./report.ts";
import { ClassSearch, usPerRequest } from "./search.ts";
import { Stage } from "./stage.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
    /** The gateway: dist/main.js of another checkout, for example. */
    main: { type: "string", default: resolve(import.meta.dirname, "../../../src/main.ts") },
    /** Only the classes and functions whose names contain it. */
    only: { type: "string", default: "" },
    out: { type: "string" },
  },
});

// The gateways end when this process exits, which a signal alone would not let them notice.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

const seed = Number(values.seed);
const endMs = performance.now() + Number(values.minutes) * 60_000;
const classTurnMs = Math.min(15_000, Number(values.minutes) * 2_000);
const functionTurnMs = classTurnMs / 10;
const isWanted = ({ name }: { readonly name: string }): boolean => name.includes(values.only);

const stage = new Stage(values.main);
const watched = new Stage(values.main, { watchesTurns: true });
try {
  const reads = functions.filter(isWanted).map((each, i) => new FunctionSearch(each, seed + i));
  const searches = classes.filter(isWanted).map((each, i) => new ClassSearch(each, stage, seed + i));
  for (const search of searches) await search.begin(corpus[search.inputClass.name]);
  while (performance.now() < endMs) await turn(searches, reads);
  const reports: ClassReport[] = [];
  for (const search of searches) {
    reports.push(await reportOn(search, watched));
    save(reports, reads);
  }
  process.stdout.write(`${tableOf(reports)}\n${tableOfFunctions(reads)}`);
} finally {
  await stage.close();
  await watched.close();
}

function save(reports: readonly ClassReport[], reads: readonly FunctionSearch[]): void {
  const inFunctions = reads.map((search) => ({ name: search.function.name, findings: search.findings }));
  if (values.out !== undefined) writeFileSync(values.out, JSON.stringify([...reports, ...inFunctions], null, 1));
}

/** Each of them once, until the time is over. */
async function turn(searches: readonly ClassSearch[], reads: readonly FunctionSearch[]): Promise<void> {
  for (const search of reads) search.runUntil(Math.min(endMs, performance.now() + functionTurnMs));
  for (const search of searches) {
    await search.runUntil(Math.min(endMs, performance.now() + classTurnMs));
    const [dearest] = search.findings();
    if (dearest === undefined) continue;
    const us = Math.round(usPerRequest(dearest));
    process.stderr.write(`${search.inputClass.name}: ${search.inputs} inputs, ${us} µs for ${dearest.bytes} bytes\n`);
  }
}
