// The sliding windows of a policy keep what every store of counters keeps, in a table of one thread and in a shared one.
import { describeCounterStore } from "./limiter.contract.ts";
import { LimitedTable } from "./one-limit.ts";
import { smallTable } from "./small-table.ts";

describeCounterStore("a table of one thread", (policy) => new LimitedTable(policy));

describeCounterStore(
  "a table that threads share",
  (policy) => new LimitedTable(policy, smallTable({ thread: 2, isShared: true })),
);
