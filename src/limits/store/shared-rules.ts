// What people have set at any gateway of one store: rules, and whose counts were forgiven. One reader for each gateway, with
// a connection of its own, reads the log once a heartbeat, and writes through it. While the store is away, what was known
// last stays in force, and what is written holds here alone until the store can be told. Of two versions of a rule the one
// with the higher revision wins, wherever it was told, so gateways that reach the store hold the same rules.
import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../core/clock.ts";
import { type ForgivenKey, maxRules, type Rule, type RuleChange } from "../../core/rules.ts";
import type { CallFailure, SharedRulesFigures, SharedRulesState, StoreLink, Timers } from "../../core/store-link.ts";
import {
  decodeRulesAnswer,
  type Expected,
  encodeRulesCall,
  forgivenName,
  type LogEntry,
  pageEntries,
  pageOf,
  type RulesAnswer,
  type RulesCaller,
  type RulesOperation,
  resultOf,
  roomOf,
  rulesKeys,
  rulesTag,
  type TakenBackNotice,
  type ToldEntry,
} from "./rules-call.ts";
import { mostForgiven, mostRemoved } from "./rules-script.ts";
import { heartbeatMs } from "./shard.ts";
import { afterStoreTime, elapsed } from "./store-clock.ts";

/** Somebody's counts that are forgotten, as the threads that count have to hear it. */
export interface ForgivenNotice {
  readonly name: ForgivenKey;
  /** Its place in the log; 0 if the counters in the store are not told: it holds here alone, or others have told them. */
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
  /** The rules of the last process. They hold until the log has been read. Default: none. */
  readonly restored?: readonly Rule[];
  /** `all`: those that are set are all rules that hold; else all others stay. Never called for what changes nothing. */
  onRules(change: RuleChange, all: boolean): void;
  /** Whose counts were forgiven, in the order of the log; then all that was forgiven up to a place is known. */
  onForgiven(forgiven: readonly ForgivenNotice[], place: number): void;
  /** Another gateway has taken a reload on trial back. */
  onTakenBack(notice: TakenBackNotice): void;
  /** `failure`: null if the log can be read. */
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
/** The log may change while it is read. */
const mostAttempts = 4;

interface KnownRule {
  readonly kind: "rule";
  readonly id: string;
  /** Null: it was removed. */
  readonly rule: Rule | null;
  readonly revision: number;
  /** The log has to be told. */
  isUntold: boolean;
  /** The last reading of the log that had begun when it was written, or came from the log. */
  readonly knownIn: number;
}

interface KnownForgiveness {
  readonly kind: "forgiven";
  readonly name: ForgivenKey;
  readonly untilMs: number;
  /** 0: it holds here alone, and has no place in the log yet. */
  readonly revision: number;
  isUntold: boolean;
  readonly knownIn: number;
}

/** What was read of the log. */
interface Reading {
  readonly isWhole: boolean;
  /** Whether the log is another one than before, or has lost its end. */
  readonly isOther: boolean;
  /** Whether what is missing from the log was lost; else it was removed. */
  readonly isLost: boolean;
  readonly last: RulesAnswer;
  readonly entries: readonly LogEntry[];
}

export class SharedRules {
  readonly #options: SharedRulesOptions;
  readonly #keys: readonly string[];
  readonly #rules = new Map<string, KnownRule>();
  readonly #forgiven = new Map<string, KnownForgiveness>();
  #state: SharedRulesState = "unread";
  #sinceMs: number;
  #origin = "";
  #place = 0;
  #highest = 0;
  /** Of the last notice that was read. */
  #noticePlace = 0;
  /** After a connection was lost, because what is there may be older than what was read. */
  #mustReadAll = true;
  /** How many readings have begun. */
  #readings = 0;
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
      const { id, revision } = rule;
      this.#rules.set(id, { kind: "rule", id, rule, revision, isUntold: false, knownIn: 0 });
      this.#highest = Math.max(this.#highest, revision);
    }
    options.link.events = {
      onConnected: (shard) => this.#connected(shard),
      onDisconnected: (shard, failure) => this.#disconnected(shard, failure),
      onGone: () => {
        this.#mustReadAll = true;
      },
    };
  }

  /** Begins to connect and to read. */
  open(): void {
    this.#options.link.open();
    this.#beatLater();
  }

  /** Resolves when the log was read for the first time. */
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

  #readNext(): Promise<boolean> {
    if (this.#reading === null) return this.#startReading();
    // What is under way may have looked before.
    this.#next ??= this.#reading.then(() => {
      this.#next = null;
      return this.#reading ?? this.#startReading();
    });
    return this.#next;
  }

  /** Sets or replaces a rule. Its revision is chosen here. */
  put(rule: Rule, expected: Expected): Promise<RuleWriteResult> {
    return this.#write(rule.id, rule, expected);
  }

  remove(id: string, expected: Expected): Promise<RuleWriteResult> {
    return this.#write(id, null, expected);
  }

  /** Has the counts of a key forgotten, here before it resolves. Resolves with whether all gateways will hear of it now. */
  async forgive(name: ForgivenKey): Promise<boolean> {
    // Later than one that was read before, by another clock.
    const before = this.#forgiven.get(forgivenName(name))?.untilMs ?? 0;
    const untilMs = Math.max(before + 1, Math.ceil(this.#wallMs) + forgivenForMs);
    if (await this.#forgive(name, untilMs)) {
      // What lies before it in the log may have been forgiven elsewhere.
      await this.#readNext();
      return true;
    }
    this.#rememberForgiven({ kind: "forgiven", name, untilMs, revision: 0, isUntold: true, knownIn: this.#readings });
    this.#options.onForgiven([{ name, seq: 0 }], this.#place);
    return false;
  }

  /** Tells the other gateways that this one has taken a reload on trial back. While the store is away, they do not hear of it. */
  async tellTakenBack(notice: Omit<TakenBackNotice, "gateway">): Promise<void> {
    const told = { gateway: this.#options.origin, ...notice };
    await this.#call({ operation: "notice", notice: told, untilMs: Math.ceil(this.#wallMs) + noticeForMs });
  }

  /** Whether all gateways know what was set or removed last under this id. */
  isTold(id: string): boolean {
    return this.#rules.get(id)?.isUntold !== true;
  }

  figures(): SharedRulesFigures {
    let [rules, untold] = [0, 0];
    for (const { rule, isUntold } of this.#rules.values()) {
      if (rule !== null && rule.endsMs > this.#wallMs) rules += 1;
      if (isUntold) untold += 1;
    }
    for (const { isUntold } of this.#forgiven.values()) if (isUntold) untold += 1;
    const forMs = this.#options.clock.monotonicMs() - this.#sinceMs;
    return { state: this.#state, forMs, rules, untold, place: this.#place };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    await this.#options.link.close();
  }

  // The connection, and when it is used.

  #connected(shard: number): void {
    if (shard !== this.#shard) return;
    this.#isConnected = true;
    this.#mustReadAll = true;
    this.#nextConnection.resolve();
    void this.#readNext();
  }

  #disconnected(shard: number, failure: CallFailure): void {
    if (shard !== this.#shard) return;
    if (this.#isConnected) this.#nextConnection = Promise.withResolvers();
    this.#isConnected = false;
    this.#mustReadAll = true;
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
    const { link, clock, timers } = this.#options;
    const shard = this.#shard;
    if (shard === -1 || this.#isClosed) return Promise.resolve(null);
    const args = encodeRulesCall(operation, this.#caller);
    return new Promise((resolve) => {
      const overdue = afterStoreTime({ clock, timers }, overdueMs, () => {
        resolve(null);
        link.reconnect(shard);
      });
      link.call(shard, this.#keys, args, (reply, failure) => {
        overdue.cancel();
        const answer = failure === null ? decoded(reply) : null;
        // What cannot be written is written with a later reading.
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

  get #caller(): RulesCaller {
    return { origin: this.#options.origin, known: Math.max(this.#highest, this.#place), wallMs: this.#wallMs };
  }

  // Reading.

  #startReading(): Promise<boolean> {
    const reading = this.#read().finally(() => {
      if (this.#reading === reading) this.#reading = null;
    });
    this.#reading = reading;
    return reading;
  }

  async #read(): Promise<boolean> {
    if (!this.#isConnected) return false;
    const reading = await this.#readEntries();
    if (reading === null) return false;
    this.#take(reading);
    this.#become("read", null);
    const hasTold = await this.#tell();
    // What was forgiven shortly before a store forgot, only others may know, who tell it within a heartbeat.
    if (reading.isOther) await elapsed(this.#options.timers, heartbeatMs);
    else if (!hasTold) return true;
    // What was told has a place that this gateway knows only when it has read what lies before it.
    const again = await this.#readEntries();
    if (again !== null) this.#take(again);
    return again !== null;
  }

  /** Reads what is new, or everything. Null if it cannot be read. */
  async #readEntries(): Promise<Reading | null> {
    for (let attempt = 0; attempt < mostAttempts; attempt += 1) {
      const isWhole = this.#mustReadAll;
      this.#mustReadAll = false;
      const reading = await this.#readFrom(isWhole ? 0 : this.#place, isWhole);
      if (reading === null) this.#mustReadAll ||= isWhole;
      if (reading === null || reading !== "changed") return reading;
      this.#mustReadAll = true;
    }
    return null;
  }

  /** "changed": it has to be read from the beginning. */
  async #readFrom(place: number, isWhole: boolean): Promise<Reading | "changed" | null> {
    const entries: LogEntry[] = [];
    let first: RulesAnswer | null = null;
    this.#readings += 1;
    for (let after = place; ; ) {
      const last = await this.#call({ operation: "read", after });
      if (last === null) return null;
      first ??= last;
      const isSame = isWhole
        ? last.origin === first.origin && last.floor === first.floor
        : last.origin === this.#origin && last.floor <= place && last.last >= place;
      if (!isSame) return "changed";
      const page = pageOf(last);
      entries.push(...page.entries);
      after = page.lastPlace;
      if (page.hasMore) continue;
      const isKnown = this.#origin !== "";
      const isAnother = isKnown && last.origin !== this.#origin;
      const isOther = isAnother || last.last < this.#place;
      return { isWhole, isOther, isLost: isAnother || (isKnown && last.floor <= this.#place), last, entries };
    }
  }

  #take({ isWhole, isLost, last, entries }: Reading): void {
    const set: Rule[] = [];
    const removed = new Set<string>();
    const forgiven: ForgivenNotice[] = [];
    const named = new Set<string>();
    for (const entry of entries) {
      if (entry.kind === "rule") {
        named.add(entry.id);
        this.#takeRule(entry, set, removed);
        continue;
      }
      const isFresh = entry.isNew && last.timeUs - entry.place < freshMs * 1000;
      if (entry.kind === "notice") {
        this.#takeNotice(entry.notice, entry.place, isFresh);
        continue;
      }
      named.add(forgivenName(entry.name));
      if (this.#takeForgiven(entry)) forgiven.push({ name: entry.name, seq: isFresh ? entry.place : 0 });
    }
    if (isWhole) this.#takeMissing(named, last, isLost, removed);
    this.#origin = last.origin;
    this.#place = last.last;
    this.#dropEnded();
    this.#options.onForgiven(forgiven, this.#place);
    if (isWhole) {
      const all = [...this.#rules.values()].flatMap(({ rule }) => rule ?? []);
      this.#options.onRules({ set: all, removed: [...removed] }, true);
    } else if (set.length + removed.size > 0) this.#options.onRules({ set, removed: [...removed] }, false);
  }

  #takeRule({ id, rule, revision }: LogEntry & { readonly kind: "rule" }, set: Rule[], removed: Set<string>): void {
    const mine = this.#rules.get(id);
    this.#highest = Math.max(this.#highest, revision);
    // Of two that have the same revision, because they were set in the same instant, the one that is in the log holds.
    const isKnown = mine !== undefined && mine.revision === revision && isSameRule(mine.rule, rule);
    if (isKnown || (mine !== undefined && mine.revision > revision)) {
      mine.isUntold = !isKnown;
      return;
    }
    this.#remember({ kind: "rule", id, rule, revision, isUntold: false, knownIn: this.#readings });
    if (rule !== null) set.push(rule);
    else if (mine?.rule) removed.add(id);
  }

  #takeNotice(notice: TakenBackNotice, place: number, isFresh: boolean): void {
    const isNews = isFresh && place > this.#noticePlace && notice.gateway !== this.#options.origin;
    this.#noticePlace = Math.max(this.#noticePlace, place);
    if (isNews) this.#options.onTakenBack(notice);
  }

  /** Returns whether it is to be applied. */
  #takeForgiven({ name, untilMs, revision }: LogEntry & { readonly kind: "forgiven" }): boolean {
    const mine = this.#forgiven.get(forgivenName(name));
    this.#highest = Math.max(this.#highest, revision);
    // The log is told what has happened since.
    if (mine?.revision === 0 && untilMs < mine.untilMs) return true;
    if (mine !== undefined && mine.revision >= revision) {
      mine.isUntold = mine.revision > revision;
      return false;
    }
    this.#rememberForgiven({ kind: "forgiven", name, untilMs, revision, isUntold: false, knownIn: this.#readings });
    return true;
  }

  /** What the log does not have was removed so long ago that it has forgotten that, or the log has lost it. */
  #takeMissing(
    named: ReadonlySet<string>,
    { last, floor }: Pick<RulesAnswer, "last" | "floor">,
    isLost: boolean,
    removed: Set<string>,
  ): void {
    for (const mine of this.#rules.values()) {
      if (named.has(mine.id)) continue;
      // What was written meanwhile may be behind what was read.
      if (mine.knownIn === this.#readings) continue;
      // The log has lost it, perhaps with its end, or the last process has set it alone: else its removal would be known.
      if (isLost || mine.revision > (this.#origin === "" ? floor : last)) mine.isUntold = true;
      if (mine.isUntold) continue;
      this.#rules.delete(mine.id);
      if (mine.rule !== null) removed.add(mine.id);
    }
    for (const [name, mine] of this.#forgiven) {
      if (named.has(name) || mine.knownIn === this.#readings) continue;
      if (isLost || mine.revision > last) mine.isUntold = true;
      if (!mine.isUntold) this.#forgiven.delete(name);
    }
  }

  #dropEnded(): void {
    const nowMs = this.#wallMs;
    for (const [id, known] of this.#rules) {
      const { rule } = known;
      // Like one that was removed: others may have the one that it had replaced.
      if (rule !== null && rule.endsMs <= nowMs) this.#rules.set(id, { ...known, rule: null });
    }
    for (const [name, { untilMs }] of this.#forgiven) if (untilMs <= nowMs) this.#forgiven.delete(name);
  }

  // Telling what the log does not have.

  /** Returns whether there was something to tell. */
  async #tell(): Promise<boolean> {
    let hasTold = false;
    for (const { name, untilMs, revision, isUntold } of [...this.#forgiven.values()]) {
      if (isUntold && revision === 0) hasTold = (await this.#forgive(name, untilMs)) || hasTold;
    }
    const untold = [...this.#rules.values(), ...this.#forgiven.values()].filter(
      ({ isUntold, revision }) => isUntold && revision > 0,
    );
    for (let at = 0; at < untold.length; at += pageEntries) {
      const some = untold.slice(at, at + pageEntries);
      const answer = await this.#call({ operation: "again", entries: some as readonly ToldEntry[] });
      if (answer === null) return hasTold;
      hasTold = true;
      const room = roomOf(answer);
      for (const [i, each] of some.entries()) {
        each.isUntold = false;
        if (room[i] === true || each.kind !== "rule") continue;
        // All gateways hold the same rules, and there are too many.
        this.#rules.delete(each.id);
        this.#options.onRules({ set: [], removed: [each.id] }, false);
      }
    }
    return hasTold;
  }

  /** Returns whether it is in the log. */
  async #forgive(name: ForgivenKey, untilMs: number): Promise<boolean> {
    const answer = await this.#call({ operation: "forgive", name, untilMs });
    const result = answer === null ? null : resultOf(answer);
    if (result?.outcome !== "written") return false;
    const { revision } = result;
    this.#highest = Math.max(this.#highest, revision);
    this.#rememberForgiven({ kind: "forgiven", name, untilMs, revision, isUntold: false, knownIn: this.#readings });
    this.#options.onForgiven([{ name, seq: revision }], this.#place);
    return true;
  }

  // What is known.

  /** The revision is the same wherever it is written, so that a message that was given up and comes late changes nothing. */
  async #write(id: string, rule: Rule | null, expected: Expected): Promise<RuleWriteResult> {
    let revision = this.#nextRevision(0);
    for (;;) {
      const answer = await this.#call(
        rule === null
          ? { operation: "remove", id, revision, expected }
          : { operation: "put", rule: { ...rule, revision }, expected },
      );
      if (answer === null) return this.#writeAlone(id, rule, revision, expected);
      const result = resultOf(answer);
      if (result.outcome === "written") this.#keep(id, rule, revision, false);
      if (result.outcome === "written") return { ...result, isShared: true };
      if (result.outcome !== "old") return result;
      // Another gateway has written it since this one has read.
      revision = this.#nextRevision(result.revision);
    }
  }

  /** By the wall clock, because others may change a rule while this gateway is cut off, and the later change is to hold. */
  #nextRevision(above: number): number {
    const revision = Math.max(above + 1, this.#caller.known + 1, Math.floor(this.#wallMs * 1000));
    this.#highest = revision;
    return revision;
  }

  #writeAlone(id: string, rule: Rule | null, revision: number, expected: Expected): RuleWriteResult {
    const mine = this.#rules.get(id)?.rule ?? null;
    const there = mine !== null && mine.endsMs > this.#wallMs ? mine.revision : 0;
    if (expected !== "any" && (expected === "absent" ? 0 : expected) !== there)
      return { outcome: "conflict", revision: there };
    if (rule === null && there === 0) return { outcome: "conflict", revision: 0 };
    if (rule !== null && mine === null && this.figures().rules >= maxRules) return { outcome: "full" };
    this.#keep(id, rule, revision, true);
    return { outcome: "written", revision, isShared: false };
  }

  #keep(id: string, content: Rule | null, revision: number, isUntold: boolean): void {
    const rule = content === null ? null : { ...content, revision };
    // Another one may have been read since.
    if ((this.#rules.get(id)?.revision ?? 0) > revision) return;
    this.#remember({ kind: "rule", id, rule, revision, isUntold, knownIn: this.#readings });
    this.#options.onRules({ set: rule === null ? [] : [rule], removed: rule === null ? [id] : [] }, false);
  }

  /** Of removals, as many are remembered as the log has. */
  #remember(known: KnownRule): void {
    this.#rules.delete(known.id);
    this.#rules.set(known.id, known);
    if (this.#rules.size <= maxRules + mostRemoved) return;
    for (const { id, rule } of this.#rules.values()) {
      if (rule !== null) continue;
      this.#rules.delete(id);
      return;
    }
  }

  #rememberForgiven(known: KnownForgiveness): void {
    const name = forgivenName(known.name);
    this.#forgiven.delete(name);
    this.#forgiven.set(name, known);
    const [oldest] = this.#forgiven.keys();
    if (this.#forgiven.size > mostForgiven && oldest !== undefined) this.#forgiven.delete(oldest);
  }
}

/** A rule that has ended is kept as one that was removed. */
function isSameRule(mine: Rule | null, other: Rule | null): boolean {
  return mine === null || isDeepStrictEqual(mine, other);
}

/** Null if the reply is not the script's. */
function decoded(reply: unknown): RulesAnswer | null {
  try {
    return decodeRulesAnswer(reply);
  } catch {
    return null;
  }
}
