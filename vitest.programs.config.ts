import { defineConfig } from "vitest/config";
import { shared } from "./vitest.config.ts";

// What needs installed programs, or starts the gateway as a process or with threads. Each file is in this run alone, so all of its
// runs are tried here.
export default defineConfig({
  test: {
    ...shared,
    include: ["test/**/*.programs.ts"],
    env: { ...shared.env, HEADGATE_RUNS: "programs" },
    // Of those tests of a file that say that they can run at the same time: each has three gateways, also with two threads each.
    maxConcurrency: 2,
    // Programs keep more processes busy than their test's. More of them would turn a wait into a failure.
    maxWorkers: 3,
    // A program starts slowly on a busy machine, and a test of the console waits for a page that asks seldom.
    testTimeout: 180_000,
  },
});
