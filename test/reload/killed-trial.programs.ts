// A process that is killed while a reload is on trial: the next one starts with what the file has, and says so.
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { scratchFolder } from "../support/scratch.ts";
import { deadUrl } from "../support/unavailable.ts";

const cleanup = useCleanup();
const ended = "a reload was on trial when the last process ended, this start uses what the file has";

test("a start after a kill has the file's values, and the log says that they were on trial", async () => {
  const folder = scratchFolder(cleanup);
  const config = join(folder, "headgate.yaml");
  const write = (confirmed: boolean): void => {
    const text = `maxBodyBytes: ${confirmed ? 1 : 2}MiB\nreload: { trial: { confirmWithin: 1h } }\n`;
    writeFileSync(`${config}.new`, `${text}counters: { snapshot: { path: ${folder}/counters } }\n`);
    renameSync(`${config}.new`, config);
  };
  write(true);
  const settings = ["policies.0.name=all", "policies.0.window=1h"];
  const first = await startGatewayProcess(cleanup, deadUrl, settings, { config });
  write(false);
  await eventually("it is on trial", () => first.output.out.includes("reload on trial begun"), 20_000);
  const written = async () => ((await first.figures()).get("headgate_snapshot_timestamp_seconds") ?? 0) > 0;
  await eventually("the snapshot has it", written, 20_000);
  first.signal("SIGKILL");
  await first.exited;
  const second = await startGatewayProcess(cleanup, deadUrl, settings, { config });
  expect(second.output.out).toContain(ended);
  second.signal("SIGTERM");
  expect(await second.exited).toMatchObject({ code: 0 });
  // Nothing is on trial in a process that ends by a drain.
  const third = await startGatewayProcess(cleanup, deadUrl, settings, { config });
  expect(third.output.out).not.toContain(ended);
});
