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
    return this.#read(name, (text) => parseInteger(text, low, high), `an integer from ${low} to ${high}`);
  }

  date(name: string): string | null {
    return this.#read(name, (text) => (parseDay(text) === null ? null : text), "a calendar date in YYYY-MM-DD form");
  }

  /** In canonical form: see parseTimestamp. */
  timestamp(name: string): string | null {
    return this.#read(name, parseTimestamp, "a date in YYYY-MM-DD form or an ISO 8601 date and time");
  }

  oneOf<const T extends string>(name: string, choices: readonly T[]): T | null {
    const choose = (text: string): T | null => choices.find((choice) => choice === text) ?? null;
    return this.#read(name, choose, `one of ${choices.join(", ")}`);
  }

  boolean(name: string): boolean | null {
    const choice = this.oneOf(name, ["true", "false"]);
    return choice === null ? null : choice === "true";
  }

  refuse(name: string, errMsg: string): null {
    this.errors.push({ errMsg, instancePath: `/query/${name}` });
    return null;
  }

  #read<T>(name: string, parse: (text: string) => T | null, expected: string): T | null {
    const [text, second] = this.#parameters.getAll(name);
    if (second !== undefined) return this.refuse(name, `${name} must be given at most once.`);
    return text === undefined ? null : (parse(text) ?? this.refuse(name, `${name} must be ${expected}.`));
  }
}

/** The integer in plain decimal form, or null: no sign, no leading zero, no exponent, no white space. */
export function parseInteger(text: string, low: number, high: number): number | null {
  if (!/^(?:0|[1-9]\d{0,15})$/.test(text)) return null;
  const value = Number(text);
  return value >= low && value <= high ? value : null;
}
