// The keys of the counters, which all policies share, and of the threads that share them.
import { maxThreads } from "../core/thread-share.ts";
import { section } from "./definition.ts";
import { choice, duration, filePath, numberOrAuto, size } from "./leaves.ts";
import { redis } from "./store-keys.ts";

export const defaultSnapshotEvery = "30s";

export const counters = section("The counters of all policies, in one table.", {
  memory: size(
    "32MiB",
    ["1MiB", "4GiB"],
    "Memory of the table. When it is full, keys that have used the least are forgotten, exhausted ones never.",
  ),
  snapshot: section("A file from which a restart takes over the counters.", {
    path: filePath("The file, in a folder where the gateway may create and rename files; null keeps no snapshot."),
    every: duration(
      defaultSnapshotEvery,
      ["1s", "1h"],
      "Time between two snapshots; a crash loses what was counted since the last one. A drain writes one, too.",
    ),
  }),
  store: choice(
    "memory",
    ["memory", "redis"],
    "memory: each gateway counts for itself. redis: gateways share one limit through Redis or Valkey.",
  ),
  redis,
});

export const workers = numberOrAuto(
  1,
  [1, maxThreads],
  "Threads that carry traffic; auto uses as many as the container may use processors.",
);
