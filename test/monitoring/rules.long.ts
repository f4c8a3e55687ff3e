// Every alert fires when it should and not in similar situations (deploy/prometheus/tests). promtool evaluates hours of each, for
// up to three seconds of processor time for one file and seven for all.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { promtool, promtoolNeeded, ruleTests, skipPromtool } from "./promtool.ts";
import { relabelled } from "./relabelled.ts";

const cleanup = useCleanup();

test.skipIf(skipPromtool).each(ruleTests)(`the rules do what %s says ${promtoolNeeded}`, (file) => {
  const { status, output } = promtool("test", "rules", file);
  expect(status, output).toBe(0);
  expect(output.match(/SUCCESS/g)).toHaveLength(1);
});

test.skipIf(skipPromtool).each(ruleTests.filter((file) => file.includes("/alerts-")))(
  `they do it under another job, with labels that an installation adds: %s ${promtoolNeeded}`,
  (file) => {
    const { text, expected } = relabelled(file);
    expect(expected).toBeGreaterThan(5);
    const renamed = join(scratchFolder(cleanup), "renamed.test.yaml");
    writeFileSync(renamed, text);
    const { status, output } = promtool("test", "rules", renamed);
    expect(status, output).toBe(0);
  },
);
