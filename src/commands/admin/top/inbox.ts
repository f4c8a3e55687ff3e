// What has happened, in its order, for one reader: so that an error of what is done about it reaches the one who reads.

export class Inbox<T> {
  readonly #waiting: T[] = [];
  #wake: (() => void) | null = null;

  put(item: T): void {
    this.#waiting.push(item);
    this.#wake?.();
  }

  /** One reader at a time. */
  async take(): Promise<T> {
    while (this.#waiting.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#waiting.shift() as T;
  }
}
