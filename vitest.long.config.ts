import { defineConfig } from "vitest/config";
import { shared as ofTests } from "./vitest.config.ts";

/** Tests that measure CPU or memory, or that fail if a process waits long for its turn. */
export const alone = [
  "test/conformance/endings/endings.long.ts",
  "test/conformance/faults/*.long.ts",
  "test/limits/table/*.long.ts",
  "test/reload/reloads.long.ts",
  "test/shared-store/*.long.ts",
  "test/workers/endings.long.ts",
];

export const shared = {
  setupFiles: ofTests.setupFiles,
  // It only ends what hangs: what computes for 20 seconds takes a hundred beside thirty other processes.
  testTimeout: 300_000,
  hookTimeout: ofTests.hookTimeout,
  expect: ofTests.expect,
  // Of those tests of a file that say that they can run at the same time: mostly they wait.
  maxConcurrency: 2,
};
const env = { HEADGATE_RUNS: "full" };

// What takes too long for every `npm test`, and can break by any change: each file says what it shows, and has its own bound. Of
// the samples of `npm test`, all.
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...shared,
          // What is measured alone is measured with what it compiles.
          env: { ...env, ...ofTests.env },
          name: "together",
          include: ["test/**/*.long.ts", "test/**/*.sampled.test.ts"],
          exclude: alone,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          env,
          name: "alone",
          include: alone,
          maxWorkers: 1,
          // The endings alone do so. Each has a process of its own, and waits half of the time.
          maxConcurrency: 4,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
