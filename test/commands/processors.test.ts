// The processors that the process may use, read from folders such as /proc and /sys of a container.
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { availableProcessors } from "../../src/commands/processors.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";

const cleanup = useCleanup();
const v2 = "sys/fs/cgroup";
const v1 = "sys/fs/cgroup/cpu";

test.each<[what: string, files: Record<string, string>, processors: number]>([
  ["no groups at all", {}, 16],
  [
    "a container that sees its own group as the root",
    { "proc/self/cgroup": "0::/\n", [`${v2}/cpu.max`]: "150000 100000\n" },
    2,
  ],
  [
    "a quota of the group above, as of a pod",
    {
      "proc/self/cgroup": "0::/pods/a/b\n",
      [`${v2}/pods/a/b/cpu.max`]: "max 100000\n",
      [`${v2}/pods/a/cpu.max`]: "350000 100000\n",
      [`${v2}/pods/cpu.max`]: "900000 100000\n",
    },
    4,
  ],
  [
    "the path of the host, which the container does not see",
    { "proc/self/cgroup": "0::/system.slice/docker-1.scope\n", [`${v2}/cpu.max`]: "300000 100000\n" },
    3,
  ],
  [
    "version 1",
    {
      "proc/self/cgroup": "4:cpu,cpuacct:/docker/a\n1:name=systemd:/\n0::/\n",
      [`${v1}/docker/a/cpu.cfs_quota_us`]: "250000\n",
      [`${v1}/docker/a/cpu.cfs_period_us`]: "100000\n",
      [`${v1}/cpu.cfs_quota_us`]: "-1\n",
      [`${v1}/cpu.cfs_period_us`]: "100000\n",
    },
    3,
  ],
  ["more than the machine has", { "proc/self/cgroup": "0::/\n", [`${v2}/cpu.max`]: "6400000 100000\n" }, 16],
])("%s", (_, files, processors) => {
  const root = scratchFolder(cleanup);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  expect(availableProcessors(root, 16)).toBe(processors);
});

test("this machine has at least one, and no more than the system lets it run on", () => {
  expect(availableProcessors()).toBeGreaterThanOrEqual(1);
  expect(availableProcessors()).toBeLessThanOrEqual(availableParallelism());
});
