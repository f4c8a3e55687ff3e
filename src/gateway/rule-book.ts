// Keeps the rules of a process: checks each that is set, tells it to all threads, and ends it at its end. The wall clock
// says when that is. Rules come into force in the order in which they were set; a call resolves when every thread has its.
// Where gateways share rules, their log says which hold: what is set goes through it, and comes back like that of others.
import { setImmediate } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import type { WallClock } from "../core/clock.ts";
import { ignoreError } from "../core/failure.ts";
import { InTurn } from "../core/in-turn.ts";
import {
  type ExpectedRevision,
  inPortions,
  maxRules,
  type Rule,
  type RuleAction,
  type RuleChange,
  type RuleCondition,
  type RuleEvent,
  type RuleInput,
  type RulePut,
  type RuleRefusalReason,
  type RuleRefused,
  type RuleRemoved,
  type RuleSubject,
  type RuleWriter,
} from "../core/rules.ts";
import { RulesInForce } from "../core/rules-in-force.ts";
import type { Settings } from "../core/settings.ts";
import type { RuleWriteResult, SharedRules } from "../limits/store/shared-rules.ts";
import type { SipHash } from "../limits/table/sip-hash.ts";
import { createErrorLog, type Logger } from "../telemetry/log.ts";
import { coveredBy, type RuleContext, readRule } from "./rule-input.ts";
import { loggedName } from "./runtimes.ts";
import type { Workers } from "./workers.ts";

/** A wall clock that was set is noticed after this time. A timer cannot wait for longer than 24 days anyway. */
const longestWaitMs = 30_000;

/** So many rules end in one turn of the event loop. */
const mostEnding = 250;

interface RuleBookOptions {
  readonly clock: WallClock;
  readonly log: Logger;
  /** Those of the last process. */
  readonly restored: readonly Rule[];
  /** Whether the rules are in snapshots. */
  readonly survivesRestart: boolean;
}

/** What gateways share. */
export type RuleLog = Pick<SharedRules, "put" | "remove" | "isTold" | "readNow">;

/** A rule without its revision. */
type Draft = Omit<Rule, "revision">;

/** What is being written to the log by somebody here. It comes into force when the log gives it back. */
interface OwnWrite {
  readonly id: string;
  /** Null: it is removed. */
  readonly draft: Draft | null;
  readonly by: string;
  before: Rule | null;
}

type RuledWorkers = Pick<Workers, "settings" | "listedTokens" | "changeRules">;

export class RuleBook {
  /** What this thread asks, about requests or to explain how a client is treated. */
  readonly inForce = new RulesInForce();
  readonly #clock: WallClock;
  readonly #logError: (error: unknown) => void;
  readonly #survivesRestart: boolean;
  readonly #rules = new Map<string, Rule>();
  readonly #listeners = new Set<(event: RuleEvent) => void>();
  #workers: RuledWorkers | null = null;
  #log: RuleLog | null = null;
  readonly #own = new Set<OwnWrite>();
  /** What gateways share is taken over in the order in which it comes. */
  readonly #taking = new InTurn();
  #revision: number;
  /** The workers get one change after the other. */
  readonly #turn = new InTurn();
  #timer: NodeJS.Timeout | undefined;
  /** When the timer expires, by the wall clock. */
  #timerMs = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor({ clock, log, restored, survivesRestart }: RuleBookOptions) {
    this.#clock = clock;
    this.#logError = createErrorLog(log);
    this.#survivesRestart = survivesRestart;
    const nowMs = clock.wallMs();
    const set = restored.filter(({ endsMs }) => endsMs > nowMs).slice(0, maxRules);
    for (const rule of set) this.#rules.set(rule.id, rule);
    this.#revision = restored.reduce((most, { revision }) => Math.max(most, revision), 0);
    this.inForce.apply({ set, removed: [] });
  }

  /** Rises with each change. */
  get revision(): number {
    return this.#revision;
  }

  list(): readonly Rule[] {
    return [...this.#rules.values()];
  }

  get(id: string): Rule | null {
    return this.#rules.get(id) ?? null;
  }

  /** How many there are of each action. */
  counts(): Readonly<Record<RuleAction, number>> {
    const counts = { block: 0, exempt: 0, limit: 0 };
    for (const { action } of this.#rules.values()) counts[action] += 1;
    return counts;
  }

  /**
   * Of what was set or removed last under this id. False: the store is away, and it holds at this gateway alone until that is
   * back. Null: gateways share nothing.
   */
  isShared(id: string): boolean | null {
    return this.#log === null ? null : this.#log.isTold(id);
  }

  /** Whether it holds after a restart of this process. */
  survivesRestart(id: string): boolean {
    return this.#survivesRestart || this.isShared(id) === true;
  }

  /**
   * Puts the rules that are known into force. Must be called once, before the workers listen and before a rule is set. `log`:
   * null if gateways share nothing.
   */
  async publishTo(workers: RuledWorkers, log: RuleLog | null = null): Promise<void> {
    this.#workers = workers;
    this.#log = log;
    this.#schedule();
    await this.#publish([...this.#rules.keys()]);
  }

  /** Returns the function that ends it. */
  onChange(listener: (event: RuleEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Resolves when every thread that serves has the rule. */
  async put(input: RuleInput, writer: RuleWriter, condition: RuleCondition): Promise<RulePut | RuleRefused> {
    const context = this.#context();
    const { id } = input;
    const wanted = readRule(input, context);
    if (!("id" in wanted)) return this.#refused(id, "invalid", wanted);
    const { expectedRevision, force } = condition;
    // What there is, the log knows best.
    const changed = this.#log === null ? this.#findChanged(id, expectedRevision) : null;
    if (changed !== null) return changed;
    const cutOff = force ? [] : coveredBy(wanted, context, writer.address);
    if (cutOff.length > 0) return this.#refused(id, "needs_force", cutOff);
    const { forMs, ...facts } = wanted;
    const setMs = this.#clock.wallMs();
    const draft: Draft = { ...facts, setMs, endsMs: setMs + forMs, setBy: writer.name };
    return this.#log === null ? this.#put(draft) : this.#putInLog(this.#log, draft, expectedRevision);
  }

  async remove(
    id: string,
    writer: RuleWriter,
    { expectedRevision }: ExpectedRevision,
  ): Promise<RuleRemoved | RuleRefused> {
    const rule = this.get(id);
    if (rule === null) return this.#unknown(id);
    const log = this.#log;
    if (log !== null) return this.#removeFromLog(log, rule, writer, expectedRevision);
    const changed = this.#findChanged(id, expectedRevision);
    if (changed !== null) return changed;
    this.#revision += 1;
    await this.#remove([rule], { kind: "removed", by: writer.name, isForeign: false });
    return { ok: true, rule };
  }

  /**
   * Takes over what gateways share, with its revisions. A rule that is newer here stays. `all`: those that are set are all that
   * hold, and others are removed.
   */
  take(change: RuleChange, all = false): Promise<void> {
    return this.#taking.do(() => this.#take(change, all));
  }

  /** Resolves when every thread has what was taken over so far. */
  async taken(): Promise<void> {
    await this.#taking.over();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #context(): RuleContext {
    if (this.#workers === null) throw new Error("rules are set when the gateway has started");
    return { settings: this.#workers.settings, listed: this.#workers.listedTokens() };
  }

  #refused(id: string, reason: RuleRefusalReason, details: readonly string[]): RuleRefused {
    return { ok: false, reason, details, current: this.get(id) };
  }

  #findChanged(id: string, expectedRevision: number | null): RuleRefused | null {
    const revision = this.get(id)?.revision ?? 0;
    if (expectedRevision === null || expectedRevision === revision) return null;
    return this.#changed(id, revision, expectedRevision);
  }

  #changed(id: string, revision: number, expectedRevision: number | null): RuleRefused {
    const now = revision === 0 ? "there is no such rule" : `the rule has revision ${revision}`;
    return this.#refused(id, "changed", [expectedRevision === null ? now : `${now}, and not ${expectedRevision}`]);
  }

  #unknown(id: string): RuleRefused {
    return this.#refused(id, "unknown", ["there is no such rule"]);
  }

  #full(id: string): RuleRefused {
    return this.#refused(id, "full", [`there are ${maxRules} rules, and no more are kept`]);
  }

  async #put(draft: Draft): Promise<RulePut | RuleRefused> {
    const { id, setBy } = draft;
    const before = this.get(id);
    if (before === null && this.#rules.size >= maxRules) return this.#full(id);
    this.#revision += 1;
    const rule = { ...draft, revision: this.#revision };
    await this.#set(rule, { by: setBy, isForeign: false });
    return { ok: true, rule, before };
  }

  async #putInLog(log: RuleLog, draft: Draft, expected: number | null): Promise<RulePut | RuleRefused> {
    const { id, setBy } = draft;
    const own: OwnWrite = { id, draft, by: setBy, before: this.get(id) };
    const write = await this.#write(own, () => log.put({ ...draft, revision: 0 }, expectationOf(expected)));
    if (write.outcome === "full") return this.#full(id);
    if (write.outcome === "conflict") return this.#outrun(log, id, write.revision, expected);
    return { ok: true, rule: { ...draft, revision: write.revision }, before: own.before };
  }

  async #removeFromLog(
    log: RuleLog,
    rule: Rule,
    { name }: RuleWriter,
    expected: number | null,
  ): Promise<RuleRemoved | RuleRefused> {
    const { id } = rule;
    const own: OwnWrite = { id, draft: null, by: name, before: rule };
    const write = await this.#write(own, () => log.remove(id, expectationOf(expected)));
    if (write.outcome === "full") throw new Error("a log cannot be too full for a removal");
    if (write.outcome === "written") return { ok: true, rule: own.before ?? rule };
    const changed = await this.#outrun(log, id, write.revision, expected);
    return write.revision === 0 ? this.#unknown(id) : changed;
  }

  /** Resolves when what was written is in force here too. */
  async #write(own: OwnWrite, write: () => Promise<RuleWriteResult>): Promise<RuleWriteResult> {
    this.#own.add(own);
    try {
      const result = await write();
      await this.#taking.over();
      return result;
    } finally {
      this.#own.delete(own);
    }
  }

  /** The log has something else than was expected, of which this gateway may not have read yet. */
  async #outrun(log: RuleLog, id: string, revision: number, expected: number | null): Promise<RuleRefused> {
    if ((this.get(id)?.revision ?? 0) !== revision) {
      await log.readNow();
      await this.#taking.over();
    }
    return this.#changed(id, revision, expected);
  }

  async #take({ set, removed }: RuleChange, all: boolean): Promise<void> {
    const stays = all ? new Set(set.map(({ id }) => id)) : null;
    const gone = stays === null ? removed : [...this.#rules.keys()].filter((id) => !stays.has(id));
    await this.#takeRemovals(gone.flatMap((id) => this.#rules.get(id) ?? []));
    for (const portion of inPortions(set)) {
      const nowMs = this.#clock.wallMs();
      const news = portion.filter((rule) => rule.endsMs > nowMs && this.#isNews(rule));
      for (const { revision } of portion) this.#revision = Math.max(this.#revision, revision);
      await Promise.all(
        news.map((rule) => this.#set(rule, this.#isSameAsBefore(rule) ? null : this.#sourceOf(rule.id, rule))),
      );
    }
  }

  async #takeRemovals(gone: readonly Rule[]): Promise<void> {
    if (gone.length === 0) return;
    this.#revision += 1;
    const nowMs = this.#clock.wallMs();
    const ended = gone.filter(({ endsMs }) => endsMs <= nowMs);
    const bySource = Map.groupBy(
      gone.filter(({ endsMs }) => endsMs > nowMs),
      ({ id }) => this.#sourceOf(id, null).by,
    );
    await Promise.all([
      this.#remove(ended, { kind: "ended", by: null, isForeign: false }),
      ...Array.from(bySource, ([by, rules]) => this.#remove(rules, { kind: "removed", by, isForeign: by === null })),
    ]);
  }

  /** Of two versions that were set in the same instant at two gateways, the log has chosen one. */
  #isNews(rule: Rule): boolean {
    const known = this.#rules.get(rule.id);
    if (known === undefined) return this.#rules.size < maxRules;
    return known.revision < rule.revision || (known.revision === rule.revision && !isDeepStrictEqual(known, rule));
  }

  /** What was set while the store was away gets another revision when the store is told, and nobody has to hear of that. */
  #isSameAsBefore(rule: Rule): boolean {
    const known = this.#rules.get(rule.id);
    return known !== undefined && isDeepStrictEqual({ ...known, revision: rule.revision }, rule);
  }

  /** Who has set or removed what comes from the log. */
  #sourceOf(id: string, rule: Rule | null): Pick<RuleEvent, "by" | "isForeign"> {
    for (const own of this.#own) {
      const { draft } = own;
      const isSame = rule === null ? draft === null : isDeepStrictEqual({ ...draft, revision: rule.revision }, rule);
      if (own.id !== id || !isSame) continue;
      own.before = this.get(id);
      return { by: own.by, isForeign: false };
    }
    return { by: null, isForeign: true };
  }

  /** `how`: null if nobody hears of it. */
  #set(rule: Rule, how: Pick<RuleEvent, "by" | "isForeign"> | null): Promise<void> {
    const before = this.get(rule.id);
    this.#rules.set(rule.id, rule);
    this.inForce.apply({ set: [rule], removed: [] });
    if (rule.endsMs < this.#timerMs) this.#schedule();
    const published = this.#publish([rule.id]);
    if (how !== null) this.#tell({ kind: before === null ? "set" : "replaced", rule, before, ...how });
    return published;
  }

  #remove(rules: readonly Rule[], how: Pick<RuleEvent, "kind" | "by" | "isForeign">): Promise<void> {
    const removed = rules.map(({ id }) => id);
    for (const id of removed) this.#rules.delete(id);
    this.inForce.apply({ set: [], removed });
    const published = this.#publish(removed);
    for (const rule of rules) this.#tell({ rule, before: null, ...how });
    return published;
  }

  /** A listener that fails changes nothing for the others, nor for whoever set the rule. */
  #tell(event: RuleEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (error) {
        this.#logError(error);
      }
    }
  }

  /** Tells all threads what there is of these ids now: each portion, when its turn comes. */
  async #publish(ids: readonly string[]): Promise<void> {
    for (const [i, portion] of inPortions(ids).entries()) {
      if (i > 0) await setImmediate();
      await this.#turn.do(() => {
        const set = portion.flatMap((id) => this.#rules.get(id) ?? []);
        const removed = portion.filter((id) => !this.#rules.has(id));
        return this.#workers?.changeRules({ set, removed });
      });
    }
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    this.#timerMs = Number.POSITIVE_INFINITY;
    if (this.#isClosed) return;
    for (const { endsMs } of this.#rules.values()) this.#timerMs = Math.min(this.#timerMs, endsMs);
    if (this.#rules.size === 0) return;
    const waitMs = Math.min(longestWaitMs, Math.max(1, this.#timerMs - this.#clock.wallMs()));
    this.#timer = setTimeout(() => this.#end(), waitMs).unref();
  }

  /** Ends what is over. A thread that cannot be told is ended by the workers. */
  #end(): void {
    const nowMs = this.#clock.wallMs();
    const ended = this.list()
      .filter(({ endsMs }) => endsMs <= nowMs)
      .slice(0, mostEnding);
    if (ended.length > 0) {
      this.#revision += 1;
      this.#remove(ended, { kind: "ended", by: null, isForeign: false }).catch(ignoreError);
    }
    this.#schedule();
  }
}

function expectationOf(expected: number | null): "any" | "absent" | number {
  return expected === null ? "any" : expected === 0 ? "absent" : expected;
}

/**
 * Logs each change of the rules, one line for each. Names of tokens and subjects stand there as in the access log.
 * `settings`: in force.
 */
export function logRules(
  rules: Pick<RuleBook, "onChange" | "isShared">,
  log: Logger,
  settings: () => Settings,
  keyHash: SipHash,
): void {
  const nameOf = ({ kind, value }: RuleSubject): string | null =>
    kind === "client" ? value : loggedName(value, settings().log.subject, keyHash);
  rules.onChange(({ kind, rule, by, isForeign }: RuleEvent) => {
    const { id, action, policy, limit, about, endsMs, setBy } = rule;
    const until = new Date(endsMs).toISOString();
    const facts = { id, action, policy, limit, about: { [about.kind]: nameOf(about) }, until, setBy, by };
    log.info({ ...facts, isForeign, isShared: rules.isShared(id) }, `rule ${kind}`);
  });
}
