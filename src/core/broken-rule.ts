// Names the rule of HTTP that a message breaks, and where, for the log. No value is ever named.
import { inOnePiece } from "./headers.ts";

export interface BrokenRule {
  readonly rule: string;
  /** Of the head, from 1; null: it is in a body, over HTTP/2, or not known. */
  readonly line: number | null;
  /** Cut to 64 characters, all of which a name may have; null: no field is at fault. */
  readonly field: string | null;
}

const token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
const nameStart = new RegExp(`^${token}`);

/** `field`: a text that begins with the name. */
export function brokenRule(rule: string, line: number | null = null, field = ""): BrokenRule {
  const [name] = nameStart.exec(field.slice(0, 64)) ?? [];
  return { rule, line, field: name === undefined ? null : inOnePiece(name) };
}

type LineSyntax = readonly (readonly [rule: string, isBroken: RegExp])[];

// Each pattern takes linear time.
export const statusLine: LineSyntax = [
  ["a version other than HTTP/1", /^(?!HTTP\/1\.\d(?: |$))/],
  ["a status other than 100 to 999", /^.{8}(?! [1-9]\d\d(?: |$))/],
];
export const requestLine: LineSyntax = [["not a method, a target and a version", /^(?!\S+ +\S+ +HTTP\/\d\.\d$)/]];
const fieldLine: LineSyntax = [
  ["a folded line", /^[\t ]/],
  ["a blank in or behind a name", new RegExp(`^${token}[\\t ]`)],
  ["a name that is no token", new RegExp(`^(?!${token}(?::|$))`)],
  ["a line without a colon", /^[^:]*$/],
];
const anyText: LineSyntax = [
  ["a CR without an LF", /\r/],
  ["a control character", /[^\t\x20-\x7e\x80-\xff]/],
];

/** Returns the first rule that a head breaks. `text`: the head as far as it has come, or to the byte at fault. */
export function findBroken(text: string, firstLine: LineSyntax, mayEndInLf: boolean): BrokenRule {
  const lines = text.split("\n");
  for (const [i, ended] of lines.entries()) {
    const line = ended.replace(/\r$/, "");
    const isLf = !mayEndInLf && i < lines.length - 1 && line === ended;
    if (i > 0 && line === "" && !isLf) break;
    const rules = i === 0 ? [...firstLine, ...anyText] : [...anyText, ...fieldLine];
    const rule = isLf ? "an LF without a CR" : rules.find(([, isBroken]) => isBroken.test(line))?.[0];
    // A line without a colon may be a part of a value.
    if (rule !== undefined) return brokenRule(rule, i + 1, i > 0 && line.includes(":") ? line : "");
  }
  return brokenRule("a line of another form", lines.length);
}
