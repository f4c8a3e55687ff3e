// What a test starts ends with it, as ps would show it: the program and what it has started in turn.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { useCleanup } from "./cleanup.ts";
import { eventually } from "./eventually.ts";
import { startProcessGroup } from "./process-group.ts";

const cleanup = useCleanup();

/** Writes its own pid and that of a worker, which would outlive it; as nginx' workers do when their master is killed. */
const server = 'sleep 300 & echo "$$ $!"; wait';

/** A process that has ended may stay in the table until its parent asks for its exit code. */
function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

async function pidsOf(stdout: NodeJS.ReadableStream): Promise<number[]> {
  const [line] = await once(stdout, "data");
  return String(line).trim().split(" ").map(Number);
}

test("the workers of a server end with it", async () => {
  const group = startProcessGroup("sh", ["-c", server]);
  cleanup(() => group.end());
  const pids = await pidsOf(group.child.stdout);
  expect(pids[0]).toBe(group.child.pid);
  expect(pids.map(isRunning)).toEqual([true, true]);
  await group.end();
  await eventually("both have ended", () => !pids.some(isRunning));
});

test("the workers of a server that is killed alone end too", async () => {
  const group = startProcessGroup("sh", ["-c", server]);
  cleanup(() => group.end());
  const pids = await pidsOf(group.child.stdout);
  group.child.kill("SIGKILL");
  expect(await group.exited).toEqual({ code: null, signal: "SIGKILL" });
  await eventually("both have ended", () => !pids.some(isRunning));
});

test.each(["SIGKILL", "SIGINT"] as const)("all of it ends when the test's process gets %s", async (signal) => {
  const module = fileURLToPath(new URL("./process-group.ts", import.meta.url));
  const starter = `
    const { startProcessGroup } = await import(${JSON.stringify(module)});
    startProcessGroup("sh", ["-c", ${JSON.stringify(server)}], { stdout: "inherit" });`;
  const group = startProcessGroup(process.execPath, ["--input-type=module", "-e", starter]);
  cleanup(() => group.end());
  const pids = await pidsOf(group.child.stdout);
  expect(pids.map(isRunning)).toEqual([true, true]);
  group.child.kill(signal);
  await eventually("both have ended", () => !pids.some(isRunning));
});

test("the exit code is the program's, and its output is all there", async () => {
  const group = startProcessGroup("sh", ["-c", "cat; echo out; exit 7"]);
  cleanup(() => group.end());
  const [line] = await once(group.child.stdout, "data");
  expect([String(line), await group.exited]).toEqual(["out\n", { code: 7, signal: null }]);
});
