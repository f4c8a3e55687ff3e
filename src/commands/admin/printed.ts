// What commands print for people: lines, tables, instants and lengths of time. What comes from elsewhere (names, notes, paths) may
// have characters that a terminal obeys; they are printed as their numbers.

import type { ClientList, Status } from "../../admin/control-plane.ts";
import { hiddenCharacters } from "../../core/hidden-characters.ts";
import type { CommandError } from "../io.ts";
import type { ConnectionArguments } from "./invocation.ts";

export function printable(text: string): string {
  return text.replace(hiddenCharacters, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/** Every line goes this way to the terminal. */
export function linesText(lines: readonly string[]): string {
  return lines.map((line) => `${printable(line).trimEnd()}\n`).join("");
}

/** The same characters are escaped as JSON does it, where JSON would leave them. */
export function jsonText(value: unknown): string {
  const text = JSON.stringify(value, null, 2);
  return `${text.replace(hiddenCharacters, (character) => (character === "\n" ? character : jsonEscape(character)))}\n`;
}

function jsonEscape(character: string): string {
  return Array.from({ length: character.length }, (_, i) => {
    return `\\u${character.charCodeAt(i).toString(16).padStart(4, "0")}`;
  }).join("");
}

export function errorLines({ message, details }: CommandError): string[] {
  return [`headgate: ${message}`, ...details.map((detail) => `  ${detail}`)];
}

/** Columns of the same width, with two blanks between them. `right`: the columns of numbers. */
export function tableLines(rows: readonly (readonly string[])[], right: readonly number[] = []): string[] {
  const cells = rows.map((row) => row.map(printable));
  const widths = (cells[0] ?? []).map((_, i) => Math.max(...cells.map((row) => (row[i] ?? "").length)));
  return cells.map((row) =>
    row
      .map((cell, i) => (right.includes(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

/** Rounded up to a second, because nothing is free earlier. */
export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  const [days, hours, minutes] = [
    Math.floor(whole / 86_400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  if (days > 0) return hours > 0 ? `${days} d ${hours} h` : `${days} d`;
  if (hours > 0) return minutes > 0 ? `${hours} h ${minutes} min` : `${hours} h`;
  const left = whole % 60;
  if (minutes > 0) return left > 0 ? `${minutes} min ${left} s` : `${minutes} min`;
  return `${left} s`;
}

/** `14:03:11 UTC`, with its date if that is not today's. Cut to a second, as the console does; `nowMs` is by the wall clock. */
export function instantText(instant: string, nowMs: number): string {
  const atMs = Date.parse(instant);
  if (!Number.isFinite(atMs)) return instant;
  const [date = "", time = ""] = new Date(atMs).toISOString().slice(0, 19).split("T");
  const isToday = new Date(nowMs).toISOString().startsWith(date);
  return `${isToday ? "" : `${date} `}${time} UTC`;
}

/** `in 12 s, at 14:03:11 UTC`. */
export function untilText(instant: string, nowMs: number): string {
  return `in ${durationText((Date.parse(instant) - nowMs) / 1000)}, at ${instantText(instant, nowMs)}`;
}

/** `5 min ago, at 13:58:00 UTC`. */
export function sinceText(instant: string, nowMs: number): string {
  return `${durationText(Math.floor((nowMs - Date.parse(instant)) / 1000))} ago, at ${instantText(instant, nowMs)}`;
}

/** `1 rule`, `2 rules`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** How often a key was refused. An upper bound; `error` says by how much it may be too high. */
export function refusedText(refused: ClientList["clients"][number]["refused"]): string {
  if (refused === null) return "";
  return refused.error === 0 ? `${refused.count}` : `${refused.count - refused.error}-${refused.count}`;
}

/** What a command that asks a running gateway prints: for people, and as JSON. What a command prints. */
export interface Report {
  /** As `--json` prints it. */
  readonly answer: unknown;
  /** For people; made only if they are asked for. */
  lines(): readonly string[];
  /** To standard error, for people. */
  readonly warnings?: readonly string[];
  /** Default: ok. */
  readonly exitCode?: number;
}

/**
 * The text of a command that a person may type next, with the same gateway as the command that prints it. `words`: the
 * command and its arguments; each is quoted as a shell needs it.
 */
export function commandText(words: readonly string[], connection: ConnectionArguments): string {
  const { socket, url, tokenFile, ca, config } = connection;
  const given = Object.entries({ socket, url: url?.origin, "token-file": tokenFile, ca, config });
  const options = given.flatMap(([name, value]) => (value == null ? [] : [`--${name}`, value]));
  return ["headgate", ...words, ...options].map(quoted).join(" ");
}

/** A shell reads nothing in single quotes. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** What became of a reload on trial, in words. As the end of a sentence, such as `taken back by ops`. */
export function trialEndText({ outcome, reason, by, trial }: NonNullable<Status["lastTrial"]>): string {
  const verb = outcome === "confirmed" ? "confirmed" : "taken back";
  switch (reason) {
    case "asked":
      return `${verb} by ${by === "socket" ? "somebody over the socket" : (by ?? "a program")}`;
    case "time":
      return `${verb}, because ${outcome === "confirmed" ? "its time was over" : "nobody had confirmed it in time"}`;
    case "refused":
      return `${verb}, because it refused ${trial.refused} of ${trial.judged} requests that would have been admitted before`;
    case "reload":
      return `${verb} by another reload, which was not on trial`;
  }
}
