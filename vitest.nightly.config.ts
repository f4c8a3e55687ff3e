import { defineConfig } from "vitest/config";
import { shared } from "./vitest.long.config.ts";

// Besides `*.night.ts`, everything of the other runs with all of its cases and with one thread and with two. One file at a time,
// because many of them measure, and nobody waits for it.
export default defineConfig({
  test: {
    ...shared,
    // Five times as many cases.
    testTimeout: 5 * shared.testTimeout,
    env: { HEADGATE_RUNS: "night" },
    include: ["test/**/*.{night,long,programs}.ts", "test/**/*.sampled.test.ts"],
    maxWorkers: 1,
  },
});
