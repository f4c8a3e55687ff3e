// Each safeguard taken out in turn, which takes a minute: a seed must fail then.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mutations } from "./mutations.ts";

const main = join(import.meta.dirname, "main.ts");

test.for(mutations)("a seed fails with: $name", { timeout: 900_000 }, ({ name, from = 0 }) => {
  const seeds = ["--from", `${from}`, "--seeds", "10000"];
  const { status, stdout } = spawnSync(process.execPath, [main, "--mutation", name, ...seeds], { encoding: "utf8" });
  expect(stdout).toMatch(/^seed \d+: at /);
  expect(status).toBe(1);
});
