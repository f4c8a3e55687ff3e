// Runs one reload at a time. Of the requests for a reload that arrive while one runs, only the last is carried out.
import type { ReloadResult } from "../core/reload.ts";

export type Reload = () => Promise<ReloadResult>;

export class Reloads {
  #running: Promise<void> | null = null;
  #next: { reload: Reload; readonly done: PromiseWithResolvers<ReloadResult> } | null = null;

  /**
   * A reload that is replaced by a later one before it has begun resolves with the result of the later one.
   * `replaces`: false for one that is part of any other.
   */
  ask(reload: Reload, replaces: boolean): Promise<ReloadResult> {
    if (this.#next === null) this.#next = { reload, done: Promise.withResolvers() };
    else if (replaces) this.#next.reload = reload;
    const { promise } = this.#next.done;
    this.#running ??= this.#run();
    return promise;
  }

  /** Resolves when no reload is in progress. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Reloads that are asked for in the same turn are one.
    await Promise.resolve();
    for (let next = this.#next; next !== null; next = this.#next) {
      this.#next = null;
      await next.reload().then(next.done.resolve, next.done.reject);
    }
    this.#running = null;
  }
}
