// A configuration file that is mounted by itself, and then replaced, as editors do it.
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { main, run } from "./command-process.ts";

test("the start warns of a configuration file that is mounted by itself, and so does a SIGHUP that finds nothing new", async () => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-mount-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "a.yaml"), "policies: [{ name: a, limit: 100, window: 60s }]\n");
  writeFileSync(join(folder, "mounted.yaml"), "");
  const script = `mount --bind a.yaml mounted.yaml && exec "$0" "$@" --config mounted.yaml --port 0 --admin-port 0`;
  const command = ["--mount", "bash", "-c", `cd '${folder}' && ${script}`, process.execPath, main, "start"];
  const started = run("unshare", command);
  const warning = /"file":"[^"]*mounted\.yaml","msg":"mounted by itself, so it never changes: mount its folder"/g;
  await started.until(/"msg":"listening/);
  expect(started.output.out.match(warning)).toHaveLength(1);
  writeFileSync(join(folder, "b.yaml"), "policies: [{ name: a, limit: 50, window: 60s }]\n");
  renameSync(join(folder, "b.yaml"), join(folder, "a.yaml"));
  started.process.kill("SIGHUP");
  await started.until(/nothing has changed[\s\S]*mounted by itself/);
  started.process.kill("SIGTERM");
  expect(await started.exited).toBe(0);
});
