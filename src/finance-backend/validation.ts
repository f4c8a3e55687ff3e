// Reads query parameters by their declared kinds and collects every error, so that a client learns all of them at once.
// A parameter that is absent is null; one that is given twice, or empty, is an error. Parameters nobody asks for are
// ignored, because the specification says that there are more filters than it names.
import type { ErrorDetail } from "./answers.ts";
import { parseDay, parseTimestamp } from "./calendar.ts";

/** Ids are 32-bit in this API; transaction ids are not, but nothing takes one as a parameter. */
export const maxId = 2_147_483_647;

export class QueryReader {
  readonly errors: ErrorDetail[] = [];
  readonly #parameters: URLSearchParams;

  constructor(parameters: URLSearchParams) {
    this.#parameters = parameters;
  }

  integer(name: string, low: number, high: number): number | null {
    const text = this.#single(name);
    if (text === null) return null;
    const value = parseInteger(text, low, high);
    return value ?? this.refuse(name, `${name} must be an integer from ${low} to ${high}.`);
  }

  date(name: string): string | null {
    const text = this.#single(name);
    if (text === null || parseDay(text) !== null) return text;
    return this.refuse(name, `${name} must be a calendar date in YYYY-MM-DD form.`);
  }

  /** In canonical form: see parseTimestamp. */
  timestamp(name: string): string | null {
    const text = this.#single(name);
    if (text === null) return null;
    const rule = `${name} must be a date in YYYY-MM-DD form or an ISO 8601 date and time.`;
    return parseTimestamp(text) ?? this.refuse(name, rule);
  }

  oneOf<const T extends string>(name: string, choices: readonly T[]): T | null {
    const text = this.#single(name);
    if (text === null) return null;
    const choice = choices.find((candidate) => candidate === text);
    return choice ?? this.refuse(name, `${name} must be one of ${choices.join(", ")}.`);
  }

  boolean(name: string): boolean | null {
    const choice = this.oneOf(name, ["true", "false"]);
    return choice === null ? null : choice === "true";
  }

  refuse(name: string, errMsg: string): null {
    this.errors.push({ errMsg, instancePath: `/query/${name}` });
    return null;
  }

  #single(name: string): string | null {
    const values = this.#parameters.getAll(name);
    if (values.length > 1) return this.refuse(name, `${name} must be given at most once.`);
    return values[0] ?? null;
  }
}

/** The integer in plain decimal form, or null: no sign, no leading zero, no exponent, no white space. */
export function parseInteger(text: string, low: number, high: number): number | null {
  if (!/^(?:0|[1-9]\d{0,15})$/.test(text)) return null;
  const value = Number(text);
  return value >= low && value <= high ? value : null;
}
