// The figures of a run for people, as rows of a table, if HEADGATE_FIGURES names a file for them.
import { appendFileSync } from "node:fs";
import type { LoadResult } from "./load.ts";
import type { Outcome } from "./traffic.ts";

/** What, admitted of the ideal, the worst window, and its error: p99 and longest time from sending to arrival. */
export function reportOutcome(what: string, { admitted, ideal, worst, p99DelayMs, delayMs }: Outcome): void {
  writeRow([what, `${admitted} of ${ideal}`, worst, `${p99DelayMs.toFixed(1)} / ${delayMs.toFixed(1)}`]);
}

/** What, worst windows (small, at the edge, large), admitted of the ideal, decided alone, statuses, and p50 / p99 before and after. */
export function reportLoad(what: string, { small, edge, large, before, after, alone }: LoadResult): void {
  const worst = [small, edge, large].map((outcome) => outcome.worst);
  const admitted = [small, large].map((outcome) => `${outcome.admitted} of ${outcome.ideal}`);
  const times = [before, after].map(({ p50Ms, p99Ms, longestMs }) => [p50Ms, p99Ms, longestMs]);
  const statuses = JSON.stringify(after.statuses).replaceAll('"', "");
  writeRow([
    what,
    ...worst,
    ...admitted,
    alone,
    statuses,
    ...times.map((each) => each.map((ms) => ms.toFixed(1)).join(" / ")),
  ]);
}

/** Appends a row of a table to the file that HEADGATE_FIGURES names, if it does. */
export function writeRow(cells: readonly (string | number | boolean)[]): void {
  const file = process.env["HEADGATE_FIGURES"];
  if (file !== undefined) appendFileSync(file, `| ${cells.join(" | ")} |\n`);
}
