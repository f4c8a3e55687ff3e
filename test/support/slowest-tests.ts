// Names the ten slowest tests of `npm test`, counts those that wait, and marks those that take longer than a test may. It fails no
// run: a time is no test, because a busy machine makes any test slow. The time is the test's own (see own-time.ts), and it is marked
// only if the machine had little else to do.
import { availableParallelism, loadavg } from "node:os";
import { relative } from "node:path";
import type { Reporter, TestCase, TestModule } from "vitest/node";

const mostMs = 1_500;
/** Tests that run beside others of their file wait at the same time. */
const mostBesideOthersMs = 3_000;
/** A part of the tests is no run of all, and says little. */
const manyModules = 100;
/** What waits so long waits for a time that somebody has configured, unless the machine is busy. */
const waitMs = 250;

/** What lasted shorter than its processes worked for it did so beside others. */
function ownMsOf(test: TestCase): number {
  return Math.min(test.meta().ownMs ?? 0, test.diagnostic()?.duration ?? 0);
}

export default class SlowestTests implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap(({ children }) => [...children.allTests()]);
    const slowest = tests.toSorted((one, other) => ownMsOf(other) - ownMsOf(one));
    if (modules.length >= manyModules) {
      for (const test of slowest.slice(0, 10)) print("slow", test);
      const waits = tests.map((test) => test.meta().waitedMs ?? 0).filter((ms) => ms >= waitMs);
      const seconds = Math.round(waits.reduce((sum, ms) => sum + ms, 0) / 1_000);
      process.stdout.write(`waits: ${waits.length} tests wait for ${waitMs} ms or longer, ${seconds} s in all\n`);
    }
    // The run itself keeps four processes busy, for a part of the time.
    if ((loadavg()[0] ?? 0) > 2 * availableParallelism()) return;
    const tooSlow = slowest.filter((test) => ownMsOf(test) > (test.options.concurrent ? mostBesideOthersMs : mostMs));
    for (const test of tooSlow) print("TOO SLOW", test);
  }
}

function print(label: string, test: TestCase): void {
  const path = relative(process.cwd(), test.module.moduleId);
  process.stdout.write(`${label}: ${Math.round(ownMsOf(test))} ms, ${path} > ${test.fullName}\n`);
}
