// Reads the words and options of a command line by the table of commands. An unknown one is an error that suggests the nearest
// known one. Values of settings are checked later, with the rest of the configuration.
import { parseArgs } from "node:util";
import { parseDuration } from "../config/leaves.ts";
import { nearest } from "../config/validate.ts";
import { enumerate } from "../core/enumerate.ts";
import { type CommandName, commands, type Option, type Options, type Positional, type ValueForm } from "./options.ts";

interface GivenOption {
  readonly name: string;
  readonly value: string;
  /** Of an option that takes two values. */
  readonly second?: string;
}

/** What was given to a command. */
export interface Given {
  /** In the order in which they were given. */
  readonly options: readonly GivenOption[];
  /** The words that are no options. */
  readonly words: readonly string[];
}

/** The last value of an option; undefined without it, and "" if it takes none. */
export function lastOf({ options }: Given, name: string): string | undefined {
  return options.findLast((option) => option.name === name)?.value;
}

export function isGiven(given: Given, name: string): boolean {
  return lastOf(given, name) !== undefined;
}

/** The value of an option that is checked to be a number. */
export function numberOf(given: Given, name: string): number | null {
  const value = lastOf(given, name);
  return value === undefined ? null : Number(value);
}

/** The value of an option that is checked to be a duration, in milliseconds. */
export function durationOf(given: Given, name: string): number | null {
  const value = lastOf(given, name);
  return value === undefined ? null : (parseDuration(value) ?? null);
}

/** Returns a message about what is wrong first. `--help` is understood whatever is missing. */
export function readGiven(command: CommandName, argv: readonly string[]): Given | string {
  const { options, positionals = [] } = commands[command];
  const given = readTokens(argv, options, positionals.length > 0);
  if (typeof given === "string" || isGiven(given, "help")) return given;
  const flaw = flawOfWords(given.words, positionals) ?? flawOfOptions(given, options);
  return flaw ?? given;
}

function tokensOf(argv: readonly string[], options: Options) {
  return parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      Object.entries(options).map(([name, { value, short }]) => [
        name,
        { type: value === null ? "boolean" : "string", ...(short === undefined ? {} : { short }) },
      ]),
    ),
    // Strict errors of Node suggest no name and do not name the command.
    strict: false,
    allowPositionals: true,
    tokens: true,
  }).tokens;
}

function readTokens(argv: readonly string[], options: Options, takesWords: boolean): Given | string {
  const tokens = tokensOf(argv, options);
  const given: GivenOption[] = [];
  const words: string[] = [];
  for (let i = 0; i < tokens.length; i += 1) {
    const token = tokens[i];
    if (token === undefined || token.kind === "option-terminator") continue;
    if (token.kind === "positional") {
      if (!takesWords) return `found ${quote(token.value)}, expected an option`;
      words.push(token.value);
      continue;
    }
    const next = tokens[i + 1];
    const option = readOption(token, next?.kind === "positional" ? next.value : null, options);
    if (typeof option === "string") return option;
    if (option.second !== undefined) i += 1;
    given.push(option);
  }
  return { options: given, words };
}

/** `next`: the word behind the option, which may be its second value; null: there is none. */
function readOption(token: OptionToken, next: string | null, options: Options): GivenOption | string {
  const flaw = flawOfToken(token, options);
  if (flaw !== null) return flaw;
  const { name, rawName, value = "" } = token;
  const { value: first, second } = options[name] as Option;
  if (second === undefined) return { name, value };
  return next === null ? `${rawName}: found one value, expected ${first} and ${second}` : { name, value, second: next };
}

interface OptionToken {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inlineValue: boolean | undefined;
}

function flawOfToken({ name, rawName, value, inlineValue }: OptionToken, options: Options): string | null {
  const option = Object.hasOwn(options, name) ? options[name] : undefined;
  if (option === undefined) {
    const names = Object.keys(options);
    const known = nearest(name, names) ?? names.find((each) => each.startsWith(name)) ?? null;
    return `unknown option ${quote(rawName)}${suggestion(known === null ? null : `--${known}`)}`;
  }
  if (option.value === null) return value === undefined ? null : `${rawName} takes no value`;
  // A hyphen alone is standard input.
  const isMissing = value === undefined || (value.startsWith("-") && value !== "-" && inlineValue !== true);
  return isMissing ? `${rawName}: found no value, expected ${option.value}` : null;
}

function flawOfWords(words: readonly string[], positionals: readonly Positional[]): string | null {
  for (const [i, positional] of positionals.entries()) {
    const word = words[i];
    if (word === undefined && positional.isOptional === true) return null;
    const flaw = flawOfWord(word, words[i - 1], positional);
    if (flaw !== null) return flaw;
  }
  const next = words[positionals.length];
  return next === undefined
    ? null
    : `found ${quote(next)} too, expected ${positionals.length === 1 ? "one argument" : "two arguments"}`;
}

function flawOfWord(word: string | undefined, before: string | undefined, { means, words }: Positional): string | null {
  if (word === undefined || word === "") {
    return `found ${before === undefined ? "no argument" : `nothing after ${quote(before)}`}, expected ${means}`;
  }
  if (words === undefined || words.includes(word)) return null;
  const expected = words.length === 1 ? `${words[0]}` : enumerate(words);
  return `found ${quote(word)}, expected ${expected}${suggestion(nearest(word, words))}`;
}

function flawOfOptions(given: Given, options: Options): string | null {
  for (const { name, value } of given.options) {
    const form = options[name]?.form;
    const expected = form === undefined ? null : expectation(value, form);
    if (expected !== null) return `--${name}: found ${quote(value)}, expected ${expected}`;
  }
  for (const [name, { isRequired, value, means }] of Object.entries(options)) {
    if (isRequired === true && !isGiven(given, name)) return `--${name}: found nothing, expected ${value}. ${means}`;
  }
  return null;
}

/** Null: the value is as it should be. */
function expectation(value: string, form: ValueForm): string | null {
  switch (form.kind) {
    case "number": {
      const isWithin = /^\d{1,10}$/.test(value) && Number(value) >= form.from && Number(value) <= form.to;
      return isWithin ? null : `a whole number from ${form.from} to ${form.to}`;
    }
    case "duration": {
      const { from, to, example } = form;
      const [ms, least, most] = [value, from, to].map((text) => parseDuration(text) ?? Number.NaN) as number[];
      const isWithin = ms !== undefined && ms >= (least ?? 0) && ms <= (most ?? 0);
      return isWithin ? null : `a duration from ${from} to ${to}, such as ${example}`;
    }
    case "percentage":
      return shareOf(value) === null ? `a percentage from 0% to 99%, such as ${form.example}` : null;
    case "words":
      return form.words.includes(value) ? null : enumerate(form.words);
    case "pattern":
      return form.pattern.test(value) ? null : form.expected;
  }
}

/** Reads a percentage as a share from 0 to 1; null for another text. */
export function shareOf(text: string): number | null {
  const [, digits] = /^(\d{1,3}(?:\.\d{1,6})?)%$/.exec(text) ?? [];
  const percent = Number(digits);
  return percent <= 99 ? percent / 100 : null;
}

export const quote = (word: string): string => JSON.stringify(word.slice(0, 60));
export const suggestion = (word: string | null): string => (word === null ? "" : `; did you mean "${word}"?`);
