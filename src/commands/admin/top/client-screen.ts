// One client, as `headgate top` shows it: what each policy has counted of it, and the rules that are about it.
import type { ClientState } from "../../../admin/control-plane.ts";
import { durationText, instantText } from "../printed.ts";
import { bar, fitted, type Line, plain, styled } from "./lines.ts";
import type { ShownClient } from "./state.ts";

const barWidth = 20;
const leastColumnsForBar = 110;
const mostPolicyWidth = 32;

/** The first line says whom it is about. */
export function clientLines({ key, state, missing }: ShownClient, columns: number, nowMs: number): Line[] {
  const title: Line = [styled("bold", key)];
  if (missing !== null) return [title, [styled("warning", missing)]];
  if (state === null) return [title, [plain("The gateway is asked.")]];
  const { policies, rules } = state;
  return [
    title,
    ...(policies.length === 0 ? [[plain("No policy counts it.")]] : policyLines(policies, columns, nowMs)),
    [],
    ...(rules.length === 0 ? [[plain("No rule is about it.")]] : rules.map((rule) => ruleLine(rule, nowMs))),
  ];
}

type Policies = ClientState["policies"];

function policyLines(policies: Policies, columns: number, nowMs: number): Line[] {
  const names = policies.map(({ policy, method, route }) => {
    return plain([policy, method, route].filter((part) => part !== null).join(" ")).text;
  });
  const width = Math.min(mostPolicyWidth, Math.max(...names.map((name) => name.length)));
  const used = Math.max(...policies.map((each) => usedText(each).length));
  return policies.flatMap((each, i) => {
    const { limit, used: units, state, isShadow, reset } = each;
    const style = state === "exhausted" ? "bad" : "good";
    return [
      [
        ...[plain(`${fitted(names[i] ?? "", width)} ${usedText(each).padStart(used)} `)],
        ...(columns < leastColumnsForBar
          ? []
          : [bar(limit === 0 ? 1 : Math.min(1, units / limit), barWidth), plain(" ")]),
        ...[styled(style, state), plain(isShadow ? " (shadow)" : "")],
        plain(reset === null ? "" : `, ${moreText(each)} at ${instantText(reset, nowMs)}`),
      ],
      ...details(each, nowMs).map((text): Line => [plain(`  ${text}`)]),
    ];
  });
}

function usedText({ used, limit }: Policies[number]): string {
  return `${used}/${limit}`;
}

function moreText({ remaining, resetSeconds }: Policies[number]): string {
  return `${remaining} left, more in ${durationText(resetSeconds ?? 0)},`;
}

function details({ countedAs, held, exemptBy, gap, instants }: Policies[number], nowMs: number): string[] {
  const [first, last] = [instants[0], instants.at(-1)];
  return [
    ...(countedAs === null ? [] : [`counted as its ${countedAs}, because there was no room for a counter of its own`]),
    ...(held === null || held === 0 ? [] : [`${held} held by requests under way`]),
    ...(exemptBy === null ? [] : [`exempt by ${exemptBy}`]),
    ...(gap === null ? [] : [gap]),
    ...(first === undefined || last === undefined
      ? []
      : [`what counts: from ${instantText(first.at, nowMs)} to ${instantText(last.at, nowMs)}`]),
  ];
}

function ruleLine({ id, action, policy, limit, ends, setBy, note }: ClientState["rules"][number], nowMs: number): Line {
  const what = [action, policy, limit].filter((part) => part !== undefined).join(" ");
  const why = note === undefined ? "" : `: ${note}`;
  return [styled("warning", `rule ${id}`), plain(`  ${what} until ${instantText(ends, nowMs)}, set by ${setBy}${why}`)];
}
