import { defineConfig } from "vitest/config";
import { shared } from "./vitest.config.ts";

// What needs installed programs, or starts the gateway as a process or in threads: dear, and seldom broken by a change of a line.
export default defineConfig({ test: { ...shared, include: ["test/**/*.programs.ts"] } });
