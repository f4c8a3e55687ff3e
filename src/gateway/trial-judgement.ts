// Decides by what was counted whether a configuration on trial refuses too much: over the whole trial, or over the last
// seconds, so that a mistake is noticed after a long quiet trial too.
import type { TrialTally } from "../core/reload.ts";

/** Fewer refused requests are no reason. */
const fewestRefused = 20;
const lastMs = 10_000;

interface Sample extends TrialTally {
  readonly atMs: number;
}

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
