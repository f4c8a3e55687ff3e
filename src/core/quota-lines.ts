// Makes the text of the RateLimit-* and X-RateLimit-* headers, each of which has one number. Most of the text is the same
// for many responses: only `remaining` differs for each request of a client, and the reset for each client. The rest is
// made once and kept.
import { type HeaderLines, KeptText } from "./header-lines.ts";

/** `RateLimit`, `X-RateLimit`, both or none. */
export type QuotaPrefixes = readonly string[];

/** The text for a limit and a reset. */
class ResetText {
  limit = Number.NaN;
  reset = Number.NaN;
  /** Between the first `remaining` and the second one. */
  readonly between = new KeptText();
  /** After the last `remaining`. */
  readonly end = new KeptText();
}

/** Windows mostly last a minute, so the resets of their clients are in the next 60 s. A power of two. */
const keptResets = 64;

export class QuotaLines {
  readonly #prefixes: QuotaPrefixes;
  readonly #end: string;
  readonly #resets = Array.from({ length: keptResets }, () => new ResetText());
  #date = "";
  #limit = Number.NaN;
  /** Before the first `remaining`, for `#date` and `#limit`. */
  readonly #begin = new KeptText();
  readonly #last = { begin: "", remaining: 0, reset: Number.NaN, lines: new KeptText() };

  /** `end` follows the headers. */
  constructor(prefixes: QuotaPrefixes, end: string) {
    this.#prefixes = prefixes;
    this.#end = end;
  }

  /** Returns `date`, the headers, and the end. */
  after(date: HeaderLines, limit: number, remaining: number, reset: number): string {
    const begin = this.#beginOf(date, limit);
    if (this.#prefixes.length === 0) return begin;
    const last = this.#last;
    // A client that is throttled gets the same lines many times in a second.
    if (last.remaining !== remaining || last.reset !== reset || last.begin !== begin) {
      last.begin = begin;
      last.remaining = remaining;
      last.reset = reset;
      last.lines.set(this.#linesOf(begin, limit, `${remaining}`, reset));
    }
    return last.lines.use();
  }

  #linesOf(begin: string, limit: number, remaining: string, reset: number): string {
    const text = this.#resetText(limit, reset);
    if (this.#prefixes.length === 1) return begin + remaining + text.end.use();
    return begin + remaining + text.between.use() + remaining + text.end.use();
  }

  #beginOf(date: HeaderLines, limit: number): string {
    if (limit !== this.#limit || date !== this.#date) {
      const [first] = this.#prefixes;
      const text = first === undefined ? this.#end : `${first}-Limit: ${limit}\r\n${first}-Remaining: `;
      this.#begin.set(date + text);
      this.#limit = limit;
      this.#date = date;
    }
    return this.#begin.use();
  }

  #resetText(limit: number, reset: number): ResetText {
    const text = this.#resets[reset & (keptResets - 1)] as ResetText;
    if (text.reset !== reset || text.limit !== limit) {
      const [first, second] = this.#prefixes;
      text.limit = limit;
      text.reset = reset;
      text.between.set(`\r\n${first}-Reset: ${reset}\r\n${second}-Limit: ${limit}\r\n${second}-Remaining: `);
      text.end.set(`\r\n${second ?? first}-Reset: ${reset}\r\n${this.#end}`);
    }
    return text;
  }
}
