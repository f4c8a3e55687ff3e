// Admits at most `perPeriod` lines for each key in a period, a second by default. Omitted lines are counted, and reported once
// when it is over. The table is bounded: lines of keys beyond `maxKeys` are omitted and reported together, with key null. At
// most `maxReports` keys are reported by themselves, because a report costs 10 µs; the other keys are reported together
// too.

export interface SamplerOptions {
  readonly perPeriod: number;
  /** Default: a second. */
  readonly periodMs?: number;
  readonly maxKeys: number;
  readonly report: (key: string | null, omitted: number) => void;
}

const maxReports = 100;

export class Sampler {
  readonly #options: SamplerOptions;
  readonly #seen = new Map<string, number>();
  #beyondTable = 0;
  /** Exclusive end of the current period, by the clock of `nowMs`. */
  #endsMs = Number.NEGATIVE_INFINITY;
  /** Runs only after a line was omitted, so that the report comes even if no line follows. */
  #timer: NodeJS.Timeout | null = null;
  /** Running total of omitted lines. */
  omitted = 0;

  constructor(options: SamplerOptions) {
    this.#options = options;
  }

  /** Whether this line is to be logged. */
  passes(key: string, nowMs: number): boolean {
    if (nowMs >= this.#endsMs) {
      this.#report();
      const { periodMs = 1000 } = this.#options;
      this.#endsMs = (Math.floor(nowMs / periodMs) + 1) * periodMs;
    }
    const seen = this.#seen.get(key) ?? 0;
    const known = seen > 0 || this.#seen.size < this.#options.maxKeys;
    if (known) this.#seen.set(key, seen + 1);
    else this.#beyondTable += 1;
    if (known && seen < this.#options.perPeriod) return true;
    this.omitted += 1;
    // One millisecond late: a timer may fire early, and an early report would allow the period twice.
    this.#timer ??= setTimeout(() => this.#report(), Math.ceil(this.#endsMs - nowMs) + 1).unref();
    return false;
  }

  /** Reports what was omitted and not reported yet. */
  close(): void {
    this.#report();
  }

  #report(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const { perPeriod, report } = this.#options;
    let reports = 0;
    let others = this.#beyondTable;
    for (const [key, seen] of this.#seen) {
      if (seen <= perPeriod) continue;
      reports += 1;
      if (reports <= maxReports) report(key, seen - perPeriod);
      else others += seen - perPeriod;
    }
    if (others > 0) report(null, others);
    this.#seen.clear();
    this.#beyondTable = 0;
  }
}

/** The samplers of one thread's log: what they leave out is counted and reported together. */
export class Samplers {
  readonly #all: Sampler[] = [];

  add(options: SamplerOptions): Sampler {
    const sampler = new Sampler(options);
    this.#all.push(sampler);
    return sampler;
  }

  /** Lines omitted so far. */
  get omitted(): number {
    return this.#all.reduce((sum, { omitted }) => sum + omitted, 0);
  }

  /** Reports what was omitted and not reported yet. */
  close(): void {
    for (const sampler of this.#all) sampler.close();
  }
}
