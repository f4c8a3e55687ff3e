// The CPU time of reading a path grows with its length and not faster, and does not grow with the number of routes. The
// steps are counted in request-path.cost.sampled.test.ts; this also sees what is not a step, such as a slow regular expression.
import { expect, test } from "vitest";
import { createPathReader } from "../../src/core/request-path.ts";
import { threadCpuUs } from "../support/cpu-time.ts";

const pieces = [
  "/\\%252525252f%5c;a%2f\\/\\/\\/",
  "/a/..",
  "/./",
  "%252f",
  "25",
  "/;",
  "\\;%2f?",
  "%2fapi",
  "/%c0%ae",
  "/%20",
  "/a",
  ".",
];
const beginnings = ["/", "/%2f", "/\\", "/finance/api/v1/", "/%2576\\;?%2f"];
const manyRoutes = Array.from({ length: 64 }, (_, i) => `/api/v${i}/`);
const { read: readManyRoutes } = createPathReader(manyRoutes, "/finance");
const { read: readFewRoutes } = createPathReader(["/api/v1/", "/v2/"], "/finance");

const cases = beginnings.flatMap((beginning) => pieces.map((piece) => [beginning, piece] as const));
/**
 * Microseconds for one reading of each, the least of several rounds. They take turns, because what else runs on the machine
 * can make readings take twice as long for a while.
 */
function cpuMicros(reads: readonly (() => unknown)[]): number[] {
  const [rounds, readings] = [8, 60];
  const least = reads.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < rounds; round += 1) {
    for (const [i, read] of reads.entries()) {
      const startUs = threadCpuUs();
      for (let reading = 0; reading < readings; reading += 1) read();
      least[i] = Math.min(least[i] ?? Number.POSITIVE_INFINITY, (threadCpuUs() - startUs) / readings);
    }
  }
  return least;
}

const sized = ([beginning, piece]: readonly [string, string], length: number): string =>
  `${beginning}${piece.repeat(length)}`.slice(0, length);

test.each(cases)("%s and %s again and again", (...parts) => {
  const [shorter, longer] = [sized(parts, 4000), sized(parts, 8000)];
  const [half = 0, whole = Number.POSITIVE_INFINITY, fewRoutes = 0] = cpuMicros([
    () => readManyRoutes(shorter),
    () => readManyRoutes(longer),
    () => readFewRoutes(longer),
  ]);
  // Twice, if linear, and four times, if quadratic; a reading of some microseconds is too short for a ratio.
  expect(whole).toBeLessThan(3 * half + 50);
  expect(whole).toBeLessThan(3 * fewRoutes + 50);
});
