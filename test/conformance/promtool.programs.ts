// Prometheus' own tool on what is exposed. `check metrics` lints names and reads text 0.0.4 only; for OpenMetrics the
// reader is the one that imports it into a database, which wants a timestamp on each sample.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exchangeOf, metricsOf, storeOf } from "../telemetry/scrape.ts";

const installed = spawnSync("promtool", ["--version"]).status === 0;
// HEADGATE_REQUIRE=all turns what is missing into a failure.
const { HEADGATE_REQUIRE } = process.env;
const skip = !installed && HEADGATE_REQUIRE !== "all";

function promtool(args: readonly string[], input: string) {
  const { status, stdout, stderr, error } = spawnSync("promtool", args, { input, encoding: "utf8" });
  if (error !== undefined) throw error;
  return { status, output: stdout + stderr };
}

async function exposed(openMetrics: boolean): Promise<string> {
  const metrics = metricsOf({ store: storeOf() });
  metrics.observe(exchangeOf());
  return (await metrics.text(openMetrics)).body;
}

/** Imports OpenMetrics text into a new database; the output is a table of the blocks made. */
function imported(openMetrics: string) {
  const folder = mkdtempSync(join(tmpdir(), "headgate-promtool-"));
  try {
    const stamped = openMetrics.replace(/^([^#\n].*)$/gm, "$1 1700000000");
    const [file, database] = [join(folder, "text"), join(folder, "database")];
    writeFileSync(file, stamped);
    return promtool(["tsdb", "create-blocks-from", "openmetrics", file, database], "");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test.skipIf(skip)(
  "promtool check metrics has nothing to say (needs promtool: apt-get install prometheus)",
  async () => {
    expect(promtool(["check", "metrics"], await exposed(false))).toEqual({ status: 0, output: "" });
    const lint = promtool(["check", "metrics"], "# TYPE bad_total gauge\nbad_total 1\n");
    expect(lint, "it would have said something").not.toEqual({ status: 0, output: "" });
  },
);

test.skipIf(skip)(
  "Prometheus reads the OpenMetrics text whole (needs promtool: apt-get install prometheus)",
  async () => {
    const text = await exposed(true);
    const samples = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    const { status, output } = imported(text);
    expect(status, output).toBe(0);
    const [block, , , , samplesRead, , seriesRead] = output.trim().split("\n").at(-1)?.split(/\s+/) ?? [];
    expect([samplesRead, seriesRead], block).toEqual([`${samples.length}`, `${samples.length}`]);
    expect(imported(text.replace("# EOF\n", "")).status, "an end that is missing is noticed").not.toBe(0);
  },
);
