import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 20_000,
    hookTimeout: 20_000,
    // Two at a time: the tests open real sockets, and a loaded machine must not turn a wait into a failure.
    maxWorkers: 2,
  },
});
