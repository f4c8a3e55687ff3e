// The large buffers of the connections to an upstream, which are in use only while a large body is read: a few of them
// are used again and again.

/** Twice the size that each connection has of its own. Still larger ones save little, and a slow client keeps one. */
export const largeBytes = 128 * 1024;

const maxSpare = 16;

export class ReadBuffers {
  readonly #spare: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#spare.pop() ?? Buffer.allocUnsafeSlow(largeBytes);
  }

  /** Takes a buffer back whose bytes nobody uses any more. */
  give(buffer: Uint8Array): void {
    if (this.#spare.length < maxSpare) this.#spare.push(buffer);
  }
}
