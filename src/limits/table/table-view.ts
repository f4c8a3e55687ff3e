// A read-only view of a table. Counters that use it answer as they would with the table itself, and change nothing: what has
// expired is left out but stays in the table, no room is made for a key, and a period that is over ends in this view alone.
import { CalendarPeriod, CounterTable } from "./counter-table.ts";
import type { Cursor } from "./directory.ts";
import type { Forgiven } from "./forgiveness.ts";
import { eachPair, instantOfUnit, isExpired, oldestInstant, type Pair, pairsOf, type Span } from "./key-log.ts";
import { calendarAt, calendarWords, coarseNameOf, keyLine, kindOf, type Locks } from "./layout.ts";

/** What counts of a key, for those who look at it. */
export interface Inspection {
  readonly units: number;
  /** When they were admitted, by the monotonic clock, the oldest first. Empty for a period, and for what is under way. */
  readonly admissions: readonly { readonly atMs: number; readonly units: number }[];
  /** What is counted in place of the key. */
  readonly coarse: Forgiven["coarse"];
  /** Units that requests under way hold until their status is known; null: the policy holds none. */
  readonly heldUnits: number | null;
  /** When the period ends, by the wall clock; null: it is none of the calendar. */
  readonly periodEndMs: number | null;
}

export class TableView extends CounterTable {
  /** Of what was counted last. */
  readonly #expiredUnits = new WeakMap<Cursor, number>();

  constructor(table: CounterTable) {
    super(table.memory);
  }

  override periodOf(slot: number): CalendarPeriod {
    return new PeriodView(this.memory.w, calendarAt(slot), this.locks);
  }

  override count(cursor: Cursor, span: Span): number {
    return this.peek(cursor, span);
  }

  override peek(cursor: Cursor, span: Span): number {
    if (!this.find(cursor)) return 0;
    const w = this.memory.w;
    const units = w[cursor.line + keyLine.units] as number;
    const expired = units === 0 ? 0 : expiredUnits(w, cursor, span);
    this.#expiredUnits.set(cursor, expired);
    return units - expired;
  }

  override instantOf(cursor: Cursor, unit: number): number {
    return instantOfUnit(this.memory.w, cursor.shard, cursor.line, unit + (this.#expiredUnits.get(cursor) ?? 0));
  }

  /** Returns the pairs that count of the key that was counted last, the oldest first; at most `most`. Its lock must be held. */
  pairsOf(cursor: Cursor, { now, window }: Span, most: number): Pair[] {
    if (cursor.line === 0 || most === 0) return [];
    const pairs = pairsOf(this.memory.w, cursor.shard, cursor.line);
    return pairs.filter(([instant]) => !isExpired(instant, now, window)).slice(0, most);
  }

  /** Returns what was counted last in place of the key: its client or its network; null if it was the key itself. */
  coarseOf({ line, identity }: Cursor): Forgiven["coarse"] {
    return line === 0 ? null : coarseNameOf(kindOf(identity));
  }

  override configure(): void {}

  override retire(): void {}

  override add(): boolean {
    return true;
  }

  override addTo(): void {}

  override remove(): void {}

  override removeFrom(): void {}

  override forget(): void {}

  override markExhausted(): void {}

  override marksOf(): number {
    return 0;
  }

  override forgive(): Forgiven {
    return { units: 0, keys: 0, coarse: null };
  }
}

/** The oldest pairs expire first. */
function expiredUnits(w: Int32Array, { shard, line }: Cursor, { now, window }: Span): number {
  if (!isExpired(oldestInstant(w, line), now, window)) return 0;
  let expired = 0;
  eachPair(w, shard, line, (at) => {
    const isGone = isExpired(w[at] as number, now, window);
    if (isGone) expired += w[at + 1] as number;
    return isGone;
  });
  return expired;
}

/** The period of the table, until another one has begun in this view alone. */
class PeriodView extends CalendarPeriod {
  readonly #begun: CalendarPeriod;
  /** The end in the table when the other one began. */
  #seenEnd = Number.NaN;

  constructor(w: Int32Array, at: number, locks: Locks) {
    super(w, at, locks);
    this.#begun = new CalendarPeriod(new Int32Array(calendarWords.words), 0, locks);
  }

  override word(index: number): number {
    return super.word(calendarWords.end) === this.#seenEnd ? this.#begun.word(index) : super.word(index);
  }

  override setEnd(...[end, , begins, isGuess]: Parameters<CalendarPeriod["setEnd"]>): void {
    const number = begins ? this.number + 1 : this.number;
    this.#seenEnd = super.word(calendarWords.end);
    this.#begun.restore(number, end, isGuess);
  }
}
