// Keeps the configuration that is on trial: until when it has to be confirmed, and what comes back otherwise. Says when it is
// to be taken back, and tells each change. There is one trial at a time, and one configuration to go back to.
import type { Clock } from "../core/clock.ts";
import type {
  ConfirmReason,
  ReloadTrial,
  TakeBackReason,
  TrialEnding,
  TrialEvent,
  TrialTally,
  TrialTerms,
} from "../core/reload.ts";

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

/** `Fallback`: what comes back. `changed`: in what it differs from the fallback. */
export interface OnTrial<Fallback> extends Pick<ReloadTrial, "cause" | "by" | "changed" | "changes"> {
  readonly fallback: Fallback;
  readonly terms: TrialTerms;
  /** Null: it is not judged. */
  readonly judgement: TrialJudgement | null;
  readonly sinceMs: number;
  /** By the monotonic clock. */
  readonly endMs: number;
  /** By the monotonic clock: nothing is done before. */
  nextTryMs: number;
}

export class ReloadTrials<Fallback> {
  readonly #options: ReloadTrialsOptions;
  #current: OnTrial<Fallback> | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: ReloadTrialsOptions) {
    this.#options = options;
  }

  /** Null: no configuration is on trial. */
  get current(): OnTrial<Fallback> | null {
    return this.#current;
  }

  /** Null: no configuration is on trial. */
  get state(): ReloadTrial | null {
    return this.#current && this.#stateOf(this.#current);
  }

  /** Begins a trial. One that is on ends with it. `tally`: what was judged so far; null: nothing is. */
  begin(
    wanted: Omit<OnTrial<Fallback>, "judgement" | "sinceMs" | "endMs" | "nextTryMs">,
    tally: (() => TrialTally) | null,
  ): void {
    const { clock } = this.#options;
    const nowMs = clock.monotonicMs();
    const { confirmWithinMs, refusedShare } = wanted.terms;
    const endMs = nowMs + confirmWithinMs;
    const judgement = refusedShare === null || tally === null ? null : new TrialJudgement(refusedShare, tally);
    const trial = { ...wanted, judgement, sinceMs: clock.wallMs(), endMs, nextTryMs: nowMs };
    this.#current = trial;
    this.#timer ??= setInterval(() => this.#look(), lookEveryMs).unref();
    this.#options.onEvent({ kind: "begun", reason: null, by: null, trial: this.#stateOf(trial) });
  }

  confirmed(ending: TrialEnding<ConfirmReason>): void {
    this.#end((trial) => ({ kind: "confirmed", ...ending, trial }));
  }

  takenBack(ending: TrialEnding<TakeBackReason>): void {
    this.#end((trial) => ({ kind: "taken_back", ...ending, trial }));
  }

  drained(): void {
    this.#end((trial) => ({ kind: "drained", reason: null, by: null, trial }));
  }

  #end(eventOf: (trial: ReloadTrial) => TrialEvent): void {
    const trial = this.state;
    if (trial === null) return;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#current = null;
    this.#options.onEvent(eventOf(trial));
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

  #stateOf({ terms, cause, by, changed, changes, judgement, sinceMs }: OnTrial<Fallback>): ReloadTrial {
    const tally = judgement?.total ?? { judged: 0, refused: 0 };
    return { ...terms, ...tally, cause, by, changed, changes, sinceMs, endsMs: sinceMs + terms.confirmWithinMs };
  }
}

/** Fewer refused requests are no reason. */
const fewestRefused = 20;
const lastMs = 10_000;

interface Sample extends TrialTally {
  readonly atMs: number;
}

/**
 * Decides by what was counted whether a configuration on trial refuses too much: over the whole trial, or over the last
 * seconds, so that a mistake is noticed after a long quiet trial too.
 */
export class TrialJudgement {
  readonly #refusedShare: number;
  /** Counts that start again at 0 after 2^32. */
  readonly #read: () => TrialTally;
  #counted: TrialTally;
  #total: TrialTally = { judged: 0, refused: 0 };
  /** The totals of the last seconds, and the one before them. */
  readonly #samples: Sample[] = [];

  constructor(refusedShare: number, read: () => TrialTally) {
    this.#refusedShare = refusedShare;
    this.#read = read;
    this.#counted = read();
  }

  /** Since the trial began. */
  get total(): TrialTally {
    const now = this.#read();
    this.#total = sum(this.#total, since(this.#counted, now));
    this.#counted = now;
    return this.#total;
  }

  /** Returns whether too many requests were refused. Must be called more often than once in the last seconds. */
  isRefused(nowMs: number): boolean {
    const { total } = this;
    const samples = this.#samples;
    while (samples.length > 1 && nowMs - (samples[1] as Sample).atMs >= lastMs) samples.shift();
    const lately = samples[0] === undefined ? total : difference(samples[0], total);
    samples.push({ ...total, atMs: nowMs });
    return this.#exceeds(total) || this.#exceeds(lately);
  }

  #exceeds({ judged, refused }: TrialTally): boolean {
    return refused >= fewestRefused && refused > this.#refusedShare * judged;
  }
}

function sum(a: TrialTally, b: TrialTally): TrialTally {
  return { judged: a.judged + b.judged, refused: a.refused + b.refused };
}

function difference(before: TrialTally, now: TrialTally): TrialTally {
  return { judged: now.judged - before.judged, refused: now.refused - before.refused };
}

function since(before: TrialTally, now: TrialTally): TrialTally {
  const { judged, refused } = difference(before, now);
  return { judged: judged >>> 0, refused: refused >>> 0 };
}
