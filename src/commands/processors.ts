// How many processors the process may use: those that the system lets it run on, or fewer if its control group, or one
// that contains it, has a quota. A container's quota is such a one. What cannot be read is no quota.
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { groupsOf, groupsOfProcess, quotaOfV1, quotaOfV2, usableProcessors } from "../core/processor-quota.ts";

/** `root`: the folder that contains `proc` and `sys`. */
export function availableProcessors(root = "/", available = availableParallelism()): number {
  const { v1, v2 } = groupsOfProcess(read(join(root, "proc/self/cgroup")));
  const mounts = join(root, "sys/fs/cgroup");
  const ofV2 = groupsOf(v2).map((group) => quotaOfV2(read(join(mounts, group, "cpu.max"))));
  const ofV1 = groupsOf(v1).map((group) => {
    const file = (name: string): string => read(join(mounts, "cpu", group, name));
    return quotaOfV1(file("cpu.cfs_quota_us"), file("cpu.cfs_period_us"));
  });
  return usableProcessors([...ofV2, ...ofV1], available);
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // There is no such group, or none that this process can see.
    return "";
  }
}
