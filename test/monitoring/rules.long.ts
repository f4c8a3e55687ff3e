// Every alert fires when it should and not in similar situations (deploy/prometheus/tests). promtool evaluates hours of each, for
// up to three seconds of processor time for one file and seven for all. The time only ends a promtool that hangs.
import { expect, test } from "vitest";
import { promtool, promtoolNeeded, ruleTests, skipPromtool } from "./promtool.ts";

test.skipIf(skipPromtool).each(ruleTests)(
  `the rules do what %s says ${promtoolNeeded}`,
  { timeout: 60_000 },
  (file) => {
    const { status, output } = promtool("test", "rules", file);
    expect(status, output).toBe(0);
    expect(output.match(/SUCCESS/g)).toHaveLength(1);
  },
);
