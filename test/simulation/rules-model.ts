// A stand-in for a store that runs the script of rules, in memory and with a clock of the caller's. Compared with the real
// one in test/limits/store/rules-script.programs.ts.
import { maxRules } from "../../src/core/rules.ts";
import { mostForgiven, mostRemoved } from "../../src/limits/store/rules-script.ts";

type Kind = "rules" | "forgiven" | "removed";

interface Entry {
  readonly kind: Kind;
  readonly place: number;
  readonly revision: number;
  readonly mark: string;
  readonly content: string;
  readonly endsMs: number;
}

/** Returns the next place of the log, not before a revision. */
type Next = (revision: number) => number;

export interface RulesBounds {
  readonly rules: number;
  readonly forgiven: number;
  readonly removed: number;
}

const usualBounds = { rules: maxRules, forgiven: mostForgiven, removed: mostRemoved };

export class RulesModel {
  readonly #clock: () => number;
  readonly #bounds: RulesBounds;
  readonly #entries = new Map<string, Entry>();
  #origin = "";
  #last = 0;
  #floor = 0;

  constructor(clock: () => number, bounds: RulesBounds = usualBounds) {
    this.#clock = clock;
    this.#bounds = bounds;
  }

  call(args: readonly string[]): unknown {
    const [operation = "", proposed = "", known = "", wallMs = "", ...rest] = args;
    const clockUs = this.#clock();
    if (this.#origin === "") {
      this.#origin = `${proposed}/${clockUs}`;
      this.#last = Math.max(clockUs, Number(known));
    }
    const next = (revision: number): number => {
      this.#last = Math.max(clockUs, this.#last + 1, Number(known) + 1, revision);
      return this.#last;
    };
    this.#dropEnded(Math.min(Number(wallMs), Math.floor(clockUs / 1000)), next);
    const values = this.#operate(operation, rest, next);
    this.#bound();
    return [String(clockUs), this.#origin, String(this.#floor), String(this.#last), values.map(String)];
  }

  flushAll(): void {
    this.#entries.clear();
    this.#origin = "";
    this.#last = 0;
    this.#floor = 0;
  }

  copy(clock = this.#clock): RulesModel {
    const copy = new RulesModel(clock, this.#bounds);
    for (const [name, entry] of this.#entries) copy.#entries.set(name, entry);
    copy.#origin = this.#origin;
    copy.#last = this.#last;
    copy.#floor = this.#floor;
    return copy;
  }

  #operate(operation: string, rest: readonly string[], next: Next): readonly (string | number)[] {
    switch (operation) {
      case "read":
        return this.#page(Number(rest[0]), Number(rest[1]));
      case "put":
      case "remove":
        return this.#change(rest, next);
      case "forgive": {
        const [name = "", content = "", ends = ""] = rest;
        const there = this.#entries.get(name);
        if (there !== undefined && there.endsMs >= Number(ends)) return [1, there.revision];
        return [1, this.#write("forgiven", name, 0, "n", content, Number(ends), next(0))];
      }
      default:
        return this.#tellAgain(rest, next);
    }
  }

  #page(after: number, most: number): (string | number)[] {
    const behind = [...this.#entries].filter(([, { place }]) => place > after).sort(byPlace);
    const page = behind.slice(0, most).flatMap(([name, { place, revision, mark, content }]) => {
      return [name, place, `${revision} ${mark} ${content}`];
    });
    return [behind.length >= most ? 1 : 0, ...page];
  }

  #change([name = "", expected = "", of, content, ends]: readonly string[], next: Next): number[] {
    const before = this.#entries.get(name);
    const there = before?.kind === "rules" ? before.revision : 0;
    const revision = Number(of);
    if (expected !== "-1" && Number(expected) !== there) return [0, there];
    if (content === undefined && there === 0) return [0, 0];
    if (before !== undefined && before.revision >= revision) return [3, before.revision];
    if (content === undefined) return [1, this.#write("removed", name, revision, "n", "", 0, next(revision))];
    if (there === 0 && this.#count("rules") >= this.#bounds.rules) return [2, 0];
    return [1, this.#write("rules", name, revision, "n", content, Number(ends), next(revision))];
  }

  #tellAgain([count, ...rest]: readonly string[], next: Next): number[] {
    const results: number[] = [];
    for (let i = 0; i < Number(count); i += 1) {
      const [kind, name = "", revisionText = "", content = "", ends = ""] = rest.slice(5 * i, 5 * i + 5);
      const revision = Number(revisionText);
      const there = this.#entries.get(name);
      results[i] = 1;
      if (revision <= (there?.revision ?? 0)) continue;
      const of = kind === "f" ? "forgiven" : content === "" ? "removed" : "rules";
      if (of === "rules" && there?.kind !== "rules" && this.#count("rules") >= this.#bounds.rules) results[i] = 2;
      else this.#write(of, name, revision, "a", content, Number(ends), next(revision));
    }
    return results;
  }

  #write(
    kind: Kind,
    name: string,
    revision: number,
    mark: string,
    content: string,
    endsMs: number,
    place: number,
  ): number {
    const entry = { kind, place, revision: revision === 0 ? place : revision, mark, content, endsMs };
    this.#entries.set(name, entry);
    return entry.revision;
  }

  #dropEnded(nowMs: number, next: Next): void {
    for (const [name, { revision }] of this.#endedOf("rules", nowMs))
      this.#write("removed", name, revision, "n", "", 0, next(revision));
    for (const [name] of this.#endedOf("forgiven", nowMs)) this.#entries.delete(name);
  }

  #endedOf(kind: Kind, nowMs: number): [string, Entry][] {
    const ended = [...this.#entries].filter(([, entry]) => entry.kind === kind && entry.endsMs <= nowMs);
    return ended.sort(([a, one], [b, other]) => one.endsMs - other.endsMs || (a < b ? -1 : 1)).slice(0, 100);
  }

  #bound(): void {
    const removed = [...this.#entries].filter(([, { kind }]) => kind === "removed").sort(byPlace);
    for (const [name, { place }] of removed.slice(0, Math.max(0, removed.length - this.#bounds.removed))) {
      this.#entries.delete(name);
      this.#floor = place;
    }
    const forgiven = [...this.#entries].filter(([, { kind }]) => kind === "forgiven");
    forgiven.sort(([a, one], [b, other]) => one.endsMs - other.endsMs || (a < b ? -1 : 1));
    for (const [name] of forgiven.slice(0, Math.max(0, forgiven.length - this.#bounds.forgiven)))
      this.#entries.delete(name);
  }

  #count(kind: Kind): number {
    let count = 0;
    for (const entry of this.#entries.values()) if (entry.kind === kind) count += 1;
    return count;
  }
}

function byPlace([, a]: [string, Entry], [, b]: [string, Entry]): number {
  return a.place - b.place;
}
