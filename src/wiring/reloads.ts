// Runs reloads one at a time. Of those that are asked for meanwhile, the last one wins.

/** What a reload came to. Keys are those of the configuration, such as `upstream.url`. */
export type ReloadResult =
  | {
      readonly ok: true;
      /** The keys whose new values are in force. */
      readonly changed: readonly string[];
      /** The policies that have started empty, because their name, kind or key is new. */
      readonly reset: readonly string[];
      /** The keys whose new values need a restart; the old ones stay in force. */
      readonly restart: readonly string[];
    }
  /** Nothing has changed. One line for each error. */
  | { readonly ok: false; readonly errors: readonly string[] };

export type Reload = () => Promise<ReloadResult>;

export class Reloads {
  #running: Promise<void> | null = null;
  #next: { reload: Reload; readonly done: PromiseWithResolvers<ReloadResult> } | null = null;

  /** A reload that is replaced by a later one before it has begun resolves with the result of the later one. */
  ask(reload: Reload): Promise<ReloadResult> {
    if (this.#next === null) this.#next = { reload, done: Promise.withResolvers() };
    else this.#next.reload = reload;
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
