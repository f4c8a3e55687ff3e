// Runs asynchronous work one piece after the other, in the order in which it is asked for.
import { ignoreError } from "./failure.ts";

export class InTurn {
  #last: Promise<unknown> = Promise.resolve();

  /** The work begins when all work before it is over, whether or not that has failed. */
  do<T>(work: () => T | Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(ignoreError);
    return done;
  }

  /** Resolves when all work that was asked for so far is over. Never rejects. */
  async over(): Promise<void> {
    await this.#last;
  }
}
