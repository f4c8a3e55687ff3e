// What the table knows of each policy: enough to say which keys have expired, and which are exhausted.
import type { Policy } from "../../core/policy.ts";
import { newestPairAt } from "./key-log.ts";
import { calendarAt, calendarWords, isHeldSlot, isMarkedExhausted, keyLine, slotOf, slots } from "./layout.ts";
import { countUnits } from "./pair-removal.ts";
import { ageOf, type Span, tickNow } from "./ticks.ts";

export interface SlotRules {
  readonly kind: "sliding" | "calendar" | "concurrency";
  /** Of a sliding policy. */
  readonly windowMs: number;
  /** Of keys without an override. */
  readonly limit: number;
  readonly cost: number;
}

/** Returned for a key that must not be forgotten. */
export const keep = Number.POSITIVE_INFINITY;

/** Returns the rules of a policy. */
export function rulesOf({ rate, limit, cost }: Policy): SlotRules {
  return { kind: rate.kind, windowMs: rate.kind === "sliding" ? Math.ceil(rate.windowMs) : 0, limit, cost };
}

export class RulesBySlot {
  readonly #w: Int32Array;
  readonly #rules: (SlotRules | null)[] = new Array(slots).fill(null);
  readonly #retirements = new Int32Array(slots);
  readonly #span: Span = { now: 0, window: 0 };
  #nowTick = 0;

  constructor(w: Int32Array) {
    this.#w = w;
  }

  set(slot: number, rules: SlotRules | null): void {
    this.#rules[slot] = rules;
    if (rules === null) this.#retirements[slot] = this.retirementsOf(slot) + 1;
  }

  /** How many policies have had this slot and are gone. */
  retirementsOf(slot: number): number {
    return this.#retirements[slot] as number;
  }

  has(slot: number): boolean {
    return this.#rules[slot] !== null;
  }

  /** The instant that the other calls are about. */
  setNow(nowMs: number): void {
    this.#nowTick = tickNow(nowMs);
  }

  /**
   * Returns how much is lost if a key goes: its units that count, 0 if none does; `keep` for an exhausted key, and for
   * one of `concurrency`. Removes what has expired. `before`: its units as they are stored.
   */
  worth(shard: number, line: number, before = this.#w[line + keyLine.units] as number): number {
    const w = this.#w;
    const about = w[line + keyLine.about] as number;
    const rules = this.#rules[slotOf(about)] ?? null;
    // A key whose pairs are about to be written is new.
    if (rules === null || before === 0) return 0;
    if (rules.kind === "concurrency") return keep;
    const units = countUnits(w, shard, line, this.#spanOf(slotOf(about), rules));
    // What is held is counted under its policy too, and may be forgotten.
    if (units === 0 || isHeldSlot(slotOf(about))) return units;
    const isExhausted = (units === before && isMarkedExhausted(about)) || units + rules.cost > rules.limit;
    return isExhausted ? keep : units;
  }

  /** Returns how long the key has been idle, to compare keys of the same worth. */
  idleTime(shard: number, line: number): number {
    const at = newestPairAt(this.#w, shard, line);
    return at === 0 ? 0 : ageOf(this.#w[at] as number, this.#nowTick);
  }

  isConcurrency(line: number): boolean {
    return this.#rules[slotOf(this.#w[line + keyLine.about] as number)]?.kind === "concurrency";
  }

  isHeld(line: number): boolean {
    return isHeldSlot(slotOf(this.#w[line + keyLine.about] as number));
  }

  limitOf(line: number): number {
    return this.#rules[slotOf(this.#w[line + keyLine.about] as number)]?.limit ?? 0;
  }

  #spanOf(slot: number, { kind, windowMs }: SlotRules): Span {
    this.#span.now = kind === "calendar" ? (this.#w[calendarAt(slot) + calendarWords.number] as number) : this.#nowTick;
    this.#span.window = kind === "calendar" ? 1 : windowMs;
    return this.#span;
  }
}
