// Details of limits and tokens: decisions, how much quota clients have left, whether the memory for counters is large
// enough, and the results of the bearer check.
import { authColors, decisionColors, evictionColors, lines, refusalColors, ruleColors } from "./colors.ts";
import type { AnyPanelSpec } from "./panel.ts";
import { gateway, share, sumRate } from "./queries.ts";

/** Share of decisions that left at most so much of the limit. `le` selects the label of the bucket. */
function leftAtMost(le: string): string {
  return share(
    sumRate("headgate_remaining_ratio_bucket", `${gateway}, ${le}`),
    sumRate("headgate_remaining_ratio_count", gateway),
  );
}

export const limits: readonly AnyPanelSpec[] = [
  {
    kind: "chart",
    title: "Decisions",
    description:
      "Decisions per second, by policy. `admitted`: charged. `throttled`: refused with 429, not charged. `would_throttle`: refused if the policy were not a shadow. `exempt`: the client is exempt. `observed`: not charged, because another policy refused the request or it is under no route. `unavailable`: refused with 503, because the shared store is away and `counters.redis.onFailure` is `closed`.",
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
    title: "Remaining quota",
    description:
      "Share of the requests that left the client none of its quota, at most 10 %, or at most 50 %. Of several policies, it is the quota that the response speaks of. The lines rise before clients are throttled.",
    unit: "percentunit",
    width: 8,
    max: 1,
    queries: [
      // Earlier gateways wrote `0`, which Prometheus 3 rewrites as `0.0`.
      { expr: leftAtMost('le=~"0|0[.]0"'), legend: "none left", color: lines.first },
      { expr: leftAtMost('le="0.1"'), legend: "at most 10 %", color: lines.second },
      { expr: leftAtMost('le="0.5"'), legend: "at most 50 %", color: lines.third },
    ],
  },
  {
    kind: "chart",
    title: "Bearer check",
    description:
      "Requests per second. `missing`: no bearer token. `invalid`: a malformed token, or one that is not in the list. `skipped`: refused before the check, or `auth.mode` is `off`.",
    unit: "reqps",
    width: 8,
    stacked: true,
    queries: [{ expr: sumRate("headgate_auth_total", gateway, "outcome"), legend: "{{outcome}}", color: authColors }],
  },
  {
    kind: "chart",
    title: "Busiest client",
    description:
      "Share of the requests that one client sends, if it sends more than half. Near 100 % behind a load balancer, the balancer is not in `clientAddress.trustedProxies`.",
    unit: "percentunit",
    width: 8,
    noValue: "nobody sends more than half",
    max: 1,
    queries: [{ expr: `headgate_busiest_client_ratio{${gateway}} > 0`, legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Clients tracked",
    description: "Keys that each gateway keeps counters for: clients, or what the `key` of the policy says.",
    unit: "short",
    width: 8,
    queries: [{ expr: `headgate_clients_tracked{${gateway}}`, legend: "{{instance}} {{policy}}" }],
  },
  {
    kind: "chart",
    title: "Evicted clients by reason",
    description:
      "Clients per second. `expired`: none of their requests counted any more. `live`: the memory for counters was full; if this continues, raise `counters.memory`.",
    unit: "cps",
    width: 8,
    queries: [
      { expr: sumRate("headgate_evictions_total", gateway, "reason"), legend: "{{reason}}", color: evictionColors },
    ],
  },
  {
    kind: "chart",
    title: "Coarse keys",
    description:
      "Clients and networks that are counted as one key, because the memory for counters is full of exhausted keys. This should be zero; otherwise somebody uses up the quota of very many keys.",
    unit: "short",
    width: 8,
    noValue: "none",
    queries: [{ expr: `headgate_coarse_keys{${gateway}} > 0`, legend: "{{instance}} {{policy}}" }],
  },
  {
    kind: "chart",
    title: "Merged admissions",
    description:
      "Admissions per second whose time was rounded up to a later one of the same key, because no memory was free for it. Those keys have their quota back a little later.",
    unit: "cps",
    width: 8,
    noValue: "none",
    queries: [
      {
        expr: `${sumRate("headgate_admissions_merged_total", gateway, "instance, policy")} > 0`,
        legend: "{{instance}} {{policy}}",
      },
    ],
  },
  {
    kind: "chart",
    title: "Tokens listed",
    description:
      "Tokens that are accepted if `auth.mode` is `tokens`; 0 in the other modes. Gateways that read the same file show the same number.",
    unit: "short",
    width: 8,
    queries: [{ expr: `headgate_tokens_listed{${gateway}}`, legend: "{{instance}}" }],
  },
  {
    kind: "chart",
    title: "Rules in force",
    description:
      "Rules that were set while the gateway runs, by what they do; of several gateways, those of the one with the most. At most 10,000 are kept. `GET /api/rules` of the admin API lists them.",
    unit: "short",
    width: 8,
    noValue: "no rules",
    queries: [{ expr: `max by (action) (headgate_rules{${gateway}}) > 0`, legend: "{{action}}", color: ruleColors }],
  },
  {
    kind: "chart",
    title: "Blocked requests",
    description:
      "Requests per second that were refused with 403, because a rule blocks the client, the token or the subject. Without an attack, a rule may cover more than it should.",
    unit: "reqps",
    width: 8,
    noValue: "none blocked",
    queries: [
      {
        expr: `${sumRate("headgate_refusals_total", `${gateway}, reason="blocked"`)} > 0`,
        legend: "blocked requests",
        color: refusalColors.blocked,
      },
    ],
  },
  {
    kind: "chart",
    title: "Forgiven keys",
    description:
      "Keys per second whose counts were forgotten because an operator has forgiven them. A program that does so all the time turns the limit off.",
    unit: "cps",
    width: 8,
    noValue: "none forgiven",
    queries: [
      {
        expr: `${sumRate("headgate_forgiven_keys_total", gateway, "instance, policy")} > 0`,
        legend: "{{instance}} {{policy}}",
      },
    ],
  },
];
