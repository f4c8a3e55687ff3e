// Carries out one reload after the other. Of reloads that are asked for while one runs, the last is carried out for all.

interface Waiting<T> {
  work: () => Promise<T>;
  /** Whether a later reload may replace it. */
  readonly isReload: boolean;
  readonly done: PromiseWithResolvers<T>;
}

export class OneAtATime<T> {
  #running: Promise<void> | null = null;
  readonly #waiting: Waiting<T>[] = [];

  /**
   * A reload that is replaced by a later one before it has begun resolves with the result of the later one.
   * `replaces`: false for one that is part of any other.
   */
  reload(work: () => Promise<T>, replaces: boolean): Promise<T> {
    const last = this.#waiting.at(-1);
    if (last?.isReload !== true) return this.#add(work, true);
    if (replaces) last.work = work;
    return last.done.promise;
  }

  /** Does something between two reloads, which replaces none of them. */
  between(work: () => Promise<T>): Promise<T> {
    return this.#add(work, false);
  }

  /** Resolves when nothing is in progress. */
  async settled(): Promise<void> {
    await this.#running;
  }

  #add(work: () => Promise<T>, isReload: boolean): Promise<T> {
    const done = Promise.withResolvers<T>();
    this.#waiting.push({ work, isReload, done });
    this.#running ??= this.#run();
    return done.promise;
  }

  async #run(): Promise<void> {
    // Reloads that are asked for in the same turn are one.
    await Promise.resolve();
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await next.work().then(next.done.resolve, next.done.reject);
    }
    this.#running = null;
  }
}
