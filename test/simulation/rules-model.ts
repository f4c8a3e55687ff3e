// A stand-in for a store that runs the script of rules, in memory and with a clock of the caller's. Compared with the real
// one in test/limits/store/rules-script.programs.ts.
import { maxRules } from "../../src/core/rules.ts";
import { mostOthers, removedForMs } from "../../src/limits/store/rules-script.ts";

interface Field {
  readonly revision: number;
  readonly endsMs: number;
  readonly mark: string;
  readonly content: string;
}

export interface RulesBounds {
  readonly rules: number;
  readonly others: number;
  /** Fields of a page: few, so that a simulation has several. */
  readonly page: number;
}

const usualBounds = { rules: maxRules, others: mostOthers, page: 2 };
const nothing: Field = { revision: 0, endsMs: 0, mark: "", content: "" };

export class RulesModel {
  readonly #clock: () => number;
  readonly #bounds: RulesBounds;
  readonly #fields = new Map<string, Field>();
  #origin = "";
  #version = 0;
  #floor = 0;
  #rules = 0;
  /** Hears of each entry that is written. `content`: "" if it was removed. */
  onWrite: ((name: string, revision: number, content: string) => void) | null = null;

  constructor(clock: () => number, bounds: RulesBounds = usualBounds) {
    this.#clock = clock;
    this.#bounds = bounds;
  }

  call(args: readonly string[]): unknown {
    const [operation = "", proposed = "", known = "", wallMs = "", ...rest] = args;
    const clockUs = this.#clock();
    const nowMs = Math.min(Number(wallMs), Math.floor(clockUs / 1000));
    let values: readonly string[] = [];
    if (operation === "read") values = this.#read(rest);
    else if (operation === "write") {
      const before = this.#version;
      values = this.#write(rest, Number(known), clockUs, nowMs);
      if (this.#version !== before && this.#origin === "") this.#origin = `${proposed}/${clockUs}`;
    }
    return [String(clockUs), this.#origin, String(this.#version), String(this.#floor), values, null];
  }

  flushAll(): void {
    this.#fields.clear();
    this.#origin = "";
    this.#version = 0;
    this.#floor = 0;
    this.#rules = 0;
  }

  copy(clock = this.#clock): RulesModel {
    const copy = new RulesModel(clock, this.#bounds);
    for (const [name, field] of this.#fields) copy.#fields.set(name, field);
    copy.#origin = this.#origin;
    copy.#version = this.#version;
    copy.#floor = this.#floor;
    copy.#rules = this.#rules;
    return copy;
  }

  #read([origin, version, cursor]: readonly string[]): readonly string[] {
    if (cursor === "0" && origin === this.#origin && Number(version) === this.#version) return ["0"];
    const after = Number(cursor) + this.#bounds.page;
    const fields = [...this.#fields].slice(Number(cursor), after);
    const next = after < this.#fields.size ? String(after) : "0";
    return [next, ...fields.flatMap(([name, field]) => [name, Object.values(field).join(" ")])];
  }

  #write([count, ...rest]: readonly string[], known: number, clockUs: number, nowMs: number): readonly string[] {
    const before = this.#version;
    const results: number[] = [];
    for (let i = 0; i < Number(count); i += 1) {
      results.push(...this.#change(rest.slice(6 * i, 6 * i + 6), known, clockUs, nowMs));
    }
    const hasMany = this.#fields.size - this.#rules > this.#bounds.others;
    if (this.#version !== before && hasMany) this.#sweep(nowMs);
    return results.map(String);
  }

  #change(args: readonly string[], known: number, clockUs: number, nowMs: number): readonly [number, number] {
    const [name = "", mark = "", proposed = "", , ends = "", content = ""] = args;
    const before = this.#fields.get(name) ?? nothing;
    const wasRule = isRule(name, before.content);
    const answer = mark === "n" ? answerBefore(before, args, known, nowMs) : null;
    if (answer !== null) return answer;
    if (mark === "a" && before.revision >= Number(proposed)) return [1, before.revision];
    if (isRule(name, content) && !wasRule && this.#isFull(nowMs)) return [2, 0];
    this.#version = Math.max(clockUs, this.#version + 1, known + 1, Number(proposed));
    const revision = before.revision >= Number(proposed) ? this.#version : Number(proposed);
    this.#fields.set(name, { revision, endsMs: Number(ends), mark, content });
    this.#rules += Number(isRule(name, content)) - Number(wasRule);
    this.onWrite?.(name, revision, content);
    return [1, revision];
  }

  #isFull(nowMs: number): boolean {
    if (this.#rules >= this.#bounds.rules) this.#sweep(nowMs);
    return this.#rules >= this.#bounds.rules;
  }

  #sweep(nowMs: number): void {
    const others: [string, number][] = [];
    this.#rules = 0;
    for (const [name, { revision, endsMs, content }] of [...this.#fields]) {
      const isEnded = endsMs <= nowMs;
      if (isRule(name, content) && !isEnded) {
        this.#rules += 1;
        continue;
      }
      if (isRule(name, content))
        this.#fields.set(name, { revision, endsMs: nowMs + removedForMs, mark: "a", content: "" });
      else if (isEnded) {
        this.#fields.delete(name);
        continue;
      }
      others.push([name, revision]);
    }
    if (others.length <= this.#bounds.others) return;
    others.sort(([a, one], [b, other]) => one - other || (a < b ? -1 : 1));
    for (const [name, revision] of others.slice(0, others.length - Math.floor((this.#bounds.others * 3) / 4))) {
      this.#fields.delete(name);
      this.#floor = Math.max(this.#floor, revision);
    }
  }
}

/** Why what is new is not written; null: it is, if there is room. */
function answerBefore(
  before: Field,
  [name = "", , proposed = "", expected = "", ends = "", content = ""]: readonly string[],
  known: number,
  nowMs: number,
): readonly [number, number] | null {
  const there = isRule(name, before.content) && before.endsMs > nowMs ? before.revision : 0;
  if (name.startsWith("f/") && before.endsMs >= Number(ends)) return [1, before.revision];
  if (expected !== "-1" && Number(expected) !== there) return [0, there];
  if (name.startsWith("r/") && content === "" && there + Number(proposed) === 0) return [0, 0];
  return before.revision > known ? [3, before.revision] : null;
}

function isRule(name: string, content: string): boolean {
  return content !== "" && name.startsWith("r/");
}
