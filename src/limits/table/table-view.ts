// A read-only view of a table. Counters that use it answer as they would with the table itself, and change nothing: what has
// expired is left out but stays in the table, no room is made for a key, and a period that is over ends in this view alone.
import { CalendarPeriod, type CounterSource, type CounterTable, type Period } from "./counter-table.ts";
import type { Cursor } from "./directory.ts";
import type { TableMemory } from "./eviction.ts";
import type { Forgiven } from "./forgiveness.ts";
import { eachPair, instantOfUnit, isExpired, oldestInstant, type Span } from "./key-log.ts";
import { coarseNameOf, header, keyLine, kindOf, type Locks } from "./layout.ts";

/** Units that were admitted at one instant. */
export type Pair = readonly [instant: number, units: number];

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

export class TableView implements CounterSource {
  readonly thread: number;
  readonly locks: Locks;
  readonly memory: TableMemory;
  readonly #table: CounterTable;
  readonly #w: Int32Array;
  /** Of what was counted last. */
  readonly #expiredUnits = new WeakMap<Cursor, number>();
  /** The periods that have begun in this view. */
  readonly #periods = new Int32Array(header.figures);

  constructor(table: CounterTable) {
    this.thread = table.thread;
    this.locks = table.locks;
    this.#table = table;
    this.memory = table.memory;
    this.#w = table.memory.w;
  }

  configure(): void {}

  retirementsOf(slot: number): number {
    return this.#table.retirementsOf(slot);
  }

  windowOf(slot: number): number {
    return this.#table.windowOf(slot);
  }

  rulesOf(slot: number): ReturnType<CounterTable["rulesOf"]> {
    return this.#table.rulesOf(slot);
  }

  periodOf(slot: number): Period {
    return new PeriodView(this.#table.periodOf(slot), new CalendarPeriod(this.#periods, slot, this.locks));
  }

  select(...args: Parameters<CounterTable["select"]>): void {
    this.#table.select(...args);
  }

  count(cursor: Cursor, span: Span): number {
    return this.peek(cursor, span);
  }

  peek(cursor: Cursor, span: Span): number {
    if (!this.#table.find(cursor)) return 0;
    const w = this.#w;
    const units = w[cursor.line + keyLine.units] as number;
    const expired = units === 0 ? 0 : expiredUnits(w, cursor, span);
    this.#expiredUnits.set(cursor, expired);
    return units - expired;
  }

  instantOf(cursor: Cursor, unit: number): number {
    return instantOfUnit(this.#w, cursor.shard, cursor.line, unit + (this.#expiredUnits.get(cursor) ?? 0));
  }

  /** Returns the pairs that count of the key that was counted last, the oldest first; at most `most`. Its lock must be held. */
  pairsOf(cursor: Cursor, { now, window }: Span, most: number): Pair[] {
    const pairs: Pair[] = [];
    if (cursor.line === 0 || most === 0) return pairs;
    const w = this.#w;
    eachPair(w, cursor.shard, cursor.line, (at) => {
      const [instant, units] = [w[at] as number, w[at + 1] as number];
      if (units > 0 && !isExpired(instant, now, window)) pairs.push([instant, units]);
      return pairs.length < most;
    });
    return pairs;
  }

  /** Returns what was counted last in place of the key: its client or its network; null if it was the key itself. */
  coarseOf({ line, identity }: Cursor): Forgiven["coarse"] {
    return line === 0 ? null : coarseNameOf(kindOf(identity));
  }

  newest(cursor: Cursor): number | undefined {
    return this.#table.newest(cursor);
  }

  isOwn(cursor: Cursor): boolean {
    return this.#table.isOwn(cursor);
  }

  add(): boolean {
    return true;
  }

  addTo(): void {}

  remove(): void {}

  removeFrom(): void {}

  forget(): void {}

  markExhausted(): void {}

  marksOf(): number {
    return 0;
  }

  forgive(): Forgiven {
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
class PeriodView implements Period {
  readonly #real: CalendarPeriod;
  readonly #begun: CalendarPeriod;
  /** The end in the table when the other one began. */
  #seenEndMs = Number.NaN;

  constructor(real: CalendarPeriod, begun: CalendarPeriod) {
    this.#real = real;
    this.#begun = begun;
  }

  get number(): number {
    return this.#current.number;
  }

  get endMs(): number {
    return this.#current.endMs;
  }

  get dueMs(): number {
    return this.#current.dueMs;
  }

  get lastMs(): number {
    return this.#current.lastMs;
  }

  get isGuess(): boolean {
    return this.#current.isGuess;
  }

  setEnd(...[end, , begins, isGuess]: Parameters<CalendarPeriod["setEnd"]>): void {
    const number = begins ? this.number + 1 : this.number;
    this.#seenEndMs = this.#real.endMs;
    this.#begun.restore(number, end, isGuess);
  }

  get #current(): CalendarPeriod {
    return this.#real.endMs === this.#seenEndMs ? this.#begun : this.#real;
  }
}
