// How many processors the process may use: those that the system lets it run on, or fewer if its control group, or one
// that contains it, has a quota. A container's quota is such a one. What cannot be read is no quota.
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

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

/** `text`: of cgroup v2's `cpu.max`, such as "150000 100000" or "max 100000". Infinity if there is no quota. */
export function quotaOfV2(text: string): number {
  const [quota = "", period = ""] = text.trim().split(/\s+/);
  return processors(quota, period);
}

/** The texts of cgroup v1's `cpu.cfs_quota_us`, which is -1 without a quota, and `cpu.cfs_period_us`. */
export function quotaOfV1(quota: string, period: string): number {
  return processors(quota.trim(), period.trim());
}

function processors(quota: string, period: string): number {
  const isQuota = /^[1-9]\d*$/.test(quota) && /^[1-9]\d*$/.test(period);
  return isQuota ? Number(quota) / Number(period) : Number.POSITIVE_INFINITY;
}

/** The folders of a group and of the groups that contain it, below the folder where the groups are mounted. */
export function groupsOf(path: string | null): readonly string[] {
  if (path === null) return [];
  // A path that leaves the namespace of the process begins with "/..".
  const names = path.split("/").filter((name) => name !== "" && name !== "." && name !== "..");
  return Array.from({ length: names.length + 1 }, (_, i) => names.slice(0, names.length - i).join("/"));
}

/** The process' groups in both versions; null if it is in none that can have a quota. */
interface Groups {
  readonly v1: string | null;
  readonly v2: string | null;
}

/** `text`: of /proc/self/cgroup, lines such as `0::/a` and `4:cpu,cpuacct:/a`. */
export function groupsOfProcess(text: string): Groups {
  const lines = [...text.matchAll(/^\d+:([^:\n]*):(\/.*)$/gm)];
  const pathOf = (controller: string): string | null =>
    lines.find(([, controllers = ""]) => controllers.split(",").includes(controller))?.[2] ?? null;
  return { v1: pathOf("cpu"), v2: pathOf("") };
}

/** A fraction counts as a whole processor. At least one, at most `available`. */
export function usableProcessors(quotas: readonly number[], available: number): number {
  return Math.max(1, Math.min(available, Math.ceil(Math.min(...quotas))));
}
