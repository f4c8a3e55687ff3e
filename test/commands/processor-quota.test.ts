import { describe, expect, test } from "vitest";
import { groupsOf, groupsOfProcess, quotaOfV1, quotaOfV2, usableProcessors } from "../../src/commands/processors.ts";

const none = Number.POSITIVE_INFINITY;

test.each([
  ["150000 100000\n", 1.5],
  ["max 100000\n", none],
  ["50000 100000", 0.5],
  ["", none],
  ["0 100000", none],
  ["100000", none],
  ["100000 0", none],
  ["1e5 100000", none],
])("cpu.max %j allows %d processors", (text, processors) => {
  expect(quotaOfV2(text)).toBe(processors);
});

test.each([
  ["400000\n", "100000\n", 4],
  ["-1\n", "100000\n", none],
  ["", "", none],
])("cpu.cfs_quota_us %j of %j allows %d processors", (quota, period, processors) => {
  expect(quotaOfV1(quota, period)).toBe(processors);
});

test.each([
  ["/", [""]],
  ["/a/b", ["a/b", "a", ""]],
  ["/../../a", ["a", ""]],
  [null, []],
])("the groups that contain %j", (path, folders) => {
  expect(groupsOf(path)).toEqual(folders);
});

describe("the groups of a process", () => {
  test.each([
    ["0::/docker/a\n", { v1: null, v2: "/docker/a" }],
    ["12:cpuset:/x\n4:cpu,cpuacct:/docker/a:b\n0::/\n", { v1: "/docker/a:b", v2: "/" }],
    ["3:cpuset:/x\n2:cpuacct:/y\n", { v1: null, v2: null }],
    ["", { v1: null, v2: null }],
  ])("%j", (text, groups) => {
    expect(groupsOfProcess(text)).toEqual(groups);
  });
});

test.each([
  [[], 8, 8],
  [[none, 2, 3], 8, 2],
  [[1.01], 8, 2],
  [[0.1], 8, 1],
  [[16], 8, 8],
  [[none], 1, 1],
])("quotas %j of %d processors: %d", (quotas, available, processors) => {
  expect(usableProcessors(quotas, available)).toBe(processors);
});
