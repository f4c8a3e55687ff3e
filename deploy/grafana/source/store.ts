// Details of the store that gateways share. Without one, these panels are empty.
import { aloneColors, callColors, lines, shardColors, unitColors, waitedColors } from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, quantiles, sumRate } from "./queries.ts";

export const store: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "Shards of the store",
    description:
      "Shards of the store by state, as each gateway sees them, in all. `slow`: an answer is overdue. `away`: it is not asked. `returned`: it is told what it does not know. All should be `up`.",
    unit: "short",
    width: 8,
    stacked: true,
    queries: [{ expr: `sum by (state) (headgate_store_shards{${gateway}})`, legend: "{{state}}", color: shardColors }],
  },
  {
    kind: "chart",
    title: "Calls of the store",
    description:
      "Calls per second by result, the counters that they are about, and failed attempts to connect. `late`: nobody waited for the answer any more. `refused`: wrong password or a missing permission. `full`: the store has no memory left. All should be `answered`.",
    unit: "cps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_store_calls_total", gateway, "result"), legend: "{{result}}", color: callColors },
      { expr: sumRate("headgate_store_items_total", gateway), legend: "counters", color: lines.first },
      {
        expr: sumRate("headgate_store_connect_failures_total", gateway),
        legend: "failed connects",
        color: lines.second,
      },
    ],
  },
  {
    kind: "chart",
    title: "Duration of calls of the store",
    description:
      "Time from sending a call to its answer. `counters.redis.wait` should be well above the 99th percentile.",
    unit: "s",
    width: 8,
    queries: quantiles("headgate_store_call_duration_seconds", gateway),
  },
  {
    kind: "chart",
    title: "Requests that waited for the store",
    description:
      "Requests per second. `answered`: the answer came in time. `overdue`: it did not within `counters.redis.wait`, and the request was decided without it. Requests that are decided from leased units do not wait.",
    unit: "reqps",
    width: 8,
    stacked: true,
    queries: [
      { expr: sumRate("headgate_store_waited_total", gateway, "result"), legend: "{{result}}", color: waitedColors },
    ],
  },
  {
    kind: "chart",
    title: "Wait for the store",
    description: "Time that requests waited for an answer of the store; it is at most `counters.redis.wait`.",
    unit: "s",
    width: 8,
    queries: quantiles("headgate_store_wait_seconds", gateway),
  },
  {
    kind: "chart",
    title: "Requests decided without the store",
    description:
      "Requests per second that were decided by `counters.redis.onFailure`, because the store was not there. This should be zero.",
    unit: "reqps",
    width: 8,
    stacked: true,
    queries: [{ expr: sumRate("headgate_store_alone_total", gateway, "mode"), legend: "{{mode}}", color: aloneColors }],
  },
  {
    kind: "chart",
    title: "Units of leases",
    description:
      "Units of the limits per second. `granted`: by the store. `spent`: on requests. `returned`: given back unspent, or run out. If much is returned, leases are too large for the traffic.",
    unit: "cps",
    width: 8,
    queries: [{ expr: sumRate("headgate_store_units_total", gateway, "fate"), legend: "{{fate}}", color: unitColors }],
  },
  {
    kind: "chart",
    title: "Units held",
    description: "Units that each gateway holds and has not spent yet, and the leases that they are of.",
    unit: "short",
    width: 8,
    queries: [
      { expr: `headgate_store_held_units{${gateway}}`, legend: "{{instance}} units" },
      { expr: `headgate_store_held_leases{${gateway}}`, legend: "{{instance}} leases" },
    ],
  },
  {
    kind: "chart",
    title: "Refused from memory",
    description:
      "Requests per second that were refused without asking the store, because it had refused shortly before. A flood of refused requests costs the store nothing.",
    unit: "reqps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_store_refused_from_memory_total", gateway, "instance"), legend: "{{instance}}" },
    ],
  },
  {
    kind: "chart",
    title: "Replicas",
    description: "Gateways that share the store, as each of them sees it. All lines should show the same number.",
    unit: "short",
    width: 8,
    queries: [{ expr: `headgate_store_replicas{${gateway}}`, legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Losses and clock steps",
    description:
      "Times per second that a thread found that the store may have forgotten counts, and that its clock had been set. Both should be zero.",
    unit: "cps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_store_forgot_total", gateway), legend: "forgot", color: lines.first },
      { expr: sumRate("headgate_store_clock_steps_total", gateway), legend: "clock steps", color: lines.third },
    ],
  },
  {
    kind: "chart",
    title: "Clients counted with their network",
    description:
      "Clients per second that were counted with their network, because a gateway had made `counters.redis.maxKeys` new keys. This should be zero; otherwise very many new clients come, or one changes its address all the time.",
    unit: "cps",
    width: 8,
    noValue: "none",
    queries: [{ expr: `${sumRate("headgate_store_coarse_total", gateway, "instance")} > 0`, legend: "{{instance}}" }],
  },
];
