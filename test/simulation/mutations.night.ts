// Each safeguard taken out in turn: its seed must fail then, or if what is drawn for a seed was changed, one of those after it,
// which then takes its place in mutations.ts.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mutations } from "./mutations.ts";

const main = join(import.meta.dirname, "main.ts");

test.for(mutations)("a seed fails with: $name", { timeout: 900_000 }, ({ name, seed }) => {
  const seeds = ["--from", `${seed}`, "--seeds", "10000"];
  const { status, stdout } = spawnSync(process.execPath, [main, "--mutation", name, ...seeds], { encoding: "utf8" });
  expect(stdout).toMatch(/^seed \d+: at /);
  expect(status).toBe(1);
});
