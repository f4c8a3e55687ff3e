// Copies pieces of bytes into one buffer. Keeping a piece itself would also keep the buffer that it was read into,
// which can be a thousand times as large.

const minMemoryBytes = 512;

export class JoinedPieces {
  #memory: Buffer | null = null;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Bytes of memory in use: at most 512 or twice the length, whichever is more. */
  get keptBytes(): number {
    return this.#memory?.length ?? 0;
  }

  add(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (this.#memory === null || length > this.#memory.length) this.#grow(length);
    this.#memory?.set(piece, this.#length);
    this.#length = length;
  }

  /** Returns the bytes without removing them. */
  peek(): Buffer {
    return this.#memory?.subarray(0, this.#length) ?? nothing;
  }

  /** Removes the bytes and returns them. What follows is copied into new memory. */
  take(): Buffer {
    const bytes = this.peek();
    this.#memory = null;
    this.#length = 0;
    return bytes;
  }

  #grow(length: number): void {
    // Not from Node's pool: its slabs are shared with buffers that may live longer.
    const memory = Buffer.allocUnsafeSlow(Math.max(minMemoryBytes, length, 2 * this.keptBytes));
    this.#memory?.copy(memory, 0, 0, this.#length);
    this.#memory = memory;
  }
}

const nothing = Buffer.alloc(0);
