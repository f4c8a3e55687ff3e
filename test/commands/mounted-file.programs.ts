// Files that are mounted by themselves: the configuration, which is then replaced, as editors do it, and one that it names.
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { main, run } from "./command-process.ts";

const cleanup = useCleanup();

test("the start warns of files that are mounted by themselves, and so does a SIGHUP that finds nothing new", async () => {
  const folder = scratchFolder(onTestFinished);
  const upstream = 'upstream: { url: "https://127.0.0.1:1", tls: { ca: mounted.pem } }\n';
  writeFileSync(join(folder, "a.yaml"), `policies: [{ name: a, limit: 100, window: 60s }]\n${upstream}`);
  writeFileSync(join(folder, "a.pem"), new Authority(cleanup).cert);
  for (const name of ["mounted.yaml", "mounted.pem"]) writeFileSync(join(folder, name), "");
  const script = `mount --bind a.yaml mounted.yaml && mount --bind a.pem mounted.pem && exec "$0" "$@" --config mounted.yaml --port 0 --admin-port 0`;
  const command = ["--mount", "bash", "-c", `cd '${folder}' && ${script}`, process.execPath, main, "start"];
  const started = run("unshare", command);
  const warning =
    /"file":"[^"]*mounted\.(?:yaml|pem)","msg":"mounted by itself, so it never changes: mount its folder"/g;
  await started.until(/"msg":"listening/);
  expect(started.output.out.match(warning)).toHaveLength(2);
  writeFileSync(join(folder, "b.yaml"), "policies: [{ name: a, limit: 50, window: 60s }]\n");
  renameSync(join(folder, "b.yaml"), join(folder, "a.yaml"));
  started.process.kill("SIGHUP");
  await started.until(/nothing has changed[\s\S]*mounted by itself/);
  started.process.kill("SIGTERM");
  expect(await started.exited).toBe(0);
});
