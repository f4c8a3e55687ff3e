// The pairs of one key: an instant, and the units that were admitted at it; the oldest first. Four stand in the line of
// the key. With more of them, the older ones are in a chain of blocks, and the last three in the line, so that most
// admissions touch no block. When no block is free, the two pairs of the line that are closest in time become one, with
// the later instant: units may count for longer then, never shorter. And what the table knows of the policy of a key, which
// says how many of these units count.

import { CounterKey } from "../../core/counter-key.ts";
import type { PeriodName, Policy } from "../../core/policy.ts";
import type { NextBorder } from "../calendar.ts";
import { freeLine, takeLine } from "./directory.ts";
import {
  blockOfRef,
  blockPairAt,
  blockPairs,
  bufferFirst,
  bufferPairs,
  calendarAt,
  calendarWords,
  indexOfRef,
  inlinePairs,
  isHeldSlot,
  isMarkedExhausted,
  isOwnAddress,
  keyLine,
  keyWordsAt,
  newestRef,
  nextBlock,
  oldestRef,
  pairsInBlock,
  pairsInBuffer,
  ringFirst,
  ringPairAt,
  ringPairs,
  setNextBlock,
  slotOf,
  slots,
  withExhausted,
  withRing,
} from "./layout.ts";

/** The key must have a pair. */
export function oldestInstant(w: Int32Array, line: number): number {
  if (w[line + keyLine.oldest] !== 0) return w[line + keyLine.pairs] as number;
  return w[line + keyLine.pairs + 2 * ringFirst(w[line + keyLine.about] as number)] as number;
}

/** The word of the oldest pair. The key must have one. */
export function oldestPairAt(w: Int32Array, shard: number, line: number): number {
  const oldest = w[line + keyLine.oldest] as number;
  if (oldest !== 0) return blockPairAt(shard, blockOfRef(oldest), indexOfRef(oldest));
  return ringPairAt(line, ringFirst(w[line + keyLine.about] as number), 0);
}

/** The word of the newest pair; 0 if there is none. */
export function newestPairAt(w: Int32Array, shard: number, line: number): number {
  const pairs = pairsInLine(w, line);
  if (pairs > 0) return linePairAt(w, line, pairs - 1);
  if (!hasChain(w, line)) return 0;
  const newest = w[line + keyLine.newest] as number;
  return blockPairAt(shard, blockOfRef(newest), pairsInBlock(newest) - 1);
}

/** Adds a pair. Its instant must not be earlier than the newest one. Returns false if pairs were merged for it. */
export function addPair(w: Int32Array, shard: number, line: number, instant: number, units: number): boolean {
  const isChained = hasChain(w, line);
  const isFull = pairsInLine(w, line) === (isChained ? bufferPairs : inlinePairs);
  // The pairs of the line move to the chain, unless no block is free.
  const isAlone = !isFull || (isChained ? flushBuffer(w, shard, line) : beginChain(w, shard, line));
  if (!isAlone) mergeClosest(w, line);
  const pairs = isAlone ? pairsInLine(w, line) : pairsInLine(w, line) - 1;
  writePair(w, linePairAt(w, line, pairs), instant, units);
  if (isAlone) setPairsInLine(w, line, pairs + 1);
  w[line + keyLine.units] = (w[line + keyLine.units] as number) + units;
  return isAlone;
}

/** Adds units to the newest pair, whose instant becomes theirs. `at`: its word. */
export function joinNewest(
  w: Int32Array,
  shard: number,
  line: number,
  at: number,
  instant: number,
  units: number,
): void {
  // The chain may have one pair, which is the oldest and the newest.
  if (w[line + keyLine.oldest] !== 0 && at === oldestPairAt(w, shard, line)) w[line + keyLine.pairs] = instant;
  w[at] = instant;
  addUnits(w, line, at, units);
}

/** Adds units to a pair. */
export function addUnits(w: Int32Array, line: number, at: number, units: number): void {
  w[at + 1] = (w[at + 1] as number) + units;
  w[line + keyLine.units] = (w[line + keyLine.units] as number) + units;
}

/** Returns the instant of a unit. `unit`: 1 for the oldest; at most all units. */
export function instantOfUnit(w: Int32Array, shard: number, line: number, unit: number): number {
  if (unit === 1) return oldestInstant(w, line);
  let left = unit;
  let instant = 0;
  eachPair(w, shard, line, (at) => {
    instant = w[at] as number;
    left -= w[at + 1] as number;
    return left > 0;
  });
  return instant;
}

/** Calls back with the word of each pair, the oldest first, until it returns false. */
export function eachPair(w: Int32Array, shard: number, line: number, visit: (at: number) => boolean): void {
  if (hasChain(w, line) && !eachInChain(w, shard, line, visit)) return;
  const pairs = pairsInLine(w, line);
  for (let i = 0; i < pairs; i += 1) if (!visit(linePairAt(w, line, i))) return;
}

/** Returns false once the visit has. */
function eachInChain(w: Int32Array, shard: number, line: number, visit: (at: number) => boolean): boolean {
  const oldest = w[line + keyLine.oldest] as number;
  const newest = w[line + keyLine.newest] as number;
  const last = blockOfRef(newest);
  let index = indexOfRef(oldest);
  for (let blockLine = blockOfRef(oldest); ; blockLine = nextBlock(w, shard, blockLine)) {
    const end = blockLine === last ? pairsInBlock(newest) : blockPairs;
    for (; index < end; index += 1) if (!visit(blockPairAt(shard, blockLine, index))) return false;
    if (blockLine === last) return true;
    index = 0;
  }
}

/** Units that were admitted at one instant, which has no sign. */
export type Pair = readonly [instant: number, units: number];

/** Returns the pairs that have units, the oldest first. */
export function pairsOf(w: Int32Array, shard: number, line: number): Pair[] {
  const pairs: Pair[] = [];
  eachPair(w, shard, line, (at) => {
    const units = w[at + 1] as number;
    if (units > 0) pairs.push([(w[at] as number) >>> 0, units]);
    return true;
  });
  return pairs;
}

/** Returns the word of the pair of an instant, or of its cell; 0 if there is none. `cell`: ticks; 1 for the instant. */
export function pairOf(w: Int32Array, shard: number, line: number, instant: number, cell: number): number {
  // What is given back soon is the newest, and the walk to it may be long.
  const newestAt = newestPairAt(w, shard, line);
  if (newestAt !== 0 && w[newestAt] === (instant | 0)) return newestAt;
  const wanted = Math.floor((instant >>> 0) / cell);
  let found = 0;
  eachPair(w, shard, line, (at) => {
    if (Math.floor(((w[at] as number) >>> 0) / cell) === wanted) found = at;
    return found === 0;
  });
  return found;
}

// The pairs that stand in the line: all of them as a ring, or the last ones, beside a chain, from the second place of the ring
// on.

function hasChain(w: Int32Array, line: number): boolean {
  return w[line + keyLine.oldest] !== 0;
}

function pairsInLine(w: Int32Array, line: number): number {
  return hasChain(w, line)
    ? pairsInBuffer(w[line + keyLine.newest] as number)
    : ringPairs(w[line + keyLine.about] as number);
}

/** The word of a pair in the line. `index`: from the oldest of them. */
function linePairAt(w: Int32Array, line: number, index: number): number {
  return ringPairAt(line, hasChain(w, line) ? bufferFirst : ringFirst(w[line + keyLine.about] as number), index);
}

function setPairsInLine(w: Int32Array, line: number, pairs: number): void {
  if (hasChain(w, line)) {
    const newest = w[line + keyLine.newest] as number;
    w[line + keyLine.newest] = newestRef(blockOfRef(newest), pairs, pairsInBlock(newest));
  } else {
    const about = w[line + keyLine.about] as number;
    w[line + keyLine.about] = withRing(about, ringFirst(about), pairs);
  }
}

/** Moves the pairs of the line to a chain. Returns false if no block is free. */
function beginChain(w: Int32Array, shard: number, line: number): boolean {
  const blockLine = takeLine(w, shard);
  if (blockLine === 0) return false;
  for (let i = 0; i < inlinePairs; i += 1) copyPair(w, linePairAt(w, line, i), blockPairAt(shard, blockLine, i));
  w[line + keyLine.newest] = newestRef(blockLine, 0, inlinePairs);
  w[line + keyLine.oldest] = oldestRef(blockLine, 0);
  w[line + keyLine.pairs] = w[blockPairAt(shard, blockLine, 0)] as number;
  return true;
}

/** Moves the pairs of the line to the end of its chain. Returns false if no block is free. */
function flushBuffer(w: Int32Array, shard: number, line: number): boolean {
  const newest = w[line + keyLine.newest] as number;
  const blockLine = blockOfRef(newest);
  let used = pairsInBlock(newest);
  const more = used + bufferPairs > blockPairs ? takeLine(w, shard) : blockLine;
  if (more === 0) return false;
  let into = blockLine;
  for (let i = 0; i < bufferPairs; i += 1) {
    if (used === blockPairs) {
      setNextBlock(w, shard, blockLine, more);
      into = more;
      used = 0;
    }
    copyPair(w, linePairAt(w, line, i), blockPairAt(shard, into, used));
    used += 1;
  }
  w[line + keyLine.newest] = newestRef(into, 0, used);
  return true;
}

/** Makes the last place of the line free: of the two neighbours that are closest, the older one joins the newer one. */
function mergeClosest(w: Int32Array, line: number): void {
  const pairs = pairsInLine(w, line);
  let closest = 0;
  let gap = Number.POSITIVE_INFINITY;
  for (let i = 0; i + 1 < pairs; i += 1) {
    const between = ((w[linePairAt(w, line, i + 1)] as number) - (w[linePairAt(w, line, i)] as number)) >>> 0;
    if (between < gap) {
      gap = between;
      closest = i;
    }
  }
  const newer = linePairAt(w, line, closest + 1);
  w[newer + 1] = (w[newer + 1] as number) + (w[linePairAt(w, line, closest) + 1] as number);
  for (let i = closest; i + 1 < pairs; i += 1) copyPair(w, linePairAt(w, line, i + 1), linePairAt(w, line, i));
}

function writePair(w: Int32Array, at: number, instant: number, units: number): void {
  w[at] = instant;
  w[at + 1] = units;
}

function copyPair(w: Int32Array, from: number, to: number): void {
  w[to + 1] = w[from + 1] as number;
  w[to] = w[from] as number;
}

// Removes pairs of a key: what has expired, and what is given back. A pair without units is removed at once, so that a
// key never has more pairs than units.

/** Removes the pairs that have expired, and returns the units that are left. */
export function countUnits(w: Int32Array, shard: number, line: number, { now, window }: Span): number {
  const units = w[line + keyLine.units] as number;
  if (units === 0) return 0;
  return isExpired(oldestInstant(w, line), now, window) ? dropExpired(w, shard, line, now, window) : units;
}

/** Removes units from a pair. Returns the units of the key that are left. */
export function removeUnits(w: Int32Array, shard: number, line: number, at: number, units: number): number {
  const removed = Math.min(units, w[at + 1] as number);
  w[at + 1] = (w[at + 1] as number) - removed;
  const left = (w[line + keyLine.units] as number) - removed;
  w[line + keyLine.units] = left;
  if (w[at + 1] !== 0) return left;
  // The oldest pair tells the reset, so it must have units.
  if (at === oldestPairAt(w, shard, line)) dropExpired(w, shard, line, 0, Number.POSITIVE_INFINITY);
  else if (at === newestPairAt(w, shard, line)) dropNewest(w, shard, line);
  else closeGap(w, shard, line, at);
  return left;
}

/** Frees what the pairs of a line take beside it, when it is no key any more. */
export function freePairs(w: Int32Array, shard: number, line: number): void {
  const oldest = w[line + keyLine.oldest] as number;
  if (oldest !== 0) freeChain(w, shard, blockOfRef(oldest), blockOfRef(w[line + keyLine.newest] as number));
}

/** Moves the pairs after one that has no units. Each is copied before its place is used: until then it counts twice. */
function closeGap(w: Int32Array, shard: number, line: number, gapAt: number): void {
  let to = 0;
  eachPair(w, shard, line, (at) => {
    if (to !== 0) copyPair(w, at, to);
    if (to !== 0 || at === gapAt) to = at;
    return true;
  });
  dropNewest(w, shard, line);
}

/** The key must have two pairs. */
function dropNewest(w: Int32Array, shard: number, line: number): void {
  const pairs = pairsInLine(w, line);
  if (pairs > 0) {
    setPairsInLine(w, line, pairs - 1);
    return;
  }
  const newest = w[line + keyLine.newest] as number;
  const last = blockOfRef(newest);
  if (pairsInBlock(newest) > 1) {
    w[line + keyLine.newest] = newestRef(last, 0, pairsInBlock(newest) - 1);
    return;
  }
  let before = blockOfRef(w[line + keyLine.oldest] as number);
  while (nextBlock(w, shard, before) !== last) before = nextBlock(w, shard, before);
  w[line + keyLine.newest] = newestRef(before, 0, blockPairs);
  freeLine(w, shard, last);
}

/** Removes the oldest pairs that have expired or have no units. Returns the units that are left. */
function dropExpired(w: Int32Array, shard: number, line: number, now: number, window: number): number {
  if (w[line + keyLine.oldest] !== 0 && dropFromChain(w, shard, line, now, window)) {
    return w[line + keyLine.units] as number;
  }
  const about = w[line + keyLine.about] as number;
  let units = w[line + keyLine.units] as number;
  let first = ringFirst(about);
  let pairs = ringPairs(about);
  for (; pairs > 0; pairs -= 1) {
    const at = ringPairAt(line, first, 0);
    const count = w[at + 1] as number;
    if (count > 0 && !isExpired(w[at] as number, now, window)) break;
    units -= count;
    first = (first + 1) & 3;
  }
  w[line + keyLine.about] = withRing(about, first, pairs);
  w[line + keyLine.units] = units;
  return units;
}

/** Returns false if no pair of the chain is left: then the pairs of the buffer are those of the ring. */
function dropFromChain(w: Int32Array, shard: number, line: number, now: number, window: number): boolean {
  const oldest = w[line + keyLine.oldest] as number;
  const newest = w[line + keyLine.newest] as number;
  const last = blockOfRef(newest);
  let units = w[line + keyLine.units] as number;
  let blockLine = blockOfRef(oldest);
  let index = indexOfRef(oldest);
  for (;;) {
    if (index === (blockLine === last ? pairsInBlock(newest) : blockPairs)) {
      if (blockLine === last) {
        w[line + keyLine.about] = withRing(w[line + keyLine.about] as number, bufferFirst, pairsInBuffer(newest));
        w[line + keyLine.oldest] = 0;
        w[line + keyLine.units] = units;
        freeChain(w, shard, blockOfRef(oldest), last);
        return false;
      }
      blockLine = nextBlock(w, shard, blockLine);
      index = 0;
      continue;
    }
    const at = blockPairAt(shard, blockLine, index);
    const count = w[at + 1] as number;
    if (count > 0 && !isExpired(w[at] as number, now, window)) break;
    units -= count;
    index += 1;
  }
  w[line + keyLine.oldest] = oldestRef(blockLine, index);
  w[line + keyLine.pairs] = w[blockPairAt(shard, blockLine, index)] as number;
  w[line + keyLine.units] = units;
  if (blockLine !== blockOfRef(oldest)) freeBlocks(w, shard, blockOfRef(oldest), blockLine);
  return true;
}

/** Frees the blocks from one to the last. */
function freeChain(w: Int32Array, shard: number, from: number, last: number): void {
  freeBlocks(w, shard, from, last);
  freeLine(w, shard, last);
}

/** Frees the blocks from one to another, without the latter. */
function freeBlocks(w: Int32Array, shard: number, from: number, to: number): void {
  for (let blockLine = from; blockLine !== to; ) {
    const next = nextBlock(w, shard, blockLine);
    freeLine(w, shard, blockLine);
    blockLine = next;
  }
}

// Instants of 32 bits. A tick is a millisecond, modulo 2^32: about 50 days, of which the longest window takes 31. What is
// older than its window is removed long before it could look young again. Instants of the next three days count as in
// the future: a tick is rounded up, and another thread may have read the clock later.

/** Ages from here on are instants in the future. */
const futureAge = 0xf000_0000;
const range = 2 ** 32;

/** What decides whether a pair still counts. For a calendar, instants are periods and the window is 1. */
export interface Span {
  now: number;
  window: number;
}

/** The tick that has begun. What is younger than this may expire. */
export function tickNow(nowMs: number): number {
  return Math.floor(nowMs) | 0;
}

/** The tick of an admission: never earlier than its instant. */
export function tickOf(nowMs: number): number {
  return Math.ceil(nowMs) | 0;
}

export function isExpired(tick: number, nowTick: number, windowTicks: number): boolean {
  const age = (nowTick - tick) >>> 0;
  return age >= windowTicks && age < futureAge;
}

/** Returns the later of two instants. `tick` may be long past. */
export function later(tick: number, nowTick: number): number {
  return (nowTick - tick) >>> 0 >= futureAge ? tick : nowTick;
}

/** In milliseconds; negative in the future. */
export function ageOf(tick: number, nowTick: number): number {
  const age = (nowTick - tick) >>> 0;
  return age >= futureAge ? age - range : age;
}

// What the table knows of each policy: enough to say which keys have expired, and which are exhausted.

export interface SlotRules {
  readonly kind: "sliding" | "calendar" | "concurrency";
  /** Of a sliding policy. */
  readonly windowMs: number;
  /** Of keys without an override. */
  readonly limit: number;
  readonly cost: number;
  /** Of a calendar policy. A thread that only removes keys need not know it. */
  readonly calendar?: CalendarInForce;
  /** Returns the limit that an address has now, if the keys are addresses. A thread that only removes keys need not know it. */
  readonly limitOf?: (key: CounterKey) => number;
}

export interface CalendarInForce {
  readonly per: PeriodName;
  readonly timezone: string;
  readonly nextBorder: NextBorder;
}

/** Returned for a key that must not be forgotten. */
export const keep = Number.POSITIVE_INFINITY;

/** Returns the key of a line whose key is an address. */
export function addressAt(w: Int32Array, line: number): CounterKey {
  return new CounterKey(...keyWordsAt(w, line), true);
}

/** Returns the rules of a policy. */
export function rulesOf({ rate, limit, cost }: Policy): SlotRules {
  return { kind: rate.kind, windowMs: rate.kind === "sliding" ? Math.ceil(rate.windowMs) : 0, limit, cost };
}

export class RulesBySlot {
  readonly #w: Int32Array;
  readonly #rules: (SlotRules | null)[] = new Array(slots).fill(null);
  /** Numbers alone are found faster than the rules, and each decision about a sliding window needs one. */
  readonly #windowsMs: number[] = new Array(slots).fill(0);
  readonly #retirements = new Int32Array(slots);
  readonly #span: Span = { now: 0, window: 0 };
  #nowTick = 0;

  constructor(w: Int32Array) {
    this.#w = w;
  }

  set(slot: number, rules: SlotRules | null): void {
    this.#rules[slot] = rules;
    this.#windowsMs[slot] = rules === null ? 0 : rules.windowMs;
    if (rules === null) this.#retirements[slot] = this.retirementsOf(slot) + 1;
  }

  /** How many policies have had this slot and are gone. */
  retirementsOf(slot: number): number {
    return this.#retirements[slot] as number;
  }

  /** Null if no policy has the slot. */
  of(slot: number): SlotRules | null {
    return this.#rules[slot] ?? null;
  }

  /** The window of a slot; 0 if no policy with a sliding window has it. */
  windowOf(slot: number): number {
    return this.#windowsMs[slot] as number;
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
    return isMarkedExhausted(about) || units + rules.cost > rules.limit ? keep : units;
  }

  /** Returns whether the key has used up its own limit. Marks it then, because its last request was not refused. */
  isExhausted(line: number): boolean {
    const w = this.#w;
    const about = w[line + keyLine.about] as number;
    const rules = this.#rules[slotOf(about)] ?? null;
    if (rules?.limitOf === undefined || !isOwnAddress(about) || isHeldSlot(slotOf(about))) return false;
    const isExhausted = (w[line + keyLine.units] as number) + rules.cost > rules.limitOf(addressAt(w, line));
    if (isExhausted) w[line + keyLine.about] = withExhausted(about, true);
    return isExhausted;
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
