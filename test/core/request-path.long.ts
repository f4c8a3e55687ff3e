// The CPU time of reading a path grows with its length and not faster, and does not grow with the number of routes. The
// steps are counted in request-path.cost.test.ts; this also sees what is not a step, such as a slow regular expression.
import { expect, test } from "vitest";
import { createPathReader } from "../../src/core/request-path.ts";

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
/** Microseconds for one reading. The clock of CPU time is coarse, so it takes many. */
function cpuMicros(read: (path: string) => unknown, path: string): number {
  const readings = 500;
  for (let i = 0; i < 50; i += 1) read(path);
  const start = process.threadCpuUsage();
  for (let i = 0; i < readings; i += 1) read(path);
  const { user, system } = process.threadCpuUsage(start);
  return (user + system) / readings;
}

const sized = ([beginning, piece]: readonly [string, string], length: number): string =>
  `${beginning}${piece.repeat(length)}`.slice(0, length);

test.each(cases)("%s and %s again and again", (...parts) => {
  const half = cpuMicros(readManyRoutes, sized(parts, 4000));
  const whole = cpuMicros(readManyRoutes, sized(parts, 8000));
  const fewRoutes = cpuMicros(readFewRoutes, sized(parts, 8000));
  // Twice, if linear, and four times, if quadratic; a reading of some microseconds is too short for a ratio.
  expect(whole).toBeLessThan(3 * half + 50);
  expect(whole).toBeLessThan(3 * fewRoutes + 50);
});
