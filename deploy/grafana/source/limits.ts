// Details of limits and tokens: what the quota does to clients, whether the table of clients is large enough, and what
// comes of the bearer check.
import { authColors, decisionColors, evictionColors, lines } from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, share, sumRate } from "./queries.ts";

/** Share of decisions after which at most this share of the limit was left; `le` as the histogram writes it. */
function leftAtMost(le: string): string {
  return share(
    sumRate("headgate_remaining_ratio_bucket", `${gateway}, le="${le}"`),
    sumRate("headgate_remaining_ratio_count", gateway),
  );
}

export const limits: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "Decisions",
    description:
      "A second, by policy. `admitted` was charged, `throttled` was refused with 429 and charged nothing, `observed` lies outside every limited route.",
    unit: "reqps",
    width: 8,
    stacked: true,
    queries: [
      {
        expr: sumRate("headgate_decisions_total", gateway, "policy, outcome"),
        legend: "{{policy}} {{outcome}}",
        color: decisionColors,
      },
    ],
  },
  {
    kind: "chart",
    title: "How little is left to clients",
    description:
      "Share of the decisions after which the client had nothing left, at most a tenth, or at most half of its quota. Clients that are near their limit before anyone is throttled show here.",
    unit: "percentunit",
    width: 8,
    max: 1,
    queries: [
      { expr: leftAtMost("0"), legend: "nothing left", color: lines.first },
      { expr: leftAtMost("0.1"), legend: "a tenth", color: lines.second },
      { expr: leftAtMost("0.5"), legend: "half", color: lines.third },
    ],
  },
  {
    kind: "chart",
    title: "Bearer check",
    description:
      "Requests a second. `missing`: none, or not one well-formed token; `invalid`: not on the list; `skipped`: refused before, or no check is asked for.",
    unit: "reqps",
    width: 8,
    stacked: true,
    queries: [{ expr: sumRate("headgate_auth_total", gateway, "outcome"), legend: "{{outcome}}", color: authColors }],
  },
  {
    kind: "chart",
    title: "Fill of the client table",
    description: "Clients remembered by each gateway, as a share of `maxClients`.",
    unit: "percentunit",
    width: 8,
    queries: [
      {
        expr: `headgate_clients_tracked{${gateway}} / headgate_clients_capacity{${gateway}}`,
        legend: "{{instance}} {{policy}}",
      },
    ],
  },
  {
    kind: "chart",
    title: "Clients forgotten",
    description:
      "A second. `expired`: nothing of theirs counted any more. `live`: the table was full; raise `maxClients` if it goes on.",
    unit: "cps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_evictions_total", gateway, "reason"), legend: "{{reason}}", color: evictionColors },
    ],
  },
  {
    kind: "chart",
    title: "Tokens listed",
    description: "Tokens that pass, in mode `tokens`; 0 in the other modes. Gateways with one file show one number.",
    unit: "short",
    width: 8,
    queries: [{ expr: `headgate_tokens_listed{${gateway}}`, legend: "{{instance}}" }],
  },
];
