// Copies pieces of bytes into one buffer. A piece that is kept as it came keeps the buffer alive that it was read into,
// which can be a thousand times its size, and an object of its own.

const minMemoryBytes = 512;

export class JoinedPieces {
  #memory: Buffer | null = null;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Bytes of memory that are kept, at most twice the length beyond the first 512 bytes. */
  get keptBytes(): number {
    return this.#memory?.length ?? 0;
  }

  add(piece: Buffer): void {
    const length = this.#length + piece.length;
    if (this.#memory === null || length > this.#memory.length) this.#grow(length);
    this.#memory?.set(piece, this.#length);
    this.#length = length;
  }

  /** Returns the bytes, which stay here. */
  peek(): Buffer {
    return this.#memory?.subarray(0, this.#length) ?? nothing;
  }

  /** Returns the bytes, and begins again in new memory. */
  take(): Buffer {
    const bytes = this.peek();
    this.#memory = null;
    this.#length = 0;
    return bytes;
  }

  #grow(length: number): void {
    // Not from Node's pool, whose slabs are shared with what lives longer.
    const memory = Buffer.allocUnsafeSlow(Math.max(minMemoryBytes, length, 2 * this.keptBytes));
    this.#memory?.copy(memory, 0, 0, this.#length);
    this.#memory = memory;
  }
}

const nothing = Buffer.alloc(0);
