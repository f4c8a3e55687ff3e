import { defineConfig } from "vitest/config";

// What takes too long for every `npm test`: each file says what it shows, and has its own bound.
export default defineConfig({
  test: {
    include: ["test/**/*.long.ts"],
    testTimeout: 120_000,
    hookTimeout: 20_000,
    // One at a time: some measure.
    maxWorkers: 1,
  },
});
