// The screen of `headgate top`, as lines: a pure function of what is known and of the size of the terminal. The header says how the
// gateway is, below it are the clients, and the last line names the keys.

import type { ClientState } from "../../../admin/control-plane.ts";
import { durationText, instantText, refusedText } from "../printed.ts";
import { bar, cut, fitted, highlighted, type Line, plain, type Size, styled } from "./lines.ts";
import { type Answers, followedIndex, type Row, rowsOf, type ShownClient, scrolled, type TopState } from "./state.ts";

/** Exactly as many lines as the terminal has, and none is wider. */
export function screen(state: TopState, size: Size): Line[] {
  const head = headerLines(state);
  const room = Math.max(0, size.rows - head.length - 1);
  const lines = [...head, ...filled(bodyLines(state, { columns: size.columns, rows: room }), room), footer(state)];
  return lines.slice(0, size.rows).map((line) => cut(line, size.columns));
}

/** How many rows of clients, or lines about one client, are shown. */
export function pageRows(state: TopState, { rows }: Size): number {
  return Math.max(1, rows - headerLines(state).length - 2);
}

/** All that is known, once, without a terminal: nothing is cut. */
export function printout(state: TopState): Line[] {
  const rows = rowsOf(state);
  const table = clientTable(rows, Number.POSITIVE_INFINITY);
  return [...headerLines(state), table.head, ...table.rows];
}

function filled(lines: readonly Line[], count: number): Line[] {
  return Array.from({ length: count }, (_, i) => lines[i] ?? []);
}

function bodyLines(state: TopState, size: Size): Line[] {
  if (state.view === "help") return help.map((line) => [plain(line)]);
  if (state.view === "client" && state.client !== null) {
    const { offset } = state.client;
    const [title = [], ...lines] = clientLines(state.client, size.columns, state.answers?.atMs ?? 0);
    const last = Math.max(0, lines.length - (size.rows - 1));
    return [title, ...lines.slice(Math.min(offset, last))];
  }
  const rows = rowsOf(state);
  const shown = Math.max(1, size.rows - 1);
  const offset = scrolled(state.offset, state.selected, shown);
  const table = clientTable(rows.slice(offset, offset + shown), size.columns);
  const lines = table.rows.map((line, i) => {
    return offset + i === state.selected ? highlighted(cut(line, size.columns), size.columns) : line;
  });
  return [table.head, ...(rows.length === 0 ? [[plain("No key is counted.")]] : lines)];
}

function headerLines(state: TopState): Line[] {
  const { answers, failure, place } = state;
  if (answers === null) return [[styled("bold", "headgate"), plain(`  ${place}`)], ...failureLines(failure)];
  const { status, rates, atMs } = answers;
  const { version, uptimeSeconds } = status;
  return [
    [
      ...[styled("bold", `headgate ${version}`), plain("  "), judged(status.state, status.state === "ready")],
      plain(` for ${durationText(uptimeSeconds)}  ${place}`),
    ],
    [plain("requests/s  "), ...ratePieces(rates)],
    dependencies(status),
    ...warningLines(answers, atMs),
    ...failureLines(failure),
    orderLine(state, answers),
  ];
}

function judged(text: string, isGood: boolean) {
  return styled(isGood ? "good" : "bad", text);
}

function ratePieces(rates: Answers["rates"]): Line {
  if (rates === null) return [plain("not known yet")];
  const { admitted, refused, p99Seconds } = rates;
  const text = `refused ${rateText(refused)}`;
  return [
    plain(`admitted ${rateText(admitted)}  `),
    refused > 0 ? styled("warning", text) : plain(text),
    plain(p99Seconds === null ? "" : `  p99 ${Number((p99Seconds * 1000).toPrecision(3))} ms`),
  ];
}

function rateText(perSecond: number): string {
  return perSecond >= 10 ? `${Math.round(perSecond)}` : `${Number(perSecond.toFixed(1))}`;
}

function dependencies({ upstream, store, workers }: Answers["status"]): Line {
  const available = upstream.addresses.filter(({ state }) => state === "available").length;
  const reason = upstream.reason === null ? "" : ` (${upstream.reason})`;
  return [
    ...[plain("upstream "), judged(`${upstream.state}${reason}`, upstream.state !== "down")],
    plain(`, ${available} of ${upstream.addresses.length} addresses`),
    ...(store === null
      ? []
      : [plain("  store "), judged(store.state, store.state === "up"), plain(`, ${store.replicas} gateways`)]),
    plain("  workers "),
    judged(`${workers.serving} of ${workers.configured}`, workers.serving === workers.configured),
  ];
}

/** What an operator must know, each on a line of its own. */
function warningLines({ status, list }: Answers, nowMs: number): Line[] {
  const { trial } = status;
  const texts = [
    ...(trial === null ? [] : [trialText(trial, nowMs)]),
    ...(status.config.isCurrent ? [] : ["the configuration that was read last is not in force: headgate status"]),
    ...(list.isShared ? ["other gateways count the same keys; these are the counts of this one"] : []),
  ];
  return texts.map((text) => [styled("warning", text)]);
}

function trialText({ ends, unconfirmed }: NonNullable<Answers["status"]["trial"]>, nowMs: number): string {
  const then = unconfirmed === "keep" ? "then it is kept" : "then it is taken back, unless confirmed";
  return `a reload is on trial until ${instantText(ends, nowMs)}; ${then}`;
}

function failureLines(failure: TopState["failure"]): Line[] {
  if (failure === null) return [];
  return [[styled("bad", `since ${failure.since}, tried again and again: ${failure.message}`)]];
}

function orderLine(state: TopState, { list }: Answers): Line {
  const { sort, policy, search, isPaused, followed } = state;
  const count = `${list.clients.length}${list.isComplete ? "" : "+"} keys`;
  const filters = [
    ...(policy === null ? [] : [`policy ${policy}`]),
    ...(search === null ? [] : [`filter ${JSON.stringify(search)}`]),
  ];
  const isLost = followedIndex(state) === -1;
  return [
    plain([count, `by ${sort}`, ...filters].join("  ")),
    ...(followed === null ? [] : [styled("warning", isLost ? "  followed key is not listed" : "  following")]),
    ...(isPaused ? [styled("warning", "  PAUSED")] : []),
  ];
}

function footer({ view, typed, notice }: TopState): Line {
  if (typed !== null)
    return [plain("filter: "), styled("bold", `${typed}_`), plain("  Enter applies, Escape leaves it")];
  if (notice !== null) return [styled("warning", notice)];
  if (view === "help") return [styled("dim", "any key: back")];
  if (view === "client") return [styled("dim", "q back  p pause  arrows scroll")];
  return [styled("dim", "u r n sort  / filter  f follow  Enter client  p pause  ? help  q quit")];
}

const help = [
  "u r n           sort by what is used, by refusals, by the last request",
  "/               show only keys that begin with a text, or are in a network",
  "Escape          show all keys again",
  "Up Down         select; also PageUp, PageDown, Home and End",
  "f               follow the selected key wherever it moves",
  "Enter           show the selected client: all policies, and the rules about it",
  "p space         pause: the gateway is not asked",
  "q Ctrl-C        quit",
  "Ctrl-Z          suspend; fg goes on",
  "Ctrl-L          draw everything again",
  "",
  "Refused is a count of a sketch: a range says between which numbers it is.",
  "After kill -9, the command reset repairs the terminal.",
];

// The table

/** Columns of which the key may be shortened, and others left out, when the terminal is narrow. */
interface Cells {
  readonly key: string;
  readonly policy: string;
  readonly used: string;
  readonly share: number;
  readonly left: string;
  readonly reset: string;
  readonly refused: string;
}

const titles: Cells = {
  ...{ key: "KEY", policy: "POLICY", used: "USED", share: 0, left: "LEFT", reset: "RESET", refused: "REFUSED" },
};

const leastKeyWidth = 20;
const leastBarWidth = 10;
const mostBarWidth = 40;
const mostPolicyWidth = 24;

export function clientTable(rows: readonly Row[], columns: number): { readonly head: Line; readonly rows: Line[] } {
  const cells = rows.map(cellsOf);
  const widths = widthsOf([titles, ...cells], columns);
  const [first = [], ...lines] = [titles, ...cells].map((each) => rowLine(each, widths));
  return { head: [styled("bold", first.map(({ text }) => text).join(""))], rows: lines };
}

function cellsOf({ key, name, policy, method, route, used, limit, remaining, ...row }: Row): Cells {
  const { resetSeconds, refused } = row;
  const who = [key ?? name, row.seen === null ? null : `(${row.seen})`].filter((part) => part !== null);
  return {
    key: plain(who.join(" ")).text,
    policy: plain([policy, method, route].filter((part) => part !== null).join(" ")).text,
    used: `${used}/${limit}`,
    share: limit === 0 ? 1 : Math.min(1, used / limit),
    left: `${remaining}`,
    reset: resetSeconds === null ? "" : shortDuration(resetSeconds),
    refused: refusedText(refused),
  };
}

/** `59m59s`. */
export function shortDuration(seconds: number): string {
  return durationText(seconds).replace("min", "m").replaceAll(" ", "");
}

/** 0: the column is left out. */
type Widths = Readonly<Record<"key" | "policy" | "used" | "bar" | "left" | "reset" | "refused", number>>;

function widthsOf(cells: readonly Cells[], columns: number): Widths {
  const natural = (name: Exclude<keyof Cells, "share">) => Math.max(...cells.map((each) => each[name].length));
  const [key, policy] = [natural("key"), Math.min(natural("policy"), mostPolicyWidth)];
  const all = { policy, used: natural("used"), left: natural("left"), reset: natural("reset") };
  const wide = { ...all, refused: natural("refused"), bar: leastBarWidth };
  const choices = [wide, { ...wide, bar: 0 }, { ...wide, bar: 0, left: 0 }, { ...wide, bar: 0, left: 0, policy: 0 }];
  const roomOf = (widths: Omit<Widths, "key">): number =>
    Object.values(widths).reduce((left, width) => left - (width === 0 ? 0 : width + 1), columns);
  const chosen = choices.find((each) => roomOf(each) >= Math.min(key, leastKeyWidth)) ?? choices[3] ?? wide;
  const spare = Math.max(0, roomOf(chosen) - key);
  const widened = Math.min(mostBarWidth, leastBarWidth + spare);
  const width = Math.max(1, Math.min(key, roomOf(chosen)));
  return {
    ...chosen,
    bar: chosen.bar === 0 || columns === Number.POSITIVE_INFINITY ? chosen.bar : widened,
    key: width,
  };
}

function rowLine(cells: Cells, widths: Widths): Line {
  const isTitle = cells === titles;
  return [
    plain(fitted(cells.key, widths.key)),
    ...(widths.policy === 0 ? [] : [plain(` ${fitted(cells.policy, widths.policy)}`)]),
    plain(` ${cells.used.padStart(widths.used)}`),
    ...(widths.bar === 0 ? [] : [plain(" "), isTitle ? plain(" ".repeat(widths.bar)) : bar(cells.share, widths.bar)]),
    ...(widths.left === 0 ? [] : [plain(` ${cells.left.padStart(widths.left)}`)]),
    plain(` ${cells.reset.padStart(widths.reset)} ${cells.refused.padStart(widths.refused)}`),
  ];
}

// One client, as `headgate top` shows it: what each policy has counted of it, and the rules that are about it.

const barWidth = 20;
const leastColumnsForBar = 110;
const mostPolicyWidthOfClient = 32;

/** The first line says whom it is about. */
function clientLines({ key, state, missing }: ShownClient, columns: number, nowMs: number): Line[] {
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
  const width = Math.min(mostPolicyWidthOfClient, Math.max(...names.map((name) => name.length)));
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
