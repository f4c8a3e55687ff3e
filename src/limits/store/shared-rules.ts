// What people have set at any gateway of one store: rules, and whose counts were forgiven. One reader for each gateway, with
// a connection of its own, asks once a heartbeat whether there is another version, reads all of it then, and writes to it.
// While the store is away, what was known last stays in force, and what is written holds here alone until the store can be
// told: of two writes, the later one by the store's order holds. What a store has lost, it is told again, with its revision.
import type { Clock } from "../../core/clock.ts";
import { type ForgivenKey, maxRules, type Rule, type RuleChange } from "../../core/rules.ts";
import type { CallFailure, SharedRulesFigures, SharedRulesState, StoreLink, Timers } from "../../core/store-link.ts";
import type { Presence } from "./presence.ts";
import {
  decodeRulesAnswer,
  type Entry,
  type Expected,
  encodeRulesCall,
  forgivenEntry,
  forgivenOf,
  noticeEntry,
  noticeOf,
  pageEntries,
  pageOf,
  type ReadEntry,
  type RulesAnswer,
  type RulesOperation,
  resultsOf,
  ruleEntry,
  ruleIdOf,
  ruleName,
  ruleOf,
  rulesKeys,
  rulesTag,
  type TakenBackNotice,
  type WrittenEntry,
  type WrittenResult,
} from "./rules-call.ts";
import { mostOthers, removedForMs } from "./rules-script.ts";
import { heartbeatMs } from "./shard.ts";
import { afterStoreTime, elapsed } from "./store-clock.ts";

/** Somebody's counts that are forgotten, as the threads that count have to hear it. */
export interface ForgivenNotice {
  readonly name: ForgivenKey;
  /** Its revision; 0 if the counters in the store are not told: it holds here alone, or others have told them. */
  readonly seq: number;
}

type WriteOutcome = Exclude<WrittenResult, { readonly outcome: "old" }>;

/** `isShared`: false if it holds at this gateway alone for now. */
export type RuleWriteResult =
  | Exclude<WriteOutcome, { readonly outcome: "written" }>
  | { readonly outcome: "written"; readonly revision: number; readonly isShared: boolean };

export interface SharedRulesOptions {
  readonly link: StoreLink;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly prefix: string;
  /** Random characters. */
  readonly origin: string;
  /** What the heartbeat says of this gateway, and who hears of the others. Default: nothing, nobody. */
  readonly presence?: Pick<Presence, "present" | "take">;
  /** The rules of the last process. They hold until the store has been read. Default: none. */
  readonly restored?: readonly Rule[];
  /** `all`: those that are set are all rules that hold; else all others stay. Never called for what changes nothing. */
  onRules(change: RuleChange, all: boolean): void;
  /** Whose counts were forgiven; then all that was forgiven up to a version is known. */
  onForgiven(forgiven: readonly ForgivenNotice[], version: number): void;
  /** Another gateway has taken a reload on trial back. */
  onTakenBack(notice: TakenBackNotice): void;
  /** `failure`: null if the rules can be read. */
  onState(state: SharedRulesState, failure: CallFailure | null): void;
}

/** So long nobody waits for an answer. */
const overdueMs = heartbeatMs;
/** A forgiveness is told to the counters by all who read it so soon. After that, somebody has. */
const freshMs = 60_000;
/** Somebody who was away for so long need not hear of it. */
const noticeForMs = 600_000;
/** No counter counts anything for longer. */
const forgivenForMs = 32 * 86_400_000;
/** A gateway that ends waits so long for the store to have heard of it. */
const leavingMs = 100;

/** A rule, also one that was removed or has ended, or a forgiveness. */
interface Known extends Entry {
  /** `alone`: it was written here, and the store has to be told. `lost`: it has to be told again. Null: the store has it. */
  untold: "alone" | "lost" | null;
}

/** What a reading has changed. */
interface Changes {
  readonly set: Rule[];
  readonly removed: Set<string>;
  readonly forgiven: ForgivenNotice[];
}

export class SharedRules {
  readonly #options: SharedRulesOptions;
  readonly #keys: readonly string[];
  /** By the names of fields. */
  readonly #known = new Map<string, Known>();
  #state: SharedRulesState = "unread";
  #sinceMs: number;
  /** Of the hash that was read last. */
  #origin = "";
  #version = 0;
  /** The highest revision or version that was seen or given here. */
  #highest = 0;
  /** Revision of the last notice that was read. */
  #noticed = 0;
  /** At the start, after a reading that failed, and after a write: a store that lost that has the version from before. */
  #mustReadAll = true;
  /** What was written since the reading under way began, which may have looked before. */
  readonly #written = new Set<string>();
  /** Resolves with the next connection; null while there is one. */
  #nextConnection: PromiseWithResolvers<void> | null = Promise.withResolvers();
  /** The reading that is under way, and the one that begins after it. */
  #reading: Promise<boolean> | null = null;
  #next: Promise<boolean> | null = null;
  #timer: { cancel(): void } | null = null;
  readonly #firstRead = Promise.withResolvers<void>();
  #isClosed = false;

  constructor(options: SharedRulesOptions) {
    this.#options = options;
    this.#keys = rulesKeys(options.prefix);
    this.#sinceMs = options.clock.monotonicMs();
    for (const rule of options.restored ?? []) {
      this.#known.set(ruleName(rule.id), { ...ruleEntry(rule), untold: null });
      this.#highest = Math.max(this.#highest, rule.revision);
    }
    options.link.events = {
      onConnected: (shard) => this.#connected(shard),
      onDisconnected: (shard, failure) => this.#disconnected(shard, failure),
      onGone() {},
    };
  }

  /** Begins to connect and to read. */
  open(): void {
    this.#options.link.open();
    this.#beatLater();
  }

  /** Resolves when the rules were read for the first time. */
  firstRead(): Promise<void> {
    return this.#firstRead.promise;
  }

  /** Reads what is new by now. Resolves with whether it was read. */
  async readNow(): Promise<boolean> {
    if (this.#nextConnection !== null)
      await Promise.race([this.#nextConnection.promise, elapsed(this.#options.timers, overdueMs)]);
    return this.#nextConnection === null && this.#readNext();
  }

  /** Sets or replaces a rule. Its revision is chosen here, or by the store. */
  put(rule: Rule, expected: Expected): Promise<RuleWriteResult> {
    return this.#change(ruleEntry({ ...rule, revision: 0 }), expected);
  }

  remove(id: string, expected: Expected): Promise<RuleWriteResult> {
    const endsMs = Math.ceil(this.#wallMs) + removedForMs;
    return this.#change({ name: ruleName(id), text: "", endsMs, revision: 0 }, expected);
  }

  /** Has the counts of a key forgotten, here before it resolves. Resolves with whether all gateways will hear of it now. */
  async forgive(name: ForgivenKey): Promise<boolean> {
    // Later than one that was read before, by another clock.
    const before = this.#known.get(forgivenEntry(name, 0, 0).name)?.endsMs ?? 0;
    const entry = forgivenEntry(name, Math.max(before + 1, Math.ceil(this.#wallMs) + forgivenForMs), 0);
    const take = (revision: number, untold: Known["untold"]): void => {
      this.#keep({ ...entry, revision, untold });
      this.#options.onForgiven([{ name, seq: revision }], this.#version);
    };
    const result = await this.#write(entry, (revision) => take(revision, null));
    const isShared = result?.outcome === "written";
    // What was written before it may have been forgiven elsewhere.
    if (isShared) await this.#readNext();
    else take(0, "alone");
    return isShared;
  }

  /** Tells the other gateways that this one has taken a reload on trial back. While the store is away, they do not hear of it. */
  async tellTakenBack(notice: Omit<TakenBackNotice, "gateway">): Promise<void> {
    const told = { gateway: this.#options.origin, ...notice };
    await this.#write(noticeEntry(told, Math.ceil(this.#wallMs) + noticeForMs));
  }

  /** Whether all gateways know what was set or removed last under this id. */
  isTold(id: string): boolean {
    return (this.#known.get(ruleName(id))?.untold ?? null) === null;
  }

  figures(): SharedRulesFigures {
    let untold = 0;
    for (const known of this.#known.values()) if (known.untold !== null) untold += 1;
    const forMs = this.#options.clock.monotonicMs() - this.#sinceMs;
    return { state: this.#state, forMs, rules: this.#inForce().length, untold, place: this.#version };
  }

  /** Says good-bye, then closes the connection. */
  async close(): Promise<void> {
    const present = this.#options.presence?.present() ?? null;
    const { timers, link } = this.#options;
    const known = { origin: this.#origin, version: this.#version };
    const left =
      present && this.#call({ operation: "read", ...known, cursor: "0", present: { ...present, about: "" } });
    this.#isClosed = true;
    this.#timer?.cancel();
    if (left !== null) await Promise.race([left, elapsed(timers, leavingMs)]);
    await link.close();
  }

  #inForce(): Known[] {
    const nowMs = this.#wallMs;
    return [...this.#known.values()].filter((known) => isInForce(known, nowMs));
  }

  // The connection, and when it is used.

  #connected(shard: number): void {
    if (shard !== this.#shard) return;
    this.#nextConnection?.resolve();
    this.#nextConnection = null;
    void this.#readNext();
  }

  #disconnected(shard: number, failure: CallFailure): void {
    if (shard !== this.#shard) return;
    this.#nextConnection ??= Promise.withResolvers();
    this.#become("away", failure);
  }

  #beatLater(): void {
    if (this.#isClosed) return;
    this.#timer = this.#options.timers.after(heartbeatMs, () => {
      this.#beatLater();
      if (this.#nextConnection === null && this.#reading === null) void this.#readNext();
    });
  }

  #become(state: "read" | "away", failure: CallFailure | null): void {
    if (this.#isClosed || state === this.#state || (state === "away" && this.#state === "unread")) return;
    this.#state = state;
    this.#sinceMs = this.#options.clock.monotonicMs();
    this.#options.onState(state, failure);
    if (state === "read") this.#firstRead.resolve();
  }

  /** Resolves with null if there is no answer in time. `onAnswer`: called with it before the next one is looked at. */
  #call(operation: RulesOperation, onAnswer?: (answer: RulesAnswer) => void): Promise<RulesAnswer | null> {
    const { link, clock, timers, origin } = this.#options;
    const shard = this.#shard;
    if (shard === -1 || this.#isClosed) return Promise.resolve(null);
    if (operation.operation === "write") this.#mustReadAll = true;
    const args = encodeRulesCall(operation, { origin, known: this.#highest, wallMs: this.#wallMs });
    return new Promise((resolve) => {
      let isOverdue = false;
      const overdue = afterStoreTime({ clock, timers }, overdueMs, () => {
        isOverdue = true;
        resolve(null);
        link.reconnect(shard);
      });
      link.call(shard, this.#keys, args, (reply, failure) => {
        overdue.cancel();
        const answer = failure === null ? decoded(reply) : null;
        // What cannot be written is written after a later reading.
        if (answer === null && operation.operation === "read")
          this.#become("away", failure ?? { kind: "failed", detail: "an answer that is not the script's" });
        if (answer !== null && !isOverdue) onAnswer?.(answer);
        resolve(answer);
      });
    });
  }

  get #shard(): number {
    return this.#options.link.shardOf(rulesTag);
  }

  get #wallMs(): number {
    return this.#options.clock.wallMs();
  }

  // Reading.

  /** Reads after the reading that is under way, which may have looked before. */
  #readNext(): Promise<boolean> {
    this.#next ??= (this.#reading ?? Promise.resolve(false)).then(() => {
      this.#next = null;
      this.#reading = this.#read().finally(() => {
        this.#reading = null;
      });
      return this.#reading;
    });
    return this.#next;
  }

  async #read(): Promise<boolean> {
    if (this.#nextConnection !== null) return false;
    const [origin, version] = [this.#origin, this.#version];
    if (!(await this.#readOnce())) return false;
    this.#become("read", null);
    const hasTold = await this.#tell();
    const isOther = origin !== "" && (this.#origin !== origin || this.#version < version);
    // What was forgiven shortly before a store forgot, only others may know, who tell it within a heartbeat.
    if (isOther) await elapsed(this.#options.timers, heartbeatMs);
    else if (!hasTold) return true;
    // Only what was read counts as known: others may have written before this gateway has told.
    return this.#readOnce();
  }

  /**
   * Reads all if there is another version. Returns whether it could be read. What is written meanwhile may be in it, and what
   * a store loses meanwhile may not: the version is that of the first page, so the next reading finds either.
   */
  async #readOnce(): Promise<boolean> {
    const { presence } = this.#options;
    const known = { origin: this.#origin, version: this.#mustReadAll ? -1 : this.#version };
    let present = presence?.present() ?? null;
    this.#mustReadAll = false;
    this.#written.clear();
    const entries: ReadEntry[] = [];
    let first: RulesAnswer | null = null;
    for (let cursor = "0"; ; ) {
      const answer = await this.#call({ operation: "read", ...known, cursor, present });
      if (answer === null) {
        this.#mustReadAll = true;
        return false;
      }
      present = null;
      if (answer.present !== null) presence?.take(answer.present);
      first ??= answer;
      const page = pageOf(answer);
      entries.push(...page.entries);
      cursor = page.cursor;
      if (cursor === "0") break;
    }
    if (first.origin !== known.origin || first.version !== known.version) this.#take(first, entries);
    this.#dropEnded();
    return true;
  }

  #take({ origin, version, floor, timeUs }: RulesAnswer, entries: readonly ReadEntry[]): void {
    const changes: Changes = { set: [], removed: new Set(), forgiven: [] };
    const named = new Set(this.#written);
    for (const entry of entries) {
      const isFresh = entry.isNew && timeUs - entry.revision < freshMs * 1000;
      if (!this.#isOverwritten(entry)) this.#takeEntry(entry, isFresh, changes);
      named.add(entry.name);
      this.#highest = Math.max(this.#highest, entry.revision);
    }
    for (const [name, known] of this.#known) if (!named.has(name)) this.#takeMissing(name, known, floor, changes);
    this.#origin = origin;
    this.#version = version;
    this.#highest = Math.max(this.#highest, version);
    this.#options.onForgiven(changes.forgiven, version);
    const isFirst = this.#state === "unread";
    const set = isFirst ? this.#inForce().flatMap((known) => ruleOf(known) ?? []) : changes.set;
    if (isFirst || set.length + changes.removed.size > 0)
      this.#options.onRules({ set, removed: [...changes.removed] }, isFirst);
  }

  /** Whether it was written here while it was read. The answer to an older write may have come meanwhile. */
  #isOverwritten({ name, revision }: Entry): boolean {
    return this.#written.has(name) && (this.#known.get(name)?.revision ?? revision) >= revision;
  }

  #takeEntry({ isNew, ...entry }: ReadEntry, isFresh: boolean, { set, removed, forgiven }: Changes): void {
    const mine = this.#known.get(entry.name);
    if (mine !== undefined && stays(mine, entry)) return;
    const id = ruleIdOf(entry);
    const rule = ruleOf(entry);
    const name = forgivenOf(entry);
    // A gateway of a later version may have written what cannot be read.
    const isRule = id !== null && (rule !== null || entry.text === "");
    if (isRule || name !== null) this.#remember({ ...entry, untold: null });
    if (name !== null) forgiven.push({ name, seq: isFresh ? entry.revision : 0 });
    if (rule !== null && isInForce(entry, this.#wallMs)) set.push(rule);
    else if (isRule && mine !== undefined && mine.text !== "") removed.add(id);
    if (id === null && name === null) this.#takeNotice(entry, isFresh);
  }

  #takeNotice(entry: Entry, isFresh: boolean): void {
    const notice = noticeOf(entry);
    if (notice === null || entry.revision <= this.#noticed) return;
    this.#noticed = entry.revision;
    if (isFresh && notice.gateway !== this.#options.origin) this.#options.onTakenBack(notice);
  }

  /** What the store does not have, it has lost: what was removed is there, unless that was too long ago. */
  #takeMissing(name: string, mine: Known, floor: number, { removed }: Changes): void {
    if (mine.untold !== null) return;
    if (mine.revision > floor) mine.untold = "lost";
    else {
      this.#known.delete(name);
      const id = ruleIdOf(mine);
      if (id !== null && mine.text !== "") removed.add(id);
    }
  }

  #dropEnded(): void {
    const nowMs = this.#wallMs;
    for (const [name, known] of this.#known) {
      if (known.endsMs > nowMs) continue;
      // Like one that was removed: others may have the one that it had replaced.
      const isRule = ruleIdOf(known) !== null && known.text !== "";
      if (isRule) this.#known.set(name, { ...known, text: "", endsMs: Math.ceil(nowMs) + removedForMs });
      else this.#known.delete(name);
    }
  }

  // Writing.

  /** Tells what the store does not have. Returns whether there was something to tell. */
  async #tell(): Promise<boolean> {
    const untold = [...this.#known.values()].filter((known) => known.untold !== null);
    for (let at = 0; at < untold.length; at += pageEntries) {
      const some = untold.slice(at, at + pageEntries);
      const entries = some.map((known) => ({ ...known, isAgain: known.untold === "lost" }));
      const answer = await this.#call({ operation: "write", entries });
      if (answer === null) return at > 0;
      const results = resultsOf(answer);
      for (const [i, known] of some.entries()) this.#told(known, results[i]);
    }
    return untold.length > 0;
  }

  #told(known: Known, result: WrittenResult | undefined): void {
    // Somebody here may have changed it since.
    if (this.#known.get(known.name) !== known || result === undefined || result.outcome === "old") return;
    if (result.outcome === "written") {
      const { revision } = result;
      const name = known.untold === "alone" ? forgivenOf(known) : null;
      if (revision !== known.revision && known.untold === "alone") this.#keep({ ...known, revision, untold: null });
      if (name !== null) this.#options.onForgiven([{ name, seq: revision }], this.#version);
      known.untold = null;
      return;
    }
    // All gateways hold the same rules, and there are too many.
    this.#known.delete(known.name);
    const id = ruleIdOf(known);
    if (id !== null && known.text !== "") this.#options.onRules({ set: [], removed: [id] }, false);
  }

  /**
   * Resolves with null if it is not known whether it is written. `onWritten`: called with the revision before anything is read that
   * has the entry. Otherwise its reading would take it for one of another gateway.
   */
  async #write(entry: WrittenEntry, onWritten?: (revision: number) => void): Promise<WriteOutcome | null> {
    for (;;) {
      const answer = await this.#call({ operation: "write", entries: [entry] }, (written) => {
        const [result] = resultsOf(written);
        if (result?.outcome === "written") onWritten?.(result.revision);
      });
      const result = answer === null ? undefined : resultsOf(answer)[0];
      if (result === undefined) return null;
      if (result.outcome !== "full") this.#highest = Math.max(this.#highest, result.revision);
      // Another gateway has written it since this one has read.
      if (result.outcome !== "old") return result;
    }
  }

  async #change(entry: Entry, expected: Expected): Promise<RuleWriteResult> {
    const shared = await this.#write({ ...entry, expected }, (revision) => {
      this.#keep({ ...entry, revision, untold: null });
    });
    const result = shared ?? this.#allow(entry, expected);
    if (result.outcome !== "written") return result;
    if (shared === null) this.#keep({ ...entry, revision: result.revision, untold: "alone" });
    return { ...result, isShared: shared !== null };
  }

  /** Answers as the store would, by what is known here. */
  #allow({ name, text }: Entry, expected: Expected): WriteOutcome {
    const mine = this.#known.get(name);
    const there = mine !== undefined && isInForce(mine, this.#wallMs) ? mine.revision : 0;
    if (expected !== "any" && (expected === "absent" ? 0 : expected) !== there)
      return { outcome: "conflict", revision: there };
    if (text === "" && there === 0) return { outcome: "conflict", revision: 0 };
    if (text !== "" && there === 0 && this.#inForce().length >= maxRules) return { outcome: "full" };
    // By the wall clock: it is to be the highest for all gateways, also if the store loses what they have written meanwhile.
    this.#highest = Math.max(this.#highest + 1, Math.floor(this.#wallMs * 1000));
    return { outcome: "written", revision: this.#highest };
  }

  /** Remembers what was written here, and has a rule in force. */
  #keep(known: Known): void {
    const mine = this.#known.get(known.name);
    this.#written.add(known.name);
    // Another one may have been read since.
    if (mine !== undefined && mine.revision > known.revision && ruleIdOf(known) !== null) return;
    this.#remember(known);
    const id = ruleIdOf(known);
    const rule = ruleOf(known);
    if (rule !== null) this.#options.onRules({ set: [rule], removed: [] }, false);
    else if (id !== null) this.#options.onRules({ set: [], removed: [id] }, false);
  }

  /** The oldest of what is not a rule in force is forgotten, as in the store. */
  #remember(known: Known): void {
    this.#known.delete(known.name);
    this.#known.set(known.name, known);
    if (this.#known.size <= maxRules + mostOthers) return;
    for (const each of this.#known.values()) {
      if (ruleIdOf(each) !== null && each.text !== "") continue;
      this.#known.delete(each.name);
      return;
    }
  }
}

/** Returns whether what is known here stays, and notes whether the store has to be told of it. */
function stays(mine: Known, entry: Entry): boolean {
  const isSame = mine.text === entry.text && (mine.text === "" || mine.endsMs === entry.endsMs);
  // The store may have an older removal, and others a rule that was set after that one.
  if (mine.untold === "alone") return !isSame || mine.text === "";
  if (mine.revision > entry.revision) mine.untold = "lost";
  // A rule that has ended here may not have ended there. Two servers that were primaries may have given one revision twice.
  else if (mine.revision === entry.revision && (isSame || mine.text === "")) mine.untold = null;
  else return false;
  return true;
}

function isInForce(known: Entry, nowMs: number): boolean {
  return ruleIdOf(known) !== null && known.text !== "" && known.endsMs > nowMs;
}

/** Null if the reply is not the script's. */
function decoded(reply: unknown): RulesAnswer | null {
  try {
    return decodeRulesAnswer(reply);
  } catch {
    return null;
  }
}
