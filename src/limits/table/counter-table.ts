// The counters of all policies, in memory that several threads may share. `layout.ts` draws it. A request selects its
// key with a cursor, takes the locks, asks for the units that count, charges, and frees the locks. Where there is no
// room for a key and none may go, its client is counted instead, or the client's network.
import type { CounterKey } from "../../core/counter-key.ts";
import type { PeriodEnd } from "../calendar.ts";
import {
  type Cursor,
  entryOfLine,
  findKey,
  formatShard,
  freeEntry,
  freeLines,
  isKeyAt,
  type Locator,
} from "./directory.ts";
import { CoarseKeys, Eviction, TableMemory, type TableOptions } from "./eviction.ts";
import { type Forgiven, Forgiveness } from "./forgiveness.ts";
import {
  addPair,
  addUnits,
  countUnits,
  instantOfUnit,
  joinNewest,
  keep,
  newestPairAt,
  oldestPairAt,
  pairOf,
  type RulesBySlot,
  removeUnits,
  type SlotRules,
  type Span,
} from "./key-log.ts";
import {
  bytesPerWord,
  calendarAt,
  calendarWords,
  figureAt,
  figures,
  geometryOf,
  header,
  heldSlotOf,
  isMarkedExhausted,
  keyLine,
  kindOf,
  kinds,
  type Locks,
  lineAt,
  lineOfEntry,
  policySlots,
  shardAt,
  withExhausted,
} from "./layout.ts";
import { Maintenance, type TableFigures } from "./maintenance.ts";

/** Makes the memory of an empty table. `bytes`: `minTableBytes` to 4 GiB. */
export function createTableMemory(bytes: number): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(bytes - (bytes % bytesPerWord));
  const w = new Int32Array(memory);
  const geometry = geometryOf(bytes);
  for (let index = 0; index < geometry.shards; index += 1) formatShard(w, shardAt(index, geometry), geometry);
  return memory;
}

export class CounterTable {
  readonly thread: number;
  readonly isShared: boolean;
  readonly locks: Locks;
  readonly maintenance: Maintenance;
  readonly memory: TableMemory;
  readonly rules: RulesBySlot;
  readonly #w: Int32Array;
  readonly #places: Locator;
  readonly #eviction: Eviction;
  readonly #coarse: CoarseKeys;
  readonly #forgiveness: Forgiveness;

  /** `memory`: made by `createTableMemory`; with its options, or of a table of this thread. */
  constructor(memory: SharedArrayBuffer, options: TableOptions);
  constructor(memory: TableMemory);
  constructor(memory: SharedArrayBuffer | TableMemory, options?: TableOptions) {
    const of = memory instanceof TableMemory ? memory : new TableMemory(memory, options as TableOptions);
    this.memory = of;
    this.thread = of.thread;
    this.isShared = of.isShared;
    this.locks = of.locks;
    this.#w = of.w;
    this.#places = of.places;
    this.rules = of.rules;
    this.#eviction = new Eviction(of);
    this.#coarse = new CoarseKeys(of, this.#eviction);
    this.#forgiveness = new Forgiveness(of, this.#eviction);
    this.maintenance = new Maintenance(of, this.#eviction);
  }

  /** Says what a slot counts. Each thread has to know it. */
  configure(slot: number, rules: SlotRules): void {
    this.rules.set(slot, rules);
    if (slot < policySlots) this.rules.set(heldSlotOf(slot), rules);
  }

  /** The policy of a slot is gone: the sweep removes its keys. Each thread has to know it. */
  retire(slot: number): void {
    this.rules.set(slot, null);
    this.rules.set(heldSlotOf(slot), null);
  }

  /** Whether a slot has no policy and no key. */
  isSlotFree(slot: number): boolean {
    const w = this.#w;
    const counted = [slot, heldSlotOf(slot)].flatMap((each) => [
      figureAt(each, figures.keys),
      figureAt(each, figures.coarse),
    ]);
    // As in the figures, they may be too low.
    return this.rules.of(slot) === null && counted.every((at) => (w[at] as number) <= 0);
  }

  /** The period of a calendar policy. */
  periodOf(slot: number): CalendarPeriod {
    return new CalendarPeriod(this.#w, calendarAt(slot), this.locks);
  }

  /** Points a cursor to a key, and adds its lock to those that are wanted. `client`: counted if there is no room. */
  select(cursor: Cursor, slot: number, key: CounterKey, client: CounterKey): void {
    cursor.slot = slot;
    cursor.key = key;
    cursor.client = client;
    this.#pointToOwn(cursor);
    this.locks.want(cursor.shard);
  }

  /**
   * Returns the units of the key that count, after it has removed those that have expired; -1 if it is not stored and
   * there is no room for it, its client and its network. `nowMs`: for keys that may have to go.
   */
  count(cursor: Cursor, span: Span, nowMs: number): number {
    const line = findKey(this.#w, cursor);
    cursor.line = line;
    if (line !== 0) return countUnits(this.#w, cursor.shard, line, span);
    return this.#countMissing(cursor, span, nowMs);
  }

  /** The same without making room: what is not stored has no units. */
  peek(cursor: Cursor, span: Span): number {
    return this.find(cursor) ? countUnits(this.#w, cursor.shard, cursor.line, span) : 0;
  }

  /** Points the cursor to what is counted of the key that was selected: itself, its client or its network. False: nothing. */
  find(cursor: Cursor): boolean {
    cursor.line = findKey(this.#w, cursor);
    return cursor.line !== 0 || this.#findCoarse(cursor);
  }

  /** The instant of a unit that counts. `unit`: 1 for the oldest. */
  instantOf(cursor: Cursor, unit: number): number {
    return instantOfUnit(this.#w, cursor.shard, cursor.line, unit);
  }

  /** The instant of the newest pair; undefined if the key has none. */
  newest(cursor: Cursor): number | undefined {
    const at = cursor.line === 0 ? 0 : newestPairAt(this.#w, cursor.shard, cursor.line);
    return at === 0 ? undefined : this.#w[at];
  }

  /**
   * Adds units to the key that was counted. `instant` must not be earlier than the newest. `joins`: whether they join the
   * newest pair, which then gets this instant. Returns whether the units have their instant: false if there was no memory.
   */
  add(cursor: Cursor, instant: number, units: number, joins: boolean, nowMs: number): boolean {
    const w = this.#w;
    // Another key that was added in the meantime may have replaced this one.
    if (cursor.line === 0 || !isKeyAt(w, cursor.line, cursor)) this.#addKey(cursor, nowMs);
    const { shard, line } = cursor;
    if (line === 0) return false;
    const newest = joins ? newestPairAt(w, shard, line) : 0;
    if (newest !== 0) joinNewest(w, shard, line, newest, instant, units);
    else if (!addPair(w, shard, line, instant, units)) {
      this.memory.addTo(figureAt(cursor.slot, figures.merged), 1);
      return false;
    }
    return true;
  }

  /** Adds units to the pair of an instant, or makes one: for keys whose pairs have no order. */
  addTo(cursor: Cursor, instant: number, units: number, nowMs: number): void {
    const isStored = cursor.line !== 0 && isKeyAt(this.#w, cursor.line, cursor);
    const at = isStored ? pairOf(this.#w, cursor.shard, cursor.line, instant, 1) : 0;
    if (at === 0) this.add(cursor, instant, units, false, nowMs);
    else addUnits(this.#w, cursor.line, at, units);
  }

  /**
   * Removes units that were added at an instant, as far as they are there. `cell`: instants of one cell are together.
   * A key without units is removed.
   */
  remove(cursor: Cursor, instant: number, units: number, cell: number): void {
    const w = this.#w;
    cursor.line = findKey(w, cursor);
    let at = cursor.line === 0 ? 0 : pairOf(w, cursor.shard, cursor.line, instant, cell);
    if (at === 0 && this.#findCoarse(cursor)) at = pairOf(w, cursor.shard, cursor.line, instant, cell);
    if (at !== 0) this.#removeUnits(cursor, at, units);
  }

  /** Removes units that `addTo` has added. Those that were merged with others are taken from these. */
  removeFrom(cursor: Cursor, instant: number, units: number): void {
    if (!this.find(cursor)) return;
    const w = this.#w;
    for (let left = units; left > 0 && cursor.line !== 0 && w[cursor.line + keyLine.units] !== 0; ) {
      const at = pairOf(w, cursor.shard, cursor.line, instant, 1) || oldestPairAt(w, cursor.shard, cursor.line);
      const removed = Math.min(left, w[at + 1] as number);
      this.#removeUnits(cursor, at, removed);
      left -= removed;
    }
  }

  /** Forgets all units of the key that was counted. */
  forget(cursor: Cursor): void {
    if (cursor.line === 0) return;
    const entryAt = entryOfLine(this.#w, cursor);
    if (entryAt !== 0) this.#eviction.forget(cursor.shard, entryAt);
    cursor.line = 0;
  }

  /**
   * Forgets the units of a key of a policy, kept and held, and those of the client and the network that are counted in its
   * place. `client`: null if it is not known. `slot`: of the policy. Takes and frees the locks.
   */
  forgive(slot: number, key: CounterKey, client: CounterKey | null, span: Span): Forgiven {
    return this.#forgiveness.forgive(slot, key, client, span);
  }

  /** For `isForgivenSince`, about the key that was selected. Its lock must be held. */
  marksOf(cursor: Cursor): number {
    return this.#forgiveness.marksOf(cursor);
  }

  /**
   * Remembers whether the key is exhausted: such a key is not forgotten. A coarse key stays marked until nothing of it counts,
   * because the keys that are counted as it may have different limits.
   */
  markExhausted(cursor: Cursor, isExhausted: boolean): void {
    const { line } = cursor;
    if (line === 0 || !(isExhausted || this.isOwn(cursor))) return;
    const about = this.#w[line + keyLine.about] as number;
    if (isMarkedExhausted(about) !== isExhausted) this.#w[line + keyLine.about] = withExhausted(about, isExhausted);
  }

  /** Whether what was looked at is the key itself, and not its client or its network. */
  isOwn({ identity }: Cursor): boolean {
    return kindOf(identity) === kinds.own;
  }

  figures(): TableFigures {
    return this.maintenance.figures();
  }

  /** Removes units of a pair, and the key if it has no other. */
  #removeUnits(cursor: Cursor, at: number, units: number): void {
    if (removeUnits(this.#w, cursor.shard, cursor.line, at, units) === 0) this.forget(cursor);
  }

  #pointToOwn(cursor: Cursor): void {
    this.#places.point(cursor, kinds.own, cursor.key);
  }

  #countMissing(cursor: Cursor, span: Span, nowMs: number): number {
    if (this.#findCoarse(cursor)) {
      const units = countUnits(this.#w, cursor.shard, cursor.line, span);
      // Once all units of a network have expired, its clients are counted apart again, if there is room.
      if (units > 0) return units;
      this.#pointToOwn(cursor);
    }
    this.rules.setNow(nowMs);
    if (this.#hasRoom(cursor) || this.#coarse.makeRoom(cursor)) return 0;
    if (!this.#coarse.find(cursor, true)) return -1;
    return countUnits(this.#w, cursor.shard, cursor.line, span);
  }

  /** Looks for the client's key and its network's; the cursor stays at its own key if there is none. */
  #findCoarse(cursor: Cursor): boolean {
    if (this.#w[header.coarseKeys] === 0) return false;
    if (this.#coarse.find(cursor)) return true;
    this.#pointToOwn(cursor);
    return false;
  }

  /** Whether the key can be added; chooses the one that has to go for it. */
  #hasRoom(cursor: Cursor): boolean {
    const w = this.#w;
    const entryAt = freeEntry(w, cursor);
    const free = freeLines(w, cursor.shard);
    cursor.victimAt = 0;
    if (entryAt !== 0 && free > this.memory.geometry.reserved) return true;
    cursor.victimAt = this.#eviction.choose(cursor, entryAt !== 0 && free === 0);
    cursor.victimEntry = w[cursor.victimAt] as number;
    return cursor.victimAt !== 0 || (entryAt !== 0 && free > 0);
  }

  #addKey(cursor: Cursor, nowMs: number): void {
    this.rules.setNow(nowMs);
    if (cursor.line !== 0 || !this.#isStillRoom(cursor)) {
      this.#pointToOwn(cursor);
      // The key may have been counted by its network meanwhile, to make room for that of another policy.
      if (this.#findCoarse(cursor)) return;
      if (!this.#hasRoom(cursor)) {
        this.#coarse.find(cursor, true);
        return;
      }
    }
    if (cursor.victimAt !== 0) this.#eviction.remove(cursor.shard, cursor.victimAt);
    this.memory.add(cursor);
  }

  /** Whether there is the room that was found. Since then, other policies may have charged the key that has to go. */
  #isStillRoom(cursor: Cursor): boolean {
    const w = this.#w;
    const { shard, victimAt, victimEntry } = cursor;
    if (victimAt === 0) return freeEntry(w, cursor) !== 0 && freeLines(w, shard) > 0;
    return w[victimAt] === victimEntry && this.rules.worth(shard, lineAt(shard, lineOfEntry(victimEntry))) !== keep;
  }
}

// The period of a calendar policy that all threads count in: its number, and its end. The number rises before the end is
// written, so a thread that reads the new end finds the new number; and the border is written last, so that a thread which
// still reads the old one does not begin the next period again.

export class CalendarPeriod implements PeriodEnd {
  readonly #w: Int32Array;
  readonly #at: number;
  readonly #locks: Locks;

  /** `at`: the first of its words. */
  constructor(w: Int32Array, at: number, locks: Locks) {
    this.#w = w;
    this.#at = at;
    this.#locks = locks;
  }

  get number(): number {
    return this.word(calendarWords.number);
  }

  get endMs(): number {
    return (this.word(calendarWords.end) >>> 0) * 1000;
  }

  /** By the table's time, rounded up to a second. */
  get dueMs(): number {
    return this.word(calendarWords.due) * 1000;
  }

  /** The same. */
  get lastMs(): number {
    return this.word(calendarWords.last) * 1000;
  }

  /** Whether the end was computed by a clock that may not be the right one. */
  get isGuess(): boolean {
    return this.word(calendarWords.guess) !== 0;
  }

  /** One of `calendarWords`. */
  word(index: number): number {
    return Atomics.load(this.#w, this.#at + index);
  }

  /** Sets the end, unless another thread has done so since `seenEndMs` was read. `begins`: the next period. */
  setEnd(end: PeriodEnd, seenEndMs: number, begins: boolean, isGuess = false): void {
    this.#locks.takeAlone(header.calendarLock);
    if (this.endMs === seenEndMs) this.restore(begins ? this.number + 1 : this.number, end, isGuess);
    this.#locks.free(header.calendarLock);
  }

  /** Before traffic, or when the policy of the slot is gone. */
  restore(number: number, { endMs, dueMs, lastMs }: PeriodEnd, isGuess = false): void {
    Atomics.store(this.#w, this.#at + calendarWords.guess, isGuess ? 1 : 0);
    Atomics.store(this.#w, this.#at + calendarWords.number, number);
    // What was a whole second stays one, whatever sums of fractions have added to it.
    Atomics.store(this.#w, this.#at + calendarWords.due, Math.ceil(Math.round(dueMs) / 1000));
    Atomics.store(this.#w, this.#at + calendarWords.last, Math.ceil(Math.round(lastMs) / 1000));
    Atomics.store(this.#w, this.#at + calendarWords.end, Math.ceil(endMs / 1000));
  }
}
