// The sliding windows of a policy keep what every store of counters keeps, in a table of one thread and in a shared one.
import { CounterTable, createTableMemory } from "../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../src/limits/table/layout.ts";
import { describeCounterStore } from "./limiter.contract.ts";
import { LimitedTable } from "./one-limit.ts";
import { placeSecret } from "./small-table.ts";

describeCounterStore("a table of one thread", (policy) => new LimitedTable(policy));

describeCounterStore("a table that threads share", (policy) => {
  const options = { secret: placeSecret, thread: 2, isShared: true };
  return new LimitedTable(policy, new CounterTable(createTableMemory(minTableBytes), options));
});
