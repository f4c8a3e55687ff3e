// A stand-in for a store that runs the script, in memory and with a clock of the caller's: a simulation calls it millions of
// times. Written from what the script is to mean, and compared with the real one in test/limits/store/script.long.ts.
import type {
  CounterAnswer,
  CounterItem,
  EqualRequests,
  Item,
  ItemAnswer,
  LeaseReport,
  ScriptAnswer,
  Told,
} from "../../src/limits/store/script-call.ts";
import {
  gatewayLength,
  heldForUs,
  heldMark,
  heldRetryUs,
  leaseIdOf,
  returnUs,
  threadLength,
} from "../../src/limits/store/script-call.ts";
import { type Entry, SortedEntries } from "./sorted-entries.ts";

/**
 * Returns whether each request has a lease of its own, because its units may be given back alone. Else all units that a call
 * is granted of a counter are one lease.
 */
export function isLeasedByRequest({ item, id }: Pick<CounterItem, "item" | "id">): boolean {
  return item === "concurrency" || id.endsWith(heldMark);
}

const second = 1_000_000;
const [mostExpired, mostWalked, mostMerged, mostCompared] = [1_000, 200, 200, 10_000];

/** What the store has under one key of a counter. */
interface Counter {
  readonly entries: SortedEntries;
  /** Calendar: what gateways have spent in the period. */
  readonly spent: Map<string, number>;
  /** All units that count. */
  units: number;
  /** Of the last change. */
  clockUs: number;
  /** The key is gone then. */
  expiryUs: number;
}

interface GatewayList {
  readonly origin: string;
  /** When each gateway was there last. */
  readonly seen: Map<string, number>;
}

export class ScriptModel {
  readonly #clock: () => number;
  readonly #counters = new Map<string, Counter>();
  readonly #gateways = new Map<string, GatewayList>();
  readonly #secrets = new Map<string, string>();
  /** The places of the last forgiveness. */
  readonly #marks = new Map<string, number>();

  /** A counter is about to be emptied; something is told that counts. */
  onForget: (key: string) => void = () => {};
  onTold: (item: CounterItem, told: Told) => void = () => {};

  /** The clock is the store's: whole microseconds since 1970. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Opens each counter, judges the requests in their order, then writes each counter and answers. */
  call(items: readonly Item[], requests: readonly EqualRequests[] = []): ScriptAnswer {
    const timeUs = this.#clock();
    const opened = items.map((item) => this.#open(item, timeUs));
    let place = 0;
    const granted = requests.map(({ needs, count }) => {
      const turns = needs.map(({ item, units }) => ({ turn: opened[item], units }));
      let fitting = 0;
      for (let i = 0; i < count; i += 1, place += 1) {
        const isGranted = turns.every(({ turn, units }) => turn instanceof Turn && turn.hasRoom(units));
        if (isGranted) for (const { turn, units } of turns) if (turn instanceof Turn) turn.take(units, place);
        if (isGranted) fitting += 1;
      }
      return fitting;
    });
    const answers = opened.map((each) => (each instanceof Turn ? this.#close(each) : each));
    return { timeUs, items: answers, requests: granted };
  }

  flushAll(): void {
    this.#counters.clear();
    this.#gateways.clear();
    this.#secrets.clear();
    this.#marks.clear();
  }

  /** What a replica has that has heard of everything until now; by another clock if given. */
  copy(clock = this.#clock): ScriptModel {
    const copy = new ScriptModel(clock);
    for (const [key, counter] of this.#counters) {
      copy.#counters.set(key, { ...counter, entries: counter.entries.copy(), spent: new Map(counter.spent) });
    }
    for (const [key, { origin, seen }] of this.#gateways) copy.#gateways.set(key, { origin, seen: new Map(seen) });
    for (const [key, secret] of this.#secrets) copy.#secrets.set(key, secret);
    for (const [key, mark] of this.#marks) copy.#marks.set(key, mark);
    return copy;
  }

  /** Drops a key, as a server does that is short of memory. */
  evict(key: string): void {
    this.#counters.delete(key);
    this.#gateways.delete(key);
    this.#secrets.delete(key);
    this.#marks.delete(key);
  }

  /** How many units count under a key, of leases that have not been dropped yet too. */
  unitsOf(key: string): number {
    return this.#counters.get(key)?.units ?? 0;
  }

  /** How many of them are of leases with these ids. */
  unitsOfLeases(key: string, ids: ReadonlySet<string>): number {
    let units = 0;
    for (const entry of this.#counters.get(key)?.entries.latest(Number.POSITIVE_INFINITY) ?? [])
      if (ids.has(entry.id)) units += entry.units;
    return units;
  }

  /** How many units count, without what no longer counts at an instant. */
  unitsAt(key: string, nowUs: number): number {
    const counter = this.#counters.get(key);
    if (counter === undefined) return 0;
    let units = 0;
    for (const { endsUs, units: each } of counter.entries.latest(Number.POSITIVE_INFINITY)) {
      if (endsUs > nowUs) units += each;
    }
    return units;
  }

  /** The same by the gateways that they were granted to. */
  unitsByGateway(key: string): ReadonlyMap<string, number> {
    const counter = this.#counters.get(key);
    const units = new Map(counter?.spent);
    for (const entry of counter?.entries.latest(Number.POSITIVE_INFINITY) ?? []) {
      const gateway = gatewayOf(entry.id);
      units.set(gateway, (units.get(gateway) ?? 0) + entry.units);
    }
    return units;
  }

  /** The counters that are in the store, whether something counts in them or not. */
  get storedCounters(): readonly string[] {
    const nowUs = this.#clock();
    return [...this.#counters].flatMap(([key, { expiryUs }]) => (expiryUs > nowUs ? [key] : []));
  }

  get keys(): number {
    return this.#counters.size + this.#gateways.size + this.#secrets.size + this.#marks.size;
  }

  /** Told by a thread that does not know that the counter was forgiven. */
  #isVoid({ markKey, forgivenUntil }: Told): boolean {
    return (this.#marks.get(markKey) ?? 0) > forgivenUntil;
  }

  #open(item: Item, timeUs: number): ItemAnswer | Turn {
    switch (item.item) {
      case "gateways": {
        const made = { origin: `${item.gateway}/${timeUs}`, seen: new Map<string, number>() };
        const list = this.#gateways.get(item.key) ?? made;
        list.seen.set(item.gateway, timeUs - item.ageUs);
        for (const [gateway, seenUs] of list.seen) {
          if (seenUs > timeUs) list.seen.set(gateway, timeUs);
          if (seenUs < timeUs - item.silenceUs) list.seen.delete(gateway);
        }
        this.#gateways.set(item.key, list);
        return { item: "gateways", origin: list.origin, gateways: list.seen.size };
      }
      case "secret": {
        const value = this.#secrets.get(item.key) ?? item.proposed;
        this.#secrets.set(item.key, value);
        return { item: "secret", value };
      }
      case "forget":
        this.#dropExpired(item.key, timeUs);
        if ((this.#marks.get(item.markKey) ?? 0) < item.seq) {
          this.#marks.set(item.markKey, item.seq);
          this.onForget(item.key);
          this.#counters.delete(item.key);
        }
        return { item: "forget" };
      default:
        return this.#openCounter(item, timeUs);
    }
  }

  /** As the server drops it, with whatever is asked of its key. */
  #dropExpired(key: string, timeUs: number): void {
    const stored = this.#counters.get(key);
    if (stored !== undefined && stored.expiryUs <= timeUs) this.#counters.delete(key);
  }

  #openCounter(item: CounterItem, timeUs: number): CounterAnswer | Turn {
    if (item.item === "calendar" && timeUs >= item.untilUs) {
      const nothing = { granted: 0, askedGranted: 0, ahead: 0, free: 0, isNew: false } as const;
      const never = { resetUs: -1, fitsUs: -1, leasedUs: -1 };
      return { item: "counter", isInPeriod: false, isForeign: false, isVoid: false, ...nothing, ...never };
    }
    this.#dropExpired(item.key, timeUs);
    const counter = this.#counters.get(item.key) ?? {
      entries: new SortedEntries(),
      spent: new Map(),
      units: 0,
      clockUs: timeUs,
      expiryUs: 0,
    };
    const isVoid = item.told !== null && this.#isVoid(item.told);
    if (item.told !== null && !isVoid) this.onTold(item, item.told);
    const turn = new Turn(item, counter, timeUs, isVoid);
    turn.open();
    return turn;
  }

  #close(turn: Turn): CounterAnswer {
    const { item, counter, isVoid, askedGranted } = turn;
    const { granted, ahead } = turn.close();
    const isNew = !this.#counters.has(item.key);
    if (turn.isChanged) this.#counters.set(item.key, counter);
    const free = Math.max(0, item.limit - counter.units);
    return {
      ...{ item: "counter", isInPeriod: true, isForeign: false, isVoid, granted, askedGranted, ahead, free, isNew },
      ...{ resetUs: turn.resetUs(), fitsUs: turn.fitsUs(), leasedUs: turn.leasedUs() },
    };
  }
}

/** One counter in one call. */
class Turn {
  isChanged = false;
  readonly item: CounterItem;
  readonly counter: Counter;
  readonly isVoid: boolean;
  readonly #told: Told | null;
  /** What was free before any request was judged, and what the requests have taken of it. */
  #free = 0;
  #taken = 0;
  askedGranted = 0;
  readonly #timeUs: number;
  /** The clock of a counter does not go back. */
  readonly #nowUs: number;
  readonly #leaseUs: number;
  /** Instants are multiples of it: a long window has a thousand of them. */
  readonly #grainUs: number;

  /** `isVoid`: what is told does not count. */
  constructor(item: CounterItem, counter: Counter, timeUs: number, isVoid: boolean) {
    this.item = item;
    this.counter = counter;
    this.isVoid = isVoid;
    this.#told = isVoid ? null : item.told;
    this.#timeUs = timeUs;
    this.#nowUs = Math.max(timeUs, counter.clockUs);
    // As it is written in a call.
    this.#leaseUs = Math.ceil(item.leaseUs);
    const thousandthUs = Math.floor(item.windowUs / 1_000);
    this.#grainUs = item.limit >= 1_000 && thousandthUs > this.#leaseUs ? thousandthUs : 1;
  }

  /** Judges the requests that ask for this counter alone, too. */
  open(): void {
    const { reports, limit, asked, step } = this.item;
    this.#dropExpired();
    for (const report of reports) this.#report(report);
    if (this.#told !== null) this.#tell(this.#told);
    this.#free = Math.max(0, limit - this.counter.units);
    this.askedGranted = Math.min(asked, Math.floor(this.#free / step));
    this.#taken = this.askedGranted * step;
    if (!isLeasedByRequest(this.item)) return;
    for (let place = 0; place < this.askedGranted; place += 1) this.#lease(leaseIdOf(this.item.id, place), step);
  }

  hasRoom(units: number): boolean {
    return this.#taken + units <= this.#free;
  }

  /** `place`: of the request, among those of several counters. */
  take(units: number, place: number): void {
    this.#taken += units;
    const { item } = this;
    if (isLeasedByRequest(item)) this.#lease(leaseIdOf(item.id, item.asked + place), units);
  }

  /** Grants units ahead. */
  close(): { granted: number; ahead: number } {
    const { id, step, ahead: wanted } = this.item;
    let ahead = 0;
    if (!isLeasedByRequest(this.item)) {
      ahead = Math.max(0, Math.min(wanted, Math.floor(this.#free / 4) - this.#taken));
      ahead -= ahead % step;
      if (this.#taken + ahead > 0) this.#lease(id, this.#taken + ahead);
    }
    if (this.isChanged) {
      this.counter.clockUs = this.#nowUs;
      this.#lengthenExpiry();
    }
    return { granted: this.#taken + ahead, ahead };
  }

  resetUs(): number {
    if (this.item.item === "calendar") return this.item.untilUs - this.#timeUs;
    const first = this.counter.entries.at(0);
    return first === undefined ? -1 : Math.max(1, first.endsUs - this.#timeUs);
  }

  fitsUs(): number {
    const { step, limit } = this.item;
    let free = limit - this.counter.units;
    if (free >= step) return 0;
    if (step > limit) return -1;
    const latestUs = free + this.#unitsHeld() >= step ? heldRetryUs : Number.POSITIVE_INFINITY;
    if (this.item.item === "calendar") return Math.min(latestUs, this.item.untilUs - this.#timeUs);
    let fitsUs = 1;
    for (let i = 0; i < mostWalked && free < step; i += 1) {
      const entry = this.counter.entries.at(i);
      if (entry === undefined) break;
      free += entry.units;
      fitsUs = Math.max(1, entry.endsUs - this.#timeUs);
    }
    return Math.min(latestUs, fitsUs);
  }

  leasedUs(): number {
    const { step, limit, windowUs, id } = this.item;
    if (limit - this.counter.units >= step) return -1;
    const thread = threadOf(id);
    for (const entry of this.counter.entries.latest(mostWalked)) {
      if (entry.endsUs <= this.#nowUs + windowUs - returnUs) break;
      if (!entry.id.startsWith(thread)) return Math.max(0, this.#nowUs + this.#leaseUs + windowUs - entry.endsUs);
    }
    return -1;
  }

  /** Asked for by a request that would hold units too. */
  #unitsHeld(): number {
    let held = 0;
    if (!this.item.id.endsWith(heldMark)) return held;
    const leastUs = this.#nowUs + this.item.windowUs + this.#leaseUs - heldForUs;
    for (const { id, units, endsUs } of this.counter.entries.latest(mostWalked)) {
      if (id.endsWith(heldMark) && endsUs > leastUs) held += units;
    }
    return held;
  }

  #dropExpired(): void {
    const expired = this.counter.entries.takeUntil(this.#nowUs, mostExpired);
    if (expired.length > 0) this.isChanged = true;
    for (const { id, units } of expired) {
      if (this.item.item === "calendar") this.#spend(gatewayOf(id), units);
      else this.counter.units -= units;
    }
  }

  #report(report: LeaseReport): void {
    const { id, granted } = report;
    const spent = Math.min(report.spent, granted);
    const lease = this.#counted(id, granted);
    if (this.item.item === "calendar") {
      if (lease === undefined) return;
      this.#remove(lease);
      this.#spend(gatewayOf(id), spent);
      this.counter.units += spent;
    } else if (this.item.item === "concurrency") {
      const nextEndUs = Math.max(
        this.#nowUs + this.#leaseUs,
        lease?.endsUs ?? 0,
        this.#counted(id, spent)?.endsUs ?? 0,
      );
      if (lease !== undefined && spent < granted) this.#remove(lease);
      if (spent > 0) this.#put({ id, units: spent, endsUs: nextEndUs });
    } else if (lease !== undefined) {
      const endsUs = Math.min(lease.endsUs, this.#rounded(this.#endOfSpent(report.ageUs)));
      this.#remove(lease);
      if (spent > 0 && endsUs > this.#nowUs) this.#keepSpent({ id: keptId(id), units: spent, endsUs });
    } else {
      // It was reported before: it may only end earlier.
      const reported = spent > 0 ? this.#counted(keptId(id), spent) : undefined;
      const endsUs = this.#rounded(this.#endOfSpent(report.ageUs));
      if (reported === undefined || endsUs >= reported.endsUs) return;
      this.#remove(reported);
      if (endsUs > this.#nowUs) this.#put({ ...reported, endsUs });
    }
  }

  #tell(told: Told): void {
    const { item, id } = this.item;
    if (item === "concurrency") return;
    const gateway = gatewayOf(id);
    let present = this.counter.spent.get(gateway) ?? 0;
    const afterUs = item === "calendar" ? this.#nowUs : this.#nowUs + this.#leaseUs;
    for (const entry of this.counter.entries.latest(mostCompared)) {
      if (entry.endsUs <= afterUs) break;
      const isHeld = entry.id.endsWith(heldMark) && threadOf(entry.id) === threadOf(id);
      if (gatewayOf(entry.id) === gateway && !isHeld) present += entry.units;
    }
    const missing = told.units - present;
    if (missing <= 0) return;
    if (item === "calendar") {
      this.#spend(gateway, missing);
      this.counter.units += missing;
      this.isChanged = true;
    } else {
      const endsUs = this.#endOfSpent(told.ageUs);
      if (endsUs > this.#nowUs) this.#put({ id: `${id}.told`, units: missing, endsUs });
    }
  }

  /** A lease that is there, because the call was made before, counts once, and for as long as the later of the two. */
  #lease(id: string, units: number): void {
    const { item, windowUs } = this.item;
    const endsUs = this.#rounded(this.#nowUs + this.#leaseUs + (item === "sliding" ? windowUs : 0));
    const before = this.counter.entries.find(id, units);
    this.#put({ id, units, endsUs: Math.max(endsUs, before?.endsUs ?? 0) });
  }

  #lengthenExpiry(): void {
    const { item, windowUs, untilUs, keepUs } = this.item;
    const countsUntilUs = item === "calendar" ? untilUs : this.#rounded(this.#nowUs + this.#leaseUs + windowUs);
    const leastUs = countsUntilUs + (item === "calendar" ? keepUs : second);
    if (this.counter.expiryUs >= leastUs) return;
    const slackUs = item === "calendar" ? 0 : second + Math.floor((this.#leaseUs + windowUs) / 8);
    this.counter.expiryUs = leastUs + slackUs;
  }

  #endOfSpent(ageUs: number): number {
    return this.#nowUs - Math.max(0, Math.floor(ageUs)) + this.item.windowUs;
  }

  #rounded(instantUs: number): number {
    return Math.ceil(instantUs / this.#grainUs) * this.#grainUs;
  }

  /** In a long window, together with what the gateway has spent until the same instant. */
  #keepSpent(entry: Entry): void {
    const id = this.#grainUs === 1 ? entry.id : `${gatewayOf(entry.id)}!${entry.endsUs}`;
    const together = this.#grainUs === 1 ? [] : this.counter.entries.endingAt(entry.endsUs, mostMerged);
    const before = together.find((other) => other.id === id);
    if (before !== undefined) this.#remove(before);
    this.#put({ ...entry, id, units: entry.units + (before?.units ?? 0) });
  }

  #counted(id: string, units: number): Entry | undefined {
    const entry = this.counter.entries.find(id, units);
    return entry !== undefined && entry.endsUs > this.#nowUs ? entry : undefined;
  }

  #put(entry: Entry): void {
    this.isChanged = true;
    const before = this.counter.entries.find(entry.id, entry.units);
    if (before !== undefined) this.#remove(before);
    this.counter.entries.add(entry);
    this.counter.units += entry.units;
  }

  #remove(entry: Entry): void {
    this.isChanged = true;
    this.counter.entries.remove(entry);
    this.counter.units -= entry.units;
  }

  #spend(gateway: string, units: number): void {
    if (units > 0) this.counter.spent.set(gateway, (this.counter.spent.get(gateway) ?? 0) + units);
  }
}

/** Of units that are not held any more. */
function keptId(id: string): string {
  return id.endsWith(heldMark) ? id.slice(0, -heldMark.length) : id;
}

function threadOf(id: string): string {
  return id.slice(0, gatewayLength + threadLength);
}

function gatewayOf(id: string): string {
  return id.slice(0, gatewayLength);
}
