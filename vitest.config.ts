import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export const shared = {
  setupFiles: ["test/support/property-seed.ts"],
  // Threads and programs that a test starts load what an earlier one has compiled: half of the processor time of their start.
  env: { NODE_COMPILE_CACHE: fileURLToPath(new URL("node_modules/.cache/tests", import.meta.url)) },
  // It only ends what hangs. A test that computes for half a second takes twenty on a machine with forty such processes.
  testTimeout: 60_000,
  hookTimeout: 60_000,
  // By default a second. Unlike `eventually`, it counts the time that other processes take.
  expect: { poll: { timeout: 20_000 } },
  // Four at a time keep two cores busy, since tests wait for a third of their time.
  maxWorkers: 4,
  // Files share the modules of their worker. Loading these anew for each file took a quarter of all the processor time, and
  // modules have no state that a test could leave to the next.
  isolate: false,
};

const slowestTests = "./test/support/slowest-tests.ts";

/** Of the other runs, what reads connections in the test's own process: a process chooses by itself how it reads. */
const alsoWithStreams = [
  "test/conformance/{behind-haproxy,http2-clients/*,ingress/*}.programs.ts",
  "test/conformance/leaks/answers.long.ts",
];
const readsStreams = process.env["HEADGATE_TEST_READS"] === "streams";

export default defineConfig({
  test: {
    ...shared,
    include: ["test/**/*.test.ts", ...(readsStreams ? alsoWithStreams : [])],
    setupFiles: [...shared.setupFiles, "test/support/own-time.ts"],
    globalSetup: ["test/support/temporary-folder.ts"],
    reporters: ["default", ...(readsStreams ? [] : [slowestTests])],
  },
});
