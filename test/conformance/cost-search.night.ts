// A short search for inputs that cost much CPU (bench/hostile/README.md): HTTP/1, TLS, HTTP/2, PROXY headers, checks over
// HTTP and gRPC, the admin port, and answers of the upstream. It begins with all inputs that once cost too much. A seed
// of its own may be given: HEADGATE_SEARCH_SEED, and HEADGATE_SEARCH_SECONDS for each class.
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { classes } from "../../bench/hostile/search/classes.ts";
import { corpus } from "../../bench/hostile/search/corpus.ts";
import { FunctionSearch } from "../../bench/hostile/search/function-search.ts";
import { functions } from "../../bench/hostile/search/functions.ts";
import type { Input } from "../../bench/hostile/search/input.ts";
import { ClassSearch, type Finding, usPerRequest } from "../../bench/hostile/search/search.ts";
import { Stage } from "../../bench/hostile/search/stage.ts";

const { HEADGATE_SEARCH_SEED, HEADGATE_SEARCH_SECONDS } = process.env;
const seed = Number(HEADGATE_SEARCH_SEED ?? 20_261_122);
const seconds = Number(HEADGATE_SEARCH_SECONDS ?? 2);

/** Of a request below 16 KiB. The inputs of the search are no longer. */
const maxUs = 5_000;
const maxTimesOrdinary = 100;
/** Of an ordinary request. On a machine where it takes longer, 5 ms are worth less. */
const usualUs = 150;

for (const [i, inputClass] of classes.entries()) {
  test(`${inputClass.name}: no request costs 5 ms, or 100 times an ordinary one`, async ({ annotate }) => {
    const stage = new Stage(fileURLToPath(new URL("../../src/main.ts", import.meta.url)));
    try {
      const search = new ClassSearch(inputClass, stage, seed + i);
      await search.begin(corpus[inputClass.name]);
      await search.runUntil(performance.now() + seconds * 1000);
      const dear: Finding[] = [];
      // The least of many runs, so that neither garbage nor other processes make it fail.
      for (const finding of search.findings().filter(isTooDear)) dear.push(await search.verify(finding, 20));
      await annotate(`${search.inputs} inputs, ${shown(search.findings()[0])}`);
      expect(dear.filter(isTooDear).map(shown)).toEqual([]);
    } finally {
      await stage.close();
    }
  });
}

for (const [i, each] of functions.entries()) {
  test(`${each.name}: no 16 KiB take 5 ms`, async ({ annotate }) => {
    const search = new FunctionSearch(each, seed + i);
    search.runUntil(performance.now() + (seconds * 1000) / 3);
    const dear = search.findings.map((finding) => search.verify(finding)).filter(({ us }) => us > maxUs);
    await annotate(`${search.inputs} inputs, ${Math.round(search.findings[0]?.us ?? 0)} µs`);
    expect(dear.map(({ us, input }) => `${us} µs: ${inputText(input)}`)).toEqual([]);
  });
}

function isTooDear(finding: Finding): boolean {
  const { timesOrdinary, timesOneOrdinary } = finding;
  const isSlow = usPerRequest(finding) > maxUs && timesOrdinary > maxUs / usualUs;
  return isSlow || Math.max(timesOrdinary, timesOneOrdinary) > maxTimesOrdinary;
}

function shown(finding: Finding | undefined): string {
  if (finding === undefined) return "nothing";
  const { bytes, requests, timesOrdinary, outcome, input } = finding;
  const us = Math.round(usPerRequest(finding));
  return `${us} µs a request, ${timesOrdinary.toFixed(1)} × ordinary, ${bytes} bytes, ${requests} requests, ${outcome}: ${inputText(input)}`;
}

function inputText(input: Input): string {
  return JSON.stringify(input).slice(0, 2_000);
}
