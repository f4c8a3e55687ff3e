// Lets a thread wait until it has forgotten what was forgiven at other gateways: the main thread, which alone reads the log, is
// asked to read it, and answers when every thread has forgotten what it found.
import type { Wanted } from "./messages.ts";

export class ForgivenReads {
  readonly #post: (wanted: Wanted) => void;
  readonly #waiting = new Map<number, () => void>();
  #lastId = 0;
  /** Those that ask in one turn of the event loop wait together. */
  #ofTurn: Promise<void> | null = null;
  #hasBegun = false;

  constructor(post: (wanted: Wanted) => void) {
    this.#post = post;
  }

  /** From now on the main thread is asked. What a thread has to know before, it is told with its start. */
  begin(): void {
    this.#hasBegun = true;
  }

  /** The main thread must answer soon, because requests wait. */
  read(): Promise<void> {
    if (!this.#hasBegun) return Promise.resolve();
    this.#ofTurn ??= this.#ask();
    return this.#ofTurn;
  }

  /** The main thread has answered. */
  done(id: number): void {
    this.#waiting.get(id)?.();
    this.#waiting.delete(id);
  }

  #ask(): Promise<void> {
    setImmediate(() => {
      this.#ofTurn = null;
    });
    this.#lastId += 1;
    const id = this.#lastId;
    this.#post({ wants: "forgiven", id });
    return new Promise((resolve) => void this.#waiting.set(id, resolve));
  }
}
