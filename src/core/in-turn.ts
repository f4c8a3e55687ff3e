// Does one thing after the other.
import { ignoreError } from "./failure.ts";

export class InTurn {
  #last: Promise<unknown> = Promise.resolve();

  /** Begins when what came before is over, whether or not it has failed. */
  do<T>(work: () => T | Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(ignoreError);
    return done;
  }

  /** Resolves when what has been asked for so far is over. Never rejects. */
  async over(): Promise<void> {
    await this.#last;
  }
}
