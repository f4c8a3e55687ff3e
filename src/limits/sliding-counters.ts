// The exact sliding windows of one policy. After a reload, the new policy goes on with the keys of the old one with its
// own window, from its first request on. Requests that the old policy still has then use the new window too: by a
// shorter one they would forget what the new policy counts.
import type { OwnCount } from "./counters.ts";
import type { CounterTable } from "./table/counter-table.ts";
import type { SlotRules } from "./table/slot-rules.ts";
import { ageOf, later, type Span, tickNow, tickOf } from "./table/ticks.ts";
import { TableCounters } from "./table-counters.ts";

/** Above this limit, admissions that are close in time are one pair: a client takes less memory. */
const exactLimit = 10_000;
/** Cells of a window. A cell counts until its last admission expires. */
const cells = 4096;

/** What the policies before and after a reload share. */
interface WindowInForce {
  /** Of the newest policy that has been asked, and the number of reloads before it. */
  windowMs: number;
  generation: number;
}

export class SlidingCounters extends TableCounters {
  readonly #rules: SlotRules;
  readonly #own: Readonly<WindowInForce>;
  readonly #inForce: WindowInForce;
  /** What was counted when it was asked last, -1 if there is no room for the key; and by what. */
  counted = 0;
  readonly span: Span = { now: 0, window: 0 };
  #limit = 0;
  #units = 0;
  #nowMs = 0;

  constructor(table: CounterTable, slot: number, rules: SlotRules, previous: SlidingCounters | null = null) {
    super(table, slot);
    this.#rules = rules;
    this.#own = { windowMs: rules.windowMs, generation: previous === null ? 0 : previous.#own.generation + 1 };
    this.#inForce = previous === null ? { ...this.#own } : previous.#inForce;
    if (previous === null) table.configure(slot, rules);
  }

  ask(limit: number, units: number, nowMs: number): boolean {
    const cursor = this.cursor;
    const counted = this.table.count(cursor, this.#spanAt(nowMs), nowMs);
    this.counted = counted;
    this.#limit = limit;
    this.#units = units;
    this.#nowMs = nowMs;
    if (counted >= 0 && counted + units <= limit) {
      this.remaining = limit - counted - units;
      this.resetMs = counted === 0 ? Math.ceil(nowMs) + this.span.window : this.#expiryOf(1, nowMs);
      return true;
    }
    // Without room for a key nobody knows its units. After a window, keys that are stored now have gone.
    this.remaining = counted < 0 ? 0 : Math.max(0, limit - counted);
    const excess = counted + units - limit;
    // With none or too few that could expire, a higher limit has to be configured first.
    if (counted < 0 || excess > counted) {
      this.resetMs = nowMs + this.span.window;
      return false;
    }
    this.resetMs = this.#expiryOf(excess, nowMs);
    this.table.markExhausted(cursor, true);
    return false;
  }

  charge(): number {
    const table = this.table;
    const cursor = this.cursor;
    const newest = table.newest(cursor);
    const tick = tickOf(this.#nowMs);
    const instant = newest === undefined ? tick : later(newest, tick);
    const joins = newest !== undefined && this.#cellOf(newest) === this.#cellOf(instant);
    table.add(cursor, instant, this.#units, joins, this.#nowMs);
    table.markExhausted(cursor, this.counted + 2 * this.#units > this.#limit);
    return instant;
  }

  protected look(limit: number, nowMs: number, units: number): void {
    const counted = this.table.peek(this.cursor, this.#spanAt(nowMs));
    this.remaining = Math.max(0, limit - counted);
    // After the limit was lowered, several have to expire before a request fits.
    const first = Math.max(1, counted + units - limit);
    this.resetMs = counted === 0 ? nowMs + this.span.window : this.#expiryOf(Math.min(first, counted), nowMs);
  }

  protected lookAtOwn(nowMs: number): OwnCount | null {
    const span = this.#spanAt(nowMs);
    const units = this.table.peek(this.cursor, span);
    const newest = this.table.newest(this.cursor);
    if (units === 0 || newest === undefined || !this.table.isOwn(this.cursor)) return null;
    return { units, ageMs: Math.max(0, ageOf(newest, span.now)), periodEndMs: 0 };
  }

  protected remove(limit: number, units: number, instant: number): void {
    this.table.remove(this.cursor, instant, units, this.cellTicks(limit));
  }

  unspentResetMs(nowMs: number): number {
    return nowMs + this.#own.windowMs;
  }

  /** The monotonic instant at which a unit expires. */
  #expiryOf(unit: number, nowMs: number): number {
    const tick = this.table.instantOf(this.cursor, unit);
    return Math.floor(nowMs) - ageOf(tick, this.span.now) + this.span.window;
  }

  #spanAt(nowMs: number): Span {
    this.span.now = tickNow(nowMs);
    this.span.window = this.#comeIntoForce();
    return this.span;
  }

  #cellOf(instant: number): number {
    return this.#limit > exactLimit ? Math.floor((instant >>> 0) / this.cellTicks(this.#limit)) : instant;
  }

  /** Instants that are in the same so many ticks are one pair, with this limit. */
  cellTicks(limit: number): number {
    return limit > exactLimit ? Math.max(1, Math.floor(this.#inForce.windowMs / cells)) : 1;
  }

  /** Returns the window to use. With the first request, because a limiter that is never used must change nothing. */
  #comeIntoForce(): number {
    const { windowMs, generation } = this.#own;
    if (generation > this.#inForce.generation) {
      this.#inForce.windowMs = windowMs;
      this.#inForce.generation = generation;
      this.table.configure(this.slot, this.#rules);
    }
    return this.#inForce.windowMs;
  }
}
