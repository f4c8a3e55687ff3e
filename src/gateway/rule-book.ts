// Keeps the rules of a process: checks each that is set, tells it to all threads, and ends it at its end. The wall clock
// says when that is. Rules come into force in the order in which they were set; a call resolves when every thread has its.
import { setImmediate } from "node:timers/promises";
import type { Clock } from "../core/clock.ts";
import { ignoreError } from "../core/failure.ts";
import type {
  RuleCondition,
  RuleEvent,
  RuleInput,
  RuleKeeper,
  RulePut,
  RuleRefusalReason,
  RuleRefused,
  RuleRemoved,
  RuleWriter,
} from "../core/rule-changes.ts";
import { inPortions, maxRules, type Rule, type RuleAction, type RuleChange } from "../core/rules.ts";
import { RulesInForce } from "../core/rules-in-force.ts";
import type { Carrier } from "./carrier.ts";
import { coveredBy, type RuleContext, readRule, ruleWarnings, untouchedBy } from "./rule-input.ts";

/** A wall clock that was set is noticed after this time. A timer cannot wait for longer than 24 days anyway. */
const longestWaitMs = 30_000;

/** So many rules end in one turn of the event loop. */
const mostEnding = 250;

interface RuleBookOptions {
  readonly clock: Pick<Clock, "wallMs">;
  /** Those of the last process. */
  readonly restored: readonly Rule[];
  /** Whether the rules are in snapshots. */
  readonly survivesRestart: boolean;
}

type RuleCarrier = Pick<Carrier, "settings" | "listedTokens" | "changeRules">;

export class RuleBook implements RuleKeeper {
  /** What this thread asks, to explain how a client is treated. */
  readonly inForce = new RulesInForce();
  readonly #clock: Pick<Clock, "wallMs">;
  readonly #survivesRestart: boolean;
  readonly #rules = new Map<string, Rule>();
  readonly #listeners = new Set<(event: RuleEvent) => void>();
  #carrier: RuleCarrier | null = null;
  #revision: number;
  /** The carrier gets one change after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  /** When the timer expires, by the wall clock. */
  #timerMs = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor({ clock, restored, survivesRestart }: RuleBookOptions) {
    this.#clock = clock;
    this.#survivesRestart = survivesRestart;
    const nowMs = clock.wallMs();
    const set = restored.filter(({ endsMs }) => endsMs > nowMs).slice(0, maxRules);
    for (const rule of set) this.#rules.set(rule.id, rule);
    this.#revision = restored.reduce((most, { revision }) => Math.max(most, revision), 0);
    this.inForce.apply({ set, removed: [] });
  }

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

  /** Puts the restored rules into force. Must be called once, before the carrier listens and before a rule is set. */
  async publishTo(carrier: RuleCarrier): Promise<void> {
    this.#carrier = carrier;
    this.#schedule();
    await this.#publish([...this.#rules.keys()]);
  }

  onChange(listener: (event: RuleEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async put(input: RuleInput, writer: RuleWriter, condition: RuleCondition): Promise<RulePut | RuleRefused> {
    const context = this.#context();
    const { id } = input;
    const wanted = readRule(input, context);
    if (!("id" in wanted)) return this.#refused(id, "invalid", wanted);
    const changed = this.#findChanged(id, condition.expectedRevision);
    if (changed !== null) return changed;
    const cutOff = condition.force ? [] : coveredBy(wanted, context, writer.address);
    if (cutOff.length > 0) return this.#refused(id, "needs_force", cutOff);
    const before = this.get(id);
    if (before === null && this.#rules.size >= maxRules) {
      return this.#refused(id, "full", [`there are ${maxRules} rules, and no more are kept`]);
    }
    const { forMs, ...facts } = wanted;
    const setMs = this.#clock.wallMs();
    this.#revision += 1;
    const rule: Rule = { ...facts, setMs, endsMs: setMs + forMs, setBy: writer.name, revision: this.#revision };
    await this.#set(rule, { by: writer.name, isForeign: false });
    const untouchedPolicies = untouchedBy(rule, context);
    const warnings = ruleWarnings(rule, context);
    return { ok: true, rule, before, survivesRestart: this.#survivesRestart, untouchedPolicies, warnings };
  }

  async remove(
    id: string,
    writer: RuleWriter,
    { expectedRevision }: Pick<RuleCondition, "expectedRevision">,
  ): Promise<RuleRemoved | RuleRefused> {
    const rule = this.get(id);
    if (rule === null) return this.#refused(id, "unknown", ["there is no such rule"]);
    const changed = this.#findChanged(id, expectedRevision);
    if (changed !== null) return changed;
    this.#revision += 1;
    await this.#remove([rule], { kind: "removed", by: writer.name, isForeign: false });
    return { ok: true, rule };
  }

  async take({ set, removed }: RuleChange): Promise<void> {
    const gone = removed.flatMap((id) => this.#rules.get(id) ?? []);
    if (gone.length > 0) {
      this.#revision += 1;
      await this.#remove(gone, { kind: "removed", by: null, isForeign: true });
    }
    for (const portion of inPortions(set)) {
      const nowMs = this.#clock.wallMs();
      const news = portion.filter(({ id, endsMs, revision }) => {
        const known = this.#rules.get(id);
        const hasRoom = known !== undefined || this.#rules.size < maxRules;
        return endsMs > nowMs && hasRoom && (known === undefined || known.revision < revision);
      });
      for (const { revision } of portion) this.#revision = Math.max(this.#revision, revision);
      await Promise.all(news.map((rule) => this.#set(rule, { by: null, isForeign: true })));
    }
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #context(): RuleContext {
    if (this.#carrier === null) throw new Error("rules are set when the gateway has started");
    return { settings: this.#carrier.settings, listed: this.#carrier.listedTokens() };
  }

  #refused(id: string, reason: RuleRefusalReason, details: readonly string[]): RuleRefused {
    return { ok: false, reason, details, current: this.get(id) };
  }

  #findChanged(id: string, expectedRevision: number | null): RuleRefused | null {
    const revision = this.get(id)?.revision ?? 0;
    if (expectedRevision === null || expectedRevision === revision) return null;
    const now = revision === 0 ? "there is no such rule" : `the rule has revision ${revision}`;
    return this.#refused(id, "changed", [`${now}, and not ${expectedRevision}`]);
  }

  #set(rule: Rule, how: Pick<RuleEvent, "by" | "isForeign">): Promise<void> {
    const before = this.get(rule.id);
    this.#rules.set(rule.id, rule);
    this.inForce.apply({ set: [rule], removed: [] });
    if (rule.endsMs < this.#timerMs) this.#schedule();
    this.#tell({ kind: before === null ? "set" : "replaced", rule, before, ...how });
    return this.#publish([rule.id]);
  }

  #remove(rules: readonly Rule[], how: Pick<RuleEvent, "kind" | "by" | "isForeign">): Promise<void> {
    const removed = rules.map(({ id }) => id);
    for (const id of removed) this.#rules.delete(id);
    this.inForce.apply({ set: [], removed });
    for (const rule of rules) this.#tell({ rule, before: null, ...how });
    return this.#publish(removed);
  }

  #tell(event: RuleEvent): void {
    for (const listener of this.#listeners) listener(event);
  }

  /** Tells all threads what there is of these ids now: each portion, when its turn comes. */
  async #publish(ids: readonly string[]): Promise<void> {
    for (const [i, portion] of inPortions(ids).entries()) {
      if (i > 0) await setImmediate();
      const done = this.#turn.then(() => this.#carrier?.changeRules(this.#changeOf(portion)));
      this.#turn = done.catch(ignoreError);
      await done;
    }
  }

  #changeOf(ids: readonly string[]): RuleChange {
    return {
      set: ids.flatMap((id) => this.#rules.get(id) ?? []),
      removed: ids.filter((id) => !this.#rules.has(id)),
    };
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

  /** Ends what is over. A thread that cannot be told is ended by the carrier. */
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
