// A reload on trial: each thread counts what the configuration before would have decided, and the main thread keeps the way back
// until the trial is confirmed, taken back or over. No other file of the gateway knows how a trial is judged.
import type { Raw } from "../config/written.ts";
import type { Clock } from "../core/clock.ts";
import type { ReloadTrial, TrialEnd, TrialEvent, TrialTerms } from "../core/reload.ts";
import type { Settings } from "../core/settings.ts";
import { createJudgeMemory, Judge, JudgedSample, type JudgeMemory, TrialJudgement } from "../limits/judge.ts";
import type { PolicyLimiter } from "../limits/limiter.ts";
import { CounterTable } from "../limits/table/counter-table.ts";
import type { Decide } from "../pipeline.ts";
import { type CounterMemory, limiterSettings, ofMainThread } from "./open-counters.ts";
import type { ThreadContext } from "./thread-context.ts";

/** Says where a key is written. */
export type Locate = (key: string) => string;

/** Settings, with where and how they were written. */
export interface WrittenSettings {
  readonly settings: Settings;
  readonly locate: Locate;
  /** Null: a program passed the settings, and nothing is written. */
  readonly raw: { readonly root: Raw | undefined } | null;
}

/** What threads have to know about settings that are on trial. Can be sent to another thread. */
export interface SettingsOnTrial {
  /** They may come back, so what their policies have counted is kept. */
  readonly fallback: Settings;
  /** Null: they are not judged. */
  readonly judge: JudgeMemory | null;
}

export function settingsOnTrial(fallback: Settings, terms: TrialTerms | null, { counters }: Settings): SettingsOnTrial {
  const isJudged = terms !== null && terms.refusedShare !== null;
  return { fallback, judge: isJudged ? createJudgeMemory(counters.memoryBytes) : null };
}

/** Returns the table in which threads judge, as the main thread sees it; null: they do not. */
export function openJudgedTable(
  onTrial: SettingsOnTrial | null,
  { placeSecret: secret }: Pick<CounterMemory, "placeSecret">,
  settings: Settings,
): CounterTable | null {
  if (onTrial === null || onTrial.judge === null) return null;
  return new CounterTable(onTrial.judge.table, { secret, ...ofMainThread(settings) });
}

/** What one thread does while its configuration is judged. */
export interface JudgedTrial {
  /** Decides as before, and judges each verdict. */
  judged(decide: Decide): Decide;
  /** The trial is over: nothing is judged from now on. */
  end(): void;
}

/** `limiter`: the one on trial. Null: nothing is on trial, or it is not judged. */
export function createJudgedTrial(
  limiter: PolicyLimiter,
  { clock, counters, store, runtimeRules }: ThreadContext,
  onTrial: SettingsOnTrial | null,
): JudgedTrial | null {
  if (onTrial === null || onTrial.judge === null) return null;
  const { table, placeSecret, keyHash: hash } = counters;
  const judge = new Judge({
    ...{ memory: onTrial.judge, before: limiterSettings(onTrial.fallback), tried: limiter },
    ...{ table, placeSecret, hash, clock, runtimeRules, replicas: store === null ? 1 : store.replicas.value },
  });
  return { judged: (decide) => judging(decide, judge), end: () => judge.end() };
}

function judging(decide: Decide, judge: Judge): Decide {
  return (head, nowMs) => {
    const verdict = decide(head, nowMs);
    if (verdict instanceof Promise) {
      return verdict.then((known) => {
        judge.judge(head, known, nowMs);
        return known;
      });
    }
    judge.judge(head, verdict, nowMs);
    return verdict;
  };
}

/** How often it is looked whether a trial is over. */
const lookEveryMs = 250;

/** If the configuration before cannot be put into force, that is tried again after this time. */
const tryAgainMs = 10_000;

interface ReloadTrialsOptions {
  readonly clock: Clock;
  onEvent(event: TrialEvent): void;
  /** Called when its time is over, or too much was refused; again after a while if it is still on. */
  onOver(reason: "time" | "refused"): void;
}

/** `fallback`: what comes back. `changed`: in what it differs from the fallback. */
export interface OnTrial extends Pick<ReloadTrial, "cause" | "by" | "changed" | "changes"> {
  readonly fallback: WrittenSettings;
  readonly terms: TrialTerms;
  /** Null: it is not judged. */
  readonly judgement: TrialJudgement | null;
  readonly sinceMs: number;
  /** By the monotonic clock. */
  readonly endMs: number;
  /** By the monotonic clock: nothing is done before. */
  nextTryMs: number;
}

/**
 * Keeps the configuration that is on trial: until when it has to be confirmed, and what comes back otherwise. Says when it is
 * to be taken back, and tells each change. There is one trial at a time, and one configuration to go back to.
 */
export class ReloadTrials {
  readonly #options: ReloadTrialsOptions;
  #current: OnTrial | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: ReloadTrialsOptions) {
    this.#options = options;
  }

  /** Null: no configuration is on trial. */
  get current(): OnTrial | null {
    return this.#current;
  }

  /** Null: no configuration is on trial. */
  get state(): ReloadTrial | null {
    return this.#current && this.#stateOf(this.#current);
  }

  /** Begins a trial. One that is on ends with it. `memory`: what the threads judge in; null: nothing is judged. */
  begin(wanted: Omit<OnTrial, "judgement" | "sinceMs" | "endMs" | "nextTryMs">, memory: JudgeMemory | null): void {
    const { clock } = this.#options;
    const nowMs = clock.monotonicMs();
    const { confirmWithinMs, refusedShare } = wanted.terms;
    const endMs = nowMs + confirmWithinMs;
    const sample = memory && new JudgedSample(memory.sample);
    const judgement =
      refusedShare === null || sample === null ? null : new TrialJudgement(refusedShare, () => sample.tally);
    const trial = { ...wanted, judgement, sinceMs: clock.wallMs(), endMs, nextTryMs: nowMs };
    this.#current = trial;
    this.#timer ??= setInterval(() => this.#look(), lookEveryMs).unref();
    this.#options.onEvent({ kind: "begun", reason: null, by: null, trial: this.#stateOf(trial) });
  }

  /** Ends the trial, if one is on. */
  end(ending: TrialEnd): void {
    const trial = this.state;
    if (trial === null) return;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#current = null;
    this.#options.onEvent({ ...ending, trial });
  }

  #look(): void {
    const trial = this.#current;
    const nowMs = this.#options.clock.monotonicMs();
    if (trial === null) return;
    const isRefused = trial.judgement?.isRefused(nowMs) === true;
    if (nowMs < trial.nextTryMs || !(isRefused || nowMs >= trial.endMs)) return;
    trial.nextTryMs = nowMs + tryAgainMs;
    this.#options.onOver(isRefused ? "refused" : "time");
  }

  #stateOf({ terms, cause, by, changed, changes, judgement, sinceMs }: OnTrial): ReloadTrial {
    const tally = judgement?.total ?? { judged: 0, refused: 0 };
    return { ...terms, ...tally, cause, by, changed, changes, sinceMs, endsMs: sinceMs + terms.confirmWithinMs };
  }
}
