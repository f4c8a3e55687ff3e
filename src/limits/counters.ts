// The counters of policies in the table, and the windows that most policies count with. A request asks by an object of its own
// that gets the answer too, because several policies are asked before any is charged.
import { CounterKey } from "../core/counter-key.ts";
import type { CounterTable } from "./table/counter-table.ts";
import { Cursor } from "./table/directory.ts";
import { type Forgiven, isForgivenSince } from "./table/forgiveness.ts";
import { ageOf, later, type SlotRules, type Span, tickNow, tickOf } from "./table/key-log.ts";
import type { Inspection, TableView } from "./table/table-view.ts";

/** The key of a decision that shows a quota for which nothing was looked up. Nothing is ever stored under it. */
export const noKey = new CounterKey(-1, -1, -1, -1, false);

/** What a request asks of one policy, and what the counters answer. Used again where no request has to wait. */
export class Ask {
  key = noKey;
  /** Counted in place of the key if there is no room for it. */
  client = noKey;
  limit = 0;
  units = 1;
  /** Whether the units fit below the limit. */
  fits = false;
  /** What is left after the request; if it does not fit, what is left without it. */
  remaining = 0;
  /** The monotonic instant at which more becomes available; if the units do not fit, at which they do. */
  resetMs = 0;
  /** Whether a request under way may end the refusal. Nobody knows when, so `resetMs` promises nothing. */
  mayEndSoon = false;
  /** When it was asked, also as the table counts: a tick, or the number of a period. */
  nowMs = 0;
  now = 0;
  /** The units that counted then; -1 if there is no room for the key. */
  counted = 0;
  /** By what is known later whether the key was forgiven after it was charged. */
  marks = 0;
  readonly cursor = new Cursor();
  #heldCursor: Cursor | null = null;

  /** Of the units that are held of a policy with `charge`. Most asks need none. */
  get heldCursor(): Cursor {
    this.#heldCursor ??= new Cursor();
    return this.#heldCursor;
  }

  /** Null: a request under way may make units available, and nobody knows when. */
  get knownResetMs(): number | null {
    return this.mayEndSoon ? null : this.resetMs;
  }
}

/** What a request was charged, for the case that it is given back. */
export interface Charged extends Readonly<Pick<Ask, "key" | "client" | "limit" | "units" | "marks">> {
  /** What `charge` has returned. */
  readonly charged: number;
}

/** What counts of a key. */
export interface OwnCount {
  readonly units: number;
  /** How long ago the newest of them was spent, in milliseconds. */
  readonly ageMs: number;
  /** When the period ends that they count in, by the wall clock; 0 if they count in none. */
  readonly periodEndMs: number;
}

/** Nobody knows when an exchange ends, so a client that may be admitted then is told to ask again after this time. */
export const heldRetryMs = 1000;

/** What counts at an instant, and the reset of a key with nothing stored. */
export interface Reading extends Span {
  resetMs: number;
}

/** The counters of one policy in the table. What a kind adds is how it counts. */
export abstract class LocalCounters {
  readonly rules: SlotRules;
  protected readonly table: CounterTable;
  protected readonly slot: number;
  /** For what is looked up at once. */
  protected readonly cursor = new Cursor();
  protected readonly mayEndSoon: boolean = false;
  /** Whether a pair says when its units were admitted. */
  protected readonly hasInstants: boolean = false;
  readonly #retirements: number;

  constructor(table: CounterTable, slot: number, rules: SlotRules) {
    this.table = table;
    this.slot = slot;
    this.rules = rules;
    this.#retirements = table.rules.retirementsOf(slot);
  }

  /** Puts the policy into force in this thread. `continues`: another one whose counters go on. */
  comeIntoForce(_nowMs: number, _continues: boolean): void {
    this.table.configure(this.slot, this.rules);
  }

  /** Finds where the key is, and adds its lock to those that the table takes. */
  select({ cursor, key, client }: Ask): void {
    this.table.select(cursor, this.slot, key, client);
  }

  /** Answers, and charges nothing. The key must be selected and the table's locks held. Returns whether the units fit. */
  ask(ask: Ask, nowMs: number): boolean {
    const { limit, units, cursor } = ask;
    const reading = this.readingAt(nowMs);
    const counted = this.table.count(cursor, reading, nowMs);
    const fits = counted >= 0 && counted + units <= limit;
    ask.nowMs = nowMs;
    ask.now = reading.now;
    ask.counted = counted;
    ask.fits = fits;
    ask.mayEndSoon = this.mayEndSoon;
    // Without room for a key nobody knows its units.
    ask.remaining = counted < 0 ? 0 : Math.max(0, limit - counted - (fits ? units : 0));
    ask.resetMs = this.resetOf(ask, reading);
    return fits;
  }

  /** Charges what fits. The locks must have been held since `ask`. Returns what `giveBack` needs. */
  charge(ask: Ask): number {
    const { table } = this;
    const { cursor, units, nowMs } = ask;
    const newest = table.newest(cursor);
    const instant = this.instantOf(ask, newest);
    table.add(cursor, instant, units, isSameCell(newest, instant, this.cellTicks(ask.limit)), nowMs);
    // By the limit that was asked for, which may be a share of the key's.
    table.markExhausted(cursor, ask.remaining < this.rules.cost);
    return instant;
  }

  /** Answers what is left and the reset, without asking for units; takes and frees the locks. */
  peek(ask: Ask, nowMs: number): void {
    this.select(ask);
    this.table.locks.within(() => this.#peek(ask, nowMs));
  }

  /** The same, and what counts of the key: at most so many admissions. `view`: what these counters count in. */
  inspect(ask: Ask, nowMs: number, view: TableView, most: number): Inspection {
    this.select(ask);
    return this.table.locks.within(() => {
      const reading = this.#peek(ask, nowMs);
      const pairs = this.hasInstants ? view.pairsOf(ask.cursor, reading, most) : [];
      return {
        units: ask.counted,
        admissions: pairs.map(([at, units]) => ({ atMs: Math.floor(nowMs) - ageOf(at, ask.now), units })),
        coarse: view.coarseOf(ask.cursor),
        heldUnits: null,
        periodEndMs: this.periodEndMs,
      };
    });
  }

  #peek(ask: Ask, nowMs: number): Reading {
    const reading = this.readingAt(nowMs);
    const counted = this.table.peek(ask.cursor, reading);
    ask.nowMs = nowMs;
    ask.now = reading.now;
    ask.counted = counted;
    ask.fits = counted + ask.units <= ask.limit;
    ask.remaining = Math.max(0, ask.limit - counted);
    ask.mayEndSoon = this.mayEndSoon;
    ask.resetMs = this.peekedResetOf(ask, counted, reading);
    return reading;
  }

  /** What was charged stays charged: `giveBack` will not be called. Takes and frees the locks. */
  keep(_charged: Charged): void {
    // The table knows nothing about a single charge.
  }

  /** What counts of a key; null if nothing does, or if it is not counted by itself. Takes and frees the locks. */
  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    const { table, cursor } = this;
    table.select(cursor, this.slot, key, client);
    return table.locks.within(() => {
      const reading = this.readingAt(nowMs);
      const units = table.peek(cursor, reading);
      const newest = table.newest(cursor);
      return units === 0 || newest === undefined || !table.isOwn(cursor) ? null : this.ownOf(units, newest, reading);
    });
  }

  /** Gives units back, if they are still counted and were not forgiven; takes and frees the locks. */
  giveBack(charged: Charged): void {
    const { key, client } = charged;
    // Another policy may have the slot of one that is gone.
    if (this.table.rules.retirementsOf(this.slot) !== this.#retirements) return;
    const { table, cursor } = this;
    table.select(cursor, this.slot, key, client);
    table.locks.within(() => this.remove(cursor, charged));
  }

  /**
   * Forgets what counts of a key, but not what is under way, and with it what is counted as one with others. `client`: null if
   * it is not known. Takes and frees the locks.
   */
  forgive(key: CounterKey, client: CounterKey | null, nowMs: number): Forgiven {
    return this.table.forgive(this.slot, key, client, this.forgivenSpan(nowMs));
  }

  protected get periodEndMs(): number | null {
    return null;
  }

  protected forgivenSpan(nowMs: number): Span {
    return this.readingAt(nowMs);
  }

  /** Instants that are in the same so many ticks are one pair, with this limit. */
  cellTicks(_limit: number): number {
    return 1;
  }

  /** What counts then, and the reset of a key with nothing stored, in an object that is used again. */
  abstract readingAt(nowMs: number): Reading;

  protected instantOf({ now }: Ask, _newest: number | undefined): number {
    return now;
  }

  protected resetOf(_ask: Ask, { resetMs }: Reading): number {
    return resetMs;
  }

  protected peekedResetOf(_ask: Ask, _counted: number, { resetMs }: Reading): number {
    return resetMs;
  }

  protected remove(cursor: Cursor, { marks, charged, units, limit }: Charged): void {
    // The key may have others by now, at the same instant.
    if (isForgivenSince(marks, this.table.marksOf(cursor))) return;
    this.table.remove(cursor, charged, units, this.cellTicks(limit));
  }

  protected ownOf(_units: number, _newest: number, _reading: Reading): OwnCount | null {
    return null;
  }
}

export function isSameCell(newest: number | undefined, instant: number, ticks: number): boolean {
  if (newest === undefined || ticks === 1) return newest === instant;
  return Math.floor((newest >>> 0) / ticks) === Math.floor((instant >>> 0) / ticks);
}

/** Above this limit, admissions that are close in time are one pair: a client takes less memory. */
const exactLimit = 10_000;
/** Cells of a window. A cell counts until its last admission expires. */
const cells = 4096;

/**
 * Exact sliding windows. All policies of a slot use the window in force: by a shorter one, requests that the policy before a
 * reload still has would forget what the new one counts.
 */
export class SlidingCounters extends LocalCounters {
  protected override readonly hasInstants = true;
  readonly #reading: Reading = { now: 0, window: 0, resetMs: 0 };

  readingAt(nowMs: number): Reading {
    const reading = this.#reading;
    reading.now = tickNow(nowMs);
    reading.window = this.#windowMs;
    reading.resetMs = nowMs + this.rules.windowMs;
    return reading;
  }

  override cellTicks(limit: number): number {
    return limit > exactLimit ? Math.max(1, Math.floor(this.#windowMs / cells)) : 1;
  }

  protected override instantOf({ nowMs }: Ask, newest: number | undefined): number {
    const tick = tickOf(nowMs);
    return newest === undefined ? tick : later(newest, tick);
  }

  protected override resetOf(ask: Ask, { window }: Reading): number {
    const { fits, counted, units, limit, nowMs } = ask;
    const first = fits ? 1 : counted + units - limit;
    // With none or too few that could expire, a higher limit has to be configured first. Without room for the key, those
    // that are stored now have gone after a window.
    if (counted < first) return (fits ? Math.ceil(nowMs) : nowMs) + window;
    if (!fits) this.table.markExhausted(ask.cursor, true);
    return this.#expiryOf(ask, first, window);
  }

  protected override peekedResetOf(ask: Ask, counted: number, { window }: Reading): number {
    if (counted === 0) return ask.nowMs + window;
    // After the limit was lowered, several have to expire before a request fits.
    return this.#expiryOf(ask, Math.min(counted, Math.max(1, counted + ask.units - ask.limit)), window);
  }

  protected override ownOf(units: number, newest: number, { now }: Reading): OwnCount {
    return { units, ageMs: Math.max(0, ageOf(newest, now)), periodEndMs: 0 };
  }

  /** The monotonic instant at which a unit expires. */
  #expiryOf({ cursor, nowMs, now }: Ask, unit: number, window: number): number {
    return Math.floor(nowMs) - ageOf(this.table.instantOf(cursor, unit), now) + window;
  }

  get #windowMs(): number {
    return this.table.rules.windowOf(this.slot) || this.rules.windowMs;
  }
}
