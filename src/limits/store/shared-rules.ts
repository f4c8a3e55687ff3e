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
  type EntryContent,
  type Expected,
  encodeRulesCall,
  entryName,
  forgivenName,
  pageEntries,
  pageOf,
  type RulesAnswer,
  type RulesOperation,
  resultsOf,
  ruleName,
  rulesKeys,
  rulesTag,
  type TakenBackNotice,
  textOf,
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

/** `isShared`: false if it holds at this gateway alone for now. */
export type RuleWriteResult =
  | { readonly outcome: "written"; readonly revision: number; readonly isShared: boolean }
  /** `revision`: of the rule that is there; 0 if there is none. */
  | { readonly outcome: "conflict"; readonly revision: number }
  | { readonly outcome: "full" };

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
type KnownContent = Exclude<EntryContent, { readonly kind: "notice" }>;
type KnownEntry = Exclude<Entry, { readonly kind: "notice" }>;
type Known = KnownContent & {
  readonly revision: number;
  /** `alone`: it was written here, and the store has to be told. `lost`: it has to be told again. Null: the store has it. */
  untold: "alone" | "lost" | null;
};

type WriteOutcome = Exclude<WrittenResult, { readonly outcome: "old" }>;

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
  #isConnected = false;
  #nextConnection = Promise.withResolvers<void>();
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
      const { id, revision, endsMs } = rule;
      this.#known.set(ruleName(id), { kind: "rule", id, rule, revision, endsMs, untold: null });
      this.#highest = Math.max(this.#highest, revision);
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
    if (!this.#isConnected) {
      await Promise.race([this.#nextConnection.promise, elapsed(this.#options.timers, overdueMs)]);
    }
    return this.#isConnected && this.#readNext();
  }

  /** Sets or replaces a rule. Its revision is chosen here, or by the store. */
  put(rule: Rule, expected: Expected): Promise<RuleWriteResult> {
    return this.#change({ kind: "rule", id: rule.id, rule, endsMs: rule.endsMs }, expected);
  }

  remove(id: string, expected: Expected): Promise<RuleWriteResult> {
    return this.#change({ kind: "rule", id, rule: null, endsMs: this.#wallMs + removedForMs }, expected);
  }

  /** Has the counts of a key forgotten, here before it resolves. Resolves with whether all gateways will hear of it now. */
  async forgive(name: ForgivenKey): Promise<boolean> {
    // Later than one that was read before, by another clock.
    const before = this.#known.get(forgivenName(name))?.endsMs ?? 0;
    const endsMs = Math.max(before + 1, Math.ceil(this.#wallMs) + forgivenForMs);
    const result = await this.#write({ kind: "forgiven", name, endsMs, revision: 0 });
    const isShared = result?.outcome === "written";
    this.#keep({ kind: "forgiven", name, endsMs }, isShared ? result.revision : 0, isShared ? null : "alone");
    // What was written before it may have been forgiven elsewhere.
    if (isShared) await this.#readNext();
    return isShared;
  }

  /** Tells the other gateways that this one has taken a reload on trial back. While the store is away, they do not hear of it. */
  async tellTakenBack(notice: Omit<TakenBackNotice, "gateway">): Promise<void> {
    const told = { gateway: this.#options.origin, ...notice };
    await this.#write({ kind: "notice", notice: told, endsMs: this.#wallMs + noticeForMs, revision: 0 });
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

  #inForce(): Rule[] {
    const nowMs = this.#wallMs;
    return [...this.#known.values()].flatMap((known) => (isInForce(known, nowMs) ? [known.rule] : []));
  }

  // The connection, and when it is used.

  #connected(shard: number): void {
    if (shard !== this.#shard) return;
    this.#isConnected = true;
    this.#nextConnection.resolve();
    void this.#readNext();
  }

  #disconnected(shard: number, failure: CallFailure): void {
    if (shard !== this.#shard) return;
    if (this.#isConnected) this.#nextConnection = Promise.withResolvers();
    this.#isConnected = false;
    this.#become("away", failure);
  }

  #beatLater(): void {
    if (this.#isClosed) return;
    this.#timer = this.#options.timers.after(heartbeatMs, () => {
      this.#beatLater();
      if (this.#isConnected && this.#reading === null) void this.#readNext();
    });
  }

  #become(state: "read" | "away", failure: CallFailure | null): void {
    if (this.#isClosed || state === this.#state || (state === "away" && this.#state === "unread")) return;
    this.#state = state;
    this.#sinceMs = this.#options.clock.monotonicMs();
    this.#options.onState(state, failure);
    if (state === "read") this.#firstRead.resolve();
  }

  /** Resolves with null if there is no answer in time. */
  #call(operation: RulesOperation): Promise<RulesAnswer | null> {
    const { link, clock, timers, origin } = this.#options;
    const shard = this.#shard;
    if (shard === -1 || this.#isClosed) return Promise.resolve(null);
    const args = encodeRulesCall(operation, { origin, known: this.#highest, wallMs: this.#wallMs });
    return new Promise((resolve) => {
      const overdue = afterStoreTime({ clock, timers }, overdueMs, () => {
        resolve(null);
        link.reconnect(shard);
      });
      link.call(shard, this.#keys, args, (reply, failure) => {
        overdue.cancel();
        const answer = failure === null ? decoded(reply) : null;
        // What cannot be written is written after a later reading.
        if (answer === null && operation.operation === "read")
          this.#become("away", failure ?? { kind: "failed", detail: "an answer that is not the script's" });
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
    if (!this.#isConnected) return false;
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
    const entries: Entry[] = [];
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

  #take({ origin, version, floor, timeUs }: RulesAnswer, entries: readonly Entry[]): void {
    const changes: Changes = { set: [], removed: new Set(), forgiven: [] };
    const named = new Set(this.#written);
    for (const entry of entries) {
      const name = entryName(entry);
      const isFresh = entry.isNew && timeUs - entry.revision < freshMs * 1000;
      if (entry.kind === "notice") this.#takeNotice(entry.notice, entry.revision, isFresh);
      else if (!this.#written.has(name)) this.#takeEntry(name, entry, isFresh, changes);
      named.add(name);
      this.#highest = Math.max(this.#highest, entry.revision);
    }
    for (const [name, known] of this.#known) if (!named.has(name)) this.#takeMissing(name, known, floor, changes);
    this.#origin = origin;
    this.#version = version;
    this.#highest = Math.max(this.#highest, version);
    this.#options.onForgiven(changes.forgiven, version);
    const isFirst = this.#state === "unread";
    const set = isFirst ? this.#inForce() : changes.set;
    if (isFirst || set.length + changes.removed.size > 0)
      this.#options.onRules({ set, removed: [...changes.removed] }, isFirst);
  }

  #takeEntry(name: string, entry: KnownEntry, isFresh: boolean, changes: Changes): void {
    const mine = this.#known.get(name);
    const isSame = mine !== undefined && hasSameContent(mine, entry);
    const isAlone = mine?.untold === "alone" && !isSame;
    if (mine !== undefined && mine.untold !== "alone" && mine.revision >= entry.revision) {
      const isLost = mine.revision > entry.revision;
      // A rule that has ended here may not have ended there. Two servers that were primaries may have given one revision twice.
      if (isLost || isSame || hasEnded(mine)) {
        mine.untold = isLost ? "lost" : null;
        return;
      }
    }
    // The store is told what was written here since; but what was forgiven elsewhere is forgotten here too.
    if (!isAlone) this.#remember({ ...entry, untold: null });
    if (entry.kind === "forgiven") changes.forgiven.push({ name: entry.name, seq: isFresh ? entry.revision : 0 });
    else if (isAlone) return;
    else if (isInForce(entry, this.#wallMs)) changes.set.push(entry.rule);
    else if (mine?.kind === "rule" && mine.rule !== null) changes.removed.add(mine.id);
  }

  #takeNotice(notice: TakenBackNotice, revision: number, isFresh: boolean): void {
    const isNews = isFresh && revision > this.#noticed && notice.gateway !== this.#options.origin;
    this.#noticed = Math.max(this.#noticed, revision);
    if (isNews) this.#options.onTakenBack(notice);
  }

  /** What the store does not have, it has lost: what was removed is there, unless that was too long ago. */
  #takeMissing(name: string, mine: Known, floor: number, { removed }: Changes): void {
    if (mine.untold !== null) return;
    if (mine.revision > floor) mine.untold = "lost";
    else {
      this.#known.delete(name);
      if (mine.kind === "rule" && mine.rule !== null) removed.add(mine.id);
    }
  }

  #dropEnded(): void {
    const nowMs = this.#wallMs;
    for (const [name, known] of this.#known) {
      if (known.endsMs > nowMs) continue;
      // Like one that was removed: others may have the one that it had replaced.
      const isRule = known.kind === "rule" && known.rule !== null;
      if (isRule) this.#known.set(name, { ...known, rule: null, endsMs: nowMs + removedForMs });
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
    const name = entryName(known);
    // Somebody here may have changed it since.
    if (this.#known.get(name) !== known || result === undefined || result.outcome === "old") return;
    if (result.outcome === "written") {
      if (known.revision !== result.revision && known.untold === "alone") this.#keep(known, result.revision, null);
      known.untold = null;
      return;
    }
    // All gateways hold the same rules, and there are too many.
    this.#known.delete(name);
    if (known.kind === "rule" && known.rule !== null) this.#options.onRules({ set: [], removed: [known.id] }, false);
  }

  /** Resolves with null if it is not known whether it is written. */
  async #write(entry: WrittenEntry): Promise<WriteOutcome | null> {
    for (;;) {
      const answer = await this.#call({ operation: "write", entries: [entry] });
      const result = answer === null ? undefined : resultsOf(answer)[0];
      if (result === undefined) return null;
      if (result.outcome !== "full") this.#highest = Math.max(this.#highest, result.revision);
      // Another gateway has written it since this one has read.
      if (result.outcome !== "old") return result;
    }
  }

  async #change(content: KnownContent & { readonly kind: "rule" }, expected: Expected): Promise<RuleWriteResult> {
    const shared = await this.#write({ ...content, expected, revision: 0 });
    const result = shared ?? this.#allow(content, expected);
    if (result.outcome !== "written") return result;
    this.#keep(content, result.revision, shared === null ? "alone" : null);
    return { ...result, isShared: shared !== null };
  }

  /** Answers as the store would, by what is known here. */
  #allow({ id, rule }: { readonly id: string; readonly rule: Rule | null }, expected: Expected): WriteOutcome {
    const mine = this.#known.get(ruleName(id));
    const there = mine !== undefined && isInForce(mine, this.#wallMs) ? mine.revision : 0;
    if (expected !== "any" && (expected === "absent" ? 0 : expected) !== there)
      return { outcome: "conflict", revision: there };
    if (rule === null && there === 0) return { outcome: "conflict", revision: 0 };
    if (rule !== null && there === 0 && this.#inForce().length >= maxRules) return { outcome: "full" };
    // By the wall clock: it is to be the highest for all gateways, also if the store loses what they have written meanwhile.
    this.#highest = Math.max(this.#highest + 1, Math.floor(this.#wallMs * 1000));
    return { outcome: "written", revision: this.#highest };
  }

  /** Has what was written here in force. */
  #keep(content: KnownContent, revision: number, untold: Known["untold"]): void {
    const name = entryName(content);
    this.#written.add(name);
    this.#mustReadAll = true;
    if (content.kind === "forgiven") {
      this.#remember({ ...content, revision, untold });
      this.#options.onForgiven([{ name: content.name, seq: untold === null ? revision : 0 }], this.#version);
      return;
    }
    // Another one may have been read since.
    if ((this.#known.get(name)?.revision ?? 0) > revision) return;
    const { id } = content;
    const rule = content.rule === null ? null : { ...content.rule, revision };
    this.#remember({ ...content, rule, revision, untold });
    this.#options.onRules({ set: rule === null ? [] : [rule], removed: rule === null ? [id] : [] }, false);
  }

  /** The oldest of what is not a rule in force is forgotten, as in the store. */
  #remember(known: Known): void {
    const name = entryName(known);
    this.#known.delete(name);
    this.#known.set(name, known);
    if (this.#known.size <= maxRules + mostOthers) return;
    for (const [oldest, each] of this.#known) {
      if (each.kind === "rule" && each.rule !== null) continue;
      this.#known.delete(oldest);
      return;
    }
  }
}

function hasEnded(known: KnownContent): boolean {
  return known.kind === "rule" && known.rule === null;
}

function isInForce<T extends KnownContent>(known: T, nowMs: number): known is T & { readonly rule: Rule } {
  return known.kind === "rule" && known.rule !== null && known.endsMs > nowMs;
}

/** Of a removal, it does not matter how long it is remembered; the end of a rule is in its text. */
function hasSameContent(mine: KnownContent, other: KnownContent): boolean {
  return textOf(mine) === textOf(other) && (mine.kind === "rule" || mine.endsMs === other.endsMs);
}

/** Null if the reply is not the script's. */
function decoded(reply: unknown): RulesAnswer | null {
  try {
    return decodeRulesAnswer(reply);
  } catch {
    return null;
  }
}
